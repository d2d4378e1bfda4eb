"""Builder of one candidate call, from its opening to `CallEnd` or its rejection.

The reader of a dialect supplies the name, the argument tokens and the end. The builder applies the acceptance rules. It
streams a call that is certain, and decides about any other call at its end.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Literal, cast

import msgspec

from ..events import CallArgs, CallEnd, CallStart, Candidate, Judged, Verdict
from ..json_repair.parser import UNSAFE_NOTES, JSONParser, value_changes
from ..json_repair.tokens import END_OBJECT, KEY, OBJECT, SCALAR, Token
from ..schema.argument_schema import ArgumentSchema
from ..types import JSONObject, JSONValue, Note, is_object
from .acceptance import (
    REGION_REASONS,
    Acceptance,
    Evidence,
    is_certain_with_argument,
    judge_end,
    judge_name,
    needs_line,
)
from .arguments import Arguments, FinalArguments, fits_as_it_is, to_json
from .context import ParseContext
from .fast_paths import WholeObject, whole_object

#: Notes that together mean that the end of a string is uncertain: an unescaped quote was taken as part of the string,
#: and the schema does not allow the key that follows.
_TORN = frozenset({"inner_quotes", "unknown_dropped"})

#: Notes that mean that the last value ended without its closing mark.
_OPEN_END = frozenset({"missing_closer", "missing_close_tag", "missing_quote", "wrong_closer", "wrong_close_tag"})

#: Words that stand for a value in a signature: names of types that are seldom values, and `...`.
_TYPE_WORDS = frozenset("bool boolean dict float int integer number object str string ...".split())
#: The end of a parameter's name in a signature, as in `path[, offset]`.
_NAME_ENDS = ("[", ":", "=", "?")

_CLOSERS = cast("Callable[[str, int], re.Match[str]]", re.compile(r"[ \t\r\n}]*+").match)

#: `new`: the name is not known yet. `live`: being streamed. `held`: waiting for the end of the call. `tail`: complete,
#: but the text that follows decides. `done`, `rejected`: decided.
State = Literal["new", "live", "held", "tail", "done", "rejected"]


class CallBuilder:
    def __init__(
        self, context: ParseContext, evidence: Evidence, waits: bool = False, block: "Sequence[CallBuilder]" = ()
    ) -> None:
        self._context = context
        self._block = block  # the candidates of the same block, possibly including this one
        self._further = False  # another call precedes this one in the block
        self._waits = waits  # the call is decided only when its block is complete
        self.evidence = evidence
        self.state: State = "new"
        self.name = ""
        self._index = -1
        self._streamed = False  # some of the arguments have been emitted
        self._starts_with_argument = False  # the call is held only until its first argument begins
        self._arguments: Arguments | None = None
        self._early: list[Token] = []  # argument tokens that arrived before the name
        self._notes: list[Note] = []
        self._settled = FinalArguments(None, (), ())
        self._problems: tuple[str, ...] = ()
        self.reason = ""
        self.goes_on = False  # a value contains its own closing mark
        self.apart = False  # something else, such as an id, is between the name and the arguments
        self.is_python = False  # the arguments are written as in Python

    @property
    def arguments(self) -> Arguments | None:
        """The arguments; None until the name is known."""
        return self._arguments

    @property
    def stops_region(self) -> bool:
        """Whether the candidate was rejected for a reason that applies to its whole block."""
        return self.state == "rejected" and self.reason in REGION_REASONS

    def leave_block(self) -> None:
        """Forget the block, which has ended. It refers to this candidate: only garbage collection would free both."""
        self._block = ()

    def note(self, *notes: Note) -> None:
        """Record repairs made by the reader."""
        for note in notes:
            if note not in self._notes:
                self._notes.append(note)

    def take_name(self, name: str, *, hold: bool = False) -> bool:
        """Set the name. Return False if this is not a call. `hold`: hold the call even if its marks are strong."""
        written, name = name, self._context.resolve(name)
        if written != name:
            self.note(Note("name_spelling", written[:64]))
        self.name = name
        self.evidence = self._evidence_for(name)
        decision = judge_name(self.evidence, self._context.policy)
        if decision.action == "reject" or not name:
            self._reject(decision.reason if name else "no_name", "reasoning" if self.evidence.in_reasoning else "text")
            return False
        self._accept(decision, self._context.schema(name), hold)
        for token in self._early:
            self.token(token)
        self._early = []
        return True

    def _evidence_for(self, name: str) -> Evidence:
        counts = None if self._context.needs_nonce(name) else self.evidence.unmarked_counts
        return msgspec.structs.replace(self.evidence, known=self._context.knows(name), unmarked_counts=counts)

    def _accept(self, decision: Acceptance, schema: ArgumentSchema, hold: bool = False) -> None:
        """Accept the call on the basis of its name: stream it or hold it."""
        self._arguments = Arguments(schema, self._context.allowance, self._context.work)
        # A candidate without a name is the document that contains the calls.
        self._further = any(other.name for other in self._block if other is not self)
        live = decision.action == "live" and not hold and not self._may_echo()
        self.state = "live" if live else "held"
        if live:
            self._start()
        self._starts_with_argument = not (live or hold) and is_certain_with_argument(self.evidence)

    def take_call(self, name: str, arguments: WholeObject) -> bool:
        """Take a complete call at once. Return False and change nothing unless it is accepted and valid as it is."""
        if name != self._context.resolve(name):
            return False
        evidence = self._evidence_for(name)
        decision = judge_name(evidence, self._context.policy)
        if decision.action == "reject" or not self._fits(schema := self._context.schema(name), arguments):
            return False
        self.name = name
        self.evidence = evidence
        self._accept(decision, schema)
        assert self._arguments is not None
        self._take_whole(self._arguments, arguments)
        self.end()
        return True

    def take_arguments(self, arguments: WholeObject, ends: bool = True) -> bool:
        """Take all arguments. Return False and change nothing unless the name is set and they are valid as they are."""
        if self._arguments is None or not self._fits(self._context.schema(self.name), arguments):
            return False
        self._take_whole(self._arguments, arguments)
        if ends:
            self.end()
        return True

    def take_member(self, json: JSONParser, buf: str, pos: int, stops: tuple[str, ...], depth: int = 1) -> int:
        """Take arguments that are the value of a key that `json` has just read. The reader must still end the call.

        Returns the position after them. Returns 0 and changes nothing unless they are complete and valid as they are,
        and `depth` objects end after them, so that nothing can be added to them.
        """
        is_open = self.state in ("live", "held") and self._arguments is not None and not self._arguments.started
        whole = whole_object(buf, pos, stops, json.allowance) if is_open and json.awaits_member else None
        if whole is None or whole.end - pos > json.remaining_chars:
            return 0
        if _CLOSERS(buf, whole.end).group().count("}") < depth or not self.take_arguments(whole, ends=False):
            return 0
        json.skip_object(whole.end - pos, whole.values)
        return whole.end

    def _fits(self, schema: ArgumentSchema, arguments: WholeObject) -> bool:
        return fits_as_it_is(schema, arguments.value, self._context.work)

    def _take_whole(self, arguments: Arguments, whole: WholeObject) -> None:
        if whole.value:
            self._start_with_argument()
        arguments.take_whole(whole.value, whole.text)

    def go_live(self) -> None:
        """Start streaming a call that was held until the structure of its body was clear."""
        if judge_name(self.evidence, self._context.policy).action == "live":
            self._go_live()

    def _go_live(self) -> None:
        if self.state == "held" and not self._may_echo():
            self.state = "live"
            self._start()
            self._flow()

    def _start_with_argument(self) -> None:
        """Start streaming a call that was held until its first argument."""
        if not self._starts_with_argument:
            return
        self._starts_with_argument = False
        if not self._may_echo():
            for earlier in self._waiting_before():
                earlier.resolve_tail(answer_end=True)  # only this call follows
        self._go_live()

    def _waiting_before(self) -> "list[CallBuilder]":
        """Return the complete calls before this one that were waiting for the end of the block."""
        since_done = list(takewhile(lambda other: other.state != "done", reversed(self._block)))
        return [other for other in reversed(since_done) if other.state == "tail"]

    @property
    def _is_unproven(self) -> bool:
        """Whether nothing shows that the model itself means this call: it has no nonce, or follows another call."""
        return self._further or self.evidence.nonce is False

    def _may_echo(self) -> bool:
        return self._context.may_echo(self.name, self._is_unproven)

    def _start(self) -> None:
        self._index = self._context.next_index()
        self._context.commits += 1
        self._context.emit(CallStart(self._index, self.name))

    def token(self, token: Token) -> None:
        if self._arguments is None:
            if self.state == "new":
                self._early.append(token)
            return
        if self._starts_with_argument and token[0] == KEY and self._is_argument(self._arguments, token[1]):
            self._start_with_argument()
        self._arguments.token(token)

    def _is_argument(self, arguments: Arguments, key: str) -> bool:
        """Whether this key, which comes next, is an argument of the tool."""
        schema = self._context.schema(self.name)
        return arguments.between_properties and (schema.parameters is None or schema.declares(key))

    def tokens(self, tokens: Iterable[Token]) -> None:
        """Add tokens and emit the fragments that became certain."""
        for token in tokens:
            self.token(token)
        self._flow()

    def _flow(self) -> None:
        if self.state != "live" or self._arguments is None:
            return
        ready = self._arguments.take()
        if ready:
            self._streamed = True
            self._context.emit(CallArgs(self._index, ready))

    def take_values(self, arguments: JSONObject) -> None:
        """Take all arguments as values, and end the call unless it was rejected."""
        values = (token for key, value in arguments.items() for token in ((KEY, key), (SCALAR, to_json(value))))
        self.tokens([(OBJECT, ""), *values, (END_OBJECT, "")])
        if self.state in ("live", "held"):
            self.end()

    @property
    def index(self) -> int:
        """The index of the call; -1 until its start has been emitted."""
        return self._index

    def end(self) -> None:
        """Complete the arguments and decide about the call, once its syntax is complete."""
        if self.state not in ("live", "held") or self._arguments is None:
            self.fail("no_name")
            return
        settled = self._arguments.settle()
        self._notes.extend(settled.notes)
        problems = self._unsafe() or self._unreal(settled) or settled.problems
        if self.state == "live":
            if self._streamed or not problems:  # if nothing was emitted, the call can still be retried
                self._flow()
            self._close(settled, problems)
        else:
            self._end_held(settled, problems)

    def _unsafe(self) -> tuple[str, ...]:
        """Return reasons to reject arguments even though they match their schema."""
        if self._context.allowance.exceeded:  # unparsed JSON would pass for plain text
            self._notes.append(Note("too_many_values"))
            return ("too_many_values",)
        if not self._notes:
            return ()
        codes = {note.code for note in self._notes}
        refused = codes & UNSAFE_NOTES
        if refused:
            return (f"refused: {', '.join(sorted(refused))}",)
        if codes >= _TORN:
            return ("a string that contains quotes may have been split",)
        strict = self._context.policy == "strict"
        if value_changes(codes) and (strict or self._context.side_effects(self.name)):
            why = "the policy is strict" if strict else f"`{self.name}` has side effects"
            self._notes.append(Note("unsafe_repair", f"{why}; the arguments were repaired"))
            return ("a repair may have changed a value",)
        return ()

    def _close(self, settled: FinalArguments, problems: tuple[str, ...]) -> None:
        """Emit the end of the call and the verdict."""
        if problems:
            self._notes.append(Note("arguments_invalid", f"`{self.name}`: {'; '.join(problems)}"[:500]))
        if self.evidence.nonce is False:
            self._notes.append(Note("unmarked", f"`{self.name}` was called without the nonce"))
        self.state = "done"
        self._context.calls_seen += 1
        self._context.calls_valid += not problems
        self._context.emit(CallEnd(self._index, not problems, tuple(self._notes)))
        self._judge("invalid" if problems else "call", "arguments_invalid" if problems else "accepted", settled)

    def _end_held(self, settled: FinalArguments, problems: tuple[str, ...]) -> None:
        open_end = any(note.code in _OPEN_END for note in self._notes)
        forms = [settled.value] if settled.written is None else [settled.value, settled.written]
        echo = self._context.is_echo(self.name, forms, self._is_unproven, open_end, self.goes_on, self.apart)
        self.evidence = msgspec.structs.replace(self.evidence, fits=not problems, echo=echo)
        self._settled = settled
        self._problems = problems
        if self._waits:
            self.state = "tail"
        else:
            self.decide()

    def _unreal(self, settled: FinalArguments) -> tuple[str, ...]:
        """Return reasons to take the arguments for those of a signature or of a program, which are no values."""
        is_bare = self.evidence.wrapper == "bare"
        if not (is_bare or self.is_python) or all(note.code != "unquoted_value" for note in self._notes):
            return ()
        if is_bare and self.is_python and any(note.code == "missing_quote" for note in self._notes):
            return ("an argument without quotes is an expression",)
        arguments = settled.value if is_object(settled.value) else {}
        if any(self._stands_for_value(key, value) for key, value in arguments.items()):
            return ("an argument is the name of its parameter or of a type",)
        return ()

    def _stands_for_value(self, key: str, value: JSONValue) -> bool:
        """Whether the value is the name of its parameter or of a type, as in `search(query, limit: int)`."""
        if not isinstance(value, str):
            return False
        is_name = value == key or value.startswith(tuple(f"{key}{end}" for end in _NAME_ENDS))
        if is_name or value not in _TYPE_WORDS:
            return is_name
        return self._context.schema(self.name).value.member(key).text_delay is not None  # any text, not one of a list

    @property
    def is_inline(self) -> bool:
        """Whether the call has no marks and is in the middle of a line."""
        return self.evidence.wrapper == "bare" and not self.evidence.line_start

    @property
    def line_is_enough(self) -> bool:
        """Whether the call counts as soon as its line ends, unless a sentence goes on in the next one."""
        return (self.evidence.line_start or self.mark_is_enough) and needs_line(self.evidence)

    @property
    def mark_is_enough(self) -> bool:
        """Whether the call counts at once, unless a sentence goes on behind it."""
        return self.evidence.wrapper == "strong" and needs_line(self.evidence) and not self.evidence.in_reasoning

    def resolve_tail(self, answer_end: bool) -> bool:
        """Decide about the call, given whether it ended the answer. Return whether it is a call."""
        self.evidence = msgspec.structs.replace(self.evidence, answer_end=answer_end)
        self.decide()
        return self.state == "done"

    def decide(self) -> None:
        """Accept or reject the complete call, or wait for the text that follows."""
        decision = judge_end(self.evidence, self._context.policy)
        if decision.action == "reject":
            self._reject(decision.reason, "reasoning" if self.evidence.in_reasoning else "text", self._settled)
        elif decision.action == "hold":
            self.state = "tail"
        else:
            self._start()
            assert self._arguments is not None
            ready = self._arguments.take()
            self._context.emit(CallArgs(self._index, ready))
            self._close(self._settled, self._problems)

    def cut(self) -> None:
        """Handle the end of the text inside the call."""
        if self.state == "live":
            self._flow()
            self.state = "done"
            self._context.calls_seen += 1
            self._context.note("truncated_call", f"the text ended inside a call to `{self.name}`")
            self._judge("truncated", "truncated", None)
        elif self.state in ("new", "held"):
            if self.evidence.wrapper == "strong" or self._is_surely_call():
                self._context.note("truncated_call", f"the text ended inside a call to `{self.name or '?'}`")
            self._reject("truncated", "truncated")

    def _is_surely_call(self) -> bool:
        """Whether a weakly marked candidate is surely a call: its tool is known, or its arguments have begun."""
        return bool(self.evidence.known) or (self._arguments is not None and self._arguments.started)

    def fail(self, reason: str) -> None:
        """Reject the candidate, because the text is not a call."""
        if self.state == "live":
            assert self._arguments is not None
            self._arguments.abandon()
            if self._streamed:
                self._flow()
            self._close(FinalArguments(None, (), ()), (reason,))
        elif self.state in ("new", "held", "tail"):
            self._reject(reason, "text")

    def _reject(self, reason: str, verdict: Verdict, settled: FinalArguments | None = None) -> None:
        self.state = "rejected"
        self.reason = reason
        if reason == "unknown_tool":
            similar = self._context.near_miss(self.name)
            detail = f"`{self.name}` is not a tool" + (f"; `{similar}` is" if similar else "")
            self._notes.append(Note("near_miss" if similar else "unknown_tool", detail))
        self._judge(verdict, reason, settled)

    def _judge(self, verdict: Verdict, reason: str, settled: FinalArguments | None) -> None:
        evidence, arguments, notes = self.evidence, settled.value if settled else None, tuple(self._notes)
        candidate = Candidate(self.name, verdict, reason, evidence.dialect, arguments, evidence.to_dict(), notes)
        self._context.emit(Judged(candidate))

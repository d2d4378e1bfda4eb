"""One candidate call, from its first sign to `CallEnd` or to nothing.

A reader of some dialect tells the builder the name, the argument tokens and the end; the builder asks the
evidence table, streams what may be streamed and judges the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from ..events import CallArgs, CallEnd, CallStart, Candidate, Judged, Verdict
from ..json_repair.parser import REFUSED, VALUE_CHANGING
from ..json_repair.tokens import Token
from ..schema.arguments import ArgumentSchema
from ..types import Note
from .acceptance import REGION_REASONS, Decision, Evidence, judge_end, judge_name, needs_line
from .arguments import Arguments, Settled, fits_as_it_is
from .context import Desk
from .whole_values import Whole

#: A quote was taken for one inside a text, and then came a key that the schema does not allow: the text may as well
#: have gone on there, so that nobody can tell where it ends.
_TORN = frozenset({"inner_quotes", "unknown_dropped"})

#: `new`: no name yet. `live`: going out. `held`: waiting for its end. `tail`: complete, waiting for what
#: follows. `done`, `rejected`: decided.
State = Literal["new", "live", "held", "tail", "done", "rejected"]


class CallBuilder:
    """A candidate. `state` says how it stands."""

    def __init__(self, desk: Desk, evidence: Evidence, waits: bool = False, block: Sequence[CallBuilder] = ()) -> None:
        self._desk = desk
        self._block = block  # the candidates of its block, perhaps with itself among them
        self._further = False  # another call precedes it there
        self._waits = waits  # whether the block it stands in must end well first
        self.evidence = evidence
        self.state: State = "new"
        self.name = ""
        self._index = -1
        self._flowed = False  # some of the arguments have gone out
        self._arguments: Arguments | None = None
        self._early: list[Token] = []  # argument tokens that came before the name
        self._notes: list[Note] = []
        self._settled = Settled(None, (), ())
        self._problems: tuple[str, ...] = ()
        self.reason = ""

    @property
    def arguments(self) -> Arguments | None:
        """The arguments, once the name is known."""
        return self._arguments

    @property
    def stops_region(self) -> bool:
        """Rejected for a reason that holds for everything in the same marks."""
        return self.state == "rejected" and self.reason in REGION_REASONS

    def note(self, *notes: Note) -> None:
        """Something that a reader repaired."""
        for note in notes:
            if note not in self._notes:
                self._notes.append(note)

    def take_name(self, name: str, *, hold: bool = False) -> bool:
        """The name is known; False when this is not a call. `hold` keeps a call back although its marks are strong."""
        self.name = name
        self.evidence = msgspec.structs.replace(self.evidence, known=self._desk.knows(name))
        decision = judge_name(self.evidence, self._desk.policy)
        if decision.action == "reject" or not name:
            self._reject(decision.reason if name else "no_name", "reasoning" if self.evidence.in_reasoning else "text")
            return False
        self._accept(decision, self._desk.schema(name), hold)
        for token in self._early:
            self.token(token)
        self._early = []
        return True

    def _accept(self, decision: Decision, schema: ArgumentSchema, hold: bool = False) -> None:
        """This is a call, as far as its name goes."""
        self._arguments = Arguments(schema, self._desk.allowance)
        # A candidate without a name is the document around the calls.
        self._further = any(other.name for other in self._block if other is not self)
        live = decision.action == "live" and not hold and not self._desk.may_echo(self.name, self._further)
        self.state = "live" if live else "held"
        if live:
            self._start()

    def take_call(self, name: str, arguments: Whole) -> bool:
        """All of a call at once. False, and nothing has happened, unless it is one and fits as it is."""
        evidence = msgspec.structs.replace(self.evidence, known=self._desk.knows(name))
        decision = judge_name(evidence, self._desk.policy)
        if decision.action == "reject" or not fits_as_it_is(schema := self._desk.schema(name), arguments.value):
            return False
        self.name = name
        self.evidence = evidence
        self._accept(decision, schema)
        self._end_whole(arguments)
        return True

    def take_arguments(self, arguments: Whole) -> bool:
        """All arguments at once. False, and nothing has happened, unless the name is known and they fit as they are."""
        if self._arguments is None or not fits_as_it_is(self._desk.schema(self.name), arguments.value):
            return False
        self._end_whole(arguments)
        return True

    def _end_whole(self, arguments: Whole) -> None:
        assert self._arguments is not None
        self._arguments.take_whole(arguments.value, arguments.text)
        self.end()

    def go_live(self) -> None:
        """What was held for want of structure has shown enough of it."""
        live = judge_name(self.evidence, self._desk.policy).action == "live"
        if self.state == "held" and live and not self._desk.may_echo(self.name, self._further):
            self.state = "live"
            self._start()
            self._flow()

    def _start(self) -> None:
        self._index = self._desk.next_index()
        self._desk.commits += 1
        self._desk.emit(CallStart(self._index, self.name))

    def token(self, token: Token) -> None:
        """One token of the argument value."""
        if self._arguments is None:
            if self.state == "new":
                self._early.append(token)
            return
        self._arguments.token(token)

    def tokens(self, tokens: Iterable[Token]) -> None:
        """Several tokens; what became certain goes out."""
        for token in tokens:
            self.token(token)
        self._flow()

    def _flow(self) -> None:
        if self.state != "live" or self._arguments is None:
            return
        ready = self._arguments.take()
        if ready:
            self._flowed = True
            self._desk.emit(CallArgs(self._index, ready))

    @property
    def index(self) -> int:
        """The number of the call, once it has gone out."""
        return self._index

    # ---- the end

    def end(self) -> None:
        """The call is complete as far as its syntax goes."""
        if self.state not in ("live", "held") or self._arguments is None:
            self.fail("no_name")
            return
        settled = self._arguments.settle()
        self._notes.extend(settled.notes)
        problems = self._unsafe() or settled.problems
        if self.state == "live":
            self._end_live(settled, problems)
        else:
            self._end_held(settled, problems)

    def _unsafe(self) -> tuple[str, ...]:
        """Reasons to refuse arguments that fit their schema."""
        if self._desk.allowance.overdrawn:  # what was not read would pass for a text
            self._notes.append(Note("too_many_values"))
            return ("too_many_values",)
        if not self._notes:
            return ()
        codes = {note.code for note in self._notes}
        refused = codes & REFUSED
        if refused:
            return (f"refused: {', '.join(sorted(refused))}",)
        if codes >= _TORN:
            return ("a text with quotes in it seems to have been torn apart",)
        if codes & VALUE_CHANGING and self._desk.side_effects(self.name):
            self._notes.append(Note("unsafe_repair", f"`{self.name}` changes the world; its arguments were guessed"))
            return ("a repair may have changed a value",)
        return ()

    def _end_live(self, settled: Settled, problems: tuple[str, ...]) -> None:
        if self._flowed or not problems:  # a call of which nothing has left may still be made anew
            self._flow()
        self._close(settled, problems)

    def _close(self, settled: Settled, problems: tuple[str, ...]) -> None:
        """Send the end of a call that has gone out."""
        if problems:
            self._notes.append(Note("arguments_invalid", f"`{self.name}`: {'; '.join(problems)}"[:500]))
        self.state = "done"
        self._desk.calls_seen += 1
        self._desk.calls_valid += not problems
        self._desk.emit(CallEnd(self._index, not problems, tuple(self._notes)))
        self._judge("invalid" if problems else "call", "arguments_invalid" if problems else "accepted", settled)

    def _end_held(self, settled: Settled, problems: tuple[str, ...]) -> None:
        echo = self._desk.is_echo(self.name, settled.value, self._further)
        self.evidence = msgspec.structs.replace(self.evidence, fits=not problems, echo=echo)
        self._settled = settled
        self._problems = problems
        if self._waits:
            self.state = "tail"
        else:
            self.decide()

    @property
    def line_is_enough(self) -> bool:
        """Whether the call stands as soon as its line ends, whatever comes behind it."""
        return self.evidence.line_start and needs_line(self.evidence)

    def resolve_tail(self, answer_end: bool) -> bool:
        """What follows the call is known; True when it is a call."""
        self.evidence = msgspec.structs.replace(self.evidence, answer_end=answer_end)
        self.decide()
        return self.state == "done"

    def decide(self) -> None:
        """The call and its block are complete: judge it."""
        decision = judge_end(self.evidence, self._desk.policy)
        if decision.action == "reject":
            self._reject(decision.reason, "text", self._settled)
        elif decision.action == "hold":
            self.state = "tail"
        else:
            self._start()
            assert self._arguments is not None
            ready = self._arguments.take()
            self._desk.emit(CallArgs(self._index, ready))
            self._close(self._settled, self._problems)

    def cut(self) -> None:
        """The text ended inside the call."""
        if self.state == "live":
            self._flow()
            self.state = "done"
            self._desk.calls_seen += 1
            self._desk.note("truncated_call", f"the text ended inside a call of `{self.name}`")
            self._judge("truncated", "truncated", None)
        elif self.state in ("new", "held"):
            if self.evidence.wrapper == "strong" or self._is_meant():
                self._desk.note("truncated_call", f"the text ended inside a call of `{self.name or '?'}`")
            self._reject("truncated", "truncated")

    def _is_meant(self) -> bool:
        """Whether a candidate without marks can be nothing but a call: of a known tool, or with arguments."""
        return bool(self.evidence.known) or (self._arguments is not None and self._arguments.begun)

    def fail(self, reason: str) -> None:
        """The text turned out not to be a call."""
        if self.state == "live":
            assert self._arguments is not None
            self._arguments.abandon()
            if self._flowed:
                self._flow()
            self._close(Settled(None, (), ()), (reason,))
        elif self.state in ("new", "held", "tail"):
            self._reject(reason, "text")

    def _reject(self, reason: str, verdict: Verdict, settled: Settled | None = None) -> None:
        self.state = "rejected"
        self.reason = reason
        if reason == "unknown_tool":
            meant = self._desk.near_miss(self.name)
            detail = f"`{self.name}` is not a tool" + (f"; `{meant}` is" if meant else "")
            self._notes.append(Note("near_miss" if meant else "unknown_tool", detail))
        self._judge(verdict, reason, settled)

    def _judge(self, verdict: Verdict, reason: str, settled: Settled | None) -> None:
        self._desk.emit(
            Judged(
                Candidate(
                    name=self.name,
                    verdict=verdict,
                    reason=reason,
                    dialect=self.evidence.dialect,
                    arguments=settled.value if settled else None,
                    evidence=self.evidence.shown(),
                    notes=tuple(self._notes),
                )
            )
        )

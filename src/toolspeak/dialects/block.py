"""What stands behind a mark: one or more calls in any body grammar, then a closer.

Models mix marks and grammars freely, so a block tries, by the first visible character, every grammar that a
call may be written in.
"""

from __future__ import annotations

import re

import msgspec

from ..core.json_repair.lookahead import LOOKAHEAD
from ..core.parsing.acceptance import Evidence
from ..core.parsing.call_builder import CallBuilder
from ..core.parsing.context import Desk
from ..core.parsing.dialect_interface import Opening, Progress
from ..core.parsing.fast_paths import Run
from ..core.parsing.tags import MORE, Tag, lex_tag
from .bodies import Body, Context
from .json_calls import JsonCalls, read_whole
from .named_calls import NamedCall
from .nonce_match import MAX_SIGNATURE, behind_nonce, behind_word
from .tag_calls import TagCalls
from .tag_names import BLOCK_TAGS, CALL_TAGS, META_TAGS, NOISE

#: `<tool_calls><tool_call>` is common, more is a storm.
_MAX_NESTED = 2
#: How much of a call of an unknown tool is held back, for the sake of known ones that may follow in the same block.
MAX_UNKNOWN = 4096
#: Longer thinking inside a block is no aside.
_MAX_THOUGHT = 4096
_BLANK = re.compile(rf"[\s,;]{{0,{LOOKAHEAD + 1}}}").match
_NEXT_CALL = re.compile(
    r"[A-Za-z_$][\w$.:/-]{0,127}+\s{0,8}(?:\(|\{|\[(?:ARGS|CALL_ID)\]|<(?:arg_key|tool_sep|[|｜]tool))"
).match
_NEXT_BEGUN = re.compile(r"[A-Za-z_$][\w$.:/-]{0,127}+\s{0,8}(?:\[[A-Z_]{0,7}|<[a-z_|｜]{0,8})?").match
_FENCE = re.compile(r"`{3,6}[a-z]{0,12}").match
_LIST_OF_CALLS = re.compile(r"\[\s{0,64}([A-Za-z_][\w.-]{0,127})\(").match
_LIST_BEGUN = re.compile(r"\[\s{0,64}(?:[A-Za-z_][\w.-]{0,127})?").match
_LIST_OF_OBJECTS = re.compile(r"\[\s{0,64}[{\[\]\"']").match
#: Tags inside a block that mean nothing for the call.
_SKIPPED = frozenset(
    {"tool_sep", "|tool_sep|", "|tool_call_begin|", "|tool_call_end|", "|plugin|", "|message|", "|role_sep|"}
)
#: The grammar that a bracket stands for.
_GRAMMARS = {"{": "object", "[": "list"}
_THINKING = frozenset({"think", "thinking", "thought"})
#: Token-like marks that close a block.
BLOCK_CLOSERS = frozenset(
    {
        "|tool_calls_end|",
        "|tool_calls_section_end|",
        "|tool_call_end|",
        "|END_ACTION|",
        "|action_end|",
        "|tools_suffix|",
        "|end_message|",
        "|call|",
        "|eom_id|",
        "|eot_id|",
        "|im_end|",
        "|end_of_sentence|",
        "|python_end|",
        "tool_call|",
        "end_function_call",
    }
)


class Block:
    """Reads a block. `state` is `failed` when nothing in it was a call."""

    def __init__(self, opening: Opening, desk: Desk, evidence: Evidence) -> None:
        self.state: Progress = "open"
        self.channel = ""
        self.closed = False
        self.owes = ""
        self.fence = ""
        self._context = Context(desk, evidence, opening.stops + opening.ends)
        self._opening = opening
        self._body: Body | None = None
        self._calls = 0
        self._in_list = False
        self._nested = 0  # block tags inside the block
        self._grammar = ""  # how the calls of the block are written, as far as one look tells
        self._inner: set[str] = set()  # block tags in front of the first call
        self._prose = 0  # how much prose may still stand in front of the call
        self._room = 0  # how much of an unknown call is still held back; 0 where none is read
        self._dressed = False  # a bracket that belongs to no call is open
        self._nonce_due = desk.nonce if evidence.nonce is False else None

    @property
    def builders(self) -> list[CallBuilder]:
        """Every candidate seen in the block."""
        return self._context.builders

    def feed(self, buf: str, pos: int, final: bool) -> int:
        """Read on; after each call the reader stops, so that the scanner can draw a line under it."""
        while True:
            pos = self._read_unknown(buf, pos, final) if self._room else self._read_on(buf, pos, final)
            if not self._context.vain or self.state != "open":
                return pos
            self._context.vain = False
            self._room = MAX_UNKNOWN

    def _read_unknown(self, buf: str, pos: int, final: bool) -> int:
        """Behind an unknown name: a known one may follow in the same block, but not everything can wait for that."""
        limit = pos + self._room
        if len(buf) < limit:
            new = self._read_on(buf, pos, final)
            self._room -= new - pos
            return new
        seen = self._context.desk.calls_seen
        new = pos + self._read_on(buf[pos:limit], 0, False)  # give up at the same place however the text is cut
        if self.state != "open" or self._context.vain:
            return new
        if self.builders[-1].state == "rejected":
            return self._give_up(limit)
        self._room = 0
        return new if self._context.desk.calls_seen > seen else self._read_on(buf, new, final)

    def _give_up(self, pos: int) -> int:
        """All of it is text, up to the mark that closes the block: what stands in it is no call either."""
        self.state = "failed"
        self.fence = next((stop for stop in self._opening.stops if stop[0] in "<`~"), "")
        self._settle()
        return pos

    def _read_on(self, buf: str, pos: int, final: bool) -> int:
        seen = self._context.desk.calls_seen
        context = self._context
        while pos < len(buf) and self.state == "open" and context.desk.calls_seen == seen and not context.vain:
            new = self._feed_body(self._body, buf, pos, final) if self._body else self._between(buf, pos, final)
            if new == MORE:
                break
            pos = new
        self._settle()
        return pos

    def finish(self) -> None:
        body = self._body
        if body is not None:
            body.finish()
            self._calls += body.state == "done"
        ended = body is None or body.state == "done"
        self.state = "done" if self._calls and ended else "failed"
        self.owes = self._due
        self._settle()

    def _settle(self) -> None:
        if self.state == "done":
            self._context.release()
        elif self.state == "failed":
            self._context.refuse()

    def run(self) -> Run | None:
        return self._body.run() if self._body is not None else None

    def _feed_body(self, body: Body, buf: str, pos: int, final: bool) -> int:
        new = body.feed(buf, pos, final)
        if body.state == "open":
            return new if new > pos else MORE
        self._body = None
        if body.state == "failed":
            if isinstance(body, NamedCall) and self._may_be_prose(body):
                self._prose = LOOKAHEAD
                return new
            self.state = "failed"
            return new
        return self._behind_call(new)

    def _behind_call(self, pos: int) -> int:
        self._calls += 1
        if self._opening.one_call and not self._in_list:
            self.state = "done"
        return pos

    # ---- between calls

    def _may_be_prose(self, body: NamedCall) -> bool:
        """`<tool_call>` and a sentence in front of the call; only marks that have a closer of their own."""
        return not self._calls and not body.begun and bool(self._opening.stops) and self._opening.wrapper == "strong"

    def _skip_prose(self, buf: str, pos: int, final: bool) -> int:
        """A sentence that ends in a colon and a line break, then the call."""
        end = min(len(buf), pos + self._prose)
        at = buf.find("{", pos, end)
        if at < 0 and end == len(buf) and not final:
            return MORE
        if at < 0 or not buf[pos:at].rstrip(" \t").endswith(":\n"):
            return self._leave(pos)
        self._prose = 0
        return at

    def _between(self, buf: str, pos: int, final: bool) -> int:
        blank = _BLANK(buf, pos)
        assert blank is not None
        if self._prose:
            return self._skip_prose(buf, pos, final)
        at = blank.end()
        if at - pos > LOOKAHEAD:
            return at
        if at == len(buf):
            return at if self._calls == 0 else MORE
        if self._nonce_due is not None:
            return self._nonce(buf, at, final)
        stop = self._stop(buf, pos, at, final)
        if stop or self.state != "open":
            return stop
        if self._calls and (self._opening.single or self._opening.name):
            return self._leave(pos, failed=self._opening.single)
        if self._is_barred(_grammar(buf[at])):
            return self._leave(pos)
        skipped = self._preamble(buf, at, final)
        return skipped or self._dispatch(buf, pos, at, final)

    def _is_barred(self, grammar: str) -> bool:
        """Whether no call in this grammar may begin here: there have been too many, or it was not signed."""
        return bool(grammar and self._context.desk.full) or self._is_foreign(grammar)

    def _is_foreign(self, grammar: str) -> bool:
        """Whether a block that the nonce opened goes on in another grammar, which was not signed with it."""
        if not grammar or self._in_list:
            return False
        if not self._calls:
            self._grammar = grammar
        return self._context.evidence.nonce is True and grammar != self._grammar

    def _preamble(self, buf: str, at: int, final: bool) -> int:
        """Behind the words that may stand before a call, MORE when they may still come, 0 when there are none."""
        return 0 if self._calls else _behind(self._opening.preamble, buf, at, final)

    def _undress(self, buf: str, at: int, final: bool) -> int:
        """Behind what code puts around a call, unless a tool is called like that."""
        words = self._opening.dress
        if self._dressed or self._context.desk.knows(words.rstrip("(")):
            return 0
        behind = _behind(words, buf, at, final)
        self._dressed = behind > 0
        return behind

    def _nonce(self, buf: str, at: int, final: bool) -> int:
        """Marks that take no attribute carry the nonce right behind them."""
        nonce = self._nonce_due
        assert nonce is not None
        window = buf[at : at + MAX_SIGNATURE]
        whole = final or len(window) == MAX_SIGNATURE
        end = behind_nonce(window, 0, nonce)
        if not whole and end in (-1, len(window)):
            return MORE
        self._nonce_due = None
        if end > 0:
            self._context.evidence = msgspec.structs.replace(self._context.evidence, nonce=True)
            return at + end
        word = behind_word(window, 0)  # a call behind a nonce that was miscopied is none, but it is told
        return at if word is None or self._context.desk.knows(word[0]) else at + word[1]

    def _stop(self, buf: str, pos: int, at: int, final: bool) -> int:
        """Behind a literal closer, MORE when it may be one, 0 when it is none."""
        for stop in self._opening.stops:
            if buf.startswith(stop, at):
                return self._stopped(buf, pos, at + len(stop), stop, final)
        rest = buf[at : at + 64]
        if not final and any(stop.startswith(rest) for stop in self._opening.stops):
            return MORE
        return 0

    def _stopped(self, buf: str, pos: int, end: int, stop: str, final: bool) -> int:
        """The block is closed, with or without a call in it. A fence may be closed by a longer run."""
        if stop[0] in "`~":
            while buf[end : end + 1] == stop[0]:
                end += 1
            if end == len(buf) and not final:
                return MORE
            if buf[end : end + 1].isalpha():
                self._leave(pos)  # not the end of this fence, but the beginning of the next
                self.owes = self._due
                return pos
        self.state = "done"
        self.closed = True
        return end

    def _dispatch(self, buf: str, pos: int, at: int, final: bool) -> int:
        char = buf[at]
        if self._opening.name:
            return self._begin(NamedCall(self._context, self._opening.name), at)
        if char == "{":
            return self._object(buf, at)
        if char == "[":
            return self._list(buf, at, final)
        if char == "<":
            return self._tag(buf, pos, at, final)
        if char == "]":
            return self._bracket(buf, pos, at, final)
        if char == "`":
            return self._fence(buf, pos, at, final)
        if (char.isalpha() or char in "_$") and self._opening.wrapper != "weak":
            return self._undress(buf, at, final) or self._word(buf, pos, at, final)
        if char in "})" and self._calls and (at == pos or self._dressed):
            return self._extra_closer(at)
        return self._leave(pos)

    def _extra_closer(self, at: int) -> int:
        """A closer too many, or the one of what stood around the call."""
        if not self._dressed:
            self._context.note_extra_closer()
        self._dressed = False
        return at + 1

    def _object(self, buf: str, at: int) -> int:
        whole = 0 if self._opening.keyed else read_whole(self._context, buf, at, self._opening.single)
        return self._behind_call(whole) if whole else self._begin(self._json_calls(), at)

    def _json_calls(self) -> JsonCalls:
        return JsonCalls(self._context, self._opening.single, self._opening.keyed)

    def _word(self, buf: str, pos: int, at: int, final: bool) -> int:
        """A word: the name of a call. Behind a call it may be text, so it must look like one at once."""
        if not self._calls or _NEXT_CALL(buf, at) is not None:
            return self._begin(NamedCall(self._context), at)
        begun = _NEXT_BEGUN(buf, at)
        reached = begun is not None and begun.end() == len(buf) and len(buf) - at < LOOKAHEAD
        return MORE if reached and not final else self._leave(pos)

    def _begin(self, body: Body, at: int) -> int:
        self._body = body
        return at

    def _leave(self, pos: int, failed: bool = False) -> int:
        """Something that is no call: the block ends here."""
        self.state = "done" if self._calls and not failed else "failed"
        if self._due[:1] not in ("`", "~"):  # a fence goes on behind its call
            self.owes = self._due
        return pos

    @property
    def _due(self) -> str:
        """The mark that closes the block, if calls stood in it."""
        return "".join(self._opening.stops[:1]) if self._calls and not self._opening.open_ended else ""

    def _list(self, buf: str, at: int, final: bool) -> int:
        call = _LIST_OF_CALLS(buf, at)
        if call is not None:
            self._in_list = True
            return call.start(1)
        begun = _LIST_BEGUN(buf, at)
        if begun is not None and begun.end() == len(buf) and not final and len(buf) - at < LOOKAHEAD:
            return MORE
        inner = _LIST_OF_OBJECTS(buf, at)
        return self._leave(at) if inner is None else self._begin(self._json_calls(), at)

    def _bracket(self, buf: str, pos: int, at: int, final: bool) -> int:
        rest = buf[at : at + len(NOISE)]
        if rest == NOISE:
            return at + len(NOISE)
        if not final and len(rest) > 1 and NOISE.startswith(rest):
            return MORE
        if len(rest) == 1 and not final:
            return MORE
        if not self._in_list and not self._calls:
            return self._leave(pos)
        if not self._in_list:
            self._context.note_extra_closer()
        self._in_list = False
        return at + 1

    def _fence(self, buf: str, pos: int, at: int, final: bool) -> int:
        """A code fence inside the block is decoration."""
        fence = _FENCE(buf, at)
        if fence is None or fence.end() == len(buf):
            short = len(buf) - at < 24
            return MORE if short and not final else self._leave(pos)
        return fence.end()

    def _tag(self, buf: str, pos: int, at: int, final: bool) -> int:
        tag = lex_tag(buf, at, final)
        if isinstance(tag, int):
            return MORE if tag == MORE else self._leave(pos)
        name = tag.name
        closing = buf.startswith("/", at + 1)
        if name in _THINKING:
            return self._leave(pos) if closing else self._skip_thinking(buf, tag.end, name, final, at)
        if name in _SKIPPED and not (closing and self._calls):
            return tag.end
        if name in META_TAGS and not (closing or self._calls or self._context.desk.knows(name)):
            return self._skip_meta(buf, tag.end, name, final)
        if tag.kind == "close" or name in BLOCK_CLOSERS:
            return self._closed(tag)
        if self._opening.wrapper == "weak":
            return self._leave(pos)
        return self._call_tag(name, pos, at, tag.end, bool(TagCalls.name_in(tag)))

    def _closed(self, tag: Tag) -> int:
        """A closing tag: of a block inside this one, or of this one, under whatever name."""
        if self._nested:
            self._nested -= 1
            return tag.end
        self.state = "done"
        if tag.name.startswith("|"):
            self.owes = self._due
        elif self._due not in ("", f"</{tag.name}>"):
            self._context.desk.note("wrong_close_tag", f"`</{tag.name[:64]}>` stood where `{self._due}` was due")
        return tag.end

    def _call_tag(self, name: str, pos: int, at: int, end: int, named: bool) -> int:
        if name in CALL_TAGS and not named and name == "invoke":
            self._nested += 1  # `<invoke>{json}</invoke>`
            return end
        if name in BLOCK_TAGS and not named:
            if self._is_unsigned(name):
                return self._leave(pos)
            if self._opening.stops and self._nested < _MAX_NESTED and self._may_nest(name):
                self._nested += 1
                return end
            return self._leave(pos)
        call = named
        if (call or self._is_call(name)) and not self._is_barred(name if call else "tool"):
            return self._begin(TagCalls(self._context, lone=self._opening.at_mark), at)
        return self._leave(pos)

    def _skip_meta(self, buf: str, end: int, name: str, final: bool) -> int:
        """Behind `<server_name>...</server_name>`."""
        close = buf.find(f"</{name}>", end, end + LOOKAHEAD)
        if close < 0:
            return MORE if not final and len(buf) - end < LOOKAHEAD else self._leave(end)
        return close + len(name) + 3

    def _is_unsigned(self, name: str) -> bool:
        """Whether a block tag behind a call is none of those that the nonce stood in front of."""
        if not self._calls:
            self._inner.add(name)
        return self._context.evidence.nonce is True and name not in self._inner

    def _may_nest(self, name: str) -> bool:
        """Whether a block tag opens a block inside this one, rather than the next one beside it."""
        return not self._calls or f"</{name}>" not in self._opening.stops

    def _is_call(self, name: str) -> bool:
        """Any other tag between strong marks is named like the tool; behind a call only a tool's own name is."""
        if self._calls:
            return bool(self._context.desk.knows(name))
        return not name.startswith("|")

    def _skip_thinking(self, buf: str, end: int, name: str, final: bool, at: int) -> int:
        close = buf.find(f"</{name}>", end, at + _MAX_THOUGHT)
        if close < 0:
            return MORE if not final and len(buf) - at < _MAX_THOUGHT else self._leave(at)
        return close + len(name) + 3


def _behind(words: str, buf: str, at: int, final: bool) -> int:
    """Behind `words` at `at`, MORE when they may still come, 0 when they do not stand there."""
    if not words:
        return 0
    rest = buf[at : at + len(words)]
    if rest == words:
        return at + len(words)
    return MORE if words.startswith(rest) and not final else 0


def _grammar(char: str) -> str:
    """The grammar that begins with `char`; tags need a closer look, closers and decoration have none."""
    return _GRAMMARS.get(char, "word" if char.isalpha() or char in "_$" else "")

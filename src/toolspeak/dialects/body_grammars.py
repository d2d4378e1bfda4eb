"""Base classes of the readers for each call format, and matching of the nonce after an opening mark.

A body is the part of a call block that contains the calls. Its reader passes what it finds to call builders.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from ..core.events import CallArgs
from ..core.json_repair.literals import escape_text
from ..core.json_repair.lookahead import LOOKAHEAD, Tristate
from ..core.json_repair.parser import JSONParser
from ..core.json_repair.quotes import may_follow_call
from ..core.parsing.acceptance import Evidence
from ..core.parsing.call_builder import CallBuilder
from ..core.parsing.context import ParseContext
from ..core.parsing.dialect_interface import Progress
from ..core.parsing.fast_paths import ArgumentFastPath, FastPath, StrictFastPath, whole_object
from ..core.parsing.tags import MORE
from ..core.text import NAME_CHARS, NAME_START

#: Pattern of an unquoted tool name.
BODY_NAME = rf"(?:{NAME_START}|\$)[{NAME_CHARS}$.:/-]*"
_BRACES = ("{", "｛")


def arguments_ahead(buf: str, at: int) -> Tristate:
    """Whether an object begins at `at`, possibly inside a JSON string. None: more text is needed to tell."""
    if buf.startswith(_BRACES, at):
        return True
    if buf[at] != '"':
        return False
    inside = buf[at + 1 : at + 10].lstrip()
    if not inside and len(buf) - at < 10:
        return None
    return inside.startswith(_BRACES)


class BlockContext:
    """State shared by all readers of one call block."""

    def __init__(self, context: ParseContext, evidence: Evidence, stops: tuple[str, ...]) -> None:
        self.context = context
        self.evidence = evidence
        self.stops = stops
        self.builders: list[CallBuilder] = []
        self.vain = False  # the last name is not a known tool, so readers stop
        self.is_lost = False  # it is unknown where a value ends, so the text that follows may be part of it
        self.in_list = False  # the calls are entries of a list
        self._commits_before = context.commits
        self._closer_noted = False

    @property
    def has_started(self) -> bool:
        """Whether the start of a call of this block has been emitted, so that the block can no longer be text."""
        return self.context.commits > self._commits_before

    def note_extra_closer(self) -> None:
        """Note an unmatched closing bracket after a call. The call itself may have been emitted already."""
        if not self._closer_noted:
            self._closer_noted = True
            self.context.note("extra_closer", "unmatched closing bracket after a call")

    def builder(self) -> CallBuilder:
        """Create the builder of a new call candidate."""
        self.context.candidates += 1
        builder = CallBuilder(self.context, self.evidence, self.evidence.wrapper != "strong", self.builders)
        self.builders.append(builder)
        return builder

    def withdraw(self) -> None:
        """Discard the last candidate, which another reader will read again."""
        self.context.candidates -= 1
        self.builders.pop()

    def release(self) -> None:
        """Accept or reject the calls that were pending until the end of the block."""
        for builder in self._waiting():
            builder.decide()
        self._end()

    def refuse(self) -> None:
        """Reject the pending calls, because this is not a call block."""
        for builder in self._waiting():
            builder.fail("not_a_call")
        self._end()

    def _end(self) -> None:
        for builder in self.builders:
            builder.leave_block()

    def _waiting(self) -> list[CallBuilder]:
        return [builder for builder in self.builders if builder.state == "tail"]


class Steps:
    """Base of readers that work step by step until they are done or need more text."""

    def __init__(self) -> None:
        self.state: Progress = "open"

    def feed(self, buf: str, pos: int, final: bool) -> int:
        """Continue reading at `pos`. Returns the position of the first unread character."""
        while pos < len(buf) and self.state == "open" and not self._is_vain():
            new = self._step(buf, pos, final)
            if new == MORE:
                break
            pos = new
        return pos

    def _is_vain(self) -> bool:
        """Whether to stop before the end of the text."""
        return False

    def _step(self, buf: str, pos: int, final: bool) -> int:
        """Read one step from `pos`. Returns the new position, or MORE if more text is needed."""
        raise NotImplementedError

    def _feed_inner(self, inner: "Body", buf: str, pos: int, final: bool) -> int:
        """Read one step by delegating to `inner`."""
        new = inner.feed(buf, pos, final)
        self.state = inner.state
        return new if new > pos or self.state != "open" else MORE


class Body(Steps):
    """Base of the readers for each call format."""

    def __init__(self, block: BlockContext) -> None:
        super().__init__()
        self.block = block

    def _is_vain(self) -> bool:
        return self.block.vain

    def finish(self) -> None:
        """Handle the end of the answer."""
        raise NotImplementedError

    def fast_path(self) -> FastPath | None:
        """Return the fast path for the current state, if there is one."""
        return None


class ArgumentsBody(Body):
    """Reads the arguments after a tool name: a lenient JSON value or a Python argument list."""

    def __init__(
        self, block: BlockContext, builder: CallBuilder, call: bool = False, stops: tuple[str, ...] = ()
    ) -> None:
        super().__init__(block)
        self._builder = builder
        self._stops = (*block.stops, *stops)
        self._json = JSONParser(stops=self._stops, call=call, allowance=block.context.allowance)
        self._may_be_whole = not call
        self._is_call = call
        builder.is_python = call

    def feed(self, buf: str, pos: int, final: bool) -> int:
        if self._may_be_whole:
            self._may_be_whole = False
            whole = whole_object(buf, pos, self._stops, allowance := self.block.context.allowance, final=final)
            if whole is not None and self._builder.take_arguments(whole):
                allowance.remaining -= whole.values
                self.state = "done"
                return whole.end
        json = self._json
        pos = json.feed(buf, pos, final)
        self._drain()
        if json.status == "complete":
            may_end = self._may_end(buf, pos, final)
            if may_end is not None:
                self._end() if may_end else self._fail()
        elif json.status == "hopeless":
            self._fail()
        return pos

    def _end(self) -> None:
        self._builder.note(*self._json.notes)
        self._builder.end()
        self.state = "done"

    def _fail(self) -> None:
        self._builder.note(*self._json.notes)
        self._builder.fail("not_json")
        self.state = "failed"

    def _may_end(self, buf: str, pos: int, final: bool) -> Tristate:
        """Whether the arguments may end here. If a string contains quotes, it may have been cut at one of them."""
        if not self._is_call or "inner_quotes" not in self._json.codes:
            return True
        window = buf[pos : pos + LOOKAHEAD]
        is_full = len(window) == LOOKAHEAD
        answer = may_follow_call(window, self._stops, final and not is_full)
        return True if answer is None and (final or is_full) else answer

    def _drain(self) -> None:
        tokens, self._json.tokens = self._json.tokens, []
        if tokens:
            self._builder.tokens(tokens)

    def finish(self) -> None:
        if self._json.status == "complete":  # and nothing follows
            self._end()
            return
        self._builder.cut()
        self.state = "failed"

    def fast_path(self) -> FastPath | None:
        return string_fast_path(self._json, self._builder)


def string_fast_path(json: JSONParser, builder: CallBuilder | None) -> FastPath | None:
    """Return the fast path for a string argument that is streamed now or buffered for later."""
    if builder is None or builder.state not in ("live", "held"):
        return None
    arguments = builder.arguments
    assert arguments is not None
    live = builder.state == "live" and arguments.live
    keep = arguments.record if live else arguments.keep
    if keep is None:
        return None
    index = builder.index if live else None
    if json.in_plain_string:
        return StrictFastPath(keep, index, json.remaining_chars, json.count_chars, json.note_control)
    return _text_fast_path(json, keep, index)


def _text_fast_path(json: JSONParser, keep: Callable[[str], None], index: int | None) -> FastPath | None:
    """Return the fast path for a string that is not strict JSON. Without an `index`, it only buffers the text."""
    reader = json.text_run()
    if reader is None:
        return None
    stops, read_text = reader

    def read(text: str, _: re.Match[str]) -> tuple[CallArgs | None, int, bool]:
        fragment, end, waits = read_text(text)
        if not fragment:
            return None, end, waits
        keep(fragment)
        return (None if index is None else CallArgs(index, fragment)), end, waits

    return ArgumentFastPath(stops, escape_text, keep, index, read, json.remaining_chars, json.count_chars)


#: Maximum length of a nonce with its label and punctuation. Models write `k7`, `"k7"`, `(k7)`, `mark=k7` or
#: `nonce: k7`. The nonce itself must match exactly. Any other word in its place is a miscopied nonce: the call is
#: rejected, but reported as intended.
MAX_SIGNATURE = 64
_NONCE_LABEL = r"(?:(?:mark|nonce)\b(?:[ \t]{0,2}[:=])?[ \t]{0,2})?+"
_BEFORE_NONCE, _AFTER_NONCE = r"[\"'“”‘’`(\[{<#*]{0,2}+", r"[\"'“”‘’`)\]}>*:,.]{0,2}+"
#: A word in place of the nonce. Its punctuation excludes brackets that may begin a call.
_WORD_AS_NONCE = re.compile(
    rf"{_NONCE_LABEL}[\"'“”‘’`(#*]{{0,2}}+([\w-]{{1,32}}+){_AFTER_NONCE}[ \t\n]{{1,8}}+(?=[^\s:=])"
).match


@lru_cache(maxsize=64)
def _nonce_pattern(nonce: str) -> re.Pattern[str]:
    return re.compile(rf"{_NONCE_LABEL}{_BEFORE_NONCE}{re.escape(nonce)}(?!\w){_AFTER_NONCE}")


def skip_nonce(text: str, at: int, nonce: str) -> int:
    """Return the position after the nonce at `at` and its punctuation; -1 if the nonce is not there."""
    match = _nonce_pattern(nonce).match(text, at)
    return -1 if match is None else match.end()


def is_nonce(text: str, nonce: str) -> bool:
    """Whether the whole text is the nonce, with or without punctuation."""
    return _nonce_pattern(nonce).fullmatch(text) is not None


def word_for_nonce(text: str, at: int) -> tuple[str, int] | None:
    """Return the word where a nonce is expected, and the position after it; None if there is none."""
    match = _WORD_AS_NONCE(text, at)
    return None if match is None else (match[1], match.end())

"""What all body grammars share.

A body reads one call (or a list of calls) inside a block and tells builders what it finds. It answers like
every reader: how far it got, and whether it is done; most get there in steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..core.events import CallArgs
from ..core.json_repair.literals import escape_text
from ..core.json_repair.lookahead import Answer
from ..core.json_repair.parser import Transducer
from ..core.parsing.acceptance import Evidence
from ..core.parsing.call_builder import CallBuilder
from ..core.parsing.context import Desk
from ..core.parsing.dialect_interface import Progress
from ..core.parsing.fast_paths import Run, StrictRun
from ..core.parsing.tags import MORE
from ..core.parsing.whole_values import whole_object

#: Characters that a tool name may be made of, as far as text without quotes goes.
BODY_NAME = r"[A-Za-z_$][\w$.:/-]*"
_BRACES = ("{", "｛")


def arguments_ahead(buf: str, at: int) -> Answer:
    """Whether an object begins at `at`: with a brace of either width, or as a JSON string. `None`: not known yet."""
    if buf.startswith(_BRACES, at):
        return True
    if buf[at] != '"':
        return False
    inside = buf[at + 1 : at + 10].lstrip()
    if not inside and len(buf) - at < 10:
        return None
    return inside.startswith(_BRACES)


class Context:
    """What a body needs to know about the block it stands in."""

    def __init__(self, desk: Desk, evidence: Evidence, stops: tuple[str, ...]) -> None:
        self.desk = desk
        self.evidence = evidence
        self.stops = stops
        self.builders: list[CallBuilder] = []
        self.vain = False  # a name has just turned out to be unknown: whoever reads stops there
        self._closer_noted = False

    def note_extra_closer(self) -> None:
        """A bracket that nothing opened stood behind a call, which may have gone out."""
        if not self._closer_noted:
            self._closer_noted = True
            self.desk.note("extra_closer", "a bracket that nothing opened stood behind a call")

    def builder(self) -> CallBuilder:
        """A new candidate in this block."""
        self.desk.candidates += 1
        builder = CallBuilder(self.desk, self.evidence, self.evidence.wrapper != "strong", self.builders)
        self.builders.append(builder)
        return builder

    def withdraw(self) -> None:
        """The last candidate is read anew: it has not been there."""
        self.desk.candidates -= 1
        self.builders.pop()

    def release(self) -> None:
        """The block has ended well: judge the calls that waited for that."""
        for builder in self._waiting():
            builder.decide()

    def refuse(self) -> None:
        """The block turned out to be something else, and so did its calls."""
        for builder in self._waiting():
            builder.fail("not_a_call")

    def _waiting(self) -> list[CallBuilder]:
        return [builder for builder in self.builders if builder.state == "tail"]


class Steps:
    """Base of everything that reads in steps until it is done, or until it needs more text."""

    def __init__(self) -> None:
        self.state: Progress = "open"

    def feed(self, buf: str, pos: int, final: bool) -> int:
        """Read on from `pos`; the position of the first character not read."""
        while pos < len(buf) and self.state == "open" and not self._is_vain():
            new = self._step(buf, pos, final)
            if new == MORE:
                break
            pos = new
        return pos

    def _is_vain(self) -> bool:
        """Whether to stop, although there is more to read."""
        return False

    def _step(self, buf: str, pos: int, final: bool) -> int:
        """One step from `pos`: where it got to, or MORE."""
        raise NotImplementedError

    def _feed_inner(self, inner: Body, buf: str, pos: int, final: bool) -> int:
        """The step of whoever leaves the rest to `inner`."""
        new = inner.feed(buf, pos, final)
        self.state = inner.state
        return new if new > pos or self.state != "open" else MORE


class Body(Steps):
    """Base of the body grammars."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context

    def _is_vain(self) -> bool:
        return self.context.vain

    def finish(self) -> None:
        """The text is over."""
        raise NotImplementedError

    def run(self) -> Run | None:
        """The shortcut for the current state, if there is one."""
        return None


class ArgumentsBody(Body):
    """The arguments of a call whose name is known: one tolerant JSON value or Python argument list."""

    def __init__(self, context: Context, builder: CallBuilder, call: bool = False, stops: tuple[str, ...] = ()) -> None:
        super().__init__(context)
        self._builder = builder
        self._stops = (*context.stops, *stops)
        self._json = Transducer(stops=self._stops, call=call, allowance=context.desk.allowance)
        self._may_be_whole = not call

    def feed(self, buf: str, pos: int, final: bool) -> int:
        if self._may_be_whole:
            self._may_be_whole = False
            whole = whole_object(buf, pos, self._stops, allowance := self.context.desk.allowance)
            if whole is not None and self._builder.take_arguments(whole):
                allowance.left -= whole.values
                self.state = "done"
                return whole.end
        json = self._json
        pos = json.feed(buf, pos, final)
        self._drain()
        if json.status == "complete":
            self._builder.note(*json.notes)
            self._builder.end()
            self.state = "done"
        elif json.status == "hopeless":
            self._builder.note(*json.notes)
            self._builder.fail("not_json")
            self.state = "failed"
        return pos

    def _drain(self) -> None:
        tokens, self._json.tokens = self._json.tokens, []
        if tokens:
            self._builder.tokens(tokens)

    def finish(self) -> None:
        self._builder.cut()
        self.state = "failed"

    def run(self) -> Run | None:
        return string_run(self._json, self._builder)


def string_run(json: Transducer, builder: CallBuilder | None) -> Run | None:
    """The shortcut through a string that flows from the model to the client, or is kept until it may."""
    if builder is None or builder.state not in ("live", "held"):
        return None
    arguments = builder.arguments
    assert arguments is not None  # its name is known
    live = builder.state == "live" and arguments.live
    keep = arguments.record if live else arguments.keep
    if keep is None:
        return None
    index = builder.index if live else None
    if json.in_plain_string:
        return StrictRun(keep, index, json.room, json.grow, json.control_seen)
    return _text_run(json, keep, index)


def _text_run(json: Transducer, keep: Callable[[str], None], index: int | None) -> Run | None:
    """The shortcut through a string whose text is not strict JSON as it is. Without an index nothing goes out yet."""
    found = json.text_run()
    if found is None:
        return None
    stops, read_text = found

    def pass_on(chunk: str) -> CallArgs | None:
        fragment = escape_text(chunk)
        keep(fragment)
        return None if index is None else CallArgs(index, fragment)

    def read(text: str, _: re.Match[str]) -> tuple[CallArgs | None, int, bool]:
        fragment, end, waits = read_text(text)
        if not fragment:
            return None, end, waits
        keep(fragment)
        return (None if index is None else CallArgs(index, fragment)), end, waits

    return Run(stops, pass_on, read, json.room, json.grow, index is None)

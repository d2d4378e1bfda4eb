"""Tool calls of a reply, put together from the pieces that servers really send.

Seen in the wild: no index, one index for all calls, an id only in the first piece or a new one in each, the name
repeated or split, arguments as an object. A call's name is final when its arguments begin, when another call begins,
or at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import msgspec

from ...core.events import CallArgs, CallEnd, CallStart, Event
from ...core.json_repair.literals import escape_text
from ...core.types import JSONValue, Note, is_object
from ..shared.fields import MAX_CALLS
from .chunks import DeltaCall, DeltaFunction

#: What opens, closes or quotes in JSON; an escape is taken together with what it escapes.
_MARKS = re.compile(r'\\.|[\\"{}\[\]]', re.DOTALL).finditer


class OpenCall:
    """A call that is being received."""

    __slots__ = (
        "_depth",
        "_quoted",
        "_seen",
        "_tail",
        "custom",
        "fragments",
        "id",
        "index",
        "key",
        "make",
        "name",
        "notes",
        "started",
    )

    def __init__(self, index: int, key: JSONValue, identifier: str, custom: bool) -> None:
        self.index = index
        #: Makes the event of a piece of its arguments, which have been added.
        self.make = partial(CallArgs, index)
        self.key = key
        self.id = identifier
        self.custom = custom
        self.name = ""
        self.started = False
        self.fragments: list[str] = []
        self.notes: dict[str, str] = {}
        self._seen = self._depth = 0
        self._quoted = False
        self._tail = ""

    def add(self, fragment: str) -> CallArgs:
        """A piece of the arguments."""
        self.fragments.append(fragment)
        return CallArgs(self.index, fragment)

    def whole(self) -> bool:
        """Whether the arguments so far are a JSON object."""
        try:
            return is_object(msgspec.json.decode("".join(self.fragments)))
        except (msgspec.DecodeError, RecursionError):
            return False

    def balanced(self) -> bool:
        """Whether the arguments so far look whole. Each fragment is looked at once, however often this is asked."""
        text = self._tail + "".join(self.fragments[self._seen :])
        self._seen = len(self.fragments)
        self._tail = ""
        for mark in _MARKS(text):
            match mark[0]:
                case '"':
                    self._quoted = not self._quoted
                case "{" | "[" if not self._quoted:
                    self._depth += 1
                case "}" | "]" if not self._quoted:
                    self._depth -= 1
                case "\\":  # what it escapes is still to come
                    self._tail = "\\"
                case _:
                    pass
        return self._depth == 0 and not self._quoted and any(map(str.strip, self.fragments))


class Assembler:
    """All calls of one reply."""

    def __init__(self) -> None:
        self._calls: list[OpenCall] = []
        self._ids: set[str] = set()
        #: What a reader of the reply should know, by code.
        self.notes: dict[str, str] = {}

    def __bool__(self) -> bool:
        """Whether a tool was called."""
        return any(call.started or call.name for call in self._calls)

    def __getitem__(self, index: int) -> OpenCall:
        return self._calls[index]

    @property
    def last(self) -> OpenCall:
        return self._calls[-1]

    def add(self, piece: DeltaCall) -> Iterator[Event]:
        """The events that a piece of a call makes certain."""
        body = piece.custom or piece.function or DeltaFunction()
        name = body.name if isinstance(body.name, str) else ""
        identifier = piece.id if isinstance(piece.id, str) else ""
        text = _text_of(body.input if piece.custom else body.arguments)
        call = self._find(piece.index, identifier, name, text)
        if call is None:
            if len(self._calls) >= MAX_CALLS:
                self.notes["calls_dropped"] = f"more than {MAX_CALLS} calls"
                return
            if self._calls:
                yield from self._start(self.last)
            call = self._open(piece, identifier)
        if name and not call.started:
            # Repeated, grown, or split.
            call.name = name if name.startswith(call.name) else call.name + name
        if piece.function and text and not isinstance(body.arguments, str):
            call.notes["arguments_object"] = "the arguments came as JSON, not as text"
        if text and call.custom:
            text = escape_text(text)
        if text and call.name:
            yield from self._start(call)
            yield call.add(text)
        elif text:
            call.fragments.append(text)  # the name is late

    def _find(self, key: JSONValue, identifier: str, name: str, text: str) -> OpenCall | None:
        """The call that a piece belongs to; None when it begins one."""
        if not self._calls:
            return None
        if key is None:
            known = (call for call in self._calls if call.id == identifier) if identifier else iter(())
            found = next(known, None) or (None if identifier and name else self.last)
        else:
            found = next((call for call in reversed(self._calls) if call.key == key), None)
        if found is None or not name or not found.name:
            return found
        if identifier and found.id and identifier != found.id:
            return None  # one index for all calls
        if not found.started:
            return found
        # The name once more: of the same call, unless that is complete and this piece says something.
        return None if name != found.name or (text.strip() and found.balanced()) else found

    def _open(self, piece: DeltaCall, identifier: str) -> OpenCall:
        duplicate = identifier in self._ids
        call = OpenCall(len(self._calls), piece.index, "" if duplicate else identifier, piece.custom is not None)
        if duplicate:
            call.notes["duplicate_call_id"] = f"`{identifier}` was used twice"
        if identifier:
            self._ids.add(identifier)
        self._calls.append(call)
        return call

    def _start(self, call: OpenCall) -> Iterator[Event]:
        if call.started or not call.name:
            return
        call.started = True
        yield CallStart(call.index, call.name, call.id)
        if call.custom:
            call.fragments.insert(0, '{"input":"')
        if call.fragments:
            yield CallArgs(call.index, "".join(call.fragments))

    def end(self, cut: bool) -> Iterator[Event]:
        """The end of the reply. `cut`: it was cut off, so a call that is not whole has no end."""
        for call in self._calls:
            yield from self._start(call)
            if not call.name:
                self.notes["call_without_name"] = "a call that names no tool was dropped"
                continue
            if cut and (call is self.last if call.custom else not call.whole()):
                continue
            if call.custom:
                yield call.add('"}')
            elif not any(map(str.strip, call.fragments)):
                call.notes["arguments_missing"] = "a call without arguments"
                yield call.add("{}")
            notes = tuple(Note(code, detail) for code, detail in call.notes.items())
            yield CallEnd(call.index, notes=notes)


def _text_of(value: JSONValue) -> str:
    """Arguments as text; null and an empty text are none."""
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()

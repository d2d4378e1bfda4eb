"""The envelope: one JSON document that holds the calls first and then the reply, read as it comes.

`{"calls": [{"name": N, "arguments": {...}}], "reply": "..."}`. The upstream was asked to enforce this form, so
the calls are announced and the reply flows, unescaped, while the document is still being written. Anything
else that comes is left to the ordinary reader of text.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ...core.events import Event, Noted
from ...core.json_repair.tokens import (
    ARRAY,
    END_ARRAY,
    END_OBJECT,
    END_STRING,
    KEY,
    OBJECT,
    PART,
    SCALAR,
    STRING,
    Token,
    Writer,
)
from ...core.parsing.acceptance import Evidence
from ...core.parsing.call_builder import CallBuilder
from ...core.parsing.context import Desk
from ...core.types import Note
from .native_calls import JsonPieces

_OPEN = frozenset({OBJECT, ARRAY, STRING})
_CLOSE = frozenset({END_OBJECT, END_ARRAY, END_STRING})
#: Where in the document a token stands: depth 1 is the document, 2 the list of calls, 3 one call.
_DOCUMENT, _CALLS, _CALL = 1, 2, 3
#: A reply where there is none, since the model calls instead.
_NO_REPLY = (SCALAR, "null")

_Role = Literal["", "calls", "reply", "nonce", "name", "arguments"]
_DOCUMENT_KEYS: dict[str, _Role] = {"calls": "calls", "tools": "calls", "reply": "reply", "nonce": "nonce"}
_CALL_KEYS: dict[str, _Role] = {"name": "name", "tool": "name", "arguments": "arguments", "parameters": "arguments"}


class EnvelopeReader:
    """Reads one document. `feed` and `close` give the events that are certain."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._pieces = JsonPieces()
        self._depth = 0
        self._role: _Role = ""  # of the value that is being read
        self._base = 0  # the depth at which it stands
        self._text: list[str] | None = None  # a name or a nonce, if it is text
        self._writer: Writer | None = None  # of a reply that is not text
        self._builder: CallBuilder | None = None
        self._calls: list[CallBuilder] = []
        self._given: set[_Role] = set()  # what the call has said about itself
        self._signed = False  # the nonce has been seen
        self._told: tuple[Note, ...] = ()  # repairs that a call has told of
        #: Whether it says anything that an envelope says.
        self.recognised = False

    @property
    def over(self) -> bool:
        """Whether nothing more can be read."""
        return self._pieces.json.status != "open"

    def feed(self, chunk: str) -> list[Event]:
        """More of the document."""
        self._read(chunk, final=False)
        return self._desk.collect()

    def close(self) -> list[Event]:
        """The text is over."""
        self._read("", final=True)
        notes = self._pieces.json.notes
        self._desk.emit(*(Noted(note) for note in notes if note not in self._told))
        match self._pieces.json.status:
            case "complete":
                if self._pieces.behind:
                    self._desk.note("trailing_text", self._pieces.behind)
            case "hopeless":
                self._desk.note("broken_document", "the envelope cannot be read to its end")
                if self._builder is not None:
                    self._builder.note(*notes)
                    self._builder.fail("not_json")
            case _:
                self._desk.note("truncated_document", "the text ended inside the envelope")
                if self._builder is not None:
                    self._builder.cut()
        return self._desk.collect()

    def _read(self, chunk: str, final: bool) -> None:
        for tokens in self._pieces.feed(chunk, final):
            for token in tokens:
                self._token(token)
        self._flow()

    # ---- the meaning of tokens

    def _token(self, token: Token) -> None:
        kind, text = token
        self._depth -= kind in _CLOSE
        match self._role:
            case "reply" | "nonce" | "name" | "arguments":
                self._value(token)
            case _ if kind == KEY:
                self._key(text)
            case "calls":
                self._list(token)
            case _:
                pass
        self._depth += kind in _OPEN

    def _key(self, key: str) -> None:
        if self._depth == _DOCUMENT:
            self._role = _DOCUMENT_KEYS.get(key, "")
            self.recognised = self.recognised or bool(self._role)
        elif self._depth == _CALL and self._builder is not None:
            self._role = self._said(self._builder, key)
        self._base = self._depth
        self._text = None
        self._writer = None

    def _said(self, builder: CallBuilder, key: str) -> _Role:
        """What the call says about itself with this key; the same may not be said twice, in whatever words."""
        role = _CALL_KEYS.get(key, "calls")
        if role in self._given:
            builder.note(Note("duplicate_key", f"`{key}` stands beside another {role}"))
            return "calls"
        if role != "calls":
            self._given.add(role)
        return role

    def _list(self, token: Token) -> None:
        """A token of the list of calls, or of a call, that is no part of a name or of arguments."""
        kind = token[0]
        if self._depth == _DOCUMENT and kind != ARRAY:
            self._role = ""
            self._strange(kind not in _CLOSE and token != _NO_REPLY)
        elif self._depth == _CALLS and kind == OBJECT:
            self._builder = CallBuilder(self._desk, self._evidence(), block=self._calls)
            self._calls.append(self._builder)
            self._given = set()
        elif self._depth == _CALLS and kind == END_OBJECT:
            self._end_call()
        elif self._depth == _CALLS:
            self._strange(kind not in _CLOSE)

    def _strange(self, is_it: bool) -> None:
        if is_it:
            self._desk.note("not_a_call", "something else stands in the place of a call")

    def _evidence(self) -> Evidence:
        nonce = None if self._desk.nonce is None else self._signed
        return Evidence(dialect="envelope", wrapper="strong", nonce=nonce)

    def _end_call(self) -> None:
        builder, self._builder = self._builder, None
        assert builder is not None
        self._told = self._pieces.json.notes
        builder.note(*self._told)
        builder.end()

    # ---- values

    def _value(self, token: Token) -> None:
        """A token of a value that we want."""
        if self._role == "reply":
            self._reply(token)
        elif self._role == "arguments":
            assert self._builder is not None
            self._builder.token(token)
        else:
            self._collect(token)
        if self._depth == self._base and token[0] not in _OPEN:
            self._end_value()

    def _reply(self, token: Token) -> None:
        kind, text = token
        if self._writer is None:
            if kind == PART:
                self._desk.say(_plain(text))
            if kind in (STRING, PART, END_STRING) or token == _NO_REPLY:
                return
            self._writer = Writer()  # the caller asked for a form of its own: it is given as it stands
        self._desk.say(self._writer.write(token))

    def _collect(self, token: Token) -> None:
        kind, text = token
        if kind == STRING and self._depth == self._base:
            self._text = []
        elif kind == PART and self._text is not None:
            self._text.append(text)

    def _end_value(self) -> None:
        role, self._role = self._role, "calls" if self._base == _CALL else ""
        text = _plain("".join(self._text or ()))
        if role == "nonce":
            self._signed = text == self._desk.nonce
        elif role == "name":
            assert self._builder is not None
            self._builder.take_name(text.strip())
        self._flow()  # here as well, so that the same has left at this point however the document was cut

    def _flow(self) -> None:
        if self._builder is not None:
            self._builder.tokens(())


def _plain(text: str) -> str:
    """The text that a piece of a strict JSON string stands for."""
    return msgspec.json.decode(f'"{text}"', type=str) if "\\" in text else text

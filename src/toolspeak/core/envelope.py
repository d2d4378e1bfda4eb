"""The envelope: one JSON document that holds the calls first and then the reply, read as it comes.

`{"calls": [{"name": N, "arguments": {...}}], "reply": "..."}`. The upstream was asked to enforce this form, so
the calls are announced and the reply flows, unescaped, while the document is still being written. Anything
else that comes is left to the ordinary reader of text. Above: `readings`. Below: `builder`, `lenient_json`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .builder import CallBuilder
from .desk import Desk
from .events import Event
from .evidence import Evidence
from .lenient_json import (
    ARRAY,
    END_ARRAY,
    END_OBJECT,
    END_STRING,
    KEY,
    OBJECT,
    PART,
    STRING,
    Token,
    Transducer,
    Writer,
)
from .model import Note

__all__ = ["EnvelopeReader"]

_OPEN = (OBJECT, ARRAY, STRING)
_CLOSE = (END_OBJECT, END_ARRAY, END_STRING)
#: Where in the document a value stands: depth 1 is the document, 2 the list of calls, 3 one call.
_DOCUMENT, _CALLS, _CALL = 1, 2, 3

_Role = Literal["", "calls", "reply", "nonce", "name", "arguments"]
_DOCUMENT_KEYS: dict[str, _Role] = {"calls": "calls", "tools": "calls", "reply": "reply", "nonce": "nonce"}
_CALL_KEYS: dict[str, _Role] = {"name": "name", "tool": "name", "arguments": "arguments", "parameters": "arguments"}


class EnvelopeReader:
    """Reads one document. `feed` and `close` give the events that are certain."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._json = Transducer()
        self._unread = ""
        self._depth = 0
        self._role: _Role = ""
        self._base = 0  # the depth at which the value of this role stands
        self._pieces: list[str] = []  # a name or a nonce
        self._writer: Writer | None = None  # of a reply that is not text
        self._builder: CallBuilder | None = None
        self._nonce_seen = False
        self._replied = False

    @property
    def whole(self) -> bool:
        """Whether the document has been read to its end."""
        return self._json.status == "complete"

    def feed(self, chunk: str) -> list[Event]:
        """More of the document."""
        self._read(chunk, final=False)
        return self._desk.collect()

    def close(self) -> list[Event]:
        """The text is over."""
        self._read("", final=True)
        if self._json.status != "complete":
            if self._builder is not None:
                self._builder.cut()
                self._builder = None
            else:
                self._desk.note("truncated_document", "the text ended inside the envelope")
        return self._desk.collect()

    def _read(self, chunk: str, final: bool) -> None:
        text = self._unread + chunk if self._unread else chunk
        read = self._json.feed(text, final=final)
        self._unread = text[read:]
        tokens, self._json.tokens = self._json.tokens, []
        for token in tokens:
            self._token(token)

    def _token(self, token: Token) -> None:
        kind = token[0]
        if kind in _CLOSE:
            self._depth -= 1
        if self._role in ("reply", "arguments", "name", "nonce"):
            self._inside(token)
        elif kind == KEY:
            self._key(token[1])
        elif kind == OBJECT and self._depth == _CALLS and self._role == "calls":
            self._builder = CallBuilder(self._desk, self._evidence())
        elif kind == END_OBJECT and self._depth == _CALLS:
            self._end_call()
        elif kind == END_ARRAY and self._depth == _DOCUMENT:
            self._role = ""
        if kind in _OPEN:
            self._depth += 1

    def _evidence(self) -> Evidence:
        nonce = None if self._desk.nonce is None else self._nonce_seen
        return Evidence(dialect="envelope", wrapper="strong", nonce=nonce)

    def _key(self, key: str) -> None:
        if self._depth == _DOCUMENT:
            self._role = _DOCUMENT_KEYS.get(key, "")
        elif self._depth == _CALL and self._builder is not None:
            role = _CALL_KEYS.get(key)
            if role is None:
                return
            self._role = role
        self._base = self._depth
        self._pieces = []
        self._writer = None

    def _inside(self, token: Token) -> None:
        """A token of a value that we want."""
        kind, text = token
        ended = self._depth == self._base and kind not in (PART, *_OPEN)
        match self._role:
            case "arguments":
                if self._builder is not None:
                    self._builder.tokens((token,))
            case "reply":
                self._reply(token)
            case _:
                self._pieces.append(text if kind == PART else "")
        if ended:
            self._end_value()

    def _reply(self, token: Token) -> None:
        kind, text = token
        if self._writer is None and kind == STRING:
            self._replied = True
        elif self._writer is None and self._replied and kind in (PART, END_STRING):
            self._desk.say(_plain(text))
        else:  # the caller asked for a reply in a form of its own: it is given as it stands
            self._writer = self._writer or Writer()
            self._desk.say(self._writer.write(token))

    def _end_value(self) -> None:
        role, self._role = self._role, "calls" if self._base == _CALL else ""
        text = _plain("".join(self._pieces))
        if role == "name" and self._builder is not None:
            self._builder.take_name(text.strip())
        elif role == "nonce":
            self._nonce_seen = text == self._desk.nonce

    def _end_call(self) -> None:
        if self._builder is not None:
            self._builder.note(*(note for note in self._json.notes if isinstance(note, Note)))
            self._builder.end()
            self._builder = None


def _plain(text: str) -> str:
    """The text that a piece of a strict JSON string stands for."""
    return msgspec.json.decode(f'"{text}"', type=str) if "\\" in text else text

"""Incremental parser for the envelope: one JSON document with the calls first, then the reply.

The format is `{"calls": [{"name": N, "arguments": {...}}], "reply": "..."}`. The upstream was asked to enforce it.
Calls and the unescaped reply can therefore be streamed while the model is still writing. Answers in any other format
are not handled here.
"""

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
from ...core.parsing.context import ParseContext
from ...core.types import Note
from .native_call_checks import JsonPieces

_OPEN = frozenset({OBJECT, ARRAY, STRING})
_CLOSE = frozenset({END_OBJECT, END_ARRAY, END_STRING})
#: Nesting depth of a token: 1 inside the document, 2 inside the list of calls, 3 inside one call.
_DOCUMENT, _CALLS, _CALL = 1, 2, 3
#: The token of a null reply, used in documents that only make calls.
_NO_REPLY = (SCALAR, "null")

_Role = Literal["", "calls", "reply", "nonce", "name", "arguments"]
_DOCUMENT_KEYS: dict[str, _Role] = {"calls": "calls", "tools": "calls", "reply": "reply", "nonce": "nonce"}
_CALL_KEYS: dict[str, _Role] = {"name": "name", "tool": "name", "arguments": "arguments", "parameters": "arguments"}


class EnvelopeReader:
    """Parses one envelope. `feed` and `close` return events as soon as they are certain."""

    def __init__(self, context: ParseContext) -> None:
        self._context = context
        self._pieces = JsonPieces(self._take_whole)
        self._depth = 0
        self._role: _Role = ""  # the role of the current value
        self._base = 0  # the depth of the current value
        self._text: list[str] | None = None  # the current name or nonce, if it is a string
        self._writer: Writer | None = None  # for a reply that is not a string
        self._builder: CallBuilder | None = None
        self._calls: list[CallBuilder] = []
        self._call_roles: set[_Role] = set()  # roles already seen in the current call
        self._signed = False  # whether the document carries the right nonce
        self._has_wrong_nonce = False
        self._call_notes: tuple[Note, ...] = ()  # repair notes already attached to a call
        #: Whether an envelope key has been seen.
        self.recognised = False

    @property
    def finished(self) -> bool:
        """Whether the document has ended or cannot be parsed."""
        return self._pieces.json.status != "open"

    def feed(self, chunk: str) -> list[Event]:
        """Parse more of the document."""
        written, calls_seen = self._context.written, self._context.calls_seen
        if written is not None:
            written.add(chunk)
        self._read(chunk, final=False)
        if written is not None and self._context.calls_seen > calls_seen:
            written.continue_block(len(chunk))
        return self._context.collect()

    def close(self) -> list[Event]:
        self._read("", final=True)
        notes = self._pieces.json.notes
        self._context.emit(*(Noted(note) for note in notes if note not in self._call_notes))
        match self._pieces.json.status:
            case "complete":
                if self._pieces.trailing_text:
                    self._context.note("trailing_text", self._pieces.trailing_text)
            case "hopeless":
                self._context.note("broken_document", "the envelope could only be parsed in part")
                if self._builder is not None:
                    self._builder.note(*notes)
                    self._builder.fail("not_json")
            case _:
                self._context.note("truncated_document", "the text ended inside the envelope")
                if self._builder is not None:
                    self._builder.cut()
        return self._context.collect()

    def _read(self, chunk: str, final: bool) -> None:
        for tokens in self._pieces.feed(chunk, final):
            for token in tokens:
                self._token(token)
        self._flow()

    def _take_whole(self, text: str, pos: int) -> int:
        """Take arguments that are completely in the text. Returns the position after them, or 0."""
        if self._role != "arguments" or self._builder is None or self._depth != self._base:
            return 0
        end = self._builder.take_member(self._pieces.json, text, pos, ())
        if end:
            self._role = "calls"
        return end

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
            self._role = self._call_role(self._builder, key)
        self._base = self._depth
        self._text = None
        self._writer = None

    def _call_role(self, builder: CallBuilder, key: str) -> _Role:
        """Return the role of a key in a call. A second key with the same role, such as an alias, is ignored."""
        role = _CALL_KEYS.get(key, "calls")
        if role in self._call_roles:
            # A retry prompt may quote this detail, so do not change the wording.
            builder.note(Note("duplicate_key", f"`{key}` occurs beside another {role}"))
            return "calls"
        if role != "calls":
            self._call_roles.add(role)
        return role

    def _list(self, token: Token) -> None:
        """Process a token of the list of calls, except those of a name or arguments."""
        kind = token[0]
        if self._depth == _DOCUMENT and kind != ARRAY:
            self._role = ""
            self._note_not_a_call(kind not in _CLOSE and token != _NO_REPLY)
        elif self._depth == _CALLS and kind == OBJECT:
            self._builder = CallBuilder(self._context, self._evidence(), block=self._calls)
            self._calls.append(self._builder)
            self._call_roles = set()
        elif self._depth == _CALLS and kind == END_OBJECT:
            self._end_call()
        elif self._depth == _CALLS:
            self._note_not_a_call(kind not in _CLOSE)

    def _note_not_a_call(self, condition: bool) -> None:
        if condition:
            self._context.note("not_a_call", "the list of calls contains a value that is not a call")

    def _evidence(self) -> Evidence:
        nonce = None if self._context.nonce is None else self._signed
        unmarked_counts = None if self._signed or self._has_wrong_nonce else self._context.unmarked_counts
        return Evidence(dialect="envelope", wrapper="strong", nonce=nonce, unmarked_counts=unmarked_counts)

    def _end_call(self) -> None:
        builder, self._builder = self._builder, None
        assert builder is not None
        self._call_notes = self._pieces.json.notes
        builder.note(*self._call_notes)
        builder.end()

    def _value(self, token: Token) -> None:
        """Process a token of a name, nonce, reply or arguments."""
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
                self._context.say(_plain(text))
            if kind in (STRING, PART, END_STRING) or token == _NO_REPLY:
                return
            self._writer = Writer()  # the caller asked for a JSON reply
        self._context.say(self._writer.write(token))

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
            self._signed = text == self._context.nonce
            self._has_wrong_nonce = not self._signed
        elif role == "name":
            assert self._builder is not None
            self._builder.take_name(text.strip())
        self._flow()  # also called here because events must not depend on chunking

    def _flow(self) -> None:
        if self._builder is not None:
            self._builder.tokens(())


def _plain(text: str) -> str:
    """Unescape part of a strict JSON string."""
    return msgspec.json.decode(f'"{text}"', type=str) if "\\" in text else text

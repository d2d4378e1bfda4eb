"""Decoder for upstream replies, streamed or not.

A non-streamed reply is handled as a stream of one chunk.
"""

import re
from collections.abc import Iterator
from functools import partial

import msgspec

from ...core.events import CallArgs, CallEnd, CallStart, Event, Failure, Finish, OpaqueSeen, ReasoningDelta, TextDelta
from ...core.json_repair.literals import escape_text
from ...core.types import JSONObject, JSONValue, Note, Opaque, is_array, is_object
from ..shared.fields import MAX_CALLS, failure_from, read_json, shorten
from ..shared.framing import FrameTemplate, PaddedTemplate, encode_sse
from ..shared.passthrough_bytes import RawCapture
from ..shared.reply_decoder import BaseReplyDecoder, is_done
from . import chunks


class ReplyDecoder(BaseReplyDecoder):
    """Decodes one reply."""

    def __init__(self, stream: bool) -> None:
        super().__init__(stream)
        #: The most recent event, if it was a valid chunk.
        self._last_chunk: chunks.Chunk | None = None
        self._calls = _CallAssembler()
        #: The call to which the most recent piece belonged.
        self._last_call: _PartialCall | None = None
        self._index: JSONValue = None
        self._metadata: JSONObject = {}

    def _event(self, name: str, payload: bytes) -> None:
        self._last_chunk = None
        if name == "error":
            self._fail(failure_from(read_json(payload), body=payload, otherwise=shorten(payload)))
            return
        if is_done(payload):
            self._end()
            return
        chunk = self._decoded(chunks.decode_chunk, payload)
        if chunk is None:
            self._unreadable(payload)
            if self._calls and not self._closing:  # the undecodable event may have been part of the call
                self._fail(Failure("an event inside a call could not be decoded", body=shorten(payload)))
            return
        self._read += 1
        if self._raw is not None and not name and b"\n" not in payload:
            self._capture(self._raw, chunk, payload)
        self._read_chunk(chunk, payload)
        self._last_chunk = chunk

    def _capture(self, capture: RawCapture, chunk: chunks.Chunk, payload: bytes) -> None:
        """Capture a chunk for pass-through if it contains only text of the first choice."""
        identity = chunks.identity_of(chunk) if chunks.has_only_text(chunk) and self._index in (None, 0) else None
        # If a key occurs twice, only one value was checked, and the client might read the other.
        if identity is not None and payload.count(b'"delta"') == 1:
            capture.add(encode_sse(payload), identity)

    def _whole(self, body: bytes) -> None:
        chunk = self._decoded(chunks.decode_chunk, body)
        if chunk is None:
            self._fail(Failure("the upstream's reply is not a chat completion", body=shorten(body)))
            return
        self._read += 1
        self._read_chunk(chunk, body)
        if self._over:
            return
        if not chunk.choices:
            self._fail(Failure("the upstream's reply has no choices", body=shorten(body)))
            return
        self._reason = self._reason or "missing"
        self._end()

    def _read_chunk(self, chunk: chunks.Chunk, payload: bytes) -> None:
        if chunk.error or chunk.object == "error" or (chunk.choices is None and (chunk.detail or chunk.message)):
            # Older versions of vLLM send the error fields at the top level, even with status 200.
            error = chunk.error or read_json(payload) or {"message": chunk.message, "detail": chunk.detail}
            self._fail(failure_from(error, body=payload))
            return
        if chunk.usage is not None or chunk.x_groq is not None:
            inner = chunk.x_groq.get("usage") if is_object(chunk.x_groq) else None
            self._usage = chunks.usage_from(chunk.usage) or chunks.usage_from(inner) or self._usage
        if chunk.system_fingerprint is not None or chunk.service_tier is not None:
            self._describe(chunk)
        for choice in chunk.choices or ():
            if self._index is None:
                self._index = choice.index
            if choice.index is not None and choice.index != self._index:
                self._note("other_choices_dropped", "the upstream sent several choices; only the first was used")
            elif not self._over:
                self._choice(choice, payload)

    def _describe(self, chunk: chunks.Chunk) -> None:
        fields = {"system_fingerprint": chunk.system_fingerprint, "service_tier": chunk.service_tier}
        metadata = {**self._metadata, **{name: value for name, value in fields.items() if value is not None}}
        if metadata != self._metadata:
            self._metadata = metadata
            self._emit(OpaqueSeen(Opaque(chunks.ANSWER, metadata)))

    def _choice(self, choice: chunks.Choice, payload: bytes) -> None:
        if choice.error:
            self._fail(failure_from(choice.error, body=payload))
            return
        delta = choice.delta or choice.message
        if delta is not None:
            self._delta(delta)
        if choice.logprobs:
            self._emit(OpaqueSeen(Opaque(chunks.LOGPROBS, choice.logprobs)))
        if choice.usage is not None:
            self._usage = chunks.usage_from(choice.usage) or self._usage
        reason = choice.finish_reason
        if reason is not None and isinstance(reason, str) and reason not in ("", "null") and not self._reason:
            self._reason = reason

    def _delta(self, delta: chunks.Delta) -> None:
        if delta.reasoning_content or delta.reasoning or delta.thinking:
            # Servers that set several reasoning fields send the same text in each.
            values = (delta.reasoning_content, delta.reasoning, delta.thinking)
            self._add(ReasoningDelta, next((value for value in values if value and isinstance(value, str)), ""))
        if delta.content:
            self._content(delta.content)
        if delta.refusal or delta.annotations or delta.audio or delta.images or delta.reasoning_details:
            self._other_fields(delta)
        for piece in delta.tool_calls or ():
            self._call(piece)
        if delta.function_call is not None and not delta.tool_calls:
            self._call(chunks.DeltaCall(function=delta.function_call))

    def _other_fields(self, delta: chunks.Delta) -> None:
        if isinstance(delta.refusal, str) and delta.refusal:
            self._note("refusal", "the upstream marked this text as a refusal")
            self._add(TextDelta, delta.refusal)
        for kind in chunks.OPAQUE_FIELDS:
            value = getattr(delta, kind)
            if value:
                self._emit(OpaqueSeen(Opaque(kind, value)))

    def _content(self, content: JSONValue) -> None:
        """Handle the `content` field: a string or, from some servers, a list of parts."""
        if isinstance(content, str):
            self._add(TextDelta, content)
        elif is_array(content):
            for part in content:
                self._content_part(part)

    def _content_part(self, part: JSONValue) -> None:
        if isinstance(part, str):
            self._add(TextDelta, part)
            return
        kind = part.get("type") if is_object(part) else ""
        match kind:
            case "text" if isinstance(part.get("text"), str):
                self._add(TextDelta, part["text"])
            case "thinking" | "reasoning":
                self._add(ReasoningDelta, _join_texts(part.get(kind, part.get("text"))))
            case str() if kind:
                self._emit(OpaqueSeen(Opaque(kind, part)))
            case _:
                self._note("content_part_dropped", shorten(str(part)))

    def _call(self, piece: chunks.DeltaCall) -> None:
        self._last_call = None
        if piece.extra_content:
            # Emitted before the call, because encoders need the extra fields when the call starts.
            self._emit(OpaqueSeen(Opaque(chunks.CALL, {**_call_identity(piece), "extra_content": piece.extra_content})))
        for event in self._calls.add(piece):
            if isinstance(event, CallArgs):
                self._last_call = self._calls[event.index]
                self._add(self._last_call.make_event, event.fragment)
            else:
                self._emit(event)

    def _learn(self, read: bytes, name: str, payload: bytes) -> FrameTemplate | None:
        only_text = _only_text(self._last_chunk) if self._last_chunk is not None else None
        if only_text is None or only_text[0] != self._index:
            return None
        if only_text[1] != _ARGUMENTS:
            self._template_factory = self._run_factory
        elif self._last_call is not None:
            self._template_factory = self._last_call.add
        else:
            return None
        template = FrameTemplate.learn(read, payload, only_text[1], only_text[2])
        return template and PaddedTemplate.padded(template)

    def _end(self) -> None:
        if not self._reason:
            self._fail(self._truncated())
            return
        reason = chunks.finish_reason_from(self._reason)
        if reason == "error":
            self._fail(Failure(f"the upstream stopped with `{self._reason}`"))
            return
        for event in self._calls.end(cut=reason in ("length", "content_filter")):
            self._emit(event)
        for code, detail in self._calls.notes.items():
            self._note(code, detail)
        self._wrap_up()
        self._emit(Finish(self._checked_reason(reason, bool(self._calls))))


def _only_text(chunk: chunks.Chunk) -> tuple[JSONValue, bytes, str] | None:
    """Return the choice index, the JSON key and the text of a chunk that contains a single text."""
    if chunk.usage is not None or chunk.x_groq is not None or not chunk.choices or len(chunk.choices) != 1:
        return None
    choice = chunk.choices[0]
    if choice.delta is None or choice.finish_reason is not None or choice.usage is not None or choice.logprobs:
        return None
    filled = [(name, value) for name in _DELTA_FIELDS if (value := getattr(choice.delta, name))]
    if len(filled) != 1 or filled[0][0] not in _TEXT_KEYS:
        return None
    name, value = filled[0]
    text = _only_arguments(value) if name == "tool_calls" else value
    return (choice.index, _TEXT_KEYS[name], text) if isinstance(text, str) else None


_DELTA_FIELDS = tuple(field.name for field in msgspec.structs.fields(chunks.Delta))
_ARGUMENTS = b'"arguments":'
#: Delta fields that contain a single text -> the JSON key that precedes the text.
_TEXT_KEYS = {
    "content": b'"content":',
    "reasoning_content": b'"reasoning_content":',
    "reasoning": b'"reasoning":',
    "thinking": b'"thinking":',
    "tool_calls": _ARGUMENTS,
}


def _only_arguments(pieces: list[chunks.DeltaCall]) -> JSONValue:
    """Return the arguments if there is one piece and it continues an earlier call."""
    piece = pieces[0]
    if len(pieces) > 1 or piece.id or piece.custom or piece.function is None or piece.function.name:
        return None
    return piece.function.arguments


def _join_texts(value: JSONValue) -> str:
    """Return the text of a string, a part or a list of parts."""
    if is_array(value):
        return "".join(map(_join_texts, value))
    if is_object(value):
        return _join_texts(value.get("text"))
    return value if isinstance(value, str) else ""


def _call_identity(piece: chunks.DeltaCall) -> JSONObject:
    """Return the id of a call or, if it has no id, its name."""
    if isinstance(piece.id, str) and piece.id:
        return {"id": piece.id}
    name = piece.function.name if piece.function is not None else None
    return {"name": name} if isinstance(name, str) else {}


#: Matches JSON brackets and quotes. An escape sequence is matched as one token.
_JSON_MARKS = re.compile(r'\\.|[\\"{}\[\]]', re.DOTALL).finditer


class _PartialCall:
    def __init__(self, index: int, key: JSONValue, identifier: str, custom: bool) -> None:
        self.index = index
        #: Creates an event for arguments that are already in `fragments`.
        self.make_event = partial(CallArgs, index)
        self.key = key
        self.id = identifier
        self.custom = custom
        self.name = ""
        self.started = False
        self.fragments: list[str] = []
        self.notes: dict[str, str] = {}
        self._scanned = self._depth = 0
        self._in_string = False
        self._tail = ""

    def add(self, fragment: str) -> CallArgs:
        self.fragments.append(fragment)
        return CallArgs(self.index, fragment)

    def is_complete(self) -> bool:
        return is_object(read_json("".join(self.fragments)))

    def is_balanced(self) -> bool:
        """Whether all brackets and quotes in the arguments are closed. Each fragment is scanned only once."""
        text = self._tail + "".join(self.fragments[self._scanned :])
        self._scanned = len(self.fragments)
        self._tail = ""
        for mark in _JSON_MARKS(text):
            match mark[0]:
                case '"':
                    self._in_string = not self._in_string
                case "{" | "[" if not self._in_string:
                    self._depth += 1
                case "}" | "]" if not self._in_string:
                    self._depth -= 1
                case "\\":  # the escaped character is in the next fragment
                    self._tail = "\\"
                case _:
                    pass
        return self._depth == 0 and not self._in_string and any(map(str.strip, self.fragments))


class _CallAssembler:
    """Assembles the calls of one reply from streamed pieces.

    Servers may omit the index, use the same index for all calls, send the id only once or a new id in each piece,
    repeat or split the name, or send arguments as an object. A name is complete when its arguments start, when another
    call starts, or when the reply ends.
    """

    def __init__(self) -> None:
        self._calls: list[_PartialCall] = []
        self._ids: set[str] = set()
        #: Details of notes about the reply, by note code.
        self.notes: dict[str, str] = {}

    def __bool__(self) -> bool:
        """Whether the reply contains a call with a tool name."""
        return any(call.started or call.name for call in self._calls)

    def __getitem__(self, index: int) -> _PartialCall:
        return self._calls[index]

    def add(self, piece: chunks.DeltaCall) -> Iterator[Event]:
        """Add a piece of a call and yield the resulting events."""
        body = piece.custom or piece.function or chunks.DeltaFunction()
        name = body.name if isinstance(body.name, str) else ""
        identifier = piece.id if isinstance(piece.id, str) else ""
        text = _arguments_text(body.input if piece.custom else body.arguments)
        call = self._find(piece.index, identifier, name, text)
        if call is None:
            if len(self._calls) >= MAX_CALLS:
                self.notes["calls_dropped"] = f"calls after the first {MAX_CALLS} were dropped"
                return
            if self._calls:
                yield from self._start(self._calls[-1])
            call = self._open(piece, identifier)
        if name and not call.started:
            # Each piece repeats the name, extends it, or contains only the next part of it.
            call.name = name if name.startswith(call.name) else call.name + name
        if piece.function and text and not isinstance(body.arguments, str):
            call.notes["arguments_object"] = "the arguments were sent as JSON, not as text"
        if text and call.custom:
            text = escape_text(text)
        if text and call.name:
            yield from self._start(call)
            yield call.add(text)
        elif text:
            call.fragments.append(text)  # the name has not arrived yet

    def _find(self, key: JSONValue, identifier: str, name: str, text: str) -> _PartialCall | None:
        """Return the call to which a piece belongs, or None if the piece starts a new call."""
        if not self._calls:
            return None
        if key is None:
            same_id = (call for call in self._calls if call.id == identifier) if identifier else iter(())
            match = next(same_id, None) or (None if identifier and name else self._calls[-1])
        else:
            match = next((call for call in reversed(self._calls) if call.key == key), None)
        if match is None or not name or not match.name:
            return match
        if identifier and match.id and identifier != match.id:
            return None  # this server uses one index for all calls
        if not match.started:
            return match
        # A repeated name continues the call, unless the call is complete and the piece has more arguments.
        return None if name != match.name or (text.strip() and match.is_balanced()) else match

    def _open(self, piece: chunks.DeltaCall, identifier: str) -> _PartialCall:
        duplicate = identifier in self._ids
        call = _PartialCall(len(self._calls), piece.index, "" if duplicate else identifier, piece.custom is not None)
        if duplicate:
            call.notes["duplicate_call_id"] = f"the call id `{identifier}` was used twice"
        if identifier:
            self._ids.add(identifier)
        self._calls.append(call)
        return call

    def _start(self, call: _PartialCall) -> Iterator[Event]:
        if call.started or not call.name:
            return
        call.started = True
        yield CallStart(call.index, call.name, call.id)
        if call.custom:
            call.fragments.insert(0, '{"input":"')
        if call.fragments:
            yield CallArgs(call.index, "".join(call.fragments))

    def end(self, cut: bool) -> Iterator[Event]:
        """Yield the remaining events. If `cut` is set, the reply was truncated and incomplete calls are not ended."""
        for call in self._calls:
            yield from self._start(call)
            if not call.name:
                self.notes["call_without_name"] = "a call without a tool name was dropped"
                continue
            if cut and (call is self._calls[-1] if call.custom else not call.is_complete()):
                continue
            if call.custom:
                yield call.add('"}')
            elif not any(map(str.strip, call.fragments)):
                call.notes["arguments_missing"] = "the call has no arguments"
                yield call.add("{}")
            notes = tuple(Note(code, detail) for code, detail in call.notes.items())
            yield CallEnd(call.index, notes=notes)


def _arguments_text(value: JSONValue) -> str:
    """Return the arguments as text. Null becomes an empty string."""
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()

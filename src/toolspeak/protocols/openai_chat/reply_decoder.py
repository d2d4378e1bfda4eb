"""What an upstream answers to a chat-completions request, streamed or not, to events.

One path for both: a whole answer is read as a stream of one chunk. Every fault that servers are known for is
tolerated and noted, or becomes a `Failure`; no input raises.
"""

from __future__ import annotations

import msgspec

from ...core.events import (
    CallArgs,
    Failure,
    Finish,
    FinishReason,
    OpaqueSeen,
    ReasoningDelta,
    TextDelta,
    UsageSeen,
)
from ...core.types import JSONObject, JSONValue, Opaque, Usage, is_array, is_object
from ..shared.fields import failure_from, read_json, shorten
from ..shared.framing import PaddedTemplate, Template, encode_sse
from ..shared.passthrough_bytes import Quotes
from ..shared.reply_decoder import ReplyReader
from .calls import Assembler, OpenCall
from .chunks import (
    ANSWER,
    CALL,
    CARRIED,
    LOGPROBS,
    Choice,
    Chunk,
    Delta,
    DeltaCall,
    decode_chunk,
    finish_from,
    name_of,
    repair_chunk,
    says_only_text,
    usage_from,
)

#: `[DONE]` with some spaces.
_SHORT = 16


class ReplyDecoder(ReplyReader):
    """Reads one answer: `feed` gives the events that the bytes make certain, `close` the last ones.

    `stream` says what was asked for; an upstream that answers the other way is understood too.
    """

    def __init__(self, stream: bool) -> None:
        super().__init__(stream)
        #: The last event of a read, if it is a chunk.
        self._seen: Chunk | None = None
        self._calls = Assembler()
        #: The call to which the last piece of one belonged.
        self._continued: OpenCall | None = None
        self._index: JSONValue = None
        self._usage: Usage | None = None
        self._answer: JSONObject = {}
        self._reason = ""

    @property
    def finished(self) -> bool:
        """Whether the upstream said why it stopped: then a connection that breaks loses nothing."""
        return self._over or bool(self._reason)

    # ------------------------------------------------------------------------------------------- reading

    def _event(self, name: str, payload: bytes) -> None:
        self._seen = None
        if name == "error":
            self._fail(failure_from(read_json(payload), body=payload, otherwise=shorten(payload)))
            return
        if len(payload) < _SHORT and payload.strip() == b"[DONE]":
            self._end()
            return
        chunk = self._chunk(payload)
        if chunk is None:
            self._bad_event(payload)
            return
        self._read += 1
        if self._quotes is not None and not name and b"\n" not in payload:
            self._quote(self._quotes, chunk, payload)
        self._take(chunk, payload)
        self._seen = chunk

    def _chunk(self, payload: bytes) -> Chunk | None:
        try:
            return decode_chunk(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            chunk = repair_chunk(payload)
            if chunk is not None:
                self._mended()
            return chunk

    def _quote(self, quotes: Quotes, chunk: Chunk, payload: bytes) -> None:
        """Pass a chunk on as it is, if it says nothing but text, and of the answer that is read."""
        name = name_of(chunk) if says_only_text(chunk) and self._index in (None, 0) else None
        # Of a key that stands twice only one was looked at, and a client may take the other.
        if name is not None and payload.count(b'"delta"') == 1:
            quotes.add(encode_sse(payload), name)

    def _bad_event(self, payload: bytes) -> None:
        self._unreadable(payload)
        if self._calls and not self._closing:
            # What was lost may be a part of the call.
            self._fail(Failure("an event inside a call could not be read", body=shorten(payload)))

    def _whole(self, body: bytes) -> None:
        chunk = self._chunk(body)
        if chunk is None:
            self._fail(Failure("the upstream did not answer with a chat completion", body=shorten(body)))
            return
        self._read += 1
        self._take(chunk, body)
        if self._over:
            return
        if not chunk.choices:
            self._fail(Failure("the upstream answered without a choice", body=shorten(body)))
            return
        self._reason = self._reason or "missing"
        self._end()

    def _take(self, chunk: Chunk, payload: bytes) -> None:
        if chunk.error or chunk.object == "error" or (chunk.choices is None and (chunk.detail or chunk.message)):
            # Older vLLM says what others put into `error` beside `object`, also under a status of 200.
            error = chunk.error or read_json(payload) or {"message": chunk.message, "detail": chunk.detail}
            self._fail(failure_from(error, body=payload))
            return
        if chunk.usage is not None or chunk.x_groq is not None:
            inner = chunk.x_groq.get("usage") if is_object(chunk.x_groq) else None
            self._usage = usage_from(chunk.usage) or usage_from(inner) or self._usage
        if chunk.system_fingerprint is not None or chunk.service_tier is not None:
            self._tell(chunk)
        for choice in chunk.choices or ():
            if self._index is None:
                self._index = choice.index
            if choice.index is not None and choice.index != self._index:
                self._note("other_choices_dropped", "the upstream gave several answers; the first is used")
            elif not self._over:
                self._choice(choice, payload)

    def _tell(self, chunk: Chunk) -> None:
        """What a chunk says of its answer, where it was not said before."""
        given = {"system_fingerprint": chunk.system_fingerprint, "service_tier": chunk.service_tier}
        said = {**self._answer, **{name: value for name, value in given.items() if value is not None}}
        if said != self._answer:
            self._answer = said
            self._emit(OpaqueSeen(Opaque(ANSWER, said)))

    def _choice(self, choice: Choice, payload: bytes) -> None:
        if choice.error:
            self._fail(failure_from(choice.error, body=payload))
            return
        delta = choice.delta or choice.message
        if delta is not None:
            self._delta(delta)
        if choice.logprobs:
            self._emit(OpaqueSeen(Opaque(LOGPROBS, choice.logprobs)))
        if choice.usage is not None:
            self._usage = usage_from(choice.usage) or self._usage
        reason = choice.finish_reason
        if reason is not None and isinstance(reason, str) and reason not in ("", "null") and not self._reason:
            self._reason = reason

    def _delta(self, delta: Delta) -> None:
        if delta.reasoning_content or delta.reasoning or delta.thinking:
            self._thought(delta)
        if delta.content:
            self._content(delta.content)
        if delta.refusal or delta.annotations or delta.audio or delta.images or delta.reasoning_details:
            self._aside(delta)
        for piece in delta.tool_calls or ():
            self._call(piece)
        if delta.function_call is not None and not delta.tool_calls:
            self._call(DeltaCall(function=delta.function_call))

    def _thought(self, delta: Delta) -> None:
        """Servers that fill several of these fields say the same in all of them."""
        thoughts = (delta.reasoning_content, delta.reasoning, delta.thinking)
        self._add(ReasoningDelta, next((thought for thought in thoughts if thought and isinstance(thought, str)), ""))

    def _aside(self, delta: Delta) -> None:
        if isinstance(delta.refusal, str) and delta.refusal:
            self._note("refusal", "the upstream marked this text as a refusal")
            self._add(TextDelta, delta.refusal)
        for kind in CARRIED:
            value = getattr(delta, kind)
            if value:
                self._emit(OpaqueSeen(Opaque(kind, value)))

    def _content(self, content: JSONValue) -> None:
        """Text, or parts as some servers list them."""
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
                self._add(ReasoningDelta, _texts(part.get(kind, part.get("text"))))
            case str() if kind:
                self._emit(OpaqueSeen(Opaque(kind, part)))
            case _:
                self._note("content_part_dropped", shorten(str(part)))

    def _call(self, piece: DeltaCall) -> None:
        self._continued = None
        if piece.extra_content:
            # It goes before the call, so that a face knows it when the call begins.
            self._emit(OpaqueSeen(Opaque(CALL, {**_identity(piece), "extra_content": piece.extra_content})))
        for event in self._calls.add(piece):
            if isinstance(event, CallArgs):
                self._continued = self._calls[event.index]
                self._add(self._continued.make, event.fragment)
            else:
                self._emit(event)

    # ---------------------------------------------------------------------------------------- the template

    def _learn(self, read: bytes, name: str, payload: bytes) -> Template | None:
        found = _only_text(self._seen) if self._seen is not None else None
        if found is None or found[0] != self._index:
            return None
        if found[1] != _ARGUMENTS:
            self._repeated = self._target
        elif self._continued is not None:
            self._repeated = self._continued.add
        else:
            return None
        template = Template.learn(read, payload, found[1], found[2])
        return template and PaddedTemplate.padded(template)

    # --------------------------------------------------------------------------------------------- the end

    def _end(self) -> None:
        if not self._reason:
            self._fail(self._truncated())
            return
        reason = finish_from(self._reason)
        if reason == "error":
            self._fail(Failure(f"the upstream stopped with `{self._reason}`"))
            return
        for event in self._calls.end(cut=reason in ("length", "content_filter")):
            self._emit(event)
        for code, detail in self._calls.notes.items():
            self._note(code, detail)
        self._last_words()
        self._emit(Finish(self._settled(reason)))

    def _settled(self, reason: FinishReason) -> FinishReason:
        """The reason, where it fits what was said; else what was said tells it."""
        told: FinishReason = "tool_calls" if self._calls else "stop"
        if reason in ("length", "content_filter", told):
            return reason
        self._note("finish_reason_derived", f"the upstream said `{shorten(self._reason)}`")
        return told

    def _last_words(self) -> None:
        super()._last_words()
        if self._usage is not None:
            self._emit(UsageSeen(self._usage))


def _only_text(chunk: Chunk) -> tuple[JSONValue, bytes, str] | None:
    """The one text of a chunk that holds nothing else, the key before it and the number of its choice."""
    if chunk.usage is not None or chunk.x_groq is not None or not chunk.choices or len(chunk.choices) != 1:
        return None
    choice = chunk.choices[0]
    if choice.delta is None or choice.finish_reason is not None or choice.usage is not None or choice.logprobs:
        return None
    filled = [(name, value) for name in _FIELDS if (value := getattr(choice.delta, name))]
    if len(filled) != 1 or filled[0][0] not in _KEYS:
        return None
    name, value = filled[0]
    text = _only_arguments(value) if name == "tool_calls" else value
    return (choice.index, _KEYS[name], text) if isinstance(text, str) else None


_FIELDS = tuple(field.name for field in msgspec.structs.fields(Delta))
_ARGUMENTS = b'"arguments":'
#: Fields that are one text, or hold one, and the key before it.
_KEYS = {
    "content": b'"content":',
    "reasoning_content": b'"reasoning_content":',
    "reasoning": b'"reasoning":',
    "thinking": b'"thinking":',
    "tool_calls": _ARGUMENTS,
}


def _only_arguments(pieces: list[DeltaCall]) -> JSONValue:
    """The arguments of the one call that goes on."""
    piece = pieces[0]
    if len(pieces) > 1 or piece.id or piece.custom or piece.function is None or piece.function.name:
        return None
    return piece.function.arguments


def _texts(value: JSONValue) -> str:
    """The text of a part that holds one, or a list of such parts."""
    if is_array(value):
        return "".join(map(_texts, value))
    if is_object(value):
        return _texts(value.get("text"))
    return value if isinstance(value, str) else ""


def _identity(piece: DeltaCall) -> JSONObject:
    """What tells the call of a piece from others: its id or, without one, its name."""
    if isinstance(piece.id, str) and piece.id:
        return {"id": piece.id}
    name = piece.function.name if piece.function is not None else None
    return {"name": name} if isinstance(name, str) else {}

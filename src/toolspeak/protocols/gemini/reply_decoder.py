"""Decoder for upstream replies: a single JSON object, server-sent events, or a JSON array.

All three formats contain the same objects, and calls always arrive whole.
"""

import re
from collections.abc import Iterator

from ...core.events import Event, Failure, Finish, FinishReason, OpaqueSeen, ReasoningDelta, TextDelta, UsageSeen
from ...core.types import JSONObject, JSONValue, Opaque, is_array, is_object
from ..shared.fields import filled, read_json, shorten, text_or_empty, without
from ..shared.framing import BOM, MAX_EVENT, FrameError
from ..shared.passthrough_bytes import RawCapture
from ..shared.reply_decoder import is_done
from ..shared.unstreamed_calls import WholeCallDecoder
from . import wire as gemini_wire


class ReplyDecoder(WholeCallDecoder):
    """Decodes one reply. Detects the format that the upstream actually sends."""

    def __init__(self, stream: bool) -> None:
        super().__init__(stream)
        self._array: ArrayDecoder | None = None
        self._index: JSONValue = None
        self._candidate_fields: JSONObject = {}
        self._blocked: JSONObject = {}
        self._usage_fields: JSONObject | None = None
        self._finish_message = ""

    def feed(self, data: bytes) -> list[Event]:
        if self._array is None:
            events = super().feed(data)
            if self._array is None:
                return events
            data = bytes(self._body)
        else:
            data = self._track_head(data)
        for frame in self._array.feed(data):
            self._frame(frame)
        return self._drain()

    def close(self) -> list[Event]:
        if self._array is None:
            return super().close()
        for frame in self._array.close():
            self._frame(frame)
        if not self._over:
            self._end()
        return self._drain()

    def _sniff(self, data: bytes) -> bytes:
        data = super()._sniff(data)
        if self._sniffed and data.removeprefix(BOM).lstrip()[:1] == b"[":
            self._array = ArrayDecoder()
        return data

    def _event(self, name: str, payload: bytes) -> None:
        if is_done(payload):
            self._end()
            return
        if name == "error":
            self._fail(gemini_wire.error_failure(read_json(payload), body=payload, default_message=shorten(payload)))
            return
        chunk = self._json(payload)
        if is_object(chunk):
            self._read += 1
            if self._raw is not None and not name and b"\n" not in payload:
                self._capture(self._raw, chunk, payload)
            self._chunk(chunk, payload)
        else:
            self._unreadable(payload)

    def _whole(self, body: bytes) -> None:
        answer = self._json(body)
        if not is_object(answer):
            self._fail(Failure("the upstream's reply is not a Gemini response", body=shorten(body)))
            return
        self._read += 1
        self._chunk(answer, body)
        if self._over:
            return
        if not answer.get("candidates") and not self._reason:
            message = "the upstream's reply has no candidates"
            self._fail(gemini_wire.error_failure(answer, body=body, default_message=message))
            return
        self._reason = self._reason or "missing"
        self._end()

    def _capture(self, capture: RawCapture, chunk: JSONObject, payload: bytes) -> None:
        """Capture a chunk for pass-through if it contains only text of the first candidate."""
        name = {key: value for key in ("modelVersion", "responseId") if isinstance(value := chunk.get(key), str)}
        if all(name.values()) and len(name) == 2 and not self._index and gemini_wire.is_text_only(chunk):
            capture.add(b"data: " + payload + b"\r\n\r\n", name)

    def _chunk(self, chunk: JSONObject, payload: bytes) -> None:
        if chunk.get("error"):
            self._fail(gemini_wire.error_failure(chunk, body=payload))
            return
        if is_object(usage := chunk.get("usageMetadata")):
            self._usage_fields = usage
        feedback = chunk.get("promptFeedback")
        if is_object(feedback) and feedback.get("blockReason") and not self._blocked:
            self._blocked = feedback
            self._reason = self._reason or "SAFETY"
        candidates = chunk.get("candidates")
        for candidate in candidates if is_array(candidates) else ():
            if is_object(candidate):
                self._candidate(candidate)

    def _candidate(self, candidate: JSONObject) -> None:
        index = candidate.get("index") or 0
        if self._index is None:
            self._index = index
        if index != self._index:
            self._note("other_choices_dropped", "the upstream sent several answers; the first was used")
            return
        content = candidate.get("content")
        parts = content.get("parts") if is_object(content) else None
        for part in parts if is_array(parts) else ():
            if is_object(part):
                self._part({key: value for key, value in part.items() if value is not None})
        updates = {
            key: value
            for key in gemini_wire.CANDIDATE_FIELDS
            if (value := candidate.get(key)) and value != self._candidate_fields.get(key)
        }
        if updates:
            self._candidate_fields |= updates
            self._emit(OpaqueSeen(Opaque(gemini_wire.CANDIDATE, updates)))
        reason = candidate.get("finishReason")
        if isinstance(reason, str) and reason != "FINISH_REASON_UNSPECIFIED" and not self._reason:
            self._reason = reason
            self._finish_message = text_or_empty(candidate.get("finishMessage"))

    def _part(self, part: JSONObject) -> None:
        if is_object(call := part.get("functionCall")):
            self._call(call, without(part, "functionCall"))
        elif isinstance(text := part.get("text"), str):
            make = ReasoningDelta if part.get("thought") else TextDelta
            if not without(part, "text", "thought"):
                self._add(make, text)
                return
            if text:  # emitted separately, because the extra fields apply only to this text
                self._emit(make(text))
            self._emit(OpaqueSeen(Opaque(gemini_wire.PART, {**part, "text": ""})))
        elif part:
            self._emit(OpaqueSeen(Opaque(gemini_wire.PART, part)))

    def _call(self, call: JSONObject, extra: JSONObject) -> None:
        name = text_or_empty(call.get("name"))
        if name and (call.get("partialArgs") or call.get("willContinue")):
            self._note("call_in_pieces", f"a call to `{shorten(name)}` with streamed arguments was dropped")
            return
        opaque = Opaque(gemini_wire.CALL, {"name": name, **extra}) if extra else None
        self._whole_call(name, call.get("id"), call.get("args"), opaque)

    def _end(self) -> None:
        if not self._reason:
            self._fail(self._truncated())
            return
        if self._blocked:
            self._note("prompt_blocked", shorten(str(self._blocked["blockReason"])))
            self._emit(OpaqueSeen(Opaque(gemini_wire.PROMPT, self._blocked)))
        reason = self._finish_reason(gemini_wire.finish_from(self._reason))
        if self._reason not in ("STOP", "MAX_TOKENS", "SAFETY", "missing") or self._finish_message:
            fields = {"finishReason": self._reason, "finishMessage": self._finish_message}
            self._emit(OpaqueSeen(Opaque(gemini_wire.CANDIDATE, filled(fields))))
        self._wrap_up()
        self._emit(Finish(reason))

    def _finish_reason(self, reason: FinishReason) -> FinishReason:
        """Return a truncation or filter reason from the upstream; derive any other reason from the content."""
        code = gemini_wire.MISSED_CALL_NOTES.get(self._reason)
        if code:
            self._note(code, shorten(self._finish_message) or f"the upstream's finish reason was `{self._reason}`")
        elif reason == "unknown":
            self._note("finish_reason_derived", f"the upstream's finish reason was `{shorten(self._reason)}`")
        if reason in ("length", "content_filter"):
            return reason
        return "tool_calls" if self._calls else "stop"

    def _last_events(self) -> Iterator[Event]:
        if self._usage_fields is not None:
            rest = gemini_wire.usage_rest(self._usage_fields)
            if rest:
                yield OpaqueSeen(Opaque(gemini_wire.USAGE, rest))
            yield UsageSeen(gemini_wire.usage_from(self._usage_fields))


#: Matches JSON brackets and quotes. An escape sequence is matched as one token.
_find_tokens = re.compile(rb'\\.|[\\"{}\[\]]', re.DOTALL).finditer
_OPENING, _CLOSING = (b"{", b"["), (b"}", b"]")


class ArrayDecoder:
    """Incrementally splits a JSON array, sent for streams without `alt=sse`, into its elements."""

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._depth = 0
        self._quoted = self._broken = False
        #: A backslash at the end of the last read; the next read starts with the escaped character.
        self._tail = b""
        self._element = bytearray()

    def feed(self, data: bytes) -> list[bytes | FrameError]:
        frames: list[bytes | FrameError] = []
        if self._broken:
            return frames
        data, self._tail = self._tail + data, b""
        begin = 0
        for mark in _find_tokens(data):
            token = mark[0]
            if token == b'"':
                self._quoted = not self._quoted
            elif token == b"\\":
                self._tail = token
            elif not self._quoted and token in _OPENING:
                begin = mark.start() if self._depth == 1 else begin
                self._depth += 1
            elif not self._quoted and token in _CLOSING:
                self._depth -= 1
                if self._depth == 1:
                    frames.append(bytes(self._element + data[begin : mark.end()]))
                    self._element.clear()
        if self._depth > 1:
            self._element += data[begin : len(data) - len(self._tail)]
        if len(self._element) > self._limit:
            self._broken = True
            frames.append(FrameError(f"an element is larger than {self._limit} bytes"))
        return frames

    def close(self) -> list[bytes | FrameError]:
        """Return the incomplete element at the end of the stream, if any."""
        rest = b"" if self._broken else bytes(self._element)
        self._broken = True
        return [rest] if rest else []

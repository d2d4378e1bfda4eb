"""What an upstream answers to generateContent and streamGenerateContent, to events.

One path for all: a whole answer, an event and an element of an array have the same shape. A call is always whole. No
input raises: what is odd is noted, or becomes a `Failure`.
"""

from __future__ import annotations

from ...core.events import Event, Failure, Finish, FinishReason, OpaqueSeen, ReasoningDelta, TextDelta, UsageSeen
from ...core.types import JSONObject, JSONValue, Opaque, is_array, is_object
from ..shared.fields import MAX_CALLS, read_json, repair_json, shorten, without
from ..shared.framing import Template
from ..shared.passthrough_bytes import Quotes
from ..shared.reply_decoder import ReplyReader
from ..shared.whole_calls import whole_call
from .frames import ArrayDecoder
from .wire import (
    CALL,
    CANDIDATE,
    CARRIED,
    PART,
    PROMPT,
    USAGE,
    error_failure,
    finish_from,
    finish_note,
    says_only_text,
    usage_from,
    usage_rest,
)

_BOM = b"\xef\xbb\xbf"
#: `[DONE]` with some spaces, which some gateways send.
_SHORT = 16


class ReplyDecoder(ReplyReader):
    """Reads one answer: `feed` gives the events that the bytes make certain, `close` the last ones.

    `stream` says what was asked for; an upstream that answers the other way, or with an array, is understood too.
    """

    def __init__(self, stream: bool) -> None:
        super().__init__(stream)
        self._array: ArrayDecoder | None = None
        self._index: JSONValue = None
        self._calls = 0
        self._ids: set[str] = set()
        self._carried: JSONObject = {}
        self._blocked: JSONObject = {}
        self._usage: JSONObject | None = None
        self._reason = ""
        self._message = ""

    @property
    def finished(self) -> bool:
        """Whether the upstream said why it stopped: then a connection that breaks loses nothing."""
        return self._over or bool(self._reason)

    # ------------------------------------------------------------------------------------------- framing

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes make certain."""
        if self._array is None:
            events = super().feed(data)
            if self._array is None:
                return events
            data = bytes(self._body)
        else:
            data = self._begun(data)
        for frame in self._array.feed(data):
            self._frame(frame)
        return self._taken()

    def close(self) -> list[Event]:
        """The events that only the end of the answer makes certain."""
        if self._array is None:
            return super().close()
        for frame in self._array.close():
            self._frame(frame)
        if not self._over:
            self._end()
        return self._taken()

    def _sniff(self, data: bytes) -> bytes:
        data = super()._sniff(data)
        if self._sniffed and data.removeprefix(_BOM).lstrip()[:1] == b"[":
            self._array = ArrayDecoder()
        return data

    def _learn(self, read: bytes, name: str, payload: bytes) -> Template | None:
        """Each event counts tokens, so no two differ by their text alone."""
        return None

    def _event(self, name: str, payload: bytes) -> None:
        if len(payload) < _SHORT and payload.strip() == b"[DONE]":
            self._end()
            return
        if name == "error":
            self._fail(error_failure(read_json(payload), body=payload, otherwise=shorten(payload)))
            return
        chunk = self._json(payload)
        if is_object(chunk):
            self._read += 1
            if self._quotes is not None and not name and b"\n" not in payload:
                self._quote(self._quotes, chunk, payload)
            self._chunk(chunk, payload)
        else:
            self._unreadable(payload)

    def _whole(self, body: bytes) -> None:
        answer = self._json(body)
        if not is_object(answer):
            self._fail(Failure("the upstream did not answer with a response of Gemini's", body=shorten(body)))
            return
        self._read += 1
        self._chunk(answer, body)
        if self._over:
            return
        if not answer.get("candidates") and not self._reason:
            self._fail(error_failure(answer, body=body, otherwise="the upstream answered without a candidate"))
            return
        self._reason = self._reason or "missing"
        self._end()

    def _json(self, payload: bytes) -> JSONValue:
        value = read_json(payload)
        if value is None and (repaired := repair_json(payload)) is not None:
            self._mended()
            value = read_json(repaired)
        return value

    # ------------------------------------------------------------------------------------------- reading

    def _quote(self, quotes: Quotes, chunk: JSONObject, payload: bytes) -> None:
        """Pass a chunk on as it is, if it says nothing but text, and of the answer that is read."""
        name = {key: value for key in ("modelVersion", "responseId") if isinstance(value := chunk.get(key), str)}
        if all(name.values()) and len(name) == 2 and not self._index and says_only_text(chunk):
            quotes.add(b"data: " + payload + b"\r\n\r\n", name)

    def _chunk(self, chunk: JSONObject, payload: bytes) -> None:
        if chunk.get("error"):
            self._fail(error_failure(chunk, body=payload))
            return
        if is_object(usage := chunk.get("usageMetadata")):
            self._usage = usage
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
            self._note("other_choices_dropped", "the upstream gave several answers; the first is used")
            return
        content = candidate.get("content")
        parts = content.get("parts") if is_object(content) else None
        for part in parts if is_array(parts) else ():
            if is_object(part):
                self._part({key: value for key, value in part.items() if value is not None})
        news = {key: value for key in CARRIED if (value := candidate.get(key)) and value != self._carried.get(key)}
        if news:
            self._carried |= news
            self._emit(OpaqueSeen(Opaque(CANDIDATE, news)))
        reason, message = candidate.get("finishReason"), candidate.get("finishMessage")
        if isinstance(reason, str) and reason != "FINISH_REASON_UNSPECIFIED" and not self._reason:
            self._reason = reason
            self._message = message if isinstance(message, str) else ""

    def _part(self, part: JSONObject) -> None:
        if is_object(call := part.get("functionCall")):
            self._call(call, without(part, "functionCall"))
        elif isinstance(text := part.get("text"), str):
            make = ReasoningDelta if part.get("thought") else TextDelta
            if not without(part, "text", "thought"):
                self._add(make, text)
                return
            if text:  # not joined to what stands before it, for what it says besides is said of it alone
                self._emit(make(text))
            self._emit(OpaqueSeen(Opaque(PART, {**part, "text": ""})))
        elif part:
            self._emit(OpaqueSeen(Opaque(PART, part)))

    def _call(self, call: JSONObject, beside: JSONObject) -> None:
        name, identifier = call.get("name"), call.get("id")
        if not isinstance(name, str) or not name:
            self._note("call_without_name", "a call that names no tool was dropped")
            return
        if call.get("partialArgs") or call.get("willContinue"):
            self._note("call_in_pieces", f"a call of `{shorten(name)}` that came piece by piece was dropped")
            return
        if self._calls >= MAX_CALLS:
            self._note("calls_dropped", f"more than {MAX_CALLS} calls")
            return
        identifier = identifier if isinstance(identifier, str) else ""
        if identifier in self._ids:
            self._note("duplicate_call_id", f"`{shorten(identifier)}` was used twice")
            identifier = ""
        self._ids |= {identifier} - {""}
        if beside:
            # It goes before the call, so that a face knows it when the call is complete.
            self._emit(OpaqueSeen(Opaque(CALL, {"name": name, **beside})))
        for event in whole_call(self._calls, name, identifier, call.get("args")):
            self._emit(event)
        self._calls += 1

    # --------------------------------------------------------------------------------------------- the end

    def _end(self) -> None:
        if not self._reason:
            self._fail(self._truncated())
            return
        if self._blocked:
            self._note("prompt_blocked", shorten(str(self._blocked["blockReason"])))
            self._emit(OpaqueSeen(Opaque(PROMPT, self._blocked)))
        reason = self._settled(finish_from(self._reason))
        if self._reason not in ("STOP", "MAX_TOKENS", "SAFETY", "missing") or self._message:
            said = {"finishReason": self._reason, "finishMessage": self._message}
            self._emit(OpaqueSeen(Opaque(CANDIDATE, {key: value for key, value in said.items() if value})))
        self._last_words()
        self._emit(Finish(reason))

    def _settled(self, reason: FinishReason) -> FinishReason:
        """The reason, where it fits what was said; else what was said tells it."""
        code = finish_note(self._reason)
        if code:
            self._note(code, shorten(self._message) or f"the upstream said `{self._reason}`")
        elif reason == "unknown":
            self._note("finish_reason_derived", f"the upstream said `{shorten(self._reason)}`")
        if reason in ("length", "content_filter"):
            return reason
        return "tool_calls" if self._calls else "stop"

    def _last_words(self) -> None:
        super()._last_words()
        if self._usage is not None:
            rest = usage_rest(self._usage)
            if rest:
                self._emit(OpaqueSeen(Opaque(USAGE, rest)))
            self._emit(UsageSeen(usage_from(self._usage)))

"""Decoder for upstream replies: newline-delimited JSON, with a single line if the reply is not streamed.

Calls always arrive whole. Invalid input never raises an exception: it produces a note or a `Failure`.
"""

from __future__ import annotations

from ...core.events import Event, Failure, Finish, FinishReason, OpaqueSeen, ReasoningDelta, TextDelta, UsageSeen
from ...core.types import JSONObject, JSONValue, Opaque, Usage, is_array, is_object
from ..shared.fields import MAX_BODY, MAX_CALLS, count, failure_from, read_json, repair_json, shorten
from ..shared.framing import FrameTemplate, NDJSONDecoder
from ..shared.reply_decoder import BaseReplyDecoder
from ..shared.unstreamed_calls import whole_call

#: Kinds of opaque parts: generated images and timings.
IMAGES, TIMINGS = "ollama_images", "ollama_timings"
_TIMES = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
_FINISH_REASONS: dict[str, FinishReason] = {"stop": "stop", "length": "length"}
#: `done_reason` -> note code, for requests without messages, which only load or unload the model.
_LOAD_NOTES = {"load": "model_loaded", "unload": "model_unloaded"}
#: How much of a reply is stored for error messages.
_HEAD_BYTES = 1000
_BOM = b"\xef\xbb\xbf"


class ReplyDecoder(BaseReplyDecoder):
    """Decodes one reply. `feed` returns the events decoded so far, `close` the remaining ones.

    `stream` says whether a stream was requested. If not, the upstream may omit `done`.
    """

    def __init__(self, stream: bool) -> None:
        super().__init__(stream)
        self._lines = NDJSONDecoder()
        self._calls = 0
        self._ids: set[str] = set()
        self._usage: Usage | None = None
        self._times: JSONObject = {}
        self._reason = ""

    @property
    def finished(self) -> bool:
        """Whether the upstream has sent a finish reason, so a lost connection would not lose data."""
        return self._over or bool(self._reason)

    # ------------------------------------------------------------------------------------------- framing

    def feed(self, data: bytes) -> list[Event]:
        if self._over:
            return []
        if not self._read:  # the lines so far may be one JSON document
            self._body.extend(data)
            self._head = bytes(self._body[:_HEAD_BYTES])
            if len(self._body) > MAX_BODY:
                self._fail(Failure(f"the reply is larger than {MAX_BODY} bytes", body=shorten(self._head)))
        for frame in self._lines.feed(data):
            self._frame(frame)
        return self._drain()

    def close(self) -> list[Event]:
        for frame in self._lines.close():
            self._frame(frame)
        body = bytes(self._body).removeprefix(_BOM)
        if not self._over and not self._read and is_object(whole := read_json(body)):
            self._bad = 0
            self._line(whole, body)
        if not self._over:
            self._end()
        return self._drain()

    def _learn(self, read: bytes, name: str, payload: bytes) -> FrameTemplate | None:
        """Return None: each line has its own timestamp, so lines cannot share a template."""

    def _event(self, name: str, payload: bytes) -> None:
        value = read_json(payload)
        if value is None and (repaired := repair_json(payload)) is not None:
            self._note_repair()
            value = read_json(repaired)
        if is_object(value):
            if (
                self._raw is not None
                and (identity := _text_only_identity(value)) is not None
                and payload.count(b'"message"') == 1
            ):
                self._raw.add(payload + b"\n", identity)
            self._line(value, payload)
        else:
            self._unreadable(payload)

    def _whole(self, body: bytes) -> None:
        """Never called, because a non-streamed reply is handled as a stream of one line."""

    # ------------------------------------------------------------------------------------------- reading

    def _line(self, line: JSONObject, payload: bytes) -> None:
        self._read += 1
        if line.get("error"):
            self._fail(failure_from(line, body=payload))
            return
        message = line.get("message")
        if is_object(message):
            self._message(message)
        if not line.get("done"):
            return
        reason = line.get("done_reason")
        self._reason = self._reason or (reason if isinstance(reason, str) and reason else "stop")
        if "eval_count" in line or "prompt_eval_count" in line:
            self._usage = Usage(count(line.get("prompt_eval_count")), count(line.get("eval_count")))
        self._times |= {name: value for name in _TIMES if (value := count(line.get(name)))}

    def _message(self, message: JSONObject) -> None:
        for target, name in ((ReasoningDelta, "thinking"), (TextDelta, "content")):
            text = message.get(name)
            if isinstance(text, str) and text:
                self._add(target, text)
        images = message.get("images")
        if is_array(images) and images:
            self._emit(OpaqueSeen(Opaque(IMAGES, images)))
        calls = message.get("tool_calls")
        for call in calls if is_array(calls) else ():
            self._call(call)

    def _call(self, call: JSONValue) -> None:
        body = call.get("function") if is_object(call) else None
        name = body.get("name") if is_object(body) else None
        if not is_object(call) or not is_object(body) or not isinstance(name, str) or not name:
            self._note("call_without_name", "a call without a tool name was dropped")
            return
        if self._calls >= MAX_CALLS:
            self._note("calls_dropped", f"calls after the first {MAX_CALLS} were dropped")
            return
        identifier = call.get("id")
        identifier = identifier if isinstance(identifier, str) else ""
        if identifier in self._ids:
            self._note("duplicate_call_id", f"the call id `{shorten(identifier)}` was used twice")
            identifier = ""
        self._ids |= {identifier} - {""}
        for event in whole_call(self._calls, name, identifier, body.get("arguments")):
            self._emit(event)
        self._calls += 1

    # --------------------------------------------------------------------------------------------- the end

    def _end(self) -> None:
        if not self._reason and not self._stream and self._read == 1 and not self._bad:
            self._reason = "missing"
        if not self._reason:
            self._fail(self._unfinished())
            return
        reason = self._finish_reason()
        self._wrap_up()
        self._emit(Finish(reason))

    def _unfinished(self) -> Failure:
        if self._bad and not self._read:
            return Failure("the upstream's reply is not an Ollama chat reply", body=shorten(self._head))
        return self._truncated()

    def _finish_reason(self) -> FinishReason:
        """Return `length` if the upstream reports it; derive any other reason from the content."""
        reason = _FINISH_REASONS.get(self._reason, "unknown")
        if self._reason in _LOAD_NOTES:
            self._note(_LOAD_NOTES[self._reason], "the reply is empty because the request had no messages")
        elif reason == "unknown":
            self._note("finish_reason_derived", f"the upstream's finish reason was `{shorten(self._reason)}`")
        if reason == "length":
            return reason
        return "tool_calls" if self._calls else "stop"

    def _wrap_up(self) -> None:
        super()._wrap_up()
        if self._times:
            self._emit(OpaqueSeen(Opaque(TIMINGS, self._times)))
        if self._usage is not None:
            self._emit(UsageSeen(self._usage))


def _text_only_identity(line: JSONObject) -> JSONObject | None:
    """Return the identity (the model) of a line that contains only text; None for other lines."""
    message, model = line.get("message"), line.get("model")
    if line.get("error") or line.get("done") is not False or not is_object(message) or not isinstance(model, str):
        return None
    texts = (line.get("created_at"), message.get("content"), message.get("thinking", ""))
    has_more = message.get("role") != "assistant" or message.get("images") or message.get("tool_calls")
    return None if has_more or not model or not all(isinstance(text, str) for text in texts) else {"model": model}

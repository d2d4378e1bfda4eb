"""Decoder for upstream replies: newline-delimited JSON, with a single line if the reply is not streamed.

Calls always arrive whole.
"""

from collections.abc import Iterator

from ...core.events import Event, Failure, Finish, FinishReason, OpaqueSeen, ReasoningDelta, TextDelta
from ...core.types import JSONObject, Opaque, Usage, is_array, is_object
from ..shared.fields import MAX_BODY, count, failure_from, list_or_empty, object_or_empty, read_json, shorten
from ..shared.framing import BOM, NDJSONDecoder
from ..shared.unstreamed_calls import WholeCallDecoder

#: Kinds of opaque parts: generated images and timings.
IMAGES, TIMINGS = "ollama_images", "ollama_timings"
_TIMES = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
#: `done_reason` -> note code, for requests without messages, which only load or unload the model.
_LOAD_NOTES = {"load": "model_loaded", "unload": "model_unloaded"}
#: How much of a reply is stored for error messages.
_HEAD_BYTES = 1000


class ReplyDecoder(WholeCallDecoder):
    """Decodes one reply. If no stream was requested, the upstream may omit `done`."""

    def __init__(self, stream: bool) -> None:
        super().__init__(stream)
        self._lines = NDJSONDecoder()
        self._times: JSONObject = {}

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
        body = bytes(self._body).removeprefix(BOM)
        if not self._over and not self._read and is_object(whole := read_json(body)):
            self._bad = 0
            self._line(whole, body)
        if not self._over:
            self._end()
        return self._drain()

    def _event(self, name: str, payload: bytes) -> None:
        value = self._json(payload)
        if is_object(value):
            identity = _text_only_identity(value) if self._raw is not None else None
            if self._raw is not None and identity is not None and payload.count(b'"message"') == 1:
                self._raw.add(payload + b"\n", identity)
            self._line(value, payload)
        else:
            self._unreadable(payload)

    def _whole(self, body: bytes) -> None:
        """Never called, because a non-streamed reply is handled as a stream of one line."""

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
        for call in map(object_or_empty, list_or_empty(message.get("tool_calls"))):
            function = object_or_empty(call.get("function"))
            self._whole_call(function.get("name"), call.get("id"), function.get("arguments"))

    def _end(self) -> None:
        if not self._reason and not self._stream and self._read == 1 and not self._bad:
            self._reason = "missing"
        if not self._reason:
            other = Failure("the upstream's reply is not an Ollama chat reply", body=shorten(self._head))
            self._fail(other if self._bad and not self._read else self._truncated())
            return
        reason = self._finish_reason()
        self._wrap_up()
        self._emit(Finish(reason))

    def _finish_reason(self) -> FinishReason:
        """Return `length` if the upstream reports it; derive any other reason from the content."""
        if self._reason in _LOAD_NOTES:
            self._note(_LOAD_NOTES[self._reason], "the reply is empty because the request had no messages")
        elif self._reason not in ("stop", "length"):
            self._note("finish_reason_derived", f"the upstream's finish reason was `{shorten(self._reason)}`")
        if self._reason == "length":
            return "length"
        return "tool_calls" if self._calls else "stop"

    def _last_events(self) -> Iterator[Event]:
        if self._times:
            yield OpaqueSeen(Opaque(TIMINGS, self._times))
        yield from super()._last_events()


def _text_only_identity(line: JSONObject) -> JSONObject | None:
    """Return the identity (the model) of a line that contains only text; None for other lines."""
    message, model = line.get("message"), line.get("model")
    if line.get("error") or line.get("done") is not False or not is_object(message) or not isinstance(model, str):
        return None
    texts = (line.get("created_at"), message.get("content"), message.get("thinking", ""))
    has_more = message.get("role") != "assistant" or message.get("images") or message.get("tool_calls")
    return None if has_more or not model or not all(isinstance(text, str) for text in texts) else {"model": model}

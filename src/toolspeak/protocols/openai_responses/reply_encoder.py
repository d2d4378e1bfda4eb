"""Encoder for replies to clients of the Responses API: streams and complete responses.

Text deltas, the bulk of a stream, are written from a byte template. Streamed and non-streamed replies use the same
`ResponseBuilder` for the response object. Item ids are derived from the response id and the item number.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ...core.events import (
    CallArgs,
    CallEnd,
    CallEvent,
    CallStart,
    Event,
    Failure,
    FinishReason,
    OpaqueSeen,
    ReasoningDelta,
    Reply,
    TextDelta,
)
from ...core.types import JSONObject, JSONValue, Opaque, Request, Usage, is_object
from ..shared.fields import encode_plain, filled, read_arguments, to_line, to_wire
from ..shared.openai_errors import code_of, error_of
from ..shared.reply_encoder import FAILED_TURN, BaseReplyEncoder, Events, Extra
from .items import ANNOTATION, INSTRUCTIONS, ITEM, PHASE, PROTOCOL, RESPONSE, START
from .request import encode_settings
from .tools import ToolNames, tool_names

#: The bytes between a text delta and its sequence number, and after the number.
_LOGPROBS = b',"logprobs":[]'
_BEFORE_NUMBER = _LOGPROBS + b',"sequence_number":'
_END = b"}\n\n"
#: Finish reasons of incomplete responses -> the reason in `incomplete_details`.
_INCOMPLETE_REASONS: dict[FinishReason, str] = {"length": "max_output_tokens", "content_filter": "content_filter"}
#: Request fields that are repeated in the response.
_REPEATED_FIELDS = (
    "background max_tool_calls metadata previous_response_id prompt_cache_key reasoning safety_identifier"
    " service_tier store top_logprobs truncation user"
).split()
_ID_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}


# ------------------------------------------------------------------------------------------------------- items


def _text_part(text: str, annotations: Iterable[JSONValue] = ()) -> JSONObject:
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}


def _message_item(identifier: str, status: str, content: list[JSONObject], phase: JSONValue = None) -> JSONObject:
    item: JSONObject = {"id": identifier, "type": "message", "status": status, "role": "assistant", "content": content}
    return item | filled({"phase": phase})


def _reasoning_part(field: str, text: str) -> JSONObject:
    return {"type": "summary_text" if field == "summary" else "reasoning_text", "text": text}


def _reasoning_item(identifier: str, field: str, parts: list[JSONObject]) -> JSONObject:
    return {"id": identifier, "type": "reasoning", "summary": [], field: parts}


def _call_type(names: ToolNames, name: str) -> str:
    return "custom_tool_call" if names.wire_name(name).kind == "custom" else "function_call"


def _call_to_item(names: ToolNames, name: str, identifiers: tuple[str, str], arguments: str, status: str) -> JSONObject:
    """Build the item for a call. `identifiers` are the item id and the call id."""
    tool = names.wire_name(name)
    custom = tool.kind == "custom"
    item: JSONObject = {
        "id": identifiers[0],
        "type": _call_type(names, name),
        "status": status,
        "call_id": identifiers[1] or identifiers[0],
        "name": tool.name,
        "input" if custom else "arguments": arguments,
    }
    if custom:
        del item["status"]
    return item | filled({"namespace": tool.namespace})


def _is_reasoning(part: Opaque) -> bool:
    return part.kind == f"{ITEM}reasoning" and is_object(part.data)


# ---------------------------------------------------------------------------------------------------- responses


class ResponseBuilder:
    """Builds the response object for one request."""

    def __init__(self, request: Request, id: str, created: int, model: str) -> None:
        self.names = tool_names(request.tools)
        self._suffix = id.removeprefix("resp_")
        same_protocol = request.protocol == PROTOCOL
        extra = request.options.extra if same_protocol else {}
        first = request.messages[0] if request.messages else None
        has_instructions = first is not None and INSTRUCTIONS in first.extra
        instructions = first.text if first is not None and has_instructions else None
        self.initial: JSONObject = {"id": id, "object": "response", "created_at": created, "status": "in_progress"}
        self.initial |= {"error": None, "incomplete_details": None, "instructions": instructions}
        self.initial |= {"max_output_tokens": None, "metadata": {}, "model": model, "output": []}
        self.initial |= {"parallel_tool_calls": request.tool_choice.parallel, "previous_response_id": None}
        self.initial |= {"reasoning": None, "store": False, "temperature": None, "text": {"format": {"type": "text"}}}
        self.initial |= {"tool_choice": "auto", "tools": [], "top_p": None, "truncation": "disabled"}
        self.initial |= {"usage": None, "user": None}
        self.initial |= {key: extra[key] for key in _REPEATED_FIELDS if extra.get(key) is not None}
        self.initial |= encode_settings(request)
        self.initial["text"] = {"format": {"type": "text"}, **self.initial["text"]}

    def item_id(self, kind: str, number: int) -> str:
        return f"{_ID_PREFIXES[kind]}_{self._suffix}_{number}"

    def final(
        self,
        output: list[JSONObject],
        reason: FinishReason,
        usage: Usage,
        extension: JSONObject | None,
        metadata: JSONObject,
    ) -> JSONObject:
        """Return the final response with all its items. `metadata` comes from the upstream."""
        details = _INCOMPLETE_REASONS.get(reason)
        response = {
            **self.initial,
            "status": "incomplete" if details else "completed",
            **metadata,
            "incomplete_details": {"reason": details} if details else None,
            "output": output,
            "usage": _usage(usage),
        }
        return response | filled({"toolspeak": extension})

    def failed(self, output: list[JSONObject], failure: Failure, usage: Usage) -> JSONObject:
        code = code_of(failure, "rate_limit_exceeded" if failure.status == 429 else "server_error")
        return {
            **self.initial,
            "status": "failed",
            "error": {"code": code, "message": failure.message},
            "output": output,
            "usage": _usage(usage),
        }

    def output(self, reply: Reply) -> list[JSONObject]:
        """Return the items of a non-streamed reply: opaque items, reasoning, text, calls."""
        output: list[JSONObject] = [
            part.data for part in reply.opaque if part.kind.startswith(ITEM) and is_object(part.data)
        ]
        if reply.reasoning and not any(map(_is_reasoning, reply.opaque)):
            output.append(self._reasoning(reply, len(output)))
        if reply.text:
            cut = reply.finish_reason in _INCOMPLETE_REASONS and not reply.calls and reply.complete
            annotations = (part.data for part in reply.opaque if part.kind.startswith(ANNOTATION))
            identifier = self.item_id("message", len(output))
            content = [_text_part(reply.text, annotations)]
            phase = _last_data(reply, PHASE).get("phase")
            output.append(_message_item(identifier, "incomplete" if cut else "completed", content, phase))
        for call in reply.calls:
            kind = _call_type(self.names, call.name)
            arguments = call.arguments.get("input") if kind == "custom_tool_call" else to_wire(call.arguments).decode()
            if isinstance(arguments, str):
                identifiers = (self.item_id(kind, len(output)), call.id)
                output.append(_call_to_item(self.names, call.name, identifiers, arguments, "completed"))
        return output

    def _reasoning(self, reply: Reply, number: int) -> JSONObject:
        mark = _last_data(reply, f"{START}reasoning")
        field = mark.get("field", "summary")
        identifier = mark.get("id") or self.item_id("reasoning", number)
        return _reasoning_item(identifier, field, [_reasoning_part(field, reply.reasoning)])


def _last_data(reply: Reply, kind: str) -> JSONObject:
    """Return the data of the last opaque part of this kind, or an empty object."""
    mark: JSONObject = {}
    for part in reply.opaque:
        if part.kind == kind and is_object(part.data):
            mark = part.data
    return mark


def _usage(usage: Usage) -> JSONObject:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


# ------------------------------------------------------------------------------------------------------------- stream


class _OutgoingCall(msgspec.Struct):
    name: str
    id: str
    kind: str
    number: int
    item_id: str
    fragments: list[str] = []
    head: bytes = b""


class _OutgoingText:
    """A message or reasoning item that is being sent. It has a single part, with index 0."""

    def __init__(self, kind: str, mark: JSONObject, number: int, item_id: str) -> None:
        self.kind = kind
        #: Field of a reasoning item that contains the text: `content` or `summary`.
        self.field: str = mark.get("field", "summary")
        self.phase: JSONValue = mark.get("phase")
        self.number = number
        self.item_id = item_id
        self.texts: list[str] = []
        self.annotations: list[JSONValue] = []
        self.head = b""

    def part(self) -> JSONObject:
        text = "".join(self.texts)
        return _text_part(text, self.annotations) if self.kind == "message" else _reasoning_part(self.field, text)

    def item(self, status: str, parts: list[JSONObject]) -> JSONObject:
        if self.kind == "message":
            return _message_item(self.item_id, status, parts, self.phase)
        return _reasoning_item(self.item_id, self.field, parts)

    def event_names(self) -> tuple[str, str, JSONObject]:
        """Return the event names for the part and for its text, and the field that contains the part's index."""
        if self.kind == "message":
            return "content_part", "output_text", {"content_index": 0}
        if self.field == "summary":
            return "reasoning_summary_part", "reasoning_summary_text", {"summary_index": 0}
        return "content_part", "reasoning_text", {"content_index": 0}


class ReplyEncoder(BaseReplyEncoder):
    """Encodes events as server-sent events of the Responses API."""

    def __init__(self, request: Request, *, id: str, created: int, model: str) -> None:
        super().__init__()
        self._builder = ResponseBuilder(request, id, created, model)
        self._sequence = 0
        self._opened = False
        self._item_count = 0
        self._items: dict[int, JSONObject] = {}
        self._text_item: _OutgoingText | None = None
        #: Texts of the open message; None if no message is open.
        self._live_texts: list[str] | None = None
        self._live_head = b""
        #: From the upstream: id and field of the next reasoning item, or phase of the next message.
        self._next_mark: JSONObject = {}
        self._calls: dict[int, _OutgoingCall] = {}
        self._metadata: JSONObject = {}

    def encode(self, events: Sequence[Event]) -> bytes:
        out: list[bytes] = []
        for event in events:
            live = self._live_texts
            # Fast path: text deltas make up most of a stream.
            if live is not None and type(event) is TextDelta:
                text = event.text
                live.append(text)
                number = self._sequence
                self._sequence = number + 1
                payload = encode_plain(text) if text.isascii() else to_line(text)
                out += (self._live_head, payload, _BEFORE_NUMBER, encode_plain(number), _END)
            elif not self._closed:
                out += self._other(event)
        return b"".join(out)

    def _finish(self, extension: JSONObject | None) -> bytes:
        """Return the events that end open items and the response, which contains `extension`."""
        ends, response = self._end(extension)
        return b"".join(ends) + self._event(f"response.{response['status']}", response=response)

    def response(self, events: Sequence[Event], extension: JSONObject | None = None) -> JSONObject:
        """Return the response object at the end of a stream that consists of these events."""
        self.encode(events)
        return self._end(extension)[1]

    def _end(self, extension: JSONObject | None) -> tuple[list[bytes], JSONObject]:
        # A call without an end was truncated, even if the upstream reports another reason. The response omits it.
        has_cut_call = any(call.kind == "function_call" for call in self._calls.values())
        reason = "length" if self._reason not in _INCOMPLETE_REASONS and has_cut_call else self._reason
        ends = [*self._open(), *self._end_text("incomplete" if reason in _INCOMPLETE_REASONS else "completed")]
        self._closed = True
        return ends, self._builder.final(self._output(), reason, self._usage, extension, self._metadata)

    def _output(self) -> list[JSONObject]:
        return [self._items[number] for number in sorted(self._items)]

    def _event(self, kind: str, **fields: JSONValue) -> bytes:
        payload = to_line({"type": kind, **fields, "sequence_number": self._sequence})
        self._sequence += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), payload)

    def _head_of(self, kind: str, **fields: JSONValue) -> bytes:
        """Return the bytes of a delta event that precede its text."""
        return b'event: %b\ndata: %b,"delta":' % (kind.encode(), to_line({"type": kind, **fields})[:-1])

    def _delta(self, head: bytes, text: str, more: bytes = b"") -> bytes:
        payload = b'%b%b%b,"sequence_number":%d}\n\n' % (head, to_line(text), more, self._sequence)
        self._sequence += 1
        return payload

    def _open(self) -> Iterator[bytes]:
        if not self._opened:
            self._opened = True
            response = msgspec.Raw(to_wire(self._builder.initial))
            for stage in ("created", "in_progress"):
                yield self._event(f"response.{stage}", response=response)

    def _fail(self, failure: Failure) -> bytes:
        opening = b"".join(self._open())
        self._live_texts = None
        self._closed = True
        failed = self._event("response.failed", response=self._builder.failed(self._output(), failure, self._usage))
        # Some clients read only the last event. They expect its fields either at the top level or in `error`.
        error = error_of(failure)
        fields = {key: error[key] for key in ("code", "message", "param")}
        return opening + failed + self._event("error", **fields, error=error)

    def _next_number(self) -> int:
        self._item_count += 1
        return self._item_count - 1

    def _item_added(self, number: int, item: JSONObject) -> bytes:
        return self._event("response.output_item.added", output_index=number, item=item)

    def _item_done(self, number: int, item: JSONObject) -> bytes:
        self._items[number] = item
        return self._event("response.output_item.done", output_index=number, item=item)

    def _other(self, event: Event) -> Iterator[bytes]:
        match event:
            case TextDelta(text):
                yield from self._add_text("message", text)
            case ReasoningDelta(text):
                yield from self._add_text("reasoning", text)
            case CallStart() | CallArgs() | CallEnd():
                yield from self._call(event)
            case OpaqueSeen(part):
                yield from self._opaque(part)
            case _:
                yield self._track(event)

    def _add_text(self, kind: str, text: str) -> Iterator[bytes]:
        if not text:
            return
        current = self._text_item
        if current is None or current.kind != kind:
            yield from self._open()
            yield from self._end_text()
            current = self._begin(kind)
            yield self._item_added(current.number, current.item("in_progress", []))
            part, _, number = current.event_names()
            yield self._event(f"response.{part}.added", **_position(current), **number, part=current.part())
        current.texts.append(text)
        yield self._delta(current.head, text, b"" if kind == "reasoning" else _LOGPROBS)

    def _begin(self, kind: str) -> _OutgoingText:
        # Ignore data that is meant for the other kind of item.
        mark = self._next_mark if (kind == "message") == ("phase" in self._next_mark) else {}
        number = self._next_number()
        item_id = mark.get("id") or self._builder.item_id(kind, number)
        current = self._text_item = _OutgoingText(kind, mark, number, item_id)
        _, text, part = current.event_names()
        current.head = self._head_of(f"response.{text}.delta", **_position(current), **part)
        if kind == "message":
            self._live_texts = current.texts
            self._live_head = current.head
        self._next_mark = {}
        return current

    def _end_text(self, status: str = "completed", item: JSONObject | None = None) -> Iterator[bytes]:
        """End the current text item. `item`, if given, is the upstream's more complete version of it."""
        current, self._text_item, self._live_texts = self._text_item, None, None
        if current is None:
            return
        part, text, number = current.event_names()
        whole = current.part()
        place = {**_position(current), **number}
        more: JSONObject = {"logprobs": []} if current.kind == "message" else {}
        yield self._event(f"response.{text}.done", **place, text=whole["text"], **more)
        yield self._event(f"response.{part}.done", **place, part=whole)
        yield self._item_done(current.number, item or current.item(status, [whole]))

    def _opaque(self, part: Opaque) -> Iterator[bytes]:
        data = part.data
        if not is_object(data):
            return
        if part.kind.startswith(ITEM):
            yield from self._open()
            self._next_mark = {}
            current = self._text_item
            if _is_reasoning(part) and current is not None and current.item_id == data.get("id"):
                yield from self._end_text(item=data)
                return
            yield from self._end_text()
            number = self._next_number()
            yield self._item_added(number, data)
            yield self._item_done(number, data)
        elif part.kind == RESPONSE:
            self._metadata = data
        elif part.kind.startswith(START):
            yield from self._end_text()
            self._next_mark = data
        elif part.kind.startswith(ANNOTATION) and self._text_item is not None and self._live_texts is not None:
            self._text_item.annotations.append(data)
            at = len(self._text_item.annotations) - 1
            place = {**_position(self._text_item), "content_index": 0, "annotation_index": at}
            yield self._event("response.output_text.annotation.added", **place, annotation=data)

    def _call(self, event: CallEvent) -> Iterator[bytes]:
        match event:
            case CallStart(index, name):
                yield from self._open()
                yield from self._end_text()
                kind = _call_type(self._builder.names, name)
                # The input of a custom tool must be extracted from JSON arguments, so it is sent when the call ends.
                number = self._next_number() if kind == "function_call" else -1
                item_id = self._builder.item_id("function_call", number)
                call = self._calls[index] = _OutgoingCall(name, event.id, kind, number, item_id)
                if kind == "function_call":
                    call.head = self._head_of("response.function_call_arguments.delta", **_position(call))
                    yield self._item_added(number, self._call_item(call, "", "in_progress"))
            case CallArgs(index, fragment):
                call = self._calls[index]
                call.fragments.append(fragment)
                if call.head and fragment:
                    yield self._delta(call.head, fragment)
            case _:
                call = self._calls.pop(event.index, None)
                if call is not None:
                    yield from (self._end_call if call.head else self._custom_call)(call, event.valid)

    def _call_item(self, call: _OutgoingCall, arguments: str, status: str) -> JSONObject:
        return _call_to_item(self._builder.names, call.name, (call.item_id, call.id), arguments, status)

    def _end_call(self, call: _OutgoingCall, valid: bool) -> Iterator[bytes]:
        if not any(call.fragments):
            call.fragments.append("{}")
            yield self._delta(call.head, "{}")
        arguments = "".join(call.fragments)
        yield self._event("response.function_call_arguments.done", **_position(call), arguments=arguments)
        yield self._item_done(call.number, self._call_item(call, arguments, "completed" if valid else "incomplete"))

    def _custom_call(self, call: _OutgoingCall, valid: bool) -> Iterator[bytes]:
        input_text = (read_arguments("".join(call.fragments)) or {}).get("input") if valid else None
        if not isinstance(input_text, str):
            return
        call.number = self._next_number()
        call.item_id = self._builder.item_id(call.kind, call.number)
        yield self._item_added(call.number, self._call_item(call, "", ""))
        yield self._delta(self._head_of("response.custom_tool_call_input.delta", **_position(call)), input_text)
        yield self._event("response.custom_tool_call_input.done", **_position(call), input=input_text)
        yield self._item_done(call.number, self._call_item(call, input_text, ""))


def _position(item: _OutgoingText | _OutgoingCall) -> JSONObject:
    return {"item_id": item.item_id, "output_index": item.number}


def encode_reply(
    reply: Reply, request: Request, *, id: str, created: int, model: str, extension: Extra = None, events: Events = ()
) -> bytes:
    """Encode a non-streamed reply, or an error object if the turn failed.

    `events`, if given, determine the order of the items.
    """
    if reply.failure is not None or reply.finish_reason == "error":
        return to_wire({"error": error_of(reply.failure or FAILED_TURN)})
    if events:
        encoder = ReplyEncoder(request, id=id, created=created, model=model)
        return to_wire(encoder.response(events, extension))
    builder = ResponseBuilder(request, id, created, model)
    metadata = _last_data(reply, RESPONSE)
    return to_wire(builder.final(builder.output(reply), reply.finish_reason, reply.usage, extension, metadata))

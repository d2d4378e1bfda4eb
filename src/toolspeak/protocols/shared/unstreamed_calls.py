"""Tool calls in Gemini and Ollama, where a call arrives in one piece and may lack an id."""

from collections import deque
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from ...core.events import CallArgs, CallEnd, CallEvent, CallStart, Event, OpaqueSeen
from ...core.types import JSONValue, Message, Note, Opaque, Request, ToolCall, is_object
from .fields import MAX_CALLS, read_json, shorten, text_or_empty, to_wire
from .reply_decoder import BaseReplyDecoder

_GENERATED_ID = "unnamed_call_"
#: Prefixes of ids that toolspeak generates for calls without an id. These ids are never sent, because an upstream that
#: assigns no ids may reject the field (Gemini 2 on Vertex: `Unknown name "id"`).
_GENERATED_PREFIXES = (_GENERATED_ID, "emulated_")


def wire_id(identifier: str) -> str:
    """Return the id to send, or "" if toolspeak generated it."""
    return "" if identifier.startswith(_GENERATED_PREFIXES) else identifier


def in_call_order(messages: Iterable[Message]) -> Iterator[Message]:
    """Sort results that are sent without ids by the order of their calls, because upstreams pair them by position."""
    calls: tuple[ToolCall, ...] = ()
    run: list[Message] = []
    for message in messages:
        if calls and message.results and not message.parts:
            run.append(message)
            continue
        yield from _sort_results(run, calls)
        run = []
        if message.calls:
            calls = () if all(wire_id(call.id) for call in message.calls) else message.calls
        yield message
    yield from _sort_results(run, calls)


def _sort_results(run: list[Message], calls: tuple[ToolCall, ...]) -> Iterator[Message]:
    places = {call.id: at for at, call in enumerate(calls)}
    sent_results = [result for message in run for result in message.results]
    by_name: dict[str, list[int]] = {}
    for result in sent_results:
        if result.id in places:
            by_name.setdefault(calls[places[result.id]].name, []).append(places[result.id])
    if all(positions == sorted(positions) for positions in by_name.values()):
        yield from run
        return
    remaining = iter(sorted(sent_results, key=lambda result: places.get(result.id, len(calls))))
    for message in run:
        yield replace(message, results=tuple(next(remaining) for _ in message.results))


def only_own_ids(request: Request | None) -> Request | None:
    """Return a request if its messages can be decoded one by one: each result names an earlier call by its id."""
    known: set[str] = set()
    for message in request.messages if request is not None else ():
        mixed = bool(message.calls and message.results)
        if mixed or any(call.id.startswith(_GENERATED_ID) for call in message.calls):
            return None
        known.update(call.id for call in message.calls)
        if any(result.id not in known for result in message.results):
            return None
    return request


class CallIdAssigner:
    """Assigns ids to the calls and results of one conversation.

    A result without an id belongs to the first unanswered call of the same tool or, if the result has no tool name, to
    the first unanswered call. So does a result with an unknown id if that call has no id, because some clients
    (LiteLLM for Ollama) send ids only with results.
    """

    def __init__(self) -> None:
        self._generated = 0
        self._own_ids: set[str] = set()
        self._open: set[str] = set()
        self._queue: deque[str] = deque()
        self._by_name: dict[str, deque[str]] = {}

    def call(self, name: str, identifier: str) -> str:
        if not identifier:
            self._generated += 1
            identifier = f"{_GENERATED_ID}{self._generated}"
        else:
            self._own_ids.add(identifier)
        self._open.add(identifier)
        self._queue.append(identifier)
        self._by_name.setdefault(name, deque()).append(identifier)
        return identifier

    def result(self, name: str, identifier: str) -> str:
        """Return the id of the call to which a result belongs, or the given id if no unanswered call matches."""
        if identifier not in self._own_ids:
            queue = self._by_name.get(name, deque()) if name else self._queue
            while queue and queue[0] not in self._open:
                queue.popleft()
            if queue and (not identifier or queue[0] not in self._own_ids):
                identifier = queue.popleft()
        self._open.discard(identifier)
        return identifier


class WholeCalls:
    """Assembles complete calls from events. A truncated call is never returned."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[CallStart, list[str]]] = {}

    def __contains__(self, index: int) -> bool:
        """Whether this call has started but not ended."""
        return index in self._open

    def feed(self, event: CallEvent) -> ToolCall | None:
        """Return the call that this event completes, or None if the call is incomplete or invalid."""
        if isinstance(event, CallStart):
            self._open[event.index] = (event, [])
            return None
        if isinstance(event, CallArgs):
            self._open[event.index][1].append(event.fragment)
            return None
        start, fragments = self._open.pop(event.index)
        arguments = read_json("".join(fragments) or "{}")
        return ToolCall(start.name, arguments, start.id) if event.valid and is_object(arguments) else None


def whole_call(index: int, name: str, identifier: str, arguments: JSONValue) -> Iterator[Event]:
    """Yield the events for a call that arrived in one piece. The engine validates the arguments."""
    yield CallStart(index, name, identifier)
    notes: tuple[Note, ...] = ()
    if isinstance(arguments, str):
        notes = (Note("arguments_text", "the arguments were sent as text, not as JSON"),)
        text = arguments
    else:
        text = to_wire({} if arguments is None else arguments).decode()
    yield CallArgs(index, text or "{}")
    yield CallEnd(index, notes=notes)


class WholeCallDecoder(BaseReplyDecoder):
    """Base class of decoders for replies in which a call arrives in one piece."""

    def __init__(self, stream: bool) -> None:
        super().__init__(stream)
        self._calls = 0
        self._ids: set[str] = set()

    def _whole_call(
        self, name: JSONValue, identifier: JSONValue, arguments: JSONValue, extra: Opaque | None = None
    ) -> None:
        """Emit the events of a call. `extra` contains its other fields, which encoders need before the call."""
        if not isinstance(name, str) or not name:
            self._note("call_without_name", "a call without a tool name was dropped")
            return
        if self._calls >= MAX_CALLS:
            self._note("calls_dropped", f"calls after the first {MAX_CALLS} were dropped")
            return
        call_id = text_or_empty(identifier)
        if call_id in self._ids:
            self._note("duplicate_call_id", f"the call id `{shorten(call_id)}` was used twice")
            call_id = ""
        self._ids |= {call_id} - {""}
        if extra is not None:
            self._emit(OpaqueSeen(extra))
        for event in whole_call(self._calls, name, call_id, arguments):
            self._emit(event)
        self._calls += 1

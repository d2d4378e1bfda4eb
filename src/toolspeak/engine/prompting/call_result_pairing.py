"""Repairs a conversation history so that each tool call has a unique id and exactly one result.

Clients truncate histories, lose ids, restart numbering in each turn, or crash between a call and its result. Upstreams
reject such histories. Each repair is noted; a correct history is returned unchanged.
"""

from collections import Counter, deque
from collections.abc import Iterator

import msgspec

from ...core.types import Message, Note, Part, TextPart, ToolCall, ToolResult
from .escaping import code_fence, display_name, neutralise
from .history import Projection, results_of

#: Placeholder for a missing result. Models read this text.
MISSING_RESULT = "No result was recorded: the call was interrupted. It may or may not have been carried out."


class _Slot(msgspec.Struct, eq=False):
    """A call and its results. Each result has the position of the message that contains it."""

    call: ToolCall
    original_id: str
    results: list[tuple[int, ToolResult]] = []


class _CallTurn:
    def __init__(self, slots: list[_Slot], reach: int) -> None:
        self.slots = slots
        #: Position of the last message that may contain results of these calls. Later results must be moved.
        self.reach = reach
        self._waiting = deque(slots)
        self._without_id = deque(slot for slot in slots if not slot.original_id)
        self._id_counts = Counter(slot.original_id for slot in slots)
        self._by_name: dict[str, deque[_Slot]] = {}
        for slot in slots:
            self._by_name.setdefault(slot.call.name, deque()).append(slot)

    def waiting(self, name: str) -> _Slot | None:
        """Return the first call without a result. If `name` is given, consider only calls of that tool."""
        queue = self._by_name.get(name, deque()) if name else self._waiting
        while queue and queue[0].results:
            queue.popleft()
        return queue[0] if queue else None

    def without_id(self, id: str) -> _Slot | None:
        """If several calls share `id`, return the first call that has neither an id nor a result."""
        if self._id_counts[id] < 2:
            return None
        while self._without_id and self._without_id[0].results:
            self._without_id.popleft()
        return self._without_id[0] if self._without_id else None

    def settled(self, slot: _Slot) -> bool:
        """Whether the call has exactly one result, in the right position."""
        return len(slot.results) == 1 and slot.results[0][0] <= self.reach

    def in_place(self) -> dict[int, list[ToolResult]]:
        """Return the results that need not be moved or merged, by the position of their message."""
        by_message: dict[int, list[ToolResult]] = {}
        for slot in self.slots:
            if self.settled(slot):
                by_message.setdefault(slot.results[0][0], []).append(slot.results[0][1])
        return by_message


def pair(messages: tuple[Message, ...]) -> Projection:
    """Pair the calls and results of a conversation.

    Missing and duplicate ids are replaced. Results are moved after their calls, and several results of one call are
    merged. A call without a result gets a placeholder. A result without a call becomes user text.
    """
    return Projection(messages) if _is_right(messages) else _HistoryRepair(messages).repaired()


def _is_right(messages: tuple[Message, ...]) -> bool:
    """Whether each call has a unique id and exactly one result, which directly follows the call."""
    used: set[str] = set()
    open_: set[str] = set()
    for message in messages:
        calls, results = message.calls, message.results
        if results and message.role in ("tool", "user"):
            for result in results:
                if calls or result.id not in open_:
                    return False
                open_.remove(result.id)
            if open_ and _speaks(message):
                return False
            continue
        if open_ or results or message.role == "tool" or (calls and message.role != "assistant"):
            return False
        for call in calls:
            if not call.id or call.id in used:
                return False
            used.add(call.id)
            open_.add(call.id)
    return not open_


class _HistoryRepair:
    def __init__(self, messages: tuple[Message, ...]) -> None:
        self._messages = messages
        self._notes: dict[Note, None] = {}
        self._original_ids = {call.id for message in messages for call in message.calls}
        self._numbers: dict[str, int] = {}
        self._used: set[str] = set()
        self._turns: dict[int, _CallTurn] = {}  # by the position of the message with the calls
        self._latest: _CallTurn | None = None
        self._waiting: dict[str, list[_Slot]] = {}  # unanswered calls by id; the next one to match is last
        self._answered: dict[str, _Slot] = {}
        self._orphans: dict[int, list[ToolResult]] = {}  # results without a call, by the position of their message

    def repaired(self) -> Projection:
        for at, message in enumerate(self._messages):
            for result in results_of(message):
                self._assign(at, result)
            if message.calls:
                self._take_calls(at, message)
        return Projection(tuple(self._rebuilt()), tuple(self._notes))

    def _note(self, code: str, detail: str) -> None:
        self._notes[Note(code, detail)] = None

    def _take_calls(self, at: int, message: Message) -> None:
        if message.role != "assistant":
            self._note("call_misplaced", f"a call in a {message.role} message was dropped")
            return
        slots = [_Slot(self._with_unique_id(call), call.id) for call in message.calls]
        for slot in reversed(slots):
            self._waiting.setdefault(slot.original_id, []).append(slot)
        self._latest = self._turns[at] = _CallTurn(slots, self._reach(at))

    def _with_unique_id(self, call: ToolCall) -> ToolCall:
        if call.id and call.id not in self._used:
            self._used.add(call.id)
            return call
        base = call.id or "call"
        number = self._numbers.get(base, 1)
        while (new := f"{base}_{number}") in self._original_ids or new in self._used:
            number += 1
        self._numbers[base] = number + 1
        self._used.add(new)
        if call.id:
            self._note("call_id_renamed", f"`{display_name(call.id)}` is the id of more than one call")
        else:
            self._note("call_id_added", f"a call of `{display_name(call.name)}` had no id")
        return msgspec.structs.replace(call, id=new)

    def _reach(self, at: int) -> int:
        """Return the position of the last message that may contain results: the last one before other content."""
        for after in range(at + 1, len(self._messages)):
            message = self._messages[after]
            if message.role != "tool" and not (message.role == "user" and message.results):
                return after - 1
            if _speaks(message):
                return after
        return len(self._messages) - 1

    def _assign(self, at: int, result: ToolResult) -> None:
        slot = self._slot_for(result)
        if slot is None:
            name = display_name(result.name or result.id)
            self._note("result_orphaned", f"a result of `{name}` has no call and was turned into text")
            self._orphans.setdefault(at, []).append(result)
            return
        if result.id != slot.original_id or not result.id:
            self._note("result_id_repaired", f"a result of `{display_name(slot.call.name)}` had a missing or wrong id")
        slot.results.append((at, msgspec.structs.replace(result, id=slot.call.id)))

    def _slot_for(self, result: ToolResult) -> _Slot | None:
        """Find the latest call that may have produced this result. Prefer calls that have no result yet."""
        if result.id:
            waiting = self._waiting.get(result.id, [])
            while waiting and waiting[-1].results:
                self._answered[result.id] = waiting.pop()
            if waiting:
                return waiting[-1]
            if result.id in self._answered:
                unidentified = self._latest.without_id(result.id) if self._latest else None
                return unidentified or self._answered[result.id]
            if not result.name:
                return None
        return self._latest.waiting(result.name) if self._latest else None

    def _rebuilt(self) -> Iterator[Message]:
        orphans: list[ToolResult] = []  # added after the correctly placed results
        in_place: dict[int, list[ToolResult]] = {}
        for at, message in enumerate(self._messages):
            if not message.results and message.role != "tool":
                yield from _as_user_message(orphans)
                orphans = []
            orphans.extend(self._orphans.get(at, ()))
            rest = self._cleaned(at, message, in_place)
            if rest is not None and _speaks(rest) and orphans:
                rest = msgspec.structs.replace(rest, parts=(*_as_text(orphans), *rest.parts))
                orphans = []
            if rest is not None:
                yield rest
            if at in self._turns:
                in_place = self._turns[at].in_place()
                yield from self._moved_results(self._turns[at])
        yield from _as_user_message(orphans)

    def _cleaned(self, at: int, message: Message, in_place: dict[int, list[ToolResult]]) -> Message | None:
        """Return the message with its calls and correctly placed results, or None if nothing remains."""
        calls = tuple(slot.call for slot in self._turns[at].slots) if at in self._turns else ()
        results = tuple(in_place.get(at, ()))
        parts = message.parts if message.role != "tool" or (results and message.results) else ()
        if not (calls or results or parts or message.reasoning) and (message.calls or message.results):
            return None
        if message.role == "tool" and not results:
            return None
        return msgspec.structs.replace(message, calls=calls, results=results, parts=parts)

    def _moved_results(self, turn: _CallTurn) -> Iterator[Message]:
        """Yield messages for results that were missing, duplicated or misplaced."""
        for slot in turn.slots:
            name = display_name(slot.call.name)
            results = [result for _, result in slot.results]
            if not results:
                self._note("result_missing", f"the call of `{name}` has no result")
                yield Message("tool", results=(ToolResult(slot.call.id, MISSING_RESULT, slot.call.name, error=True),))
            elif len(results) > 1:
                self._note("result_doubled", f"the call of `{name}` has {len(results)} results, which were merged")
                yield Message("tool", results=(_merged(results),))
            elif not turn.settled(slot):
                self._note("result_moved", f"the result of `{name}` did not follow its call")
                yield Message("tool", results=(results[0],))


def _speaks(message: Message) -> bool:
    """Whether the message is from the user and contains more than tool results."""
    return message.role == "user" and bool(message.parts)


def _merged(results: list[ToolResult]) -> ToolResult:
    contents = dict.fromkeys(result.content for result in results)
    parts = tuple(part for result in results for part in result.parts)
    error = all(result.error for result in results)
    return msgspec.structs.replace(results[0], content="\n".join(contents), parts=parts, error=error)


def _as_text(orphans: list[ToolResult]) -> Iterator[Part]:
    for result in orphans:
        name = display_name(result.name) if result.name else "an earlier call"
        yield TextPart(f"Result of {name}:\n{code_fence(neutralise(result.content))}\n\n")
        yield from result.parts


def _as_user_message(orphans: list[ToolResult]) -> Iterator[Message]:
    if orphans:
        yield Message("user", tuple(_as_text(orphans)))

"""Every call has one id and one result, and every result has its call.

Histories come from clients that cut them short, lose ids, count from nought in each turn, or crash between a
call and its result; every upstream refuses such a history in its own way. Here it is put right, with a note for
each repair; one that is right comes back as the same object.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

import msgspec

from ...core.types import Message, Note, Part, TextPart, ToolCall, ToolResult
from .escaping import fenced, neutralise, shown_name
from .history import Projected, results_of

#: What stands for a result that nobody has.
MISSING = "No result was recorded: the call was interrupted. It may or may not have been carried out."


class _Slot:
    """A call and the results that belong to it, each with the place of its message."""

    __slots__ = ("asked", "call", "results")

    def __init__(self, call: ToolCall, asked: str) -> None:
        self.call = call
        self.asked = asked  # the id it came with
        self.results: list[tuple[int, ToolResult]] = []


class _Turn:
    """The calls of one message."""

    def __init__(self, slots: list[_Slot], reach: int) -> None:
        self.slots = slots
        #: The last message in which a result of this turn stands where it belongs.
        self.reach = reach
        self._waiting = deque(slots)
        self._nameless = deque(slot for slot in slots if not slot.asked)
        self._asked = Counter(slot.asked for slot in slots)
        self._by_name: dict[str, deque[_Slot]] = {}
        for slot in slots:
            self._by_name.setdefault(slot.call.name, deque()).append(slot)

    def waiting(self, name: str) -> _Slot | None:
        """The first call of this name, or of any if none is given, that has no result."""
        queue = self._by_name.get(name, deque()) if name else self._waiting
        while queue and queue[0].results:
            queue.popleft()
        return queue[0] if queue else None

    def nameless(self, id: str) -> _Slot | None:
        """The first call without an id and a result, where ids tell nothing: this one stands for several calls."""
        if self._asked[id] < 2:
            return None
        while self._nameless and self._nameless[0].results:
            self._nameless.popleft()
        return self._nameless[0] if self._nameless else None

    def settled(self, slot: _Slot) -> bool:
        """Whether the call has one result, where it belongs."""
        return len(slot.results) == 1 and slot.results[0][0] <= self.reach

    def in_place(self) -> dict[int, list[ToolResult]]:
        """The results that need not be moved or merged, by the message they stand in."""
        found: dict[int, list[ToolResult]] = {}
        for slot in self.slots:
            if self.settled(slot):
                found.setdefault(slot.results[0][0], []).append(slot.results[0][1])
        return found


def pair(messages: tuple[Message, ...]) -> Projected:
    """The conversation with calls and results paired.

    Missing and doubled ids are replaced, results are brought to their calls and merged when there are two, a
    call without a result gets one that says so, and a result without a call becomes a text of the user's.
    """
    return Projected(messages) if _is_right(messages) else _Pairing(messages).repaired()


def _is_right(messages: tuple[Message, ...]) -> bool:
    """Whether each call has an id of its own and exactly one result, right behind it."""
    seen: set[str] = set()
    open_: set[str] = set()
    for message in messages:
        if message.results and message.role in ("tool", "user"):
            ids = [result.id for result in message.results]
            if message.calls or len(set(ids)) < len(ids) or not open_.issuperset(ids):
                return False
            open_.difference_update(ids)
            if open_ and _speaks(message):
                return False
            continue
        if open_ or message.results or message.role == "tool":
            return False
        if message.calls:
            ids = [call.id for call in message.calls]
            if message.role != "assistant" or "" in ids or len(set(ids)) < len(ids) or not seen.isdisjoint(ids):
                return False
            seen.update(ids)
            open_.update(ids)
    return not open_


class _Pairing:
    """The repair of one conversation."""

    def __init__(self, messages: tuple[Message, ...]) -> None:
        self._messages = messages
        self._notes: dict[Note, None] = {}
        self._taken = {call.id for message in messages for call in message.calls}
        self._numbers: dict[str, int] = {}
        self._used: set[str] = set()
        self._turns: dict[int, _Turn] = {}  # by the message of the calls
        self._latest: _Turn | None = None
        self._waiting: dict[str, list[_Slot]] = {}  # calls without a result by id, the next one last
        self._answered: dict[str, _Slot] = {}
        self._orphans: dict[int, list[ToolResult]] = {}  # by the message of the results

    def repaired(self) -> Projected:
        """The conversation, put right."""
        for at, message in enumerate(self._messages):
            for result in results_of(message):
                self._assign(at, result)
            if message.calls:
                self._take_calls(at, message)
        return Projected(tuple(self._rebuilt()), tuple(self._notes))

    def _note(self, code: str, detail: str) -> None:
        self._notes[Note(code, detail)] = None

    # ---- calls

    def _take_calls(self, at: int, message: Message) -> None:
        if message.role != "assistant":
            self._note("call_misplaced", f"a call in a message of the {message.role} is left out")
            return
        slots = [_Slot(self._identified(call), call.id) for call in message.calls]
        for slot in reversed(slots):
            self._waiting.setdefault(slot.asked, []).append(slot)
        self._latest = self._turns[at] = _Turn(slots, self._reach(at))

    def _identified(self, call: ToolCall) -> ToolCall:
        """The call with an id that no other has."""
        if call.id and call.id not in self._used:
            self._used.add(call.id)
            return call
        base = call.id or "call"
        number = self._numbers.get(base, 1)
        while (new := f"{base}_{number}") in self._taken or new in self._used:
            number += 1
        self._numbers[base] = number + 1
        self._used.add(new)
        if call.id:
            self._note("call_id_renamed", f"`{shown_name(call.id)}` stands for more than one call")
        else:
            self._note("call_id_added", f"a call of `{shown_name(call.name)}` had no id")
        return msgspec.structs.replace(call, id=new)

    def _reach(self, at: int) -> int:
        """How far the results behind a turn reach: to the first message that is none, or in which the user speaks."""
        for after in range(at + 1, len(self._messages)):
            message = self._messages[after]
            if message.role != "tool" and not (message.role == "user" and message.results):
                return after - 1
            if _speaks(message):
                return after
        return len(self._messages) - 1

    # ---- results

    def _assign(self, at: int, result: ToolResult) -> None:
        slot = self._slot_for(result)
        if slot is None:
            name = shown_name(result.name or result.id)
            self._note("result_orphaned", f"a result of `{name}` has no call; it is told as text")
            self._orphans.setdefault(at, []).append(result)
            return
        if result.id != slot.asked or not result.id:
            self._note("result_id_repaired", f"a result of `{shown_name(slot.call.name)}` had no id, or a wrong one")
        slot.results.append((at, msgspec.structs.replace(result, id=slot.call.id)))

    def _slot_for(self, result: ToolResult) -> _Slot | None:
        """The latest call that may have given this result; one that has no result yet comes first."""
        if result.id:
            waiting = self._waiting.get(result.id, [])
            while waiting and waiting[-1].results:
                self._answered[result.id] = waiting.pop()
            if waiting:
                return waiting[-1]
            if result.id in self._answered:
                beside = self._latest.nameless(result.id) if self._latest else None
                return beside or self._answered[result.id]
            if not result.name:
                return None
        return self._latest.waiting(result.name) if self._latest else None

    # ---- the conversation anew

    def _rebuilt(self) -> Iterator[Message]:
        orphans: list[ToolResult] = []  # told behind the results that stand in their place
        in_place: dict[int, list[ToolResult]] = {}
        for at, message in enumerate(self._messages):
            if not message.results and message.role != "tool":
                yield from _told(orphans)
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
                yield from self._brought(self._turns[at])
        yield from _told(orphans)

    def _cleaned(self, at: int, message: Message, in_place: dict[int, list[ToolResult]]) -> Message | None:
        """The message with its own calls and those results that stand where they belong; None when it is empty."""
        calls = tuple(slot.call for slot in self._turns[at].slots) if at in self._turns else ()
        results = tuple(in_place.get(at, ()))
        parts = message.parts if message.role != "tool" or (results and message.results) else ()
        if not (calls or results or parts or message.reasoning) and (message.calls or message.results):
            return None
        if message.role == "tool" and not results:
            return None
        return msgspec.structs.replace(message, calls=calls, results=results, parts=parts)

    def _brought(self, turn: _Turn) -> Iterator[Message]:
        """The results of a turn that stand elsewhere, or nowhere."""
        for slot in turn.slots:
            name = shown_name(slot.call.name)
            results = [result for _, result in slot.results]
            if not results:
                self._note("result_missing", f"the call of `{name}` has no result")
                yield Message("tool", results=(ToolResult(slot.call.id, MISSING, slot.call.name, error=True),))
            elif len(results) > 1:
                self._note("result_doubled", f"the call of `{name}` has {len(results)} results; they are one now")
                yield Message("tool", results=(_merged(results),))
            elif not turn.settled(slot):
                self._note("result_moved", f"the result of `{name}` did not follow its call")
                yield Message("tool", results=(results[0],))


def _speaks(message: Message) -> bool:
    """Whether the user says something besides bringing results."""
    return message.role == "user" and bool(message.parts)


def _merged(results: list[ToolResult]) -> ToolResult:
    contents = dict.fromkeys(result.content for result in results)
    parts = tuple(part for result in results for part in result.parts)
    error = all(result.error for result in results)
    return msgspec.structs.replace(results[0], content="\n".join(contents), parts=parts, error=error)


def _as_text(orphans: list[ToolResult]) -> Iterator[Part]:
    for result in orphans:
        name = shown_name(result.name) if result.name else "an earlier call"
        yield TextPart(f"Result of {name}:\n{fenced(neutralise(result.content))}\n\n")
        yield from result.parts


def _told(orphans: list[ToolResult]) -> Iterator[Message]:
    if orphans:
        yield Message("user", tuple(_as_text(orphans)))

"""Memory of tool rounds that ran in the proxy and are hidden from the client.

A round may contain calls to server tools and to client tools. The client sees only its own calls, with ids generated
here: upstream ids may repeat in other conversations, where hidden results must never appear. When the client sends its
results, the hidden rounds are inserted again and the calls get their original ids back. Processes share this memory if
a database is configured.
"""

from collections.abc import Iterator, Sequence

import msgspec

from ....core.types import Message, Note, TextPart, ToolCall
from ....engine.rounds.expansion import messages_of
from ....engine.rounds.transcript import Answer, Round
from ....runtime.tool_memory import ToolMemory
from ...observe.request_context import new_id

#: Prefix of generated ids. It starts like the ids of emulated calls, which are never sent upstream. This matters if the
#: stored rounds are lost, because the upstream does not know these ids.
_ID_PREFIX = "emulated_served_"
_LOST_NOTE = Note("server_rounds_lost", "earlier results of server tools are no longer stored")


class _StoredRounds(msgspec.Struct, frozen=True):
    """The rounds of an answer. With `mixed`, the last round includes the client's calls."""

    rounds: tuple[Round, ...]
    mixed: bool
    text: str  # the text that the model wrote in the message with the client's calls
    #: Maps the id that the client sees to the id that the upstream assigned.
    original_ids: dict[str, str] = msgspec.field(name="handed")


class LoopMemory:
    """The hidden rounds of one tenant's conversations."""

    def __init__(self, memory: ToolMemory, tenant: str) -> None:
        self._memory = memory
        self._tenant = tenant

    def store(self, answer: Answer, handed: Sequence[ToolCall], *, mixed: bool) -> tuple[ToolCall, ...]:
        """Store the rounds of an answer that ends with calls for the client, `mixed` if these are in the last round.

        Return these calls as the client sees them: with generated ids if there are hidden rounds.
        """
        if not answer.rounds:
            return tuple(handed)
        visible = tuple(msgspec.structs.replace(call, id=_ID_PREFIX + new_id()) for call in handed)
        text = answer.rounds[-1].text if mixed else answer.content
        ids = {ours.id: call.id for ours, call in zip(visible, handed, strict=True)}
        stored = msgspec.to_builtins(_StoredRounds(answer.rounds, mixed, text, ids))
        for call in visible:
            self._memory.keep_item(self._tenant, _item_name(call.id), stored)
        return visible

    def restore(self, messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Note, ...]]:
        """Insert the hidden rounds into a conversation. Return the messages, and a note if rounds are missing."""
        restorer = _Restorer({call.id for message in messages for call in message.calls})
        restored = tuple(each for message in messages for each in self._with_rounds(message, restorer))
        return restored, (_LOST_NOTE,) if restorer.lost else ()

    def _with_rounds(self, message: Message, restorer: "_Restorer") -> Iterator[Message]:
        """Yield a message with the hidden messages that belong before and after it."""
        stored = self._find(message, restorer)
        if stored is None:
            yield restorer.with_original_ids(message)
            return
        restorer.register(stored)
        message = restorer.with_original_ids(message)
        before = stored.rounds[:-1] if stored.mixed else stored.rounds
        yield from messages_of([Answer(rounds=before)])
        parts = (TextPart(stored.text),) if stored.text else ()
        if not stored.mixed:
            yield msgspec.structs.replace(message, parts=parts)
            return
        assistant, results = messages_of([Answer(rounds=(msgspec.structs.replace(stored.rounds[-1], text=""),))])
        yield msgspec.structs.replace(message, parts=parts, calls=(*assistant.calls, *message.calls))
        yield results

    def _find(self, message: Message, restorer: "_Restorer") -> _StoredRounds | None:
        for call in message.calls:
            if not call.id.startswith(_ID_PREFIX):
                continue
            if call.id in restorer.originals:
                return None
            stored = self._memory.item(self._tenant, _item_name(call.id))
            if stored is not None:
                return msgspec.convert(stored, _StoredRounds)
            restorer.lost = True
        return None


class _Restorer:
    """State of restoring one conversation."""

    def __init__(self, used_ids: set[str]) -> None:
        #: Maps client ids to upstream ids for calls whose rounds were already inserted. A client may spread the calls
        #: of one answer over several messages.
        self.originals: dict[str, str] = {}
        self.lost = False
        self._used_ids = used_ids

    def register(self, stored: _StoredRounds) -> None:
        """Add the ids of rounds that are about to be inserted."""
        # If the client merged two conversations, another call may already use the original id.
        self.originals |= {
            ours: ours if original in self._used_ids else original for ours, original in stored.original_ids.items()
        }
        self._used_ids.update(record.call.id for each in stored.rounds for record in each.calls)
        self._used_ids.update(self.originals.values())

    def with_original_ids(self, message: Message) -> Message:
        """Return a client's message with the ids that the upstream knows."""
        replace, originals = msgspec.structs.replace, self.originals
        if not any(each.id in originals for each in (*message.calls, *message.results)):
            return message
        calls = tuple(replace(each, id=originals.get(each.id, each.id)) for each in message.calls)
        results = tuple(replace(each, id=originals.get(each.id, each.id)) for each in message.results)
        return replace(message, calls=calls, results=results)


def _item_name(call_id: str) -> str:
    return f"rounds/{call_id}"


def item_names(messages: Sequence[Message]) -> Iterator[str]:
    """Return the names under which the rounds of these messages may be stored."""
    return (_item_name(call.id) for message in messages for call in message.calls if call.id.startswith(_ID_PREFIX))

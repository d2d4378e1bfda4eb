"""Rounds that ran in the proxy and that a client does not see, kept until the client comes back.

A round may hold calls of the server's tools and of the client's. The client sees its own only, under ids that are
drawn here: those of an upstream are unique within one conversation at best, and what is hidden behind a call must never
turn up in another. When the client returns with their results, what the server had found out is put back in its place,
and the calls have the ids again that the upstream gave them. Kept in the memory that all processes share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ....core.types import Message, Note, TextPart, ToolCall
from ....engine.rounds.expansion import messages_of
from ....engine.rounds.transcript import Answer, Round
from ....runtime.tool_memory import Conversation
from ...observe.ids import new_id

#: How the ids begin that are drawn here. As those of emulated calls do: if what belongs to one is lost, it does not go
#: to an upstream that knows no ids (`protocols.atomic`).
_DRAWN = "emulated_served_"
_LOST = Note("server_rounds_lost", "what the server's tools had found before a call is not kept, or not any more")


class _Kept(msgspec.Struct, frozen=True):
    """The rounds of an answer; the last one is that of the client's calls, if `mixed`."""

    rounds: tuple[Round, ...]
    mixed: bool
    #: What the model said along with the client's calls.
    text: str
    #: The ids that the upstream gave to these calls, by those that the client knows.
    handed: dict[str, str]


class LoopMemory:
    """What one tenant's conversations lack."""

    def __init__(self, conversation: Conversation, tenant: str) -> None:
        self._conversation = conversation
        self._tenant = tenant

    def keep(self, answer: Answer, handed: Sequence[ToolCall], *, mixed: bool) -> tuple[ToolCall, ...]:
        """Keep the rounds of an answer that ends with calls for the client; `mixed`: made along with the last round.

        These calls as the client is to see them: under ids of their own, if something is hidden behind them.
        """
        if not answer.rounds:
            return tuple(handed)
        shown = tuple(msgspec.structs.replace(call, id=_DRAWN + new_id()) for call in handed)
        text = answer.rounds[-1].text if mixed else answer.content
        ids = {ours.id: call.id for ours, call in zip(shown, handed, strict=True)}
        kept = msgspec.to_builtins(_Kept(answer.rounds, mixed, text, ids))
        for call in shown:
            self._conversation.keep_item(self._tenant, _name(call.id), kept)
        return shown

    def put_back(self, messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Note, ...]]:
        """The conversation with what the client did not see, and what is to be said about it."""
        back = _Return({call.id for message in messages for call in message.calls})
        whole = tuple(made for message in messages for made in self._with_rounds(message, back))
        return whole, (_LOST,) if back.lost else ()

    def _with_rounds(self, message: Message, back: _Return) -> Iterator[Message]:
        """A message and what belongs to it."""
        kept = self._kept(message, back)
        if kept is None:
            yield back.renamed(message)
            return
        back.meet(kept)
        message = back.renamed(message)
        before = kept.rounds[:-1] if kept.mixed else kept.rounds
        yield from messages_of([Answer(rounds=before)])
        parts = (TextPart(kept.text),) if kept.text else ()
        if not kept.mixed:
            yield msgspec.structs.replace(message, parts=parts)
            return
        said, results = messages_of([Answer(rounds=(msgspec.structs.replace(kept.rounds[-1], text=""),))])
        yield msgspec.structs.replace(message, parts=parts, calls=(*said.calls, *message.calls))
        yield results

    def _kept(self, message: Message, back: _Return) -> _Kept | None:
        for call in message.calls:
            if not call.id.startswith(_DRAWN):
                continue
            if call.id in back.names:
                return None
            found = self._conversation.item(self._tenant, _name(call.id))
            if found is not None:
                return msgspec.convert(found, _Kept)
            back.lost = True
        return None


class _Return:
    """A client has come back: what was found of its conversation so far."""

    def __init__(self, taken: set[str]) -> None:
        #: The calls whose rounds stand there already, since a client may bring those of one answer in several messages;
        #: and the ids that they have for the upstream.
        self.names: dict[str, str] = {}
        self.lost = False
        self._taken = taken

    def meet(self, kept: _Kept) -> None:
        """The rounds of an answer are about to be put back."""
        # A client may have put two conversations together: then an id may be another call's by now.
        self.names |= {ours: ours if given in self._taken else given for ours, given in kept.handed.items()}
        self._taken |= {record.call.id for made in kept.rounds for record in made.calls} | set(self.names.values())

    def renamed(self, message: Message) -> Message:
        """A message of the client in the words of the upstream."""
        known: Mapping[str, str] = self.names
        if not any(each.id in known for each in (*message.calls, *message.results)):
            return message
        return msgspec.structs.replace(
            message,
            calls=tuple(msgspec.structs.replace(each, id=known.get(each.id, each.id)) for each in message.calls),
            results=tuple(msgspec.structs.replace(each, id=known.get(each.id, each.id)) for each in message.results),
        )


def _name(call_id: str) -> str:
    return f"rounds/{call_id}"


def names_of(messages: Sequence[Message]) -> Iterator[str]:
    """The names under which something of these messages may be kept."""
    return (_name(call.id) for message in messages for call in message.calls if call.id.startswith(_DRAWN))

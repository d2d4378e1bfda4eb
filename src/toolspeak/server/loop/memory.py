"""Rounds that ran in the proxy and that a client does not see, kept until the client comes back.

A round may hold calls of the server's tools and of the client's. The client sees its own only; when it returns with
their results, what the server had found out is put back in its place. Kept under the ids of the client's calls, in
the memory that all processes share. Above: `loop`. Below: `conversation`, `core.record`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ...conversation import Conversation
from ...core.expansion import messages_of
from ...core.model import Message, TextPart, ToolCall
from ...core.record import Answer, Round

__all__ = ["LoopMemory", "names_of"]


class _Kept(msgspec.Struct, frozen=True):
    """The rounds of an answer; the last one is that of the client's calls, if `mixed`."""

    rounds: tuple[Round, ...]
    mixed: bool
    #: What the model said along with the client's calls.
    text: str
    #: The ids of these calls.
    handed: tuple[str, ...] = ()


class LoopMemory:
    """What one tenant's conversations lack."""

    def __init__(self, conversation: Conversation, tenant: str) -> None:
        self._conversation = conversation
        self._tenant = tenant

    def keep(self, answer: Answer, handed: Sequence[ToolCall], *, mixed: bool) -> None:
        """Keep the rounds of an answer that ends with calls for the client; `mixed`: made along with the last round."""
        if not answer.rounds:
            return
        text = answer.rounds[-1].text if mixed else answer.content
        kept = msgspec.to_builtins(_Kept(answer.rounds, mixed, text, tuple(call.id for call in handed)))
        for call in handed:
            self._conversation.keep_item(self._tenant, _name(call.id), kept)

    def put_back(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The conversation with what the client did not see."""
        done: set[str] = set()
        return tuple(made for message in messages for made in self._with_rounds(message, done))

    def _with_rounds(self, message: Message, done: set[str]) -> Iterator[Message]:
        """A message and what belongs to it; `done` are the calls whose rounds stand there already."""
        kept = self._kept(message, done)
        if kept is None:
            yield message
            return
        done.update(kept.handed)  # a client may bring the calls of one answer in several messages
        before = kept.rounds[:-1] if kept.mixed else kept.rounds
        yield from messages_of([Answer(rounds=before)])
        parts = (TextPart(kept.text),) if kept.text else ()
        if not kept.mixed:
            yield msgspec.structs.replace(message, parts=parts)
            return
        said, results = messages_of([Answer(rounds=(msgspec.structs.replace(kept.rounds[-1], text=""),))])
        yield msgspec.structs.replace(message, parts=parts, calls=(*said.calls, *message.calls))
        yield results

    def _kept(self, message: Message, done: set[str]) -> _Kept | None:
        for call in message.calls:
            if call.id in done:
                return None
            found = self._conversation.item(self._tenant, _name(call.id))
            if found is not None:
                return msgspec.convert(found, _Kept)
        return None


def _name(call_id: str) -> str:
    return f"rounds/{call_id}"


def names_of(messages: Sequence[Message]) -> Iterator[str]:
    """The names under which something of these messages may be kept."""
    return (_name(call.id) for message in messages for call in message.calls)

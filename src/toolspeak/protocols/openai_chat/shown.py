"""Pictures, sounds and files in the only place where chat completions take them: messages of users.

What a tool showed goes into such a message behind the results of its turn; what an assistant or a system message of
another protocol showed is left out. A request that came by this protocol goes on as it came: its client knows its
server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from ...core.types import Media, Message, Note, Part, Request, TextPart, ToolResult
from .fields import PROTOCOL


def by_users(messages: Iterable[Message], request: Request) -> Iterator[Message]:
    """The messages, in which nobody but users shows anything."""
    shown: list[Part] = []
    for message in messages:
        if not _must_move(message, request):
            if shown and not _only_results(message):
                yield Message("user", tuple(shown))
                shown = []
            yield message
            continue
        for result in message.results:
            shown += _shown_by(result)
        if message.results:
            yield Message("tool", results=tuple(map(_told, message.results)), protocol=message.protocol)
        rest = replace(message, parts=_sayable(message), results=())
        if message.role == "tool" or not (rest.parts or rest.calls):
            continue
        if shown:
            yield Message("user", tuple(shown))
            shown = []
        yield rest
    if shown:
        yield Message("user", tuple(shown))


def shown_notes(request: Request) -> list[Note]:
    """What `by_users` moves and leaves out."""
    moving = [message for message in request.messages if _must_move(message, request)]
    notes: list[Note] = []
    if any(map(_media, (result.parts for message in moving for result in message.results))):
        notes.append(Note("media_moved", "what a tool showed stands in a message of the user, behind the results"))
    if any(message.role not in ("user", "tool") and _media(message.parts) for message in moving):
        notes.append(Note("media_dropped", "only users show pictures and files"))
    return notes


def _must_move(message: Message, request: Request) -> bool:
    if (message.protocol or request.protocol) == PROTOCOL:
        return False
    if message.role != "user" and _media(message.parts):
        return True
    return any(_media(result.parts) for result in message.results)


def _media(parts: Iterable[Part]) -> bool:
    return any(isinstance(part, Media) for part in parts)


def _only_results(message: Message) -> bool:
    return message.role == "tool" or (bool(message.results) and not message.parts)


def _shown_by(result: ToolResult) -> list[Part]:
    """What a result showed, with a word that tells whose it is."""
    media = [part for part in result.parts if isinstance(part, Media)]
    return [TextPart(f"The result of the call `{result.id}`:"), *media] if media else []


def _told(result: ToolResult) -> ToolResult:
    return replace(result, parts=tuple(part for part in result.parts if not isinstance(part, Media)))


def _sayable(message: Message) -> tuple[Part, ...]:
    if message.role == "user":
        return message.parts
    return tuple(part for part in message.parts if not isinstance(part, Media))

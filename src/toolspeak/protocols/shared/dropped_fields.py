"""What a request loses on its way to a protocol that it did not come by, as notes: the same words in every codec.

Each codec adds what it alone cannot say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ...core.types import Media, Message, Note, Opaque, Part, Request, Tool, ToolChoice
from ...errors import UsageError
from .fields import ROUTING_FIELDS, speaks

#: Kinds of tools that every protocol has a word for.
FUNCTIONS = ("function", "custom")

#: Words in `Options.extra` that only remember how a common field was written, and fields without which the answer is
#: the same.
_NOTHING_LOST = ROUTING_FIELDS | frozenset(
    "client_metadata functions include max_completion_tokens metadata output_config.format output_format"
    " prompt_cache_key prompt_cache_retention response_format safety_identifier store stream_options tool_choice"
    " user".split()
)
#: So many names are told.
_NAMED = 8


def all_parts(request: Request) -> Iterator[Part]:
    """Every part of every message, those of results included."""
    for message in request.messages:
        yield from _parts(message)


def _parts(message: Message) -> Iterator[Part]:
    yield from message.parts
    for result in message.results:
        yield from result.parts


def foreign_notes(request: Request, protocol: str, own: Callable[[Tool], bool] = lambda _: False) -> list[Note]:
    """Tools, parts and fields of another protocol's own, of which this one knows nothing.

    `own`: whether a tool is of a kind that is this protocol's, wherever it comes from.
    """
    notes: list[Note] = []
    ours = request.protocol in (protocol, "")
    if not ours:
        notes += [
            Note("tool_dropped", f"`{tool.name}`: a tool of kind `{tool.kind}` has no word in this protocol")
            for tool in request.tools
            if tool.kind not in FUNCTIONS and not own(tool)
        ]
    foreign = (message for message in request.messages if not speaks(message, request, protocol))
    opaque = next((part.kind for message in foreign for part in _parts(message) if isinstance(part, Opaque)), None)
    if opaque is not None:
        notes.append(Note("opaque_dropped", f"a part of kind `{opaque}` has no word in this protocol"))
    return notes if ours else notes + lost_fields(request)


def sendable_choice(request: Request, protocol: str, own: Callable[[Tool], bool] = lambda _: False) -> ToolChoice:
    """The choice among the tools that can be sent.

    Raises:
        UsageError: it demands one that cannot: whoever is asked could only fail.
    """
    choice = request.tool_choice
    if request.protocol in (protocol, "") or not choice.allowed:
        return choice
    dropped = {tool.name for tool in request.tools if tool.kind not in FUNCTIONS and not own(tool)}
    left = tuple(name for name in choice.allowed if name not in dropped)
    if left:
        return ToolChoice(choice.mode, left, choice.parallel)
    if choice.demands:
        message = f"`tool_choice` asks for `{choice.allowed[0]}`, which the upstream's protocol has no word for"
        raise UsageError(message, hint="choose another tool, or an upstream that has this one")
    return ToolChoice("none")


def lost_fields(request: Request) -> list[Note]:
    """The options that only the protocol of a request has a word for."""
    fields = sorted(request.options.extra.keys() - _NOTHING_LOST)
    if not fields:
        return []
    more = ", ..." if len(fields) > _NAMED else ""
    named = ", ".join(f"`{field}`" for field in fields[:_NAMED])
    return [Note("fields_dropped", f"words of `{request.protocol}`: {named}{more}")]


def lost_media(request: Request, *kinds: str) -> list[Note]:
    """Media of kinds that cannot be sent."""
    return _lost_media(all_parts(request), lambda media: media.kind not in kinds)


def foreign_media(request: Request, protocol: str, sendable: Callable[[Media], bool]) -> list[Note]:
    """Media of another protocol that cannot be sent."""
    foreign = (message for message in request.messages if not speaks(message, request, protocol))
    return _lost_media((part for message in foreign for part in _parts(message)), sendable)


def _lost_media(parts: Iterable[Part], sendable: Callable[[Media], bool]) -> list[Note]:
    found = next((part.kind for part in parts if isinstance(part, Media) and not sendable(part)), None)
    return [] if found is None else [Note("media_dropped", f"this protocol does not carry this kind of {found}")]

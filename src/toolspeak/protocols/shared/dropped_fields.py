"""Notes about everything in a request that another protocol cannot express. All codecs share this wording."""

from collections.abc import Callable, Iterable, Iterator

from ...core.types import Media, Message, Note, Opaque, Part, Request, Tool, ToolChoice
from ...errors import UsageError
from .fields import ROUTING_FIELDS
from .request_parts import is_from_protocol

#: Tool kinds that every protocol supports.
COMMON_TOOL_KINDS = ("function", "custom")

#: Entries of `Options.extra` that can be dropped without a note, because they do not affect the reply.
_HARMLESS_FIELDS = ROUTING_FIELDS | frozenset(
    "client_metadata functions include max_completion_tokens metadata output_config.format output_format"
    " prompt_cache_key prompt_cache_retention response_format safety_identifier store stream_options tool_choice"
    " user".split()
)
_MAX_LISTED_FIELDS = 8


def all_parts(request: Request) -> Iterator[Part]:
    """Yield every part of every message, including the parts of tool results."""
    for message in request.messages:
        yield from _parts(message)


def _parts(message: Message) -> Iterator[Part]:
    yield from message.parts
    for result in message.results:
        yield from result.parts


def foreign_notes(request: Request, protocol: str, own: Callable[[Tool], bool] = lambda _: False) -> list[Note]:
    """Return notes about tools, parts and fields of other protocols that `protocol` cannot express.

    `own` says whether a tool from another protocol is a built-in tool of this one.
    """
    notes: list[Note] = []
    same_protocol = request.protocol in (protocol, "")
    if not same_protocol:
        notes += [
            Note("tool_dropped", f"`{tool.name}`: the upstream's protocol does not support tools of kind `{tool.kind}`")
            for tool in request.tools
            if tool.kind not in COMMON_TOOL_KINDS and not own(tool)
        ]
    foreign = (message for message in request.messages if not is_from_protocol(message, request, protocol))
    opaque = next((part.kind for message in foreign for part in _parts(message) if isinstance(part, Opaque)), None)
    if opaque is not None:
        notes.append(Note("opaque_dropped", f"the upstream's protocol does not support parts of kind `{opaque}`"))
    return notes if same_protocol else notes + dropped_field_notes(request)


def sendable_choice(request: Request, protocol: str, own: Callable[[Tool], bool] = lambda _: False) -> ToolChoice:
    """Restrict the tool choice to tools that can be sent. Raises UsageError if it requires another tool."""
    choice = request.tool_choice
    if request.protocol in (protocol, "") or not choice.allowed:
        return choice
    dropped = {tool.name for tool in request.tools if tool.kind not in COMMON_TOOL_KINDS and not own(tool)}
    remaining = tuple(name for name in choice.allowed if name not in dropped)
    if remaining:
        return ToolChoice(choice.mode, remaining, choice.parallel)
    if choice.demands:
        message = f"`tool_choice` requires `{choice.allowed[0]}`, which the upstream's protocol does not support"
        raise UsageError(message, hint="choose another tool or an upstream that supports this one")
    return ToolChoice("none")


def dropped_field_notes(request: Request) -> list[Note]:
    """Return a note about options that exist only in the protocol of the request."""
    fields = sorted(request.options.extra.keys() - _HARMLESS_FIELDS)
    if not fields:
        return []
    more = ", ..." if len(fields) > _MAX_LISTED_FIELDS else ""
    listed = ", ".join(f"`{field}`" for field in fields[:_MAX_LISTED_FIELDS])
    return [Note("fields_dropped", f"these fields exist only in `{request.protocol}`: {listed}{more}")]


def dropped_media_notes(request: Request, *kinds: str) -> list[Note]:
    """Return a note if the request contains media of one of these kinds, which cannot be sent."""
    return _dropped_media(all_parts(request), lambda media: media.kind not in kinds)


def foreign_media_notes(request: Request, protocol: str, sendable: Callable[[Media], bool]) -> list[Note]:
    """Return a note if media from another protocol cannot be sent."""
    foreign = (message for message in request.messages if not is_from_protocol(message, request, protocol))
    return _dropped_media((part for message in foreign for part in _parts(message)), sendable)


def _dropped_media(parts: Iterable[Part], sendable: Callable[[Media], bool]) -> list[Note]:
    kind = next((part.kind for part in parts if isinstance(part, Media) and not sendable(part)), None)
    return [] if kind is None else [Note("media_dropped", f"the upstream does not support this type of {kind}")]

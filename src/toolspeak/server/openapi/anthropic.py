"""The bodies of Anthropic's messages as types, for the description of the proxy.

Held to what the codec writes and reads by a test.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET

from .shared import Absent, Called, Extension, Fraction, ModelName, Name, Object, Positive, either

# ---------------------------------------------------------------------------------------------------------- blocks


class AnthropicText(msgspec.Struct, tag_field="type", tag="text"):
    """A piece of text."""

    text: str
    citations: list[Object] | Absent | None = UNSET
    cache_control: Object | Absent | None = UNSET


class AnthropicThinking(msgspec.Struct, tag_field="type", tag="thinking"):
    """What the model thought; who signed it wants it back as it is."""

    thinking: str
    signature: str


class AnthropicUse(msgspec.Struct, tag_field="type", tag="tool_use"):
    """A call that the model made."""

    id: str
    name: Called
    input: Object
    cache_control: Object | Absent | None = UNSET


class AnthropicMedia(msgspec.Struct):
    """The bytes of a picture or a file in base64, or where it is."""

    type: Literal["base64", "url", "text", "file", "content"]
    media_type: str | Absent = UNSET
    data: str | Absent = UNSET
    url: str | Absent = UNSET


class AnthropicImage(msgspec.Struct, tag_field="type", tag="image"):
    """A picture."""

    source: AnthropicMedia
    cache_control: Object | Absent | None = UNSET


class AnthropicDocument(msgspec.Struct, tag_field="type", tag="document"):
    """A file."""

    source: AnthropicMedia
    title: str | Absent | None = UNSET
    cache_control: Object | Absent | None = UNSET


class AnthropicResult(msgspec.Struct, tag_field="type", tag="tool_result"):
    """What a tool answered."""

    tool_use_id: str
    content: str | list[Annotated[Object, either(AnthropicText, AnthropicImage, AnthropicDocument)]] | Absent = UNSET
    is_error: bool | Absent = UNSET
    cache_control: Object | Absent | None = UNSET


AnthropicBlock = Annotated[
    Object,
    either(AnthropicText, AnthropicThinking, AnthropicUse, AnthropicResult, AnthropicImage, AnthropicDocument),
]


class AnthropicMessage(msgspec.Struct):
    """One message."""

    role: Literal["user", "assistant", "system"]
    content: str | list[AnthropicBlock]


# -------------------------------------------------------------------------------------------------------- requests


class AnthropicTool(msgspec.Struct, omit_defaults=True):
    """A tool that the model may call. A `type` other than `custom` names one of the upstream's own."""

    name: Name
    input_schema: Object | None = None
    description: str | None = None
    type: str | None = None
    cache_control: Object | None = None


class AnthropicAuto(msgspec.Struct, tag_field="type", tag="auto", omit_defaults=True):
    """Tools may be called."""

    disable_parallel_tool_use: bool = False


class AnthropicAny(msgspec.Struct, tag_field="type", tag="any", omit_defaults=True):
    """A tool must be called."""

    disable_parallel_tool_use: bool = False


class AnthropicNamed(msgspec.Struct, tag_field="type", tag="tool", omit_defaults=True):
    """This tool must be called."""

    name: Name
    disable_parallel_tool_use: bool = False


class AnthropicNone(msgspec.Struct, tag_field="type", tag="none"):
    """No tool may be called."""


AnthropicChoice = AnthropicAuto | AnthropicAny | AnthropicNamed | AnthropicNone


class AnthropicRequest(msgspec.Struct, omit_defaults=True):
    """POST /v1/messages"""

    model: ModelName
    max_tokens: Positive
    messages: Annotated[list[AnthropicMessage], msgspec.Meta(min_length=1)]
    system: str | list[AnthropicText] | None = None
    tools: list[AnthropicTool] | None = None
    tool_choice: AnthropicChoice | None = None
    stream: bool | None = None
    temperature: Fraction | None = None
    top_p: Fraction | None = None
    stop_sequences: list[str] | None = None
    thinking: Object | None = None
    output_config: Object | None = None
    output_format: Object | None = None
    metadata: Object | None = None


class AnthropicCountRequest(msgspec.Struct, omit_defaults=True):
    """POST /v1/messages/count_tokens"""

    model: ModelName
    messages: Annotated[list[AnthropicMessage], msgspec.Meta(min_length=1)]
    system: str | list[AnthropicText] | None = None
    tools: list[AnthropicTool] | None = None
    tool_choice: AnthropicChoice | None = None
    thinking: Object | None = None


# --------------------------------------------------------------------------------------------------------- answers


class ThinkingTokens(msgspec.Struct):
    """Which of the tokens that came out were thoughts."""

    thinking_tokens: int


class AnthropicUsage(msgspec.Struct):
    """Tokens used; those of the cache are not among those that went in."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: ThinkingTokens | Absent = UNSET


class AnthropicReply(msgspec.Struct):
    """A whole answer; with `stream`, a stream of named events."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[Annotated[Object, either(AnthropicText, AnthropicThinking, AnthropicUse)]]
    stop_reason: str
    stop_sequence: str | None
    usage: AnthropicUsage
    stop_details: Object | Absent = UNSET
    container: Object | Absent = UNSET
    toolspeak: Extension | Absent = UNSET


class AnthropicProblem(msgspec.Struct):
    """What went wrong."""

    type: str
    message: str
    details: Object | Absent = UNSET


class AnthropicError(msgspec.Struct):
    """An error in Anthropic's shape."""

    type: Literal["error"]
    error: AnthropicProblem


class AnthropicCount(msgspec.Struct):
    """How many tokens a request has, roughly."""

    input_tokens: int


#: What is named only where several kinds are possible.
ANTHROPIC_KINDS: tuple[type, ...] = (
    AnthropicText,
    AnthropicThinking,
    AnthropicUse,
    AnthropicResult,
    AnthropicImage,
    AnthropicDocument,
)
#: What may hold more than is listed, and why.
ANTHROPIC_OPEN: dict[type, str] = {
    AnthropicUse: "what an upstream says of a call besides, such as who called",
    AnthropicUsage: "what an upstream counts besides, such as searches",
}

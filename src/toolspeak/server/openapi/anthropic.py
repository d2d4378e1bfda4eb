"""Request and reply types of Anthropic's Messages API, for OpenAPI. Tests compare them with the codec."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET

from .shared import Absent, CallName, Extension, Fraction, ModelName, Name, Object, Positive, known_or_other

# ---------------------------------------------------------------------------------------------------------- blocks


class AnthropicText(msgspec.Struct, tag_field="type", tag="text"):
    """A piece of text."""

    text: str
    citations: list[Object] | Absent | None = UNSET
    cache_control: Object | Absent | None = UNSET


class AnthropicThinking(msgspec.Struct, tag_field="type", tag="thinking"):
    """The model's thinking, which is signed and must be sent back unchanged."""

    thinking: str
    signature: str


class AnthropicUse(msgspec.Struct, tag_field="type", tag="tool_use"):
    """A tool call."""

    id: str
    name: CallName
    input: Object
    cache_control: Object | Absent | None = UNSET


class AnthropicMedia(msgspec.Struct):
    """An image or a file: base64 data, text or a URL."""

    type: Literal["base64", "url", "text", "file", "content"]
    media_type: str | Absent = UNSET
    data: str | Absent = UNSET
    url: str | Absent = UNSET


class AnthropicImage(msgspec.Struct, tag_field="type", tag="image"):
    """An image."""

    source: AnthropicMedia
    cache_control: Object | Absent | None = UNSET


class AnthropicDocument(msgspec.Struct, tag_field="type", tag="document"):
    """A file."""

    source: AnthropicMedia
    title: str | Absent | None = UNSET
    cache_control: Object | Absent | None = UNSET


class AnthropicResult(msgspec.Struct, tag_field="type", tag="tool_result"):
    """The result of a tool call."""

    tool_use_id: str
    content: (
        str | list[Annotated[Object, known_or_other(AnthropicText, AnthropicImage, AnthropicDocument)]] | Absent
    ) = UNSET
    is_error: bool | Absent = UNSET
    cache_control: Object | Absent | None = UNSET


AnthropicBlock = Annotated[
    Object,
    known_or_other(AnthropicText, AnthropicThinking, AnthropicUse, AnthropicResult, AnthropicImage, AnthropicDocument),
]


class AnthropicMessage(msgspec.Struct):
    """One message."""

    role: Literal["user", "assistant", "system"]
    content: str | list[AnthropicBlock]


# -------------------------------------------------------------------------------------------------------- requests


class AnthropicTool(msgspec.Struct, omit_defaults=True):
    """A tool that the model may call. A `type` other than `custom` selects one of the upstream's own tools."""

    name: Name
    input_schema: Object | None = None
    description: str | None = None
    type: str | None = None
    cache_control: Object | None = None


class AnthropicAuto(msgspec.Struct, tag_field="type", tag="auto", omit_defaults=True):
    """The model may call tools."""

    disable_parallel_tool_use: bool = False


class AnthropicAny(msgspec.Struct, tag_field="type", tag="any", omit_defaults=True):
    """The model must call a tool."""

    disable_parallel_tool_use: bool = False


class AnthropicNamed(msgspec.Struct, tag_field="type", tag="tool", omit_defaults=True):
    """The model must call this tool."""

    name: Name
    disable_parallel_tool_use: bool = False


class AnthropicNone(msgspec.Struct, tag_field="type", tag="none"):
    """The model must not call tools."""


AnthropicChoice = AnthropicAuto | AnthropicAny | AnthropicNamed | AnthropicNone


class AnthropicCountRequest(msgspec.Struct, omit_defaults=True):
    """POST /v1/messages/count_tokens"""

    model: ModelName
    messages: Annotated[list[AnthropicMessage], msgspec.Meta(min_length=1)]
    system: str | list[AnthropicText] | None = None
    tools: list[AnthropicTool] | None = None
    tool_choice: AnthropicChoice | None = None
    thinking: Object | None = None


class AnthropicRequest(AnthropicCountRequest, omit_defaults=True, kw_only=True):
    """POST /v1/messages"""

    max_tokens: Positive
    stream: bool | None = None
    temperature: Fraction | None = None
    top_p: Fraction | None = None
    stop_sequences: list[str] | None = None
    output_config: Object | None = None
    output_format: Object | None = None
    metadata: Object | None = None


# --------------------------------------------------------------------------------------------------------- replies


class ThinkingTokens(msgspec.Struct):
    """Output tokens used for thinking."""

    thinking_tokens: int


class AnthropicUsage(msgspec.Struct):
    """Token usage; `input_tokens` does not include cached tokens."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: ThinkingTokens | Absent = UNSET


class AnthropicReply(msgspec.Struct):
    """A complete reply; with `stream`, the reply is a stream of named events instead."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[Annotated[Object, known_or_other(AnthropicText, AnthropicThinking, AnthropicUse)]]
    stop_reason: str
    stop_sequence: str | None
    usage: AnthropicUsage
    stop_details: Object | Absent = UNSET
    container: Object | Absent = UNSET
    toolspeak: Extension | Absent = UNSET


class AnthropicProblem(msgspec.Struct):
    """Details of an error."""

    type: str
    message: str
    details: Object | Absent = UNSET


class AnthropicError(msgspec.Struct):
    """An error in Anthropic's format."""

    type: Literal["error"]
    error: AnthropicProblem


class AnthropicCount(msgspec.Struct):
    """The estimated number of tokens in a request."""

    input_tokens: int


#: Types that allow additional properties, with the reason.
ANTHROPIC_OPEN: dict[type, str] = {
    AnthropicUse: "additional fields from the upstream, such as `caller`",
    AnthropicUsage: "additional counts from the upstream, such as searches",
}

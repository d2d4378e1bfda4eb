"""Request and reply types of OpenAI's Chat Completions API, for OpenAPI. Tests compare them with the codec."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET

from .shared import (
    Absent,
    CallName,
    Extension,
    Fraction,
    ModelName,
    Name,
    Object,
    Positive,
    Temperature,
    known_or_other,
)

# ------------------------------------------------------------------------------------------------------- messages


class TextPart(msgspec.Struct, tag_field="type", tag="text"):
    """A piece of text."""

    text: str


class ImageURL(msgspec.Struct, omit_defaults=True):
    """The URL of an image, possibly a `data:` URL."""

    url: str
    detail: Literal["auto", "low", "high"] = "auto"


class ImagePart(msgspec.Struct, tag_field="type", tag="image_url"):
    """An image."""

    image_url: ImageURL


class Sound(msgspec.Struct):
    """Audio in base64."""

    data: str
    format: Literal["wav", "mp3"] = "wav"


class AudioPart(msgspec.Struct, tag_field="type", tag="input_audio"):
    """Audio."""

    input_audio: Sound


class File(msgspec.Struct, omit_defaults=True):
    """A file as a `data:` URL, or the id of an uploaded file."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class FilePart(msgspec.Struct, tag_field="type", tag="file"):
    """A file."""

    file: File


ChatPart = Annotated[Object, known_or_other(TextPart, ImagePart, AudioPart, FilePart)]


class CalledFunction(msgspec.Struct):
    """The name of a function and its arguments as JSON text."""

    name: CallName
    arguments: str = "{}"


class FunctionCall(msgspec.Struct, tag_field="type", tag="function"):
    """A function call."""

    id: str
    function: CalledFunction


class CalledCustom(msgspec.Struct):
    """The name of a custom tool and its input."""

    name: CallName
    input: str


class CustomCall(msgspec.Struct, tag_field="type", tag="custom"):
    """A call to a custom tool."""

    id: str
    custom: CalledCustom


class ChatMessage(msgspec.Struct, omit_defaults=True):
    """One message of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ChatPart] | None = None
    name: str | None = None
    tool_calls: list[FunctionCall | CustomCall] | None = None
    tool_call_id: str | None = None
    function_call: CalledFunction | None = None
    reasoning_content: str | None = None


# ---------------------------------------------------------------------------------------------------------- tools


class Function(msgspec.Struct, omit_defaults=True):
    """A function that the model may call."""

    name: Name
    description: str = ""
    parameters: Object | None = None
    strict: bool | None = None


class ChatTool(msgspec.Struct, tag_field="type", tag="function"):
    """A tool that the model may call."""

    function: Function


class Custom(msgspec.Struct, omit_defaults=True):
    """A custom tool, whose input is text."""

    name: Name
    description: str = ""
    format: Object | None = None


class CustomTool(msgspec.Struct, tag_field="type", tag="custom"):
    """A custom tool, whose input is text."""

    custom: Custom


AnyChatTool = Annotated[Object, known_or_other(ChatTool, CustomTool)]


class ToolName(msgspec.Struct):
    """The name of a tool."""

    name: Name


class FunctionChoice(msgspec.Struct, tag_field="type", tag="function"):
    """The model must call this function."""

    function: ToolName


class CustomChoice(msgspec.Struct, tag_field="type", tag="custom"):
    """The model must call this custom tool."""

    custom: ToolName


class Allowed(msgspec.Struct):
    """The only tools that the model may call, and whether it must call one."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[FunctionChoice | CustomChoice], msgspec.Meta(min_length=1)]


class AllowedChoice(msgspec.Struct, tag_field="type", tag="allowed_tools"):
    """A tool choice that restricts the model to some of the tools."""

    allowed_tools: Allowed


class StreamOptions(msgspec.Struct, omit_defaults=True):
    """Stream options."""

    include_usage: bool | None = None


class ChatRequest(msgspec.Struct, omit_defaults=True):
    """POST /v1/chat/completions"""

    model: ModelName
    messages: Annotated[list[ChatMessage], msgspec.Meta(min_length=1)]
    tools: list[AnyChatTool] | None = None
    tool_choice: Literal["auto", "none", "required"] | FunctionChoice | CustomChoice | AllowedChoice | None = None
    parallel_tool_calls: bool | None = None
    functions: list[Function] | None = None
    function_call: Literal["auto", "none"] | ToolName | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Positive | None = None
    max_completion_tokens: Positive | None = None
    temperature: Temperature | None = None
    top_p: Fraction | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=128)] | None = None
    response_format: Object | None = None


# --------------------------------------------------------------------------------------------------------- replies


class CachedTokens(msgspec.Struct):
    """Input tokens read from the prompt cache."""

    cached_tokens: int


class ReasoningTokens(msgspec.Struct):
    """Output tokens used for thinking."""

    reasoning_tokens: int


class ChatUsage(msgspec.Struct):
    """Token usage."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens
    completion_tokens_details: ReasoningTokens


class ChatAnswer(msgspec.Struct):
    """The assistant's message; the last fields are extensions used by some upstreams."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: str | Absent = UNSET
    tool_calls: list[FunctionCall | CustomCall] | Absent = UNSET
    function_call: CalledFunction | Absent = UNSET
    annotations: list[Object] | Absent = UNSET
    audio: Object | Absent = UNSET
    images: list[Object] | Absent = UNSET
    reasoning_details: list[Object] | Absent = UNSET


class ChatChoice(msgspec.Struct):
    """One answer."""

    index: int
    message: ChatAnswer
    logprobs: Object | None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter", "function_call"]


class ChatReply(msgspec.Struct):
    """A complete reply; with `stream`, the reply is a stream of chunks in `data:` lines, then `[DONE]`."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage
    system_fingerprint: str | Absent = UNSET
    service_tier: str | Absent = UNSET
    toolspeak: Extension | Absent = UNSET


class OpenAIProblem(msgspec.Struct):
    """Details of an error."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(msgspec.Struct):
    """An error in OpenAI's format."""

    error: OpenAIProblem


#: Types that allow additional properties, with the reason.
CHAT_OPEN: dict[type, str] = {
    FunctionCall: "additional fields from the upstream, such as a signature that must be sent back",
    CustomCall: "additional fields from the upstream, as in a function call",
}

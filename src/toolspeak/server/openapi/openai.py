"""The bodies of OpenAI's chat completions as types, for the description of the proxy.

Held to what the codec writes and reads by a test.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET

from .shared import Absent, Called, Extension, Fraction, ModelName, Name, Object, Positive, Temperature, either

# ------------------------------------------------------------------------------------------------------- messages


class TextPart(msgspec.Struct, tag_field="type", tag="text"):
    """A piece of text."""

    text: str


class ImageURL(msgspec.Struct, omit_defaults=True):
    """Where a picture is, or the picture itself as a `data:` URL."""

    url: str
    detail: Literal["auto", "low", "high"] = "auto"


class ImagePart(msgspec.Struct, tag_field="type", tag="image_url"):
    """A picture."""

    image_url: ImageURL


class Sound(msgspec.Struct):
    """A sound in base64."""

    data: str
    format: Literal["wav", "mp3"] = "wav"


class AudioPart(msgspec.Struct, tag_field="type", tag="input_audio"):
    """A sound."""

    input_audio: Sound


class File(msgspec.Struct, omit_defaults=True):
    """A file as a `data:` URL, or one that the upstream has."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class FilePart(msgspec.Struct, tag_field="type", tag="file"):
    """A file."""

    file: File


ChatPart = Annotated[Object, either(TextPart, ImagePart, AudioPart, FilePart)]


class CalledFunction(msgspec.Struct):
    """The name of a function and its arguments as JSON text."""

    name: Called
    arguments: str = "{}"


class FunctionCall(msgspec.Struct, tag_field="type", tag="function"):
    """A call of a function that the model made."""

    id: str
    function: CalledFunction


class CalledCustom(msgspec.Struct):
    """The name of a custom tool and its input."""

    name: Called
    input: str


class CustomCall(msgspec.Struct, tag_field="type", tag="custom"):
    """A call of a custom tool that the model made."""

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
    """A tool."""

    function: Function


class Custom(msgspec.Struct, omit_defaults=True):
    """A tool that takes a text."""

    name: Name
    description: str = ""
    format: Object | None = None


class CustomTool(msgspec.Struct, tag_field="type", tag="custom"):
    """A tool that takes a text."""

    custom: Custom


class ToolName(msgspec.Struct):
    """The name of a tool."""

    name: Name


class FunctionChoice(msgspec.Struct, tag_field="type", tag="function"):
    """This function must be called."""

    function: ToolName


class CustomChoice(msgspec.Struct, tag_field="type", tag="custom"):
    """This custom tool must be called."""

    custom: ToolName


class Allowed(msgspec.Struct):
    """Only these tools may, or must, be called."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[FunctionChoice | CustomChoice], msgspec.Meta(min_length=1)]


class AllowedChoice(msgspec.Struct, tag_field="type", tag="allowed_tools"):
    """Only some of the tools may, or must, be called."""

    allowed_tools: Allowed


class StreamOptions(msgspec.Struct, omit_defaults=True):
    """What a stream is to say besides."""

    include_usage: bool | None = None


class ChatRequest(msgspec.Struct, omit_defaults=True):
    """POST /v1/chat/completions"""

    model: ModelName
    messages: Annotated[list[ChatMessage], msgspec.Meta(min_length=1)]
    tools: list[Annotated[Object, either(ChatTool, CustomTool)]] | None = None
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
    n: Literal[1] | None = None
    response_format: Object | None = None


# --------------------------------------------------------------------------------------------------------- answers


class CachedTokens(msgspec.Struct):
    """Which of the tokens that went in were known."""

    cached_tokens: int


class ReasoningTokens(msgspec.Struct):
    """Which of the tokens that came out were thoughts."""

    reasoning_tokens: int


class ChatUsage(msgspec.Struct):
    """Tokens used."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens
    completion_tokens_details: ReasoningTokens


class ChatAnswer(msgspec.Struct):
    """What the model said; the last fields are the upstream's own."""

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
    """A whole answer; with `stream`, a stream of events whose `data` are chunks, then `[DONE]`."""

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
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(msgspec.Struct):
    """An error in OpenAI's shape."""

    error: OpenAIProblem


#: What is named only where several kinds are possible.
CHAT_KINDS: tuple[type, ...] = (TextPart, ImagePart, AudioPart, FilePart, ChatTool, CustomTool)
#: What may hold more than is listed, and why.
CHAT_OPEN: dict[type, str] = {
    FunctionCall: "what an upstream says of a call besides, such as a signature that it wants back",
    CustomCall: "as of the call of a function",
}

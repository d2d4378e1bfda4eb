"""The bodies of Anthropic's, Gemini's and Ollama's protocols as types, for the description of the proxy.

Above: `openapi.schemas`. Below: `openapi.openai`, which holds what they share.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .openai import Base64, ChatTool, Fraction, ModelName, Name, Object, Positive, Temperature, Whole

__all__ = [
    "AnthropicCount",
    "AnthropicError",
    "AnthropicReply",
    "AnthropicRequest",
    "GeminiCount",
    "GeminiError",
    "GeminiReply",
    "GeminiRequest",
    "GenerateReply",
    "GenerateRequest",
    "OllamaError",
    "OllamaModels",
    "OllamaReply",
    "OllamaRequest",
    "OllamaShow",
]


# -------------------------------------------------------------------------------------------- Anthropic's messages


class AnthropicText(msgspec.Struct, tag_field="type", tag="text"):
    """A piece of text."""

    text: Annotated[str, msgspec.Meta(min_length=1)]


class AnthropicUse(msgspec.Struct, tag_field="type", tag="tool_use"):
    """A call that the model made."""

    id: str
    name: Name
    input: Object


class AnthropicResult(msgspec.Struct, tag_field="type", tag="tool_result"):
    """What a tool answered."""

    tool_use_id: str
    content: str = ""
    is_error: bool = False


class AnthropicMessage(msgspec.Struct):
    """One message."""

    role: Literal["user", "assistant"]
    content: str | list[AnthropicText | AnthropicUse | AnthropicResult]


class AnthropicTool(msgspec.Struct, omit_defaults=True):
    """A tool that the model may call."""

    name: Name
    input_schema: Object
    description: str = ""


class AnthropicChoice(msgspec.Struct, omit_defaults=True):
    """Whether tools may or must be called."""

    type: Literal["auto", "any", "none"]
    disable_parallel_tool_use: bool = False


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


class AnthropicUsage(msgspec.Struct):
    """Tokens used."""

    input_tokens: int
    output_tokens: int


class AnthropicReply(msgspec.Struct):
    """A whole answer; with `stream`, a stream of named events."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[Object]
    stop_reason: str | None
    usage: AnthropicUsage


class AnthropicProblem(msgspec.Struct):
    """What went wrong."""

    type: str
    message: str


class AnthropicError(msgspec.Struct):
    """An error in Anthropic's shape."""

    type: Literal["error"]
    error: AnthropicProblem


class AnthropicCount(msgspec.Struct):
    """How many tokens a request has, roughly."""

    input_tokens: int


# -------------------------------------------------------------------------------------------------------- Gemini


class GeminiPart(msgspec.Struct):
    """A piece of text."""

    text: str


class GeminiContent(msgspec.Struct, omit_defaults=True):
    """One message."""

    parts: list[GeminiPart]
    role: Literal["user", "model"] = "user"


class GeminiFunction(msgspec.Struct, omit_defaults=True):
    """A function that the model may call."""

    name: Name
    description: str = ""
    parametersJsonSchema: Object | None = None


class GeminiTool(msgspec.Struct):
    """Functions."""

    functionDeclarations: list[GeminiFunction]


class GeminiCalling(msgspec.Struct):
    """Whether functions may or must be called."""

    mode: Literal["AUTO", "ANY", "NONE"]


class GeminiToolConfig(msgspec.Struct):
    """How tools are used."""

    functionCallingConfig: GeminiCalling


class GeminiConfig(msgspec.Struct, omit_defaults=True):
    """How to generate."""

    maxOutputTokens: Positive | None = None
    temperature: Temperature | None = None
    topP: Fraction | None = None
    seed: int | None = None
    stopSequences: list[str] | None = None


class GeminiRequest(msgspec.Struct, omit_defaults=True):
    """POST /v1beta/models/MODEL:generateContent, and :streamGenerateContent"""

    contents: Annotated[list[GeminiContent], msgspec.Meta(min_length=1)]
    systemInstruction: GeminiContent | None = None
    tools: list[GeminiTool] | None = None
    toolConfig: GeminiToolConfig | None = None
    generationConfig: GeminiConfig | None = None


class GeminiReply(msgspec.Struct):
    """A whole answer; streamed, events with `alt=sse`, else one list."""

    candidates: list[Object]
    modelVersion: str = ""


class GeminiProblem(msgspec.Struct):
    """What went wrong."""

    code: int
    message: str
    status: str


class GeminiError(msgspec.Struct):
    """An error in Google's shape."""

    error: GeminiProblem


class GeminiCount(msgspec.Struct):
    """How many tokens a request has, roughly."""

    totalTokens: int


# -------------------------------------------------------------------------------------------------------- Ollama


class OllamaFunction(msgspec.Struct):
    """The name of a function and its arguments."""

    name: Name
    arguments: Object = {}


class OllamaCall(msgspec.Struct):
    """A call that the model made."""

    function: OllamaFunction


class OllamaMessage(msgspec.Struct, omit_defaults=True):
    """One message."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    thinking: str | None = None
    images: list[Base64] | None = None
    tool_calls: list[OllamaCall] | None = None
    tool_name: str | None = None


class OllamaOptions(msgspec.Struct, omit_defaults=True):
    """How to generate."""

    num_predict: int | None = None
    num_ctx: Positive | None = None
    temperature: Temperature | None = None
    top_p: Fraction | None = None
    seed: int | None = None
    stop: str | list[str] | None = None


class OllamaRequest(msgspec.Struct, omit_defaults=True):
    """POST /api/chat"""

    model: ModelName
    messages: list[OllamaMessage] = []
    tools: list[ChatTool] | None = None
    stream: bool = True
    format: Literal["json"] | Object | None = None
    options: OllamaOptions | None = None
    keep_alive: str | int | None = None
    think: bool | Literal["low", "medium", "high"] | None = None


class OllamaReply(msgspec.Struct):
    """A whole answer; streamed, such an object on each line."""

    model: str
    created_at: str
    message: OllamaMessage
    done: bool
    done_reason: str = ""


class GenerateRequest(msgspec.Struct, omit_defaults=True):
    """POST /api/generate"""

    model: ModelName
    prompt: str = ""
    system: str | None = None
    images: list[Base64] | None = None
    context: list[Whole] | None = None
    stream: bool = True
    format: Literal["json"] | Object | None = None
    options: OllamaOptions | None = None
    keep_alive: str | int | None = None
    think: bool | Literal["low", "medium", "high"] | None = None


class GenerateReply(msgspec.Struct):
    """A whole answer; streamed, such an object on each line."""

    model: str
    created_at: str
    response: str
    done: bool
    done_reason: str = ""
    context: list[Whole] = []


class OllamaError(msgspec.Struct):
    """An error in Ollama's shape."""

    error: str


class OllamaShow(msgspec.Struct):
    """Which model to show."""

    model: ModelName


class OllamaModels(msgspec.Struct):
    """The models, in Ollama's shape."""

    models: list[Object]

"""The bodies of the proxy's own protocols as types, for the document that describes it.

They say what clients usually send and what they get; the codecs read more than this, and keep what they do not know.
No request is read with these types. Above: `openapi`. Below: nothing.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

__all__ = ["BODIES", "ERRORS", "PAGES", "REPLIES"]

#: A JSON object of somebody else's making: a schema, arguments.
Object = dict[str, Any]
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
Temperature = Annotated[float, msgspec.Meta(ge=0, le=2)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
Name = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]
ModelName = Annotated[str, msgspec.Meta(min_length=1, max_length=256, description="one of GET /v1/models")]
Base64 = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9+/]*={0,2}$")]


# ------------------------------------------------------------------------------------------------- OpenAI's chat


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


class CalledFunction(msgspec.Struct):
    """The name of a function and its arguments as JSON text."""

    name: Name
    arguments: str = "{}"


class ChatCall(msgspec.Struct):
    """A call that the model made."""

    id: str
    function: CalledFunction
    type: Literal["function"] = "function"


class ChatMessage(msgspec.Struct, omit_defaults=True):
    """One message of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart | ImagePart] | None = None
    name: str | None = None
    tool_calls: list[ChatCall] | None = None
    tool_call_id: str | None = None


class Function(msgspec.Struct, omit_defaults=True):
    """A function that the model may call."""

    name: Name
    description: str = ""
    parameters: Object | None = None
    strict: bool | None = None


class ChatTool(msgspec.Struct):
    """A tool."""

    function: Function
    type: Literal["function"] = "function"


class FunctionName(msgspec.Struct):
    """The name of a function."""

    name: Name


class NamedChoice(msgspec.Struct):
    """This function must be called."""

    function: FunctionName
    type: Literal["function"] = "function"


class ChatRequest(msgspec.Struct, omit_defaults=True):
    """POST /v1/chat/completions"""

    model: ModelName
    messages: Annotated[list[ChatMessage], msgspec.Meta(min_length=1)]
    tools: list[ChatTool] | None = None
    tool_choice: Literal["auto", "none", "required"] | NamedChoice | None = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    max_tokens: Positive | None = None
    max_completion_tokens: Positive | None = None
    temperature: Temperature | None = None
    top_p: Fraction | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    response_format: Object | None = None


class ChatUsage(msgspec.Struct):
    """Tokens used."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatAnswer(msgspec.Struct):
    """What the model said."""

    role: Literal["assistant"]
    content: str | None
    tool_calls: list[ChatCall] = []


class ChatChoice(msgspec.Struct):
    """One answer."""

    index: int
    message: ChatAnswer
    finish_reason: str | None


class ChatReply(msgspec.Struct):
    """A whole answer; with `stream`, a stream of events whose `data` are chunks, then `[DONE]`."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage | None = None


class OpenAIProblem(msgspec.Struct):
    """What went wrong."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class OpenAIError(msgspec.Struct):
    """An error in OpenAI's shape."""

    error: OpenAIProblem


# --------------------------------------------------------------------------------------------- OpenAI's responses


class InputMessage(msgspec.Struct):
    """One message."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str


class ResponsesTool(msgspec.Struct, omit_defaults=True):
    """A function that the model may call."""

    name: Name
    type: Literal["function"] = "function"
    description: str = ""
    parameters: Object | None = None
    strict: bool | None = None


class ResponsesRequest(msgspec.Struct, omit_defaults=True):
    """POST /v1/responses"""

    model: ModelName
    input: Annotated[str, msgspec.Meta(min_length=1)] | Annotated[list[InputMessage], msgspec.Meta(min_length=1)]
    instructions: str | None = None
    tools: list[ResponsesTool] | None = None
    tool_choice: Literal["auto", "none", "required"] | None = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    max_output_tokens: Positive | None = None
    temperature: Temperature | None = None
    top_p: Fraction | None = None
    store: bool | None = None


class ResponsesReply(msgspec.Struct):
    """A whole answer; with `stream`, a stream of typed events."""

    id: str
    object: Literal["response"]
    status: str
    model: str
    output: list[Object]


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


# --------------------------------------------------------------------------------------------------- our own pages


class Model(msgspec.Struct):
    """A model, in OpenAI's and Anthropic's words at once."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    type: Literal["model"]
    display_name: str
    created_at: str


class Models(msgspec.Struct):
    """The models that the caller may use."""

    object: Literal["list"]
    data: list[Model]
    has_more: bool
    first_id: str | None
    last_id: str | None


class GeminiModel(msgspec.Struct):
    """A model, in Gemini's words."""

    name: str
    displayName: str
    supportedGenerationMethods: list[str]


class GeminiModels(msgspec.Struct):
    """The models that the caller may use."""

    models: list[GeminiModel]


class Status(msgspec.Struct):
    """How it goes."""

    status: str


class Version(msgspec.Struct):
    """Which version this is."""

    version: str


class SessionCode(msgspec.Struct):
    """The code of the link that the server printed."""

    code: str


class Records(msgspec.Struct):
    """What was asked lately, one line each."""

    requests: list[Object]


#: Face -> what is sent, what comes back, what an error looks like.
BODIES: dict[str, type] = {
    "openai_chat": ChatRequest,
    "openai_responses": ResponsesRequest,
    "anthropic": AnthropicRequest,
    "gemini": GeminiRequest,
    "ollama": OllamaRequest,
    "ollama_generate": GenerateRequest,
}
REPLIES: dict[str, type] = {
    "openai_chat": ChatReply,
    "openai_responses": ResponsesReply,
    "anthropic": AnthropicReply,
    "gemini": GeminiReply,
    "ollama": OllamaReply,
    "ollama_generate": GenerateReply,
}
ERRORS: dict[str, type] = {
    "openai_chat": OpenAIError,
    "openai_responses": OpenAIError,
    "anthropic": AnthropicError,
    "gemini": GeminiError,
    "ollama": OllamaError,
    "ollama_generate": OllamaError,
}
#: Page -> what is sent (None: nothing), what comes back (None: a text).
PAGES: dict[str, tuple[type | None, type | None]] = {
    "root": (None, None),
    "docs": (None, None),
    "metrics": (None, None),
    "health": (None, Status),
    "ready": (None, Status),
    "version": (None, Version),
    "openapi": (None, Object),
    "models": (None, Models),
    "model": (None, Model),
    "gemini_models": (None, GeminiModels),
    "gemini_model": (None, GeminiModel),
    "gemini_count": (GeminiRequest, GeminiCount),
    "anthropic_count": (AnthropicRequest, AnthropicCount),
    "ollama_tags": (None, OllamaModels),
    "ollama_ps": (None, OllamaModels),
    "ollama_version": (None, Version),
    "ollama_show": (OllamaShow, Object),
    "session_begin": (SessionCode, Object),
    "session_end": (None, Object),
    "records": (None, Records),
    "record": (None, Object),
}

"""Request and reply types of Gemini's and Ollama's APIs, for OpenAPI. Tests compare them with the codec."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET

from .openai import ChatTool
from .shared import (
    Absent,
    Base64,
    CallName,
    Extension,
    Fraction,
    ModelName,
    Name,
    NonNegative,
    Object,
    Positive,
    Temperature,
)

# -------------------------------------------------------------------------------------------------------- Gemini


class GeminiCall(msgspec.Struct):
    """A tool call."""

    name: CallName
    args: Object | Absent = UNSET
    id: str | Absent = UNSET


class GeminiResult(msgspec.Struct):
    """The result of a function call."""

    name: CallName
    response: Object
    id: str | Absent = UNSET


class GeminiBytes(msgspec.Struct):
    """An image, audio or a file in base64."""

    mimeType: str
    data: Base64


class GeminiFile(msgspec.Struct):
    """The URI of an image, audio or a file."""

    fileUri: str
    mimeType: str | Absent = UNSET


class GeminiPart(msgspec.Struct):
    """A part of a message: text, thinking, a call, a result, or media."""

    text: str | Absent = UNSET
    thought: bool | Absent = UNSET
    thoughtSignature: str | Absent = UNSET
    functionCall: GeminiCall | Absent = UNSET
    functionResponse: GeminiResult | Absent = UNSET
    inlineData: GeminiBytes | Absent = UNSET
    fileData: GeminiFile | Absent = UNSET


class GeminiContent(msgspec.Struct, omit_defaults=True):
    """One message."""

    parts: list[GeminiPart]
    role: Literal["user", "model"] = "user"


class GeminiFunction(msgspec.Struct, omit_defaults=True):
    """A function that the model may call, with a JSON Schema or a schema in Gemini's format."""

    name: Name
    description: str = ""
    parametersJsonSchema: Object | None = None
    parameters: Object | None = None


class GeminiTool(msgspec.Struct):
    """A list of functions, or one of the upstream's own tools."""

    functionDeclarations: list[GeminiFunction] | Absent = UNSET


class GeminiCalling(msgspec.Struct, omit_defaults=True):
    """Whether the model may or must call functions, and which."""

    mode: Literal["AUTO", "ANY", "NONE", "VALIDATED"]
    allowedFunctionNames: list[Name] | None = None


class GeminiToolConfig(msgspec.Struct, omit_defaults=True):
    """Tool options."""

    functionCallingConfig: GeminiCalling | None = None


class GeminiConfig(msgspec.Struct, omit_defaults=True):
    """Generation options."""

    maxOutputTokens: Positive | None = None
    temperature: Temperature | None = None
    topP: Fraction | None = None
    seed: int | None = None
    stopSequences: list[str] | None = None
    candidateCount: Positive | None = None
    responseMimeType: str | None = None
    responseSchema: Object | None = None
    responseJsonSchema: Object | None = None
    thinkingConfig: Object | None = None


class GeminiRequest(msgspec.Struct, omit_defaults=True):
    """POST /v1beta/models/MODEL:generateContent, and :streamGenerateContent"""

    contents: Annotated[list[GeminiContent], msgspec.Meta(min_length=1)]
    model: str | None = None
    systemInstruction: GeminiContent | None = None
    tools: list[GeminiTool] | None = None
    toolConfig: GeminiToolConfig | None = None
    generationConfig: GeminiConfig | None = None


class GeminiCountRequest(msgspec.Struct, omit_defaults=True):
    """POST /v1beta/models/MODEL:countTokens"""

    contents: list[GeminiContent] | None = None
    generateContentRequest: GeminiRequest | None = None


class GeminiCandidate(msgspec.Struct):
    """One answer, with the upstream's metadata."""

    content: GeminiContent
    index: int
    finishReason: str | Absent = UNSET
    finishMessage: str | Absent = UNSET
    citationMetadata: Object | Absent = UNSET
    groundingMetadata: Object | Absent = UNSET
    groundingAttributions: list[Object] | Absent = UNSET
    urlContextMetadata: Object | Absent = UNSET
    safetyRatings: list[Object] | Absent = UNSET
    logprobsResult: Object | Absent = UNSET
    avgLogprobs: float | Absent = UNSET
    continuationToken: str | Absent = UNSET


class GeminiUsage(msgspec.Struct):
    """Token usage."""

    promptTokenCount: int
    candidatesTokenCount: int
    totalTokenCount: int
    thoughtsTokenCount: int | Absent = UNSET
    cachedContentTokenCount: int | Absent = UNSET
    toolUsePromptTokenCount: int | Absent = UNSET


class GeminiReply(msgspec.Struct):
    """A complete reply or a chunk of a stream (events with `alt=sse`, else a list). The last chunk has the usage."""

    modelVersion: str
    responseId: str
    candidates: list[GeminiCandidate] | Absent = UNSET
    usageMetadata: GeminiUsage | Absent = UNSET
    promptFeedback: Object | Absent = UNSET
    toolspeak: Extension | Absent = UNSET


class GeminiProblem(msgspec.Struct):
    """Details of an error."""

    code: int
    message: str
    status: str


class GeminiError(msgspec.Struct):
    """An error in Google's format."""

    error: GeminiProblem


class GeminiCount(msgspec.Struct):
    """The estimated number of tokens in a request."""

    totalTokens: int


# -------------------------------------------------------------------------------------------------------- Ollama


class OllamaFunction(msgspec.Struct):
    """The name of a function and its arguments."""

    name: CallName
    arguments: Object = {}
    index: int | Absent = UNSET


class OllamaCall(msgspec.Struct):
    """A tool call."""

    function: OllamaFunction
    id: str | Absent = UNSET


class OllamaMessage(msgspec.Struct, omit_defaults=True):
    """One message."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    thinking: str | None = None
    images: list[Base64] | None = None
    tool_calls: list[OllamaCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class OllamaOptions(msgspec.Struct, omit_defaults=True):
    """Generation options."""

    num_predict: int | None = None
    num_ctx: Positive | None = None
    temperature: Temperature | None = None
    top_p: Fraction | None = None
    seed: int | None = None
    stop: str | list[str] | None = None


class OllamaPrompt(msgspec.Struct, omit_defaults=True):
    """Fields of all requests."""

    model: ModelName
    stream: bool = True
    format: Literal["json", ""] | Object | None = None
    options: OllamaOptions | None = None
    keep_alive: str | int | None = None
    think: bool | Literal["low", "medium", "high"] | None = None


class OllamaRequest(OllamaPrompt, omit_defaults=True):
    """POST /api/chat"""

    messages: list[OllamaMessage] = []
    tools: list[ChatTool] | None = None


class OllamaEnd(msgspec.Struct):
    """Fields of the last object in a reply: finish reason, token counts and durations in nanoseconds."""

    model: str
    created_at: str
    done: bool
    done_reason: Literal["stop", "length", "load", "unload"] | Absent = UNSET
    prompt_eval_count: int | Absent = UNSET
    eval_count: int | Absent = UNSET
    total_duration: int | Absent = UNSET
    load_duration: int | Absent = UNSET
    prompt_eval_duration: int | Absent = UNSET
    eval_duration: int | Absent = UNSET
    toolspeak: Extension | Absent = UNSET


class OllamaReply(OllamaEnd, kw_only=True):
    """A complete reply, or one line of a stream."""

    message: OllamaMessage


class GenerateRequest(OllamaPrompt, omit_defaults=True):
    """POST /api/generate"""

    prompt: str = ""
    system: str | None = None
    images: list[Base64] | None = None
    context: list[NonNegative] | None = None


class GenerateReply(OllamaEnd, kw_only=True):
    """A complete reply, or one line of a stream."""

    response: str
    thinking: str | Absent = UNSET
    context: list[NonNegative] | Absent = UNSET


class OllamaError(msgspec.Struct):
    """An error in Ollama's format."""

    error: str


class OllamaShow(msgspec.Struct):
    """The model to show."""

    model: ModelName


class OllamaModels(msgspec.Struct):
    """The available models, in Ollama's format."""

    models: list[Object]


#: Types that allow additional properties, with the reason.
VENDORS_OPEN: dict[type, str] = {
    GeminiPart: "parts of other kinds, such as executed code, pass through unchanged",
    GeminiTool: "the upstream's own tools, each in a field named after the tool",
    GeminiUsage: "additional counts from the upstream, such as tokens by modality",
}

"""The bodies of Gemini's and Ollama's protocols as types, for the description of the proxy.

Held to what the codecs write and read by a test.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET

from .openai import ChatTool
from .shared import (
    Absent,
    Base64,
    Called,
    Extension,
    Fraction,
    ModelName,
    Name,
    Object,
    Positive,
    Temperature,
    Whole,
)

# -------------------------------------------------------------------------------------------------------- Gemini


class GeminiCall(msgspec.Struct):
    """A call that the model made."""

    name: Called
    args: Object | Absent = UNSET
    id: str | Absent = UNSET


class GeminiResult(msgspec.Struct):
    """What a function answered."""

    name: Called
    response: Object
    id: str | Absent = UNSET


class GeminiBytes(msgspec.Struct):
    """A picture, a sound or a file in base64."""

    mimeType: str
    data: Base64


class GeminiFile(msgspec.Struct):
    """Where a picture, a sound or a file is."""

    fileUri: str
    mimeType: str | Absent = UNSET


class GeminiPart(msgspec.Struct):
    """A piece of text, a thought, a call, a result, or something to look at: one of them."""

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
    """A function that the model may call, with a JSON schema or with one of Gemini's own."""

    name: Name
    description: str = ""
    parametersJsonSchema: Object | None = None
    parameters: Object | None = None


class GeminiTool(msgspec.Struct):
    """Functions, or one of the upstream's own tools."""

    functionDeclarations: list[GeminiFunction] | Absent = UNSET


class GeminiCalling(msgspec.Struct, omit_defaults=True):
    """Whether functions may or must be called, and which."""

    mode: Literal["AUTO", "ANY", "NONE", "VALIDATED"]
    allowedFunctionNames: list[Name] | None = None


class GeminiToolConfig(msgspec.Struct, omit_defaults=True):
    """How tools are used."""

    functionCallingConfig: GeminiCalling | None = None


class GeminiConfig(msgspec.Struct, omit_defaults=True):
    """How to generate."""

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
    """An answer, and what the upstream says of it besides."""

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
    """Tokens used."""

    promptTokenCount: int
    candidatesTokenCount: int
    totalTokenCount: int
    thoughtsTokenCount: int | Absent = UNSET
    cachedContentTokenCount: int | Absent = UNSET
    toolUsePromptTokenCount: int | Absent = UNSET


class GeminiReply(msgspec.Struct):
    """A whole answer, or a piece of one: streamed, events with `alt=sse`, else one list. The last has the usage."""

    modelVersion: str
    responseId: str
    candidates: list[GeminiCandidate] | Absent = UNSET
    usageMetadata: GeminiUsage | Absent = UNSET
    promptFeedback: Object | Absent = UNSET
    toolspeak: Extension | Absent = UNSET


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

    name: Called
    arguments: Object = {}
    index: int | Absent = UNSET


class OllamaCall(msgspec.Struct):
    """A call that the model made."""

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
    format: Literal["json", ""] | Object | None = None
    options: OllamaOptions | None = None
    keep_alive: str | int | None = None
    think: bool | Literal["low", "medium", "high"] | None = None


class OllamaEnd(msgspec.Struct):
    """What the last, or the only, object of an answer says: why it ended, what it took. Times are nanoseconds."""

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
    """A whole answer; streamed, such an object on each line."""

    message: OllamaMessage


class GenerateRequest(msgspec.Struct, omit_defaults=True):
    """POST /api/generate"""

    model: ModelName
    prompt: str = ""
    system: str | None = None
    images: list[Base64] | None = None
    context: list[Whole] | None = None
    stream: bool = True
    format: Literal["json", ""] | Object | None = None
    options: OllamaOptions | None = None
    keep_alive: str | int | None = None
    think: bool | Literal["low", "medium", "high"] | None = None


class GenerateReply(OllamaEnd, kw_only=True):
    """A whole answer; streamed, such an object on each line."""

    response: str
    thinking: str | Absent = UNSET
    context: list[Whole] | Absent = UNSET


class OllamaError(msgspec.Struct):
    """An error in Ollama's shape."""

    error: str


class OllamaShow(msgspec.Struct):
    """Which model to show."""

    model: ModelName


class OllamaModels(msgspec.Struct):
    """The models, in Ollama's shape."""

    models: list[Object]


#: What may hold more than is listed, and why.
VENDORS_OPEN: dict[type, str] = {
    GeminiPart: "parts of other kinds are carried as they came, such as code that was executed",
    GeminiTool: "tools of the upstream's own, by their names",
    GeminiUsage: "what an upstream counts besides, such as tokens by modality",
}

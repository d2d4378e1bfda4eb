"""Schemas of Anthropic's, Gemini's and Ollama's APIs. Tests compare them with the codecs."""

from __future__ import annotations

from .openai import CHAT_TOOL
from .shared import (
    BASE64,
    BOOLEAN,
    CALL_NAME,
    EXTENSION,
    FRACTION,
    INTEGER,
    MODEL_NAME,
    NAME,
    NON_NEGATIVE,
    NUMBER,
    OBJECT,
    OBJECTS,
    POSITIVE,
    STRING,
    STRINGS,
    TEMPERATURE,
    Field,
    allow_others,
    any_of,
    array,
    defaulting,
    enum,
    fields,
    known_or_other,
    nullable,
    one_of,
    optional,
    or_null,
    record,
    tagged,
)

# ---- Anthropic: blocks

_CACHE_CONTROL = optional(or_null(OBJECT))
_TEXT = tagged(
    "AnthropicText",
    "text",
    "A piece of text.",
    text=STRING,
    citations=optional(or_null(OBJECTS)),
    cache_control=_CACHE_CONTROL,
)
_THINKING = tagged(
    "AnthropicThinking",
    "thinking",
    "The model's thinking, which is signed and must be sent back unchanged.",
    thinking=STRING,
    signature=STRING,
)
# An upstream may add fields, such as `caller`.
_USE = allow_others(
    tagged(
        "AnthropicUse",
        "tool_use",
        "A tool call.",
        id=STRING,
        name=CALL_NAME,
        input=OBJECT,
        cache_control=_CACHE_CONTROL,
    )
)
_MEDIA = record(
    "AnthropicMedia",
    "An image or a file: base64 data, text or a URL.",
    type=enum("base64", "url", "text", "file", "content"),
    **fields(optional(STRING), "media_type", "data", "url"),
)
_IMAGE = tagged("AnthropicImage", "image", "An image.", source=_MEDIA, cache_control=_CACHE_CONTROL)
_DOCUMENT = tagged(
    "AnthropicDocument",
    "document",
    "A file.",
    source=_MEDIA,
    title=optional(or_null(STRING)),
    cache_control=_CACHE_CONTROL,
)
_RESULT = tagged(
    "AnthropicResult",
    "tool_result",
    "The result of a tool call.",
    tool_use_id=STRING,
    content=optional(any_of(STRING, array(known_or_other(_TEXT, _IMAGE, _DOCUMENT)))),
    is_error=optional(BOOLEAN),
    cache_control=_CACHE_CONTROL,
)
_MESSAGE = record(
    "AnthropicMessage",
    "One message.",
    role=enum("user", "assistant", "system"),
    content=any_of(STRING, array(known_or_other(_TEXT, _THINKING, _USE, _RESULT, _IMAGE, _DOCUMENT))),
)

# ---- Anthropic: requests

_TOOL = record(
    "AnthropicTool",
    "A tool that the model may call. A `type` other than `custom` selects one of the upstream's own tools.",
    name=NAME,
    input_schema=nullable(OBJECT),
    description=nullable(STRING),
    type=nullable(STRING),
    cache_control=nullable(OBJECT),
)
_SINGLE_CALLS = defaulting(False, BOOLEAN)
_CHOICE = one_of(
    tagged("AnthropicAuto", "auto", "The model may call tools.", disable_parallel_tool_use=_SINGLE_CALLS),
    tagged("AnthropicAny", "any", "The model must call a tool.", disable_parallel_tool_use=_SINGLE_CALLS),
    tagged(
        "AnthropicNamed", "tool", "The model must call this tool.", name=NAME, disable_parallel_tool_use=_SINGLE_CALLS
    ),
    tagged("AnthropicNone", "none", "The model must not call tools."),
)
_COUNTED: dict[str, Field] = {
    "model": MODEL_NAME,
    "messages": array(_MESSAGE, filled=True),
    "system": nullable(any_of(STRING, array(_TEXT))),
    "tools": nullable(array(_TOOL)),
    "tool_choice": nullable(_CHOICE),
    "thinking": nullable(OBJECT),
}
ANTHROPIC_COUNT_REQUEST = record("AnthropicCountRequest", "POST /v1/messages/count_tokens", **_COUNTED)
ANTHROPIC_REQUEST = record(
    "AnthropicRequest",
    "POST /v1/messages",
    **_COUNTED,
    max_tokens=POSITIVE,
    stream=nullable(BOOLEAN),
    temperature=nullable(FRACTION),
    top_p=nullable(FRACTION),
    stop_sequences=nullable(STRINGS),
    **fields(nullable(OBJECT), "output_config", "output_format", "metadata"),
)

# ---- Anthropic: replies

_THINKING_TOKENS = record("ThinkingTokens", "Output tokens used for thinking.", thinking_tokens=INTEGER)
# An upstream may add counts, such as searches.
_USAGE = allow_others(
    record(
        "AnthropicUsage",
        "Token usage; `input_tokens` does not include cached tokens.",
        **fields(INTEGER, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"),
        output_tokens_details=optional(_THINKING_TOKENS),
    )
)
ANTHROPIC_REPLY = record(
    "AnthropicReply",
    "A complete reply; with `stream`, the reply is a stream of named events instead.",
    id=STRING,
    type=enum("message"),
    role=enum("assistant"),
    model=STRING,
    content=array(known_or_other(_TEXT, _THINKING, _USE)),
    stop_reason=STRING,
    stop_sequence=or_null(STRING),
    usage=_USAGE,
    stop_details=optional(OBJECT),
    container=optional(OBJECT),
    toolspeak=optional(EXTENSION),
)
_PROBLEM = record("AnthropicProblem", "Details of an error.", type=STRING, message=STRING, details=optional(OBJECT))
ANTHROPIC_ERROR = record("AnthropicError", "An error in Anthropic's format.", type=enum("error"), error=_PROBLEM)
ANTHROPIC_COUNT = record("AnthropicCount", "The estimated number of tokens in a request.", input_tokens=INTEGER)

# ---- Gemini

_CALL = record("GeminiCall", "A tool call.", name=CALL_NAME, args=optional(OBJECT), id=optional(STRING))
_GEMINI_RESULT = record(
    "GeminiResult", "The result of a function call.", name=CALL_NAME, response=OBJECT, id=optional(STRING)
)
_BYTES = record("GeminiBytes", "An image, audio or a file in base64.", mimeType=STRING, data=BASE64)
_FILE = record("GeminiFile", "The URI of an image, audio or a file.", fileUri=STRING, mimeType=optional(STRING))
# Parts of other kinds, such as executed code, pass through unchanged.
_PART = allow_others(
    record(
        "GeminiPart",
        "A part of a message: text, thinking, a call, a result, or media.",
        text=optional(STRING),
        thought=optional(BOOLEAN),
        thoughtSignature=optional(STRING),
        functionCall=optional(_CALL),
        functionResponse=optional(_GEMINI_RESULT),
        inlineData=optional(_BYTES),
        fileData=optional(_FILE),
    )
)
_CONTENT = record("GeminiContent", "One message.", parts=array(_PART), role=defaulting("user", enum("user", "model")))
_FUNCTION = record(
    "GeminiFunction",
    "A function that the model may call, with a JSON Schema or a schema in Gemini's format.",
    name=NAME,
    description=defaulting("", STRING),
    parametersJsonSchema=nullable(OBJECT),
    parameters=nullable(OBJECT),
)
# Each of the upstream's own tools has a field named after it.
_GEMINI_TOOL = allow_others(
    record(
        "GeminiTool",
        "A list of functions, or one of the upstream's own tools.",
        functionDeclarations=optional(array(_FUNCTION)),
    )
)
_CALLING = record(
    "GeminiCalling",
    "Whether the model may or must call functions, and which.",
    mode=enum("AUTO", "ANY", "NONE", "VALIDATED"),
    allowedFunctionNames=nullable(array(NAME)),
)
_TOOL_CONFIG = record("GeminiToolConfig", "Tool options.", functionCallingConfig=nullable(_CALLING))
_CONFIG = record(
    "GeminiConfig",
    "Generation options.",
    maxOutputTokens=nullable(POSITIVE),
    temperature=nullable(TEMPERATURE),
    topP=nullable(FRACTION),
    seed=nullable(INTEGER),
    stopSequences=nullable(STRINGS),
    candidateCount=nullable(POSITIVE),
    responseMimeType=nullable(STRING),
    **fields(nullable(OBJECT), "responseSchema", "responseJsonSchema", "thinkingConfig"),
)
GEMINI_REQUEST = record(
    "GeminiRequest",
    "POST /v1beta/models/MODEL:generateContent, and :streamGenerateContent",
    contents=array(_CONTENT, filled=True),
    model=nullable(STRING),
    systemInstruction=nullable(_CONTENT),
    tools=nullable(array(_GEMINI_TOOL)),
    toolConfig=nullable(_TOOL_CONFIG),
    generationConfig=nullable(_CONFIG),
)
GEMINI_COUNT_REQUEST = record(
    "GeminiCountRequest",
    "POST /v1beta/models/MODEL:countTokens",
    contents=nullable(array(_CONTENT)),
    generateContentRequest=nullable(GEMINI_REQUEST),
)
_CANDIDATE = record(
    "GeminiCandidate",
    "One answer, with the upstream's metadata.",
    content=_CONTENT,
    index=INTEGER,
    finishReason=optional(STRING),
    finishMessage=optional(STRING),
    citationMetadata=optional(OBJECT),
    groundingMetadata=optional(OBJECT),
    groundingAttributions=optional(OBJECTS),
    urlContextMetadata=optional(OBJECT),
    safetyRatings=optional(OBJECTS),
    logprobsResult=optional(OBJECT),
    avgLogprobs=optional(NUMBER),
    continuationToken=optional(STRING),
)
# An upstream may add counts, such as tokens by modality.
_GEMINI_USAGE = allow_others(
    record(
        "GeminiUsage",
        "Token usage.",
        **fields(INTEGER, "promptTokenCount", "candidatesTokenCount", "totalTokenCount"),
        **fields(optional(INTEGER), "thoughtsTokenCount", "cachedContentTokenCount", "toolUsePromptTokenCount"),
    )
)
GEMINI_REPLY = record(
    "GeminiReply",
    "A complete reply or a chunk of a stream (events with `alt=sse`, else a list). The last chunk has the usage.",
    modelVersion=STRING,
    responseId=STRING,
    candidates=optional(array(_CANDIDATE)),
    usageMetadata=optional(_GEMINI_USAGE),
    promptFeedback=optional(OBJECT),
    toolspeak=optional(EXTENSION),
)
_GEMINI_PROBLEM = record("GeminiProblem", "Details of an error.", code=INTEGER, message=STRING, status=STRING)
GEMINI_ERROR = record("GeminiError", "An error in Google's format.", error=_GEMINI_PROBLEM)
GEMINI_COUNT = record("GeminiCount", "The estimated number of tokens in a request.", totalTokens=INTEGER)

# ---- Ollama

_OLLAMA_FUNCTION = record(
    "OllamaFunction",
    "The name of a function and its arguments.",
    name=CALL_NAME,
    arguments=defaulting({}, OBJECT),
    index=optional(INTEGER),
)
_OLLAMA_CALL = record("OllamaCall", "A tool call.", function=_OLLAMA_FUNCTION, id=optional(STRING))
_OLLAMA_MESSAGE = record(
    "OllamaMessage",
    "One message.",
    role=enum("system", "user", "assistant", "tool"),
    content=defaulting("", STRING),
    thinking=nullable(STRING),
    images=nullable(array(BASE64)),
    tool_calls=nullable(array(_OLLAMA_CALL)),
    tool_name=nullable(STRING),
    tool_call_id=nullable(STRING),
)
_OLLAMA_OPTIONS = record(
    "OllamaOptions",
    "Generation options.",
    num_predict=nullable(INTEGER),
    num_ctx=nullable(POSITIVE),
    temperature=nullable(TEMPERATURE),
    top_p=nullable(FRACTION),
    seed=nullable(INTEGER),
    stop=nullable(any_of(STRING, STRINGS)),
)
#: Fields of all requests.
_REQUEST_FIELDS: dict[str, Field] = {
    "model": MODEL_NAME,
    "stream": defaulting(True, BOOLEAN),
    "format": nullable(any_of(enum("json", ""), OBJECT)),
    "options": nullable(_OLLAMA_OPTIONS),
    "keep_alive": nullable(any_of(STRING, INTEGER)),
    "think": nullable(any_of(BOOLEAN, enum("low", "medium", "high"))),
}
#: Fields of the last object in a reply: finish reason, token counts and durations in nanoseconds.
_END: dict[str, Field] = {
    "model": STRING,
    "created_at": STRING,
    "done": BOOLEAN,
    "done_reason": optional(enum("stop", "length", "load", "unload")),
    **fields(
        optional(INTEGER),
        "prompt_eval_count",
        "eval_count",
        "total_duration",
        "load_duration",
        "prompt_eval_duration",
        "eval_duration",
    ),
    "toolspeak": optional(EXTENSION),
}
OLLAMA_REQUEST = record(
    "OllamaRequest",
    "POST /api/chat",
    **_REQUEST_FIELDS,
    messages=defaulting([], array(_OLLAMA_MESSAGE)),
    tools=nullable(array(CHAT_TOOL)),
)
OLLAMA_REPLY = record("OllamaReply", "A complete reply, or one line of a stream.", **_END, message=_OLLAMA_MESSAGE)
GENERATE_REQUEST = record(
    "GenerateRequest",
    "POST /api/generate",
    **_REQUEST_FIELDS,
    prompt=defaulting("", STRING),
    system=nullable(STRING),
    images=nullable(array(BASE64)),
    context=nullable(array(NON_NEGATIVE)),
)
GENERATE_REPLY = record(
    "GenerateReply",
    "A complete reply, or one line of a stream.",
    **_END,
    response=STRING,
    thinking=optional(STRING),
    context=optional(array(NON_NEGATIVE)),
)
OLLAMA_ERROR = record("OllamaError", "An error in Ollama's format.", error=STRING)
OLLAMA_SHOW = record("OllamaShow", "The model to show.", model=MODEL_NAME)
OLLAMA_MODELS = record("OllamaModels", "The available models, in Ollama's format.", models=OBJECTS)

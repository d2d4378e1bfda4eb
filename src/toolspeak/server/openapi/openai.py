"""Schemas of OpenAI's Chat Completions API. Tests compare them with the codec."""

from __future__ import annotations

from .shared import (
    BOOLEAN,
    CALL_NAME,
    EXTENSION,
    FRACTION,
    INTEGER,
    MODEL_NAME,
    NAME,
    OBJECT,
    OBJECTS,
    POSITIVE,
    STRING,
    STRINGS,
    TEMPERATURE,
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

# ---- messages

_DETAIL = defaulting("auto", enum("auto", "low", "high"))
_IMAGE_URL = record("ImageURL", "The URL of an image, possibly a `data:` URL.", url=STRING, detail=_DETAIL)
_SOUND = record("Sound", "Audio in base64.", data=STRING, format=defaulting("wav", enum("wav", "mp3")))
_FILE = record(
    "File",
    "A file as a `data:` URL, or the id of an uploaded file.",
    **fields(nullable(STRING), "file_data", "file_id", "filename"),
)
_PART = known_or_other(
    tagged("TextPart", "text", "A piece of text.", text=STRING),
    tagged("ImagePart", "image_url", "An image.", image_url=_IMAGE_URL),
    tagged("AudioPart", "input_audio", "Audio.", input_audio=_SOUND),
    tagged("FilePart", "file", "A file.", file=_FILE),
)
_CALLED_FUNCTION = record(
    "CalledFunction",
    "The name of a function and its arguments as JSON text.",
    name=CALL_NAME,
    arguments=defaulting("{}", STRING),
)
_CALLED_CUSTOM = record("CalledCustom", "The name of a custom tool and its input.", name=CALL_NAME, input=STRING)
# An upstream may add fields to a call, such as a signature that must be sent back.
_FUNCTION_CALL = allow_others(
    tagged("FunctionCall", "function", "A function call.", id=STRING, function=_CALLED_FUNCTION)
)
_CUSTOM_CALL = allow_others(
    tagged("CustomCall", "custom", "A call to a custom tool.", id=STRING, custom=_CALLED_CUSTOM)
)
_CALLS = array(one_of(_FUNCTION_CALL, _CUSTOM_CALL))
_MESSAGE = record(
    "ChatMessage",
    "One message of a chat.",
    role=enum("system", "developer", "user", "assistant", "tool", "function"),
    content=nullable(any_of(STRING, array(_PART))),
    name=nullable(STRING),
    tool_calls=nullable(_CALLS),
    tool_call_id=nullable(STRING),
    function_call=nullable(_CALLED_FUNCTION),
    reasoning_content=nullable(STRING),
)

# ---- tools

_FUNCTION = record(
    "Function",
    "A function that the model may call.",
    name=NAME,
    description=defaulting("", STRING),
    parameters=nullable(OBJECT),
    strict=nullable(BOOLEAN),
)
_CUSTOM = record(
    "Custom",
    "A custom tool, whose input is text.",
    name=NAME,
    description=defaulting("", STRING),
    format=nullable(OBJECT),
)
CHAT_TOOL = tagged("ChatTool", "function", "A tool that the model may call.", function=_FUNCTION)
_CUSTOM_TOOL = tagged("CustomTool", "custom", "A custom tool, whose input is text.", custom=_CUSTOM)
_TOOL_NAME = record("ToolName", "The name of a tool.", name=NAME)
_FUNCTION_CHOICE = tagged("FunctionChoice", "function", "The model must call this function.", function=_TOOL_NAME)
_CUSTOM_CHOICE = tagged("CustomChoice", "custom", "The model must call this custom tool.", custom=_TOOL_NAME)
_ALLOWED = record(
    "Allowed",
    "The only tools that the model may call, and whether it must call one.",
    mode=enum("auto", "required"),
    tools=array(one_of(_FUNCTION_CHOICE, _CUSTOM_CHOICE), filled=True),
)
_ALLOWED_CHOICE = tagged(
    "AllowedChoice",
    "allowed_tools",
    "A tool choice that restricts the model to some of the tools.",
    allowed_tools=_ALLOWED,
)
_CHOICE = one_of(_FUNCTION_CHOICE, _CUSTOM_CHOICE, _ALLOWED_CHOICE)
_STREAM_OPTIONS = record("StreamOptions", "Stream options.", include_usage=nullable(BOOLEAN))

CHAT_REQUEST = record(
    "ChatRequest",
    "POST /v1/chat/completions",
    model=MODEL_NAME,
    messages=array(_MESSAGE, filled=True),
    tools=nullable(array(known_or_other(CHAT_TOOL, _CUSTOM_TOOL))),
    tool_choice=nullable(any_of(enum("auto", "none", "required"), _CHOICE)),
    parallel_tool_calls=nullable(BOOLEAN),
    functions=nullable(array(_FUNCTION)),
    function_call=nullable(any_of(enum("auto", "none"), _TOOL_NAME)),
    stream=nullable(BOOLEAN),
    stream_options=nullable(_STREAM_OPTIONS),
    max_tokens=nullable(POSITIVE),
    max_completion_tokens=nullable(POSITIVE),
    temperature=nullable(TEMPERATURE),
    top_p=nullable(FRACTION),
    seed=nullable(INTEGER),
    stop=nullable(any_of(STRING, STRINGS)),
    n=nullable(enum(1)),
    response_format=nullable(OBJECT),
)

# ---- replies

_CACHED_TOKENS = record("CachedTokens", "Input tokens read from the prompt cache.", cached_tokens=INTEGER)
_REASONING_TOKENS = record("ReasoningTokens", "Output tokens used for thinking.", reasoning_tokens=INTEGER)
_USAGE = record(
    "ChatUsage",
    "Token usage.",
    **fields(INTEGER, "prompt_tokens", "completion_tokens", "total_tokens"),
    prompt_tokens_details=_CACHED_TOKENS,
    completion_tokens_details=_REASONING_TOKENS,
)
_ANSWER = record(
    "ChatAnswer",
    "The assistant's message; the last fields are extensions used by some upstreams.",
    role=enum("assistant"),
    content=or_null(STRING),
    refusal={"type": "null"},
    reasoning_content=optional(STRING),
    tool_calls=optional(_CALLS),
    function_call=optional(_CALLED_FUNCTION),
    annotations=optional(OBJECTS),
    audio=optional(OBJECT),
    images=optional(OBJECTS),
    reasoning_details=optional(OBJECTS),
)
_CHOICE_OF_REPLY = record(
    "ChatChoice",
    "One answer.",
    index=INTEGER,
    message=_ANSWER,
    logprobs=or_null(OBJECT),
    finish_reason=enum("stop", "length", "tool_calls", "content_filter", "function_call"),
)
CHAT_REPLY = record(
    "ChatReply",
    "A complete reply; with `stream`, the reply is a stream of chunks in `data:` lines, then `[DONE]`.",
    id=STRING,
    object=enum("chat.completion"),
    created=INTEGER,
    model=STRING,
    choices=array(_CHOICE_OF_REPLY),
    usage=_USAGE,
    system_fingerprint=optional(STRING),
    service_tier=optional(STRING),
    toolspeak=optional(EXTENSION),
)
_PROBLEM = record(
    "OpenAIProblem",
    "Details of an error.",
    message=STRING,
    type=STRING,
    param=or_null(STRING),
    code=or_null(STRING),
)
OPENAI_ERROR = record("OpenAIError", "An error in OpenAI's format.", error=_PROBLEM)

"""Schemas of OpenAI's Chat Completions API and Responses API. Tests compare them with the codecs."""

from __future__ import annotations

from .shared import (
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

# ---- chat completions: messages

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

# ---- chat completions: tools

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
    n=nullable({"type": "integer", "minimum": 1, "maximum": 128}),
    response_format=nullable(OBJECT),
)

# ---- chat completions: replies

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

# ---- Responses: items

_ITEM_PART = known_or_other(
    tagged("InputText", "input_text", "Input text.", text=STRING),
    tagged(
        "InputImage",
        "input_image",
        "An image: a URL, possibly a `data:` URL, or the id of an uploaded file.",
        image_url=nullable(STRING),
        file_id=nullable(STRING),
        detail=_DETAIL,
    ),
    tagged(
        "InputFile",
        "input_file",
        "A file: a `data:` URL, a URL, or the id of an uploaded file.",
        **fields(nullable(STRING), "file_data", "file_url", "file_id", "filename"),
    ),
    tagged(
        "OutputText",
        "output_text",
        "Text that the model generated.",
        text=STRING,
        annotations=defaulting([], OBJECTS),
        logprobs=defaulting([], OBJECTS),
    ),
)
_TEXT_OR_PARTS = any_of(STRING, array(_ITEM_PART))
_REASONING_TEXT = record(
    "ReasoningText",
    "Reasoning text, or text of a reasoning summary.",
    type=enum("summary_text", "reasoning_text"),
    text=STRING,
)
_REASONING = tagged(
    "Reasoning",
    "reasoning",
    "The model's reasoning.",
    summary=array(_REASONING_TEXT),
    id=optional(STRING),
    content=optional(or_null(array(_REASONING_TEXT))),
    encrypted_content=optional(or_null(STRING)),
    status=optional(or_null(STRING)),
)
_FUNCTION_ITEM = tagged(
    "FunctionCallItem",
    "function_call",
    "A function call, with its arguments as JSON text.",
    call_id=STRING,
    name=CALL_NAME,
    arguments=STRING,
    **fields(optional(STRING), "id", "status", "namespace"),
)
_CUSTOM_ITEM = tagged(
    "CustomCallItem",
    "custom_tool_call",
    "A call to a custom tool.",
    call_id=STRING,
    name=CALL_NAME,
    input=STRING,
    id=optional(STRING),
    namespace=optional(STRING),
)
_FUNCTION_OUTPUT = tagged(
    "FunctionOutput",
    "function_call_output",
    "The result of a function call.",
    call_id=STRING,
    output=_TEXT_OR_PARTS,
    id=nullable(STRING),
    status=nullable(STRING),
)
_CUSTOM_OUTPUT = tagged(
    "CustomOutput",
    "custom_tool_call_output",
    "The result of a custom tool call.",
    call_id=STRING,
    output=_TEXT_OR_PARTS,
    id=nullable(STRING),
)
_MESSAGE_FIELDS: dict[str, Field] = {
    "role": enum("system", "developer", "user", "assistant"),
    "content": _TEXT_OR_PARTS,
}
_PLAIN_MESSAGE = record("PlainMessage", "A message without a `type` field.", **_MESSAGE_FIELDS)
_MESSAGE_ITEM = tagged(
    "Message",
    "message",
    "A message.",
    **_MESSAGE_FIELDS,
    **fields(nullable(STRING), "id", "status", "phase"),
)
_INPUT = known_or_other(
    _PLAIN_MESSAGE, _MESSAGE_ITEM, _REASONING, _FUNCTION_ITEM, _CUSTOM_ITEM, _FUNCTION_OUTPUT, _CUSTOM_OUTPUT
)

# ---- Responses: tools

_FUNCTION_TOOL = tagged(
    "FunctionTool",
    "function",
    "A function that the model may call.",
    name=NAME,
    description=nullable(STRING),
    parameters=nullable(OBJECT),
    strict=nullable(BOOLEAN),
)
_TEXT_TOOL = tagged(
    "TextTool",
    "custom",
    "A custom tool, whose input is text.",
    name=NAME,
    description=nullable(STRING),
    format=nullable(OBJECT),
)
_NAMESPACE = tagged(
    "Namespace",
    "namespace",
    "A named group of tools.",
    name=NAME,
    tools=array(one_of(_FUNCTION_TOOL, _TEXT_TOOL)),
    description=defaulting("", STRING),
)
_CHOSEN_FUNCTION = tagged("ChosenFunction", "function", "The model must call this function.", name=NAME)
_CHOSEN_CUSTOM = tagged("ChosenCustom", "custom", "The model must call this custom tool.", name=NAME)
_CHOSEN_AMONG = tagged(
    "ChosenAmong",
    "allowed_tools",
    "The only tools that the model may call, and whether it must call one.",
    mode=enum("auto", "required"),
    tools=array(known_or_other(_CHOSEN_FUNCTION, _CHOSEN_CUSTOM), filled=True),
)
_RESPONSES_CHOICE = known_or_other(_CHOSEN_FUNCTION, _CHOSEN_CUSTOM, _CHOSEN_AMONG)

RESPONSES_REQUEST = record(
    "ResponsesRequest",
    "POST /v1/responses",
    model=MODEL_NAME,
    input=any_of({**STRING, "minLength": 1}, array(_INPUT, filled=True)),
    instructions=nullable(STRING),
    tools=nullable(array(known_or_other(_FUNCTION_TOOL, _TEXT_TOOL, _NAMESPACE))),
    tool_choice=nullable(any_of(enum("auto", "none", "required"), _RESPONSES_CHOICE)),
    parallel_tool_calls=nullable(BOOLEAN),
    stream=nullable(BOOLEAN),
    max_output_tokens=nullable(POSITIVE),
    temperature=nullable(TEMPERATURE),
    top_p=nullable(FRACTION),
    text=nullable(OBJECT),
    reasoning=nullable(OBJECT),
    include=nullable(STRINGS),
    store=nullable(BOOLEAN),
    previous_response_id=nullable(STRING),
    metadata=nullable(OBJECT),
)

# ---- Responses: replies

RESPONSE_DELETED = record(
    "ResponseDeleted", "DELETE /v1/responses/{id}", id=STRING, object=enum("response"), deleted=BOOLEAN
)
RESPONSE_ITEMS = record(
    "ResponseItems",
    "GET /v1/responses/{id}/input_items",
    object=enum("list"),
    data=array(_INPUT),
    has_more=BOOLEAN,
    first_id=or_null(STRING),
    last_id=or_null(STRING),
)
_CACHE_TOKENS = record(
    "KnownTokens",
    "Numbers of input tokens read from and written to the prompt cache.",
    cached_tokens=INTEGER,
    cache_write_tokens=INTEGER,
)
_THOUGHT_TOKENS = record("ThoughtTokens", "Output tokens used for thinking.", reasoning_tokens=INTEGER)
_RESPONSES_USAGE = record(
    "ResponsesUsage",
    "Token usage.",
    input_tokens=INTEGER,
    input_tokens_details=_CACHE_TOKENS,
    output_tokens=INTEGER,
    output_tokens_details=_THOUGHT_TOKENS,
    total_tokens=INTEGER,
)
_INCOMPLETE = record(
    "Incomplete", "The reason why a response is incomplete.", reason=enum("max_output_tokens", "content_filter")
)
_RESPONSES_PROBLEM = record("ResponsesProblem", "The reason why a response failed.", code=STRING, message=STRING)
RESPONSES_REPLY = record(
    "ResponsesReply",
    "A complete reply; with `stream`, the reply is a stream of typed events. Many fields repeat the request.",
    id=STRING,
    object=enum("response"),
    created_at=INTEGER,
    status=enum("completed", "incomplete", "failed", "in_progress"),
    error=or_null(_RESPONSES_PROBLEM),
    incomplete_details=or_null(_INCOMPLETE),
    instructions=or_null(STRING),
    max_output_tokens=or_null(INTEGER),
    metadata=OBJECT,
    model=STRING,
    output=array(known_or_other(_MESSAGE_ITEM, _REASONING, _FUNCTION_ITEM, _CUSTOM_ITEM)),
    parallel_tool_calls=BOOLEAN,
    previous_response_id=or_null(STRING),
    reasoning=or_null(OBJECT),
    store=BOOLEAN,
    temperature=or_null(NUMBER),
    text=OBJECT,
    tool_choice=any_of(STRING, OBJECT),
    tools=OBJECTS,
    top_p=or_null(NUMBER),
    truncation=STRING,
    usage=or_null(_RESPONSES_USAGE),
    user=or_null(STRING),
    background=optional(BOOLEAN),
    max_tool_calls=optional(INTEGER),
    **fields(optional(STRING), "prompt_cache_key", "safety_identifier", "service_tier"),
    top_logprobs=optional(NON_NEGATIVE),
    toolspeak=optional(EXTENSION),
)

"""Schemas of OpenAI's Responses API. Tests compare them with the codec."""

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

# ---- items

_PART = known_or_other(
    tagged("InputText", "input_text", "Input text.", text=STRING),
    tagged(
        "InputImage",
        "input_image",
        "An image: a URL, possibly a `data:` URL, or the id of an uploaded file.",
        image_url=nullable(STRING),
        file_id=nullable(STRING),
        detail=defaulting("auto", enum("auto", "low", "high")),
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
_TEXT_OR_PARTS = any_of(STRING, array(_PART))
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
_FUNCTION_CALL = tagged(
    "FunctionCallItem",
    "function_call",
    "A function call, with its arguments as JSON text.",
    call_id=STRING,
    name=CALL_NAME,
    arguments=STRING,
    **fields(optional(STRING), "id", "status", "namespace"),
)
_CUSTOM_CALL = tagged(
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
_SPOKEN: dict[str, Field] = {"role": enum("system", "developer", "user", "assistant"), "content": _TEXT_OR_PARTS}
_PLAIN_MESSAGE = record("PlainMessage", "A message without a `type` field.", **_SPOKEN)
_MESSAGE = tagged(
    "Message",
    "message",
    "A message.",
    **_SPOKEN,
    **fields(nullable(STRING), "id", "status", "phase"),
)
_INPUT = known_or_other(
    _PLAIN_MESSAGE, _MESSAGE, _REASONING, _FUNCTION_CALL, _CUSTOM_CALL, _FUNCTION_OUTPUT, _CUSTOM_OUTPUT
)

# ---- tools

_FUNCTION = tagged(
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
    tools=array(one_of(_FUNCTION, _TEXT_TOOL)),
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
_CHOICE = known_or_other(_CHOSEN_FUNCTION, _CHOSEN_CUSTOM, _CHOSEN_AMONG)

RESPONSES_REQUEST = record(
    "ResponsesRequest",
    "POST /v1/responses",
    model=MODEL_NAME,
    input=any_of({**STRING, "minLength": 1}, array(_INPUT, filled=True)),
    instructions=nullable(STRING),
    tools=nullable(array(known_or_other(_FUNCTION, _TEXT_TOOL, _NAMESPACE))),
    tool_choice=nullable(any_of(enum("auto", "none", "required"), _CHOICE)),
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

# ---- replies

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
_USAGE = record(
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
_PROBLEM = record("ResponsesProblem", "The reason why a response failed.", code=STRING, message=STRING)
RESPONSES_REPLY = record(
    "ResponsesReply",
    "A complete reply; with `stream`, the reply is a stream of typed events. Many fields repeat the request.",
    id=STRING,
    object=enum("response"),
    created_at=INTEGER,
    status=enum("completed", "incomplete", "failed", "in_progress"),
    error=or_null(_PROBLEM),
    incomplete_details=or_null(_INCOMPLETE),
    instructions=or_null(STRING),
    max_output_tokens=or_null(INTEGER),
    metadata=OBJECT,
    model=STRING,
    output=array(known_or_other(_MESSAGE, _REASONING, _FUNCTION_CALL, _CUSTOM_CALL)),
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
    usage=or_null(_USAGE),
    user=or_null(STRING),
    background=optional(BOOLEAN),
    max_tool_calls=optional(INTEGER),
    **fields(optional(STRING), "prompt_cache_key", "safety_identifier", "service_tier"),
    top_logprobs=optional(NON_NEGATIVE),
    toolspeak=optional(EXTENSION),
)

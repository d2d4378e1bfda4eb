"""Schemas of Anthropic's Messages API. Tests compare them with the codec."""

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

# ---- blocks

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

# ---- requests

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

# ---- replies

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

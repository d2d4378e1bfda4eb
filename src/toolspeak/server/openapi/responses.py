"""Request and reply types of OpenAI's Responses API, for OpenAPI. Tests compare them with the codec."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET

from .shared import (
    Absent,
    CallName,
    Extension,
    Fraction,
    ModelName,
    Name,
    NonNegative,
    Object,
    Positive,
    Temperature,
    known_or_other,
)

# ----------------------------------------------------------------------------------------------------------- items


class InputText(msgspec.Struct, tag_field="type", tag="input_text"):
    """Input text."""

    text: str


class InputImage(msgspec.Struct, tag_field="type", tag="input_image", omit_defaults=True):
    """An image: a URL, possibly a `data:` URL, or the id of an uploaded file."""

    image_url: str | None = None
    file_id: str | None = None
    detail: Literal["auto", "low", "high"] = "auto"


class InputFile(msgspec.Struct, tag_field="type", tag="input_file", omit_defaults=True):
    """A file: a `data:` URL, a URL, or the id of an uploaded file."""

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None


class OutputText(msgspec.Struct, tag_field="type", tag="output_text"):
    """Text that the model generated."""

    text: str
    annotations: list[Object] = []
    logprobs: list[Object] = []


ContentPart = Annotated[Object, known_or_other(InputText, InputImage, InputFile, OutputText)]


class ReasoningText(msgspec.Struct):
    """Reasoning text, or text of a reasoning summary."""

    type: Literal["summary_text", "reasoning_text"]
    text: str


class Reasoning(msgspec.Struct, tag_field="type", tag="reasoning"):
    """The model's reasoning."""

    summary: list[ReasoningText]
    id: str | Absent = UNSET
    content: list[ReasoningText] | Absent | None = UNSET
    encrypted_content: str | Absent | None = UNSET
    status: str | Absent | None = UNSET


class FunctionCallItem(msgspec.Struct, tag_field="type", tag="function_call"):
    """A function call, with its arguments as JSON text."""

    call_id: str
    name: CallName
    arguments: str
    id: str | Absent = UNSET
    status: str | Absent = UNSET
    namespace: str | Absent = UNSET


class CustomCallItem(msgspec.Struct, tag_field="type", tag="custom_tool_call"):
    """A call to a custom tool."""

    call_id: str
    name: CallName
    input: str
    id: str | Absent = UNSET
    namespace: str | Absent = UNSET


class FunctionOutput(msgspec.Struct, tag_field="type", tag="function_call_output", omit_defaults=True):
    """The result of a function call."""

    call_id: str
    output: str | list[ContentPart]
    id: str | None = None
    status: str | None = None


class CustomOutput(msgspec.Struct, tag_field="type", tag="custom_tool_call_output", omit_defaults=True):
    """The result of a custom tool call."""

    call_id: str
    output: str | list[ContentPart]
    id: str | None = None


class PlainMessage(msgspec.Struct, omit_defaults=True):
    """A message without a `type` field."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[ContentPart]


class Message(PlainMessage, tag_field="type", tag="message", omit_defaults=True):
    """A message."""

    id: str | None = None
    status: str | None = None
    phase: str | None = None


InputItem = Annotated[
    Object,
    known_or_other(PlainMessage, Message, Reasoning, FunctionCallItem, CustomCallItem, FunctionOutput, CustomOutput),
]


# ------------------------------------------------------------------------------------------------------------ tools


class FunctionTool(msgspec.Struct, tag_field="type", tag="function", omit_defaults=True):
    """A function that the model may call."""

    name: Name
    description: str | None = None
    parameters: Object | None = None
    strict: bool | None = None


class TextTool(msgspec.Struct, tag_field="type", tag="custom", omit_defaults=True):
    """A custom tool, whose input is text."""

    name: Name
    description: str | None = None
    format: Object | None = None


class Namespace(msgspec.Struct, tag_field="type", tag="namespace"):
    """A named group of tools."""

    name: Name
    tools: list[FunctionTool | TextTool]
    description: str = ""


ResponsesTool = Annotated[Object, known_or_other(FunctionTool, TextTool, Namespace)]


class ChosenFunction(msgspec.Struct, tag_field="type", tag="function"):
    """The model must call this function."""

    name: Name


class ChosenCustom(msgspec.Struct, tag_field="type", tag="custom"):
    """The model must call this custom tool."""

    name: Name


class ChosenAmong(msgspec.Struct, tag_field="type", tag="allowed_tools"):
    """The only tools that the model may call, and whether it must call one."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[Annotated[Object, known_or_other(ChosenFunction, ChosenCustom)]], msgspec.Meta(min_length=1)]


ChosenTool = Annotated[Object, known_or_other(ChosenFunction, ChosenCustom, ChosenAmong)]


class ResponsesRequest(msgspec.Struct, omit_defaults=True):
    """POST /v1/responses"""

    model: ModelName
    input: Annotated[str, msgspec.Meta(min_length=1)] | Annotated[list[InputItem], msgspec.Meta(min_length=1)]
    instructions: str | None = None
    tools: list[ResponsesTool] | None = None
    tool_choice: Literal["auto", "none", "required"] | ChosenTool | None = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    max_output_tokens: Positive | None = None
    temperature: Temperature | None = None
    top_p: Fraction | None = None
    text: Object | None = None
    reasoning: Object | None = None
    include: list[str] | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    metadata: Object | None = None


# ---------------------------------------------------------------------------------------------------------- replies


class ResponseDeleted(msgspec.Struct):
    """DELETE /v1/responses/{id}"""

    id: str
    object: Literal["response"]
    deleted: bool


class ResponseItems(msgspec.Struct):
    """GET /v1/responses/{id}/input_items"""

    object: Literal["list"]
    data: list[InputItem]
    has_more: bool
    first_id: str | None
    last_id: str | None


class KnownTokens(msgspec.Struct):
    """Numbers of input tokens read from and written to the prompt cache."""

    cached_tokens: int
    cache_write_tokens: int


class ThoughtTokens(msgspec.Struct):
    """Output tokens used for thinking."""

    reasoning_tokens: int


class ResponsesUsage(msgspec.Struct):
    """Token usage."""

    input_tokens: int
    input_tokens_details: KnownTokens
    output_tokens: int
    output_tokens_details: ThoughtTokens
    total_tokens: int


class Incomplete(msgspec.Struct):
    """The reason why a response is incomplete."""

    reason: Literal["max_output_tokens", "content_filter"]


class ResponsesProblem(msgspec.Struct):
    """The reason why a response failed."""

    code: str
    message: str


OutputItem = Annotated[Object, known_or_other(Message, Reasoning, FunctionCallItem, CustomCallItem)]


class ResponsesReply(msgspec.Struct):
    """A complete reply; with `stream`, the reply is a stream of typed events. Many fields repeat the request."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["completed", "incomplete", "failed", "in_progress"]
    error: ResponsesProblem | None
    incomplete_details: Incomplete | None
    instructions: str | None
    max_output_tokens: int | None
    metadata: Object
    model: str
    output: list[OutputItem]
    parallel_tool_calls: bool
    previous_response_id: str | None
    reasoning: Object | None
    store: bool
    temperature: float | None
    text: Object
    tool_choice: str | Object
    tools: list[Object]
    top_p: float | None
    truncation: str
    usage: ResponsesUsage | None
    user: str | None
    background: bool | Absent = UNSET
    max_tool_calls: int | Absent = UNSET
    prompt_cache_key: str | Absent = UNSET
    safety_identifier: str | Absent = UNSET
    service_tier: str | Absent = UNSET
    top_logprobs: NonNegative | Absent = UNSET
    toolspeak: Extension | Absent = UNSET

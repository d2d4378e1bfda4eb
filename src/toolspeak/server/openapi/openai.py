"""The bodies of OpenAI's protocols as types, for the description of the proxy, and what all such bodies share.

Above: `openapi.schemas`, `openapi.vendors`. Below: `core.model`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ...core.model import JSONObject

__all__ = [
    "Base64",
    "ChatReply",
    "ChatRequest",
    "ChatTool",
    "Fraction",
    "ModelName",
    "Name",
    "Object",
    "OpenAIError",
    "Positive",
    "ResponseDeleted",
    "ResponseItems",
    "ResponsesReply",
    "ResponsesRequest",
    "Temperature",
    "Whole",
]

#: A JSON object of somebody else's making: a schema, arguments.
Object = JSONObject
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


class ResponseDeleted(msgspec.Struct):
    """DELETE /v1/responses/{id}"""

    id: str
    object: Literal["response"]
    deleted: bool


class ResponseItems(msgspec.Struct):
    """GET /v1/responses/{id}/input_items"""

    object: Literal["list"]
    data: list[Object]
    has_more: bool
    first_id: str | None
    last_id: str | None


class ResponsesReply(msgspec.Struct):
    """A whole answer; with `stream`, a stream of typed events."""

    id: str
    object: Literal["response"]
    status: str
    model: str
    output: list[Object]

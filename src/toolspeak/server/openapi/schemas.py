"""Schemas of all request and response bodies, for the OpenAPI document.

The schemas themselves are data in `components.json`, and the pages in `pages.json`. Tests compare them with the codecs.
"""

from functools import cache
from importlib.resources import files

import msgspec

from ...core.types import JSONObject


@cache
def components() -> JSONObject:
    return msgspec.json.decode(_read("components.json"))


def _read(name: str) -> bytes:
    return files(__name__.rpartition(".")[0]).joinpath(name).read_bytes()


def _ref(name: str) -> JSONObject:
    return {"$ref": f"#/components/schemas/{name}"}


_SCHEMAS = {
    "openai_chat": ("ChatRequest", "ChatReply", "OpenAIError"),
    "openai_responses": ("ResponsesRequest", "ResponsesReply", "OpenAIError"),
    "anthropic": ("AnthropicRequest", "AnthropicReply", "AnthropicError"),
    "gemini": ("GeminiRequest", "GeminiReply", "GeminiError"),
    "ollama": ("OllamaRequest", "OllamaReply", "OllamaError"),
    "ollama_generate": ("GenerateRequest", "GenerateReply", "OllamaError"),
}
BODIES = {name: _ref(each[0]) for name, each in _SCHEMAS.items()}
REPLIES = {name: _ref(each[1]) for name, each in _SCHEMAS.items()}
ERRORS = {name: _ref(each[2]) for name, each in _SCHEMAS.items()}


class Page(msgspec.Struct, frozen=True):
    summary: str
    reply: JSONObject | None = None  # schema of the reply; None if the reply is text
    request: JSONObject | None = None  # schema of the request; None if it has no body
    name: str = "the name of a model"  # what the name in the path is


PAGES = msgspec.json.decode(_read("pages.json"), type=dict[str, Page])

"""Schemas of all request and response bodies, for the OpenAPI document.

The schemas themselves are data in `components.json`. Tests compare them with the codecs.
"""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import msgspec

from ...core.types import JSONObject

OBJECT: JSONObject = {"type": "object"}


@cache
def components() -> JSONObject:
    return msgspec.json.decode(files(__name__.rpartition(".")[0]).joinpath("components.json").read_bytes())


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


class Page(NamedTuple):
    summary: str
    reply: JSONObject | None = None  # schema of the reply; None if the reply is text
    request: JSONObject | None = None  # schema of the request; None if it has no body
    name: str = "the name of a model"  # what the name in the path is


PAGES: dict[str, Page] = {
    "root": Page("Plain-text status; browsers get the web page"),
    "docs": Page("This document as a web page"),
    "metrics": Page("Metrics for Prometheus"),
    "health": Page("Liveness check", _ref("Status")),
    "ready": Page("Readiness check", _ref("Status")),
    "version": Page("The version of toolspeak", _ref("Version")),
    "openapi": Page("This document", OBJECT),
    "models": Page("List the models that the caller may use", _ref("Models")),
    "model": Page("Get a model", _ref("Model")),
    "openai_response": Page("Get a stored response", _ref("ResponsesReply"), name="the id of a response"),
    "openai_response_items": Page(
        "List the input items of a stored response: `limit`, `order`, `after`",
        _ref("ResponseItems"),
        name="the id of a response",
    ),
    "openai_response_deleted": Page("Delete a stored response", _ref("ResponseDeleted"), name="the id of a response"),
    "gemini_models": Page("List the models that the caller may use, in Gemini's format", _ref("GeminiModels")),
    "gemini_model": Page("Get a model, in Gemini's format", _ref("GeminiModel")),
    "gemini_count": Page("Estimate the number of tokens of a request", _ref("GeminiCount"), _ref("GeminiCountRequest")),
    "anthropic_count": Page(
        "Estimate the number of tokens of a request", _ref("AnthropicCount"), _ref("AnthropicCountRequest")
    ),
    "ollama_tags": Page("List the models that the caller may use, in Ollama's format", _ref("OllamaModels")),
    "ollama_ps": Page("List the models in memory; always empty", _ref("OllamaModels")),
    "ollama_version": Page("Get an Ollama version that clients accept as current", _ref("Version")),
    "ollama_show": Page("Show the capabilities of a model, in Ollama's format", OBJECT, _ref("OllamaShow")),
    "session": Page("Sign-in page for the one-time link"),
    "session_begin": Page("Sign in with a one-time code or an admin key", OBJECT, _ref("SessionCode")),
    "session_end": Page("Sign out", OBJECT),
    "link": Page("Create a one-time code for another session", _ref("SessionCode")),
    "records": Page(
        "List recent requests of all callers; `after` is the `next` of the previous reply", _ref("Records")
    ),
    "record": Page("Get the record of one of the caller's requests", OBJECT, name="the id of a request"),
    "replay": Page(
        "Re-run a request with different settings or another model; no tool is executed",
        OBJECT,
        _ref("ReplayWishes"),
        name="the id of a request",
    ),
    "about": Page("Features that the web page can offer", OBJECT),
    "profiles": Page("List the model profiles and their sources", OBJECT),
    "probe": Page("Start probing the capabilities of a model", OBJECT, _ref("ProbeWish")),
    "series": Page("Metrics by minute and model", OBJECT),
    "evaluations": Page("Results of `toolspeak eval` in the working directory", OBJECT),
    "page_file": Page("A file of the web page", name="the name of a file"),
    "chats": Page("List the stored sessions; `text` filters by content", OBJECT),
    "chat": Page("Get a session as questions and answers", OBJECT, name="the id of a session"),
    "chat_kept": Page("Store questions and answers in a session", OBJECT, _ref("KeptChat")),
    "server_tools": Page("List the tools that the server runs for the caller", OBJECT),
}

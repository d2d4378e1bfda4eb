"""Request and reply types of all protocols and pages, for the OpenAPI document.

The codecs accept more than these types allow and preserve unknown fields. Tests check that their output matches them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .anthropic import (
    ANTHROPIC_OPEN,
    AnthropicCount,
    AnthropicCountRequest,
    AnthropicError,
    AnthropicReply,
    AnthropicRequest,
)
from .gemini_ollama import (
    VENDORS_OPEN,
    GeminiCount,
    GeminiCountRequest,
    GeminiError,
    GeminiReply,
    GeminiRequest,
    GenerateReply,
    GenerateRequest,
    OllamaError,
    OllamaModels,
    OllamaReply,
    OllamaRequest,
    OllamaShow,
)
from .openai import CHAT_OPEN, ChatReply, ChatRequest, OpenAIError
from .responses import ResponseDeleted, ResponseItems, ResponsesReply, ResponsesRequest
from .shared import Object

# --------------------------------------------------------------------------------------------------- pages of toolspeak


class Model(msgspec.Struct):
    """A model, with the fields that OpenAI and Anthropic define."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    type: Literal["model"]
    display_name: str
    created_at: str


class Models(msgspec.Struct):
    """The models that the caller may use."""

    object: Literal["list"]
    data: list[Model]
    has_more: bool
    first_id: str | None
    last_id: str | None


class GeminiModel(msgspec.Struct):
    """A model, in Gemini's format."""

    name: str
    displayName: str
    supportedGenerationMethods: list[str]


class GeminiModels(msgspec.Struct):
    """The models that the caller may use."""

    models: list[GeminiModel]


class Status(msgspec.Struct):
    """Health of the server."""

    status: str


class Version(msgspec.Struct):
    """A version number."""

    version: str


class SessionCode(msgspec.Struct):
    """The code of a one-time sign-in link, or an admin key."""

    code: str


class ReplayWishes(msgspec.Struct):
    """Settings to change when re-running a request; empty fields keep the original value."""

    model: str = ""
    mode: str = ""
    plan: str = ""
    dialect: str = ""
    policy: str = ""
    marks: str = ""
    retries: int | None = None


class ProbeWish(msgspec.Struct):
    """The model to probe."""

    model: str


class KeptChat(msgspec.Struct):
    """Questions and answers to store after the first `keep` of a session, or in a new session."""

    exchanges: list[Object]
    session: str = ""
    keep: int = 0
    model: str = ""


class Records(msgspec.Struct):
    """Summaries of recent and running requests."""

    requests: list[Object]
    running: list[Object] = []


#: Types that allow additional properties, with the reason.
OPEN: dict[type, str] = {**ANTHROPIC_OPEN, **CHAT_OPEN, **VENDORS_OPEN}

#: Maps a client protocol to its request, reply and error type.
_TYPES: dict[str, tuple[type, type, type]] = {
    "openai_chat": (ChatRequest, ChatReply, OpenAIError),
    "openai_responses": (ResponsesRequest, ResponsesReply, OpenAIError),
    "anthropic": (AnthropicRequest, AnthropicReply, AnthropicError),
    "gemini": (GeminiRequest, GeminiReply, GeminiError),
    "ollama": (OllamaRequest, OllamaReply, OllamaError),
    "ollama_generate": (GenerateRequest, GenerateReply, OllamaError),
}
BODIES = {name: types[0] for name, types in _TYPES.items()}
REPLIES = {name: types[1] for name, types in _TYPES.items()}
ERRORS = {name: types[2] for name, types in _TYPES.items()}


class Page(msgspec.Struct, frozen=True):
    """How the document describes a page."""

    summary: str
    #: Type of the reply; None if the reply is text.
    reply: type | None = None
    #: Type of the request; None if it has no body.
    request: type | None = None
    #: What the name in the path is.
    name: str = "the name of a model"


#: Pages of the route table.
PAGES: dict[str, Page] = {
    "root": Page("Plain-text status; browsers get the web page"),
    "docs": Page("This document as a web page"),
    "metrics": Page("Metrics for Prometheus"),
    "health": Page("Liveness check", Status),
    "ready": Page("Readiness check", Status),
    "version": Page("The version of toolspeak", Version),
    "openapi": Page("This document", Object),
    "models": Page("List the models that the caller may use", Models),
    "model": Page("Get a model", Model),
    "openai_response": Page("Get a stored response", ResponsesReply, name="the id of a response"),
    "openai_response_items": Page(
        "List the input items of a stored response: `limit`, `order`, `after`",
        ResponseItems,
        name="the id of a response",
    ),
    "openai_response_deleted": Page("Delete a stored response", ResponseDeleted, name="the id of a response"),
    "gemini_models": Page("List the models that the caller may use, in Gemini's format", GeminiModels),
    "gemini_model": Page("Get a model, in Gemini's format", GeminiModel),
    "gemini_count": Page("Estimate the number of tokens of a request", GeminiCount, GeminiCountRequest),
    "anthropic_count": Page("Estimate the number of tokens of a request", AnthropicCount, AnthropicCountRequest),
    "ollama_tags": Page("List the models that the caller may use, in Ollama's format", OllamaModels),
    "ollama_ps": Page("List the models in memory; always empty", OllamaModels),
    "ollama_version": Page("Get an Ollama version that clients accept as current", Version),
    "ollama_show": Page("Show the capabilities of a model, in Ollama's format", Object, OllamaShow),
    "session": Page("Sign-in page for the one-time link"),
    "session_begin": Page("Sign in with a one-time code or an admin key", Object, SessionCode),
    "session_end": Page("Sign out", Object),
    "link": Page("Create a one-time code for another session", SessionCode),
    "records": Page("List recent requests of all callers; `after` is the `next` of the previous reply", Records),
    "record": Page("Get the record of one of the caller's requests", Object, name="the id of a request"),
    "replay": Page(
        "Re-run a request with different settings or another model; no tool is executed",
        Object,
        ReplayWishes,
        name="the id of a request",
    ),
    "about": Page("Features that the web page can offer", Object),
    "profiles": Page("List the model profiles and their sources", Object),
    "probe": Page("Start probing the capabilities of a model", Object, ProbeWish),
    "series": Page("Metrics by minute and model", Object),
    "evaluations": Page("Results of `toolspeak eval` in the working directory", Object),
    "page_file": Page("A file of the web page", name="the name of a file"),
    "chats": Page("List the stored sessions; `text` filters by content", Object),
    "chat": Page("Get a session as questions and answers", Object, name="the id of a session"),
    "chat_kept": Page("Store questions and answers in a session", Object, KeptChat),
    "server_tools": Page("List the tools that the server runs for the caller", Object),
}

"""Request and reply types of all protocols and pages, for the OpenAPI document.

The codecs accept more than these types allow and preserve unknown fields. Tests check that their output matches them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .anthropic import (
    ANTHROPIC_KINDS,
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
from .openai import CHAT_KINDS, CHAT_OPEN, ChatReply, ChatRequest, OpenAIError
from .responses import (
    RESPONSES_KINDS,
    RESPONSES_OPEN,
    ResponseDeleted,
    ResponseItems,
    ResponsesReply,
    ResponsesRequest,
)
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


#: Types that are referenced only from unions.
KINDS: tuple[type, ...] = (*ANTHROPIC_KINDS, *CHAT_KINDS, *RESPONSES_KINDS)
#: Types that allow additional properties, with the reason.
OPEN: dict[type, str] = {**ANTHROPIC_OPEN, **CHAT_OPEN, **RESPONSES_OPEN, **VENDORS_OPEN}

#: Maps a client protocol to its request, reply and error type.
BODIES: dict[str, type] = {
    "openai_chat": ChatRequest,
    "openai_responses": ResponsesRequest,
    "anthropic": AnthropicRequest,
    "gemini": GeminiRequest,
    "ollama": OllamaRequest,
    "ollama_generate": GenerateRequest,
}
REPLIES: dict[str, type] = {
    "openai_chat": ChatReply,
    "openai_responses": ResponsesReply,
    "anthropic": AnthropicReply,
    "gemini": GeminiReply,
    "ollama": OllamaReply,
    "ollama_generate": GenerateReply,
}
ERRORS: dict[str, type] = {
    "openai_chat": OpenAIError,
    "openai_responses": OpenAIError,
    "anthropic": AnthropicError,
    "gemini": GeminiError,
    "ollama": OllamaError,
    "ollama_generate": OllamaError,
}
#: Maps a page to its request type (None if it has no body) and reply type (None if it is text).
PAGES: dict[str, tuple[type | None, type | None]] = {
    "root": (None, None),
    "docs": (None, None),
    "metrics": (None, None),
    "health": (None, Status),
    "ready": (None, Status),
    "version": (None, Version),
    "openapi": (None, Object),
    "models": (None, Models),
    "model": (None, Model),
    "openai_response": (None, ResponsesReply),
    "openai_response_items": (None, ResponseItems),
    "openai_response_deleted": (None, ResponseDeleted),
    "gemini_models": (None, GeminiModels),
    "gemini_model": (None, GeminiModel),
    "gemini_count": (GeminiCountRequest, GeminiCount),
    "anthropic_count": (AnthropicCountRequest, AnthropicCount),
    "ollama_tags": (None, OllamaModels),
    "ollama_ps": (None, OllamaModels),
    "ollama_version": (None, Version),
    "ollama_show": (OllamaShow, Object),
    "session": (None, None),
    "session_begin": (SessionCode, Object),
    "session_end": (None, Object),
    "link": (None, SessionCode),
    "records": (None, Records),
    "record": (None, Object),
    "replay": (ReplayWishes, Object),
    "about": (None, Object),
    "profiles": (None, Object),
    "probe": (ProbeWish, Object),
    "series": (None, Object),
    "evaluations": (None, Object),
    "page_file": (None, None),
    "chats": (None, Object),
    "chat": (None, Object),
    "chat_kept": (KeptChat, Object),
    "server_tools": (None, Object),
}

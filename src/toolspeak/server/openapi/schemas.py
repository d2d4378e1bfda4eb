"""Schemas of the requests and replies of all protocols and pages, for the OpenAPI document.

The codecs accept more than these schemas allow and preserve unknown fields. Tests check that their output matches them.
"""

from __future__ import annotations

from typing import NamedTuple

from ...core.types import JSONObject
from .openai import (
    CHAT_REPLY,
    CHAT_REQUEST,
    OPENAI_ERROR,
    RESPONSE_DELETED,
    RESPONSE_ITEMS,
    RESPONSES_REPLY,
    RESPONSES_REQUEST,
)
from .other_vendors import (
    ANTHROPIC_COUNT,
    ANTHROPIC_COUNT_REQUEST,
    ANTHROPIC_ERROR,
    ANTHROPIC_REPLY,
    ANTHROPIC_REQUEST,
    GEMINI_COUNT,
    GEMINI_COUNT_REQUEST,
    GEMINI_ERROR,
    GEMINI_REPLY,
    GEMINI_REQUEST,
    GENERATE_REPLY,
    GENERATE_REQUEST,
    OLLAMA_ERROR,
    OLLAMA_MODELS,
    OLLAMA_REPLY,
    OLLAMA_REQUEST,
    OLLAMA_SHOW,
)
from .shared import (
    BOOLEAN,
    INTEGER,
    OBJECT,
    OBJECTS,
    STRING,
    STRINGS,
    array,
    defaulting,
    enum,
    fields,
    nullable,
    or_null,
    record,
)

# ---- pages of toolspeak

_MODEL = record(
    "Model",
    "A model, with the fields that OpenAI and Anthropic define.",
    id=STRING,
    object=enum("model"),
    created=INTEGER,
    owned_by=STRING,
    type=enum("model"),
    display_name=STRING,
    created_at=STRING,
)
_MODELS = record(
    "Models",
    "The models that the caller may use.",
    object=enum("list"),
    data=array(_MODEL),
    has_more=BOOLEAN,
    first_id=or_null(STRING),
    last_id=or_null(STRING),
)
_GEMINI_MODEL = record(
    "GeminiModel",
    "A model, in Gemini's format.",
    name=STRING,
    displayName=STRING,
    supportedGenerationMethods=STRINGS,
)
_GEMINI_MODELS = record("GeminiModels", "The models that the caller may use.", models=array(_GEMINI_MODEL))
_STATUS = record("Status", "Health of the server.", status=STRING)
_VERSION = record("Version", "A version number.", version=STRING)
_SESSION_CODE = record("SessionCode", "The code of a one-time sign-in link, or an admin key.", code=STRING)
_REPLAY_WISHES = record(
    "ReplayWishes",
    "Settings to change when re-running a request; empty fields keep the original value.",
    **fields(defaulting("", STRING), "model", "mode", "plan", "dialect", "policy", "marks"),
    retries=nullable(INTEGER),
)
_PROBE_WISH = record("ProbeWish", "The model to probe.", model=STRING)
_KEPT_CHAT = record(
    "KeptChat",
    "Questions and answers to store after the first `keep` of a session, or in a new session.",
    exchanges=OBJECTS,
    session=defaulting("", STRING),
    keep=defaulting(0, INTEGER),
    model=defaulting("", STRING),
)
_RECORD_LIST = record(
    "Records", "Summaries of recent and running requests.", requests=OBJECTS, running=defaulting([], OBJECTS)
)

#: Maps a client protocol to the schemas of its requests, replies and errors.
_SCHEMAS = {
    "openai_chat": (CHAT_REQUEST, CHAT_REPLY, OPENAI_ERROR),
    "openai_responses": (RESPONSES_REQUEST, RESPONSES_REPLY, OPENAI_ERROR),
    "anthropic": (ANTHROPIC_REQUEST, ANTHROPIC_REPLY, ANTHROPIC_ERROR),
    "gemini": (GEMINI_REQUEST, GEMINI_REPLY, GEMINI_ERROR),
    "ollama": (OLLAMA_REQUEST, OLLAMA_REPLY, OLLAMA_ERROR),
    "ollama_generate": (GENERATE_REQUEST, GENERATE_REPLY, OLLAMA_ERROR),
}
BODIES = {name: each[0] for name, each in _SCHEMAS.items()}
REPLIES = {name: each[1] for name, each in _SCHEMAS.items()}
ERRORS = {name: each[2] for name, each in _SCHEMAS.items()}


class Page(NamedTuple):
    """How the document describes a page."""

    summary: str
    #: Schema of the reply; None if the reply is text.
    reply: JSONObject | None = None
    #: Schema of the request; None if it has no body.
    request: JSONObject | None = None
    #: What the name in the path is.
    name: str = "the name of a model"


#: Pages of the route table.
PAGES: dict[str, Page] = {
    "root": Page("Plain-text status; browsers get the web page"),
    "docs": Page("This document as a web page"),
    "metrics": Page("Metrics for Prometheus"),
    "health": Page("Liveness check", _STATUS),
    "ready": Page("Readiness check", _STATUS),
    "version": Page("The version of toolspeak", _VERSION),
    "openapi": Page("This document", OBJECT),
    "models": Page("List the models that the caller may use", _MODELS),
    "model": Page("Get a model", _MODEL),
    "openai_response": Page("Get a stored response", RESPONSES_REPLY, name="the id of a response"),
    "openai_response_items": Page(
        "List the input items of a stored response: `limit`, `order`, `after`",
        RESPONSE_ITEMS,
        name="the id of a response",
    ),
    "openai_response_deleted": Page("Delete a stored response", RESPONSE_DELETED, name="the id of a response"),
    "gemini_models": Page("List the models that the caller may use, in Gemini's format", _GEMINI_MODELS),
    "gemini_model": Page("Get a model, in Gemini's format", _GEMINI_MODEL),
    "gemini_count": Page("Estimate the number of tokens of a request", GEMINI_COUNT, GEMINI_COUNT_REQUEST),
    "anthropic_count": Page("Estimate the number of tokens of a request", ANTHROPIC_COUNT, ANTHROPIC_COUNT_REQUEST),
    "ollama_tags": Page("List the models that the caller may use, in Ollama's format", OLLAMA_MODELS),
    "ollama_ps": Page("List the models in memory; always empty", OLLAMA_MODELS),
    "ollama_version": Page("Get an Ollama version that clients accept as current", _VERSION),
    "ollama_show": Page("Show the capabilities of a model, in Ollama's format", OBJECT, OLLAMA_SHOW),
    "session": Page("Sign-in page for the one-time link"),
    "session_begin": Page("Sign in with a one-time code or an admin key", OBJECT, _SESSION_CODE),
    "session_end": Page("Sign out", OBJECT),
    "link": Page("Create a one-time code for another session", _SESSION_CODE),
    "records": Page("List recent requests of all callers; `after` is the `next` of the previous reply", _RECORD_LIST),
    "record": Page("Get the record of one of the caller's requests", OBJECT, name="the id of a request"),
    "replay": Page(
        "Re-run a request with different settings or another model; no tool is executed",
        OBJECT,
        _REPLAY_WISHES,
        name="the id of a request",
    ),
    "about": Page("Features that the web page can offer", OBJECT),
    "profiles": Page("List the model profiles and their sources", OBJECT),
    "probe": Page("Start probing the capabilities of a model", OBJECT, _PROBE_WISH),
    "series": Page("Metrics by minute and model", OBJECT),
    "evaluations": Page("Results of `toolspeak eval` in the working directory", OBJECT),
    "page_file": Page("A file of the web page", name="the name of a file"),
    "chats": Page("List the stored sessions; `text` filters by content", OBJECT),
    "chat": Page("Get a session as questions and answers", OBJECT, name="the id of a session"),
    "chat_kept": Page("Store questions and answers in a session", OBJECT, _KEPT_CHAT),
    "server_tools": Page("List the tools that the server runs for the caller", OBJECT),
}

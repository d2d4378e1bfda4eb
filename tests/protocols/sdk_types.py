"""The types of the vendors' own SDKs, taken at their word: what one of them does not know in a body is a flaw.

The SDKs describe requests as typed dicts or models, which pydantic leaves open: it takes keys that are not listed, and
looks into what is declared as an `Iterable` only when somebody asks for the items. So typed dicts are walked through
here, and of models it is asked what they kept.

Where a type is narrower than the wire that the vendor, or those who speak the same protocol, have documented, the row
of `WIDER` says why. What the types leave open: JSON schemas (objects of anything), how many things there are, how
texts and ids are made, and in which order messages follow each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Required, Union, get_args, get_origin

import ollama
import pydantic
import typing_extensions
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from google.genai import types as gemini
from ollama._types import ChatRequest
from openai.types.chat import completion_create_params as chat
from openai.types.responses import response_create_params as responses

__all__ = ["WIDER", "Wider", "flaw_in"]

_PLAIN = (str, int, bool, NoneType)


class Wider(NamedTuple):
    """Something that is sent though the SDK's types have no word for it."""

    #: A field of every object that `holds` it, or an object in a list if no field is named.
    field: str
    holds: Callable[[dict[str, Any]], bool]
    reason: str


# ------------------------------------------------------------------------------------------------- typed dicts


def _flaw(value: Any, kind: Any, path: str) -> str:
    """What is wrong with a value; nothing if it is of the kind."""
    if kind in (Any, object):
        return ""
    if typing_extensions.is_typeddict(kind):
        return _flaw_in_dict(value, kind, path)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Required, NotRequired, Annotated):
        return _flaw(value, inner[0], path)
    if origin in (Union, UnionType):
        flaws = [_flaw(value, one, path) for one in inner]
        return "" if "" in flaws else max(flaws, key=lambda flaw: flaw.partition(" ")[0].count("."))
    if origin is Literal:
        return "" if value in inner else f"{path} is {value!r}"
    if origin is dict:
        return _first(_flaw(one, inner[1], f"{path}.{key}") for key, one in _pairs(value)) or _unless(value, dict, path)
    if origin in (list, Iterable, Sequence):
        return _first(_flaw(one, inner[0], f"{path}.{at}") for at, one in _numbered(value)) or _unless(
            value, list, path
        )
    if kind is float:
        return _unless(value, (int, float), path)
    # What is left are files, which no JSON holds.
    return _unless(value, kind, path) if kind in _PLAIN else f"{path} is no {kind}"


def _flaw_in_dict(value: Any, kind: Any, path: str) -> str:
    if not isinstance(value, dict):
        return f"{path} is no object"
    hints = _hints(kind)
    # Not by the keys that a typed dict says it requires: where annotations are texts, it does not know.
    missing = [key for key, hint in hints.items() if get_origin(hint) is Required and key not in value]
    if missing:
        return f"{path} has no {', '.join(missing)}"
    found = _first(_flaw(one, hints[key], f"{path}.{key}") for key, one in value.items() if key in hints)
    return found or _first(f"{path}.{key} is unknown" for key in value if key not in hints)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing_extensions.get_type_hints(kind, include_extras=True)


def _first(flaws: Iterable[str]) -> str:
    return next(filter(None, flaws), "")


def _pairs(value: Any) -> Iterable[tuple[str, Any]]:
    return value.items() if isinstance(value, dict) else ()


def _numbered(value: Any) -> Iterable[tuple[int, Any]]:
    return enumerate(value) if isinstance(value, list) else ()


def _unless(value: Any, kind: Any, path: str) -> str:
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return "" if fits else f"{path} is {value!r}"


def _typed(whole: Any, streamed: Any) -> Callable[[dict[str, Any]], str]:
    return lambda body: _flaw(body, streamed if body.get("stream") else whole, "body")


# ------------------------------------------------------------------------------------------------------ models


class GeminiBody(pydantic.BaseModel, extra="forbid"):
    """The body of generateContent: the SDK has types of its fields only, and those take no other keys."""

    contents: list[gemini.Content]
    systemInstruction: gemini.Content | None = None
    tools: list[gemini.Tool] | None = None
    toolConfig: gemini.ToolConfig | None = None
    generationConfig: gemini.GenerationConfig | None = None
    safetySettings: list[gemini.SafetySetting] | None = None
    cachedContent: str | None = None


def _flaw_for_gemini(body: dict[str, Any]) -> str:
    try:  # as JSON, for only there is the name of an enum, or base64, what it should be
        GeminiBody.model_validate_json(json.dumps(body), strict=True)
    except pydantic.ValidationError as error:
        return str(error)
    return ""


class OllamaBody(ChatRequest):
    """The body of a chat, in which what the SDK also takes as any mapping is of its own type."""

    messages: list[ollama.Message]  # type: ignore[assignment]  # pydantic lets a field be narrower
    options: ollama.Options | None = None  # type: ignore[assignment]
    tools: list[ollama.Tool] | None = None  # type: ignore[assignment]


def _flaw_for_ollama(body: dict[str, Any]) -> str:
    """Those models take any key and forget it: what they kept is all that they know."""
    try:
        known = OllamaBody.model_validate_json(json.dumps(body)).model_dump(exclude_unset=True, mode="json")
    except pydantic.ValidationError as error:
        return str(error)
    return "" if known == body else f"{body} was read as {known}"


# ------------------------------------------------------------------------------------------- all five of them

_CHECKS: dict[str, Callable[[dict[str, Any]], str]] = {
    "anthropic": _typed(MessageCreateParamsNonStreaming, MessageCreateParamsStreaming),
    "gemini": _flaw_for_gemini,
    "ollama": _flaw_for_ollama,
    "openai_chat": _typed(chat.CompletionCreateParamsNonStreaming, chat.CompletionCreateParamsStreaming),
    "openai_responses": _typed(responses.ResponseCreateParamsNonStreaming, responses.ResponseCreateParamsStreaming),
}


def _says(field: str, *values: str) -> Callable[[dict[str, Any]], bool]:
    return lambda value: value.get(field) in values


def _has(field: str) -> Callable[[dict[str, Any]], bool]:
    return lambda value: field in value


WIDER: dict[str, tuple[Wider, ...]] = {
    "anthropic": (
        Wider("temperature", _has("max_tokens"), "documented for all but the newest models"),
        Wider("top_p", _has("max_tokens"), "documented for all but the newest models"),
    ),
    "gemini": (),
    "ollama": (
        Wider("id", _has("function"), "the server gives calls ids and takes them back (api/types.go, ToolCall)"),
        Wider("tool_call_id", _says("role", "tool"), "the server pairs results by it (api/types.go, Message)"),
        Wider("images", _has("role"), "base64, which the SDK itself makes of files"),
        Wider("parameters", _has("name"), "a JSON schema, of which the model of the SDK knows a few words"),
    ),
    "openai_chat": (
        Wider("reasoning_content", _says("role", "assistant"), "what DeepSeek, vLLM and llama.cpp document"),
        Wider("reasoning", _says("role", "assistant"), "what OpenRouter and newer vLLM document"),
        Wider("name", _says("role", "tool"), "templates of open models ask for it; OpenAI takes it"),
        Wider("", _says("type", "audio_url", "video_url"), "what vLLM documents for sounds and films on the web"),
    ),
    "openai_responses": (),
}


def flaw_in(body: dict[str, Any], protocol: str) -> str:
    """What the vendor's types do not take of a body, but for the listed exceptions; nothing if they take it."""
    return _CHECKS[protocol](_narrowed(body, WIDER[protocol]))


def _narrowed(value: Any, wider: Sequence[Wider]) -> Any:
    if isinstance(value, list):
        listed = (one for one in value if not (isinstance(one, dict) and _is_left_out(one, wider)))
        return [_narrowed(one, wider) for one in listed]
    if not isinstance(value, dict):
        return value
    fields = {one.field for one in wider if one.holds(value)}
    return {key: _narrowed(one, wider) for key, one in value.items() if key not in fields}


def _is_left_out(value: dict[str, Any], wider: Sequence[Wider]) -> bool:
    return any(one.holds(value) for one in wider if not one.field)

"""The table of protocols that upstreams can use: one `Codec` per protocol."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any

import msgspec

from ..core.events import Event, Failure
from ..core.types import Note, Request
from ..errors import ConfigError
from ..protocols import plugin_protocols
from ..protocols.shared.reply_decoder import BaseReplyDecoder
from .http.address import BaseUrl, ends_with_version, parse_base_url, without_ending


class Codec(msgspec.Struct, frozen=True):
    """Everything that a transport needs to know about a protocol."""

    #: Default provider name.
    provider: str
    #: Returns the path to post a request to, relative to the base URL.
    path: Callable[[Request], str]
    encode: Callable[[Request], bytes]
    #: Returns notes about everything that `encode` drops or rewrites.
    notes: Callable[[Request], tuple[Note, ...]]
    decoder: Callable[[bool], BaseReplyDecoder]
    #: Decodes an error response from its status (400 or more), body, and headers by lower-case name.
    error: Callable[[int, bytes, Mapping[str, str]], Failure]
    #: The header for the API key, and the prefix of its value.
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "
    headers: Mapping[str, str] = {}
    #: Path prefix, used unless the base URL already ends with a version.
    version: str = ""
    #: Path endings to strip from the base URL, because users often copy the full URL of an API method.
    endings: tuple[str, ...] = ()
    #: Whether one request can ask for several answers.
    several_answers: bool = False
    #: See `_MODEL_LISTS`.
    model_list: tuple[str, str, str] | None = None
    #: Decodes an ordinary complete reply faster than `decoder`; returns None for all others.
    decode_reply: Callable[[bytes], list[Event] | None] | None = None


#: The codecs without the functions that the package of each protocol provides.
_CODECS: dict[str, Callable[..., Codec]] = {
    "openai_chat": partial(
        Codec, "openai", lambda request: "/chat/completions", endings=("/chat/completions",), several_answers=True
    ),
    "openai_responses": partial(Codec, "openai", lambda request: "/responses", endings=("/responses",)),
    "anthropic": partial(
        Codec,
        "anthropic",
        lambda request: "/messages",
        key_header="x-api-key",
        key_prefix="",
        headers={"anthropic-version": "2023-06-01"},
        version="/v1",
        endings=("/messages",),
    ),
    "gemini": partial(
        Codec,
        "gemini",
        lambda request: import_module("toolspeak.protocols.gemini").path(request),
        key_header="x-goog-api-key",
        key_prefix="",
        version="/v1beta",
        endings=("/models",),
        several_answers=True,
    ),
    # Under `/v1`, Ollama speaks OpenAI's protocol. Users may have copied that base URL for the same server.
    "ollama": partial(Codec, "ollama", lambda request: "/api/chat", endings=("/api/chat", "/api", "/v1")),
}
#: Maps a protocol to the path of its list of models, the field with the list, and the field with a model's name.
_MODEL_LISTS = {
    "openai_chat": ("/models", "data", "id"),
    "openai_responses": ("/models", "data", "id"),
    "anthropic": ("/models?limit=1000", "data", "id"),
    "gemini": ("/models?pageSize=1000", "models", "name"),
    "ollama": ("/api/tags", "models", "name"),
}
#: Path endings of API methods, and the protocol each belongs to.
_METHODS = {
    "/chat/completions": "openai_chat",
    "/responses": "openai_responses",
    "/messages": "anthropic",
    "/api/chat": "ollama",
    ":generateContent": "gemini",
    ":streamGenerateContent": "gemini",
}


def split_method(url: str) -> tuple[str, str]:
    """Return a URL without the API method that it ends with, and the method's protocol; empty if there is none."""
    ending, protocol = next(((each, name) for each, name in _METHODS.items() if url.endswith(each)), ("", ""))
    return url.removesuffix(ending).partition("/models/")[0] if ending else url.removesuffix("/models"), protocol


def resolve_endpoint(base_url: str, protocol: str) -> tuple[BaseUrl, str]:
    """Return the parsed base URL for a protocol, and the version prefix for its paths."""
    row = codec(protocol)
    base = without_ending(parse_base_url(base_url), row.endings)
    method_protocol = next((name for ending, name in _METHODS.items() if base.path.endswith(ending)), "")
    if method_protocol:
        hint = "give the URL only up to the version, such as `/v1`"
        if method_protocol != protocol:
            hint += f", and set the protocol to `{method_protocol}` if the service uses it"
        raise ConfigError(f"the base URL ends with an API method of `{method_protocol}`", hint=hint)
    return base, "" if ends_with_version(base) else row.version


def _from_plugin(protocol: str, package: Any) -> Callable[..., Codec]:
    """Return the codec of a plugin's protocol, without its functions (see `toolspeak.protocols`)."""
    path: str | Callable[[Request], str] = package.PATH
    optional = ("KEY_HEADER", "KEY_PREFIX", "HEADERS")
    fields = {name.lower(): getattr(package, name) for name in optional if hasattr(package, name)}
    provider = getattr(package, "PROVIDER", protocol)
    make_path: Callable[[Request], str] = path if callable(path) else lambda request: path
    return partial(Codec, provider, make_path, **fields)


@cache
def codec(protocol: str) -> Codec:
    make = _CODECS.get(protocol)
    package: Any = import_module(f"toolspeak.protocols.{protocol}") if make else plugin_protocols().get(protocol)
    if not hasattr(package, "encode_request"):
        names = sorted((*_CODECS, *plugin_protocols()))
        raise ConfigError(f"unknown protocol `{protocol}`", hint=f"use one of {', '.join(names)}")
    return (make or _from_plugin(protocol, package))(
        encode=package.encode_request,
        notes=package.request_notes,
        decoder=package.ReplyDecoder,
        error=package.decode_error,
        decode_reply=getattr(package, "decode_reply", None),
        model_list=_MODEL_LISTS.get(protocol) or getattr(package, "MODELS", None),
    )

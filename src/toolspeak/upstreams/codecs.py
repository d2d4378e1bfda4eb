"""The table of protocols that upstreams can use: one `Codec` per protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Protocol

import msgspec

from ..core.events import Event, Failure
from ..core.types import Note, Request
from ..errors import ConfigError
from .http.address import BaseUrl, ends_with_version, parse_base_url, without_ending


class Decoder(Protocol):
    """Decodes the bytes of a reply into events. `Finish` or `Failure` ends the reply."""

    @property
    def finished(self) -> bool:
        """Whether the finish reason has arrived. After that, a broken connection loses no part of the answer."""
        ...

    def feed(self, data: bytes, /) -> list[Event]:
        """Decode more bytes and return the events they complete."""
        ...

    def close(self) -> list[Event]:
        """Return the final events, at the end of the body."""
        ...

    def capture_raw(self, secrets: tuple[bytes, ...] = ()) -> None:
        """From now on, attach raw bytes to the events, except bytes that contain one of `secrets`."""


class Codec(msgspec.Struct, frozen=True):
    """Everything that a transport needs to know about a protocol."""

    #: Default provider name.
    provider: str
    #: Returns the path to post a request to, relative to the base URL.
    path: Callable[[Request], str]
    encode: Callable[[Request], bytes]
    #: Returns notes about everything that `encode` drops or rewrites.
    notes: Callable[[Request], tuple[Note, ...]]
    decoder: Callable[[bool], Decoder]
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


def _openai_chat() -> Codec:
    from ..protocols import openai_chat

    return Codec(
        provider="openai",
        path=lambda request: "/chat/completions",
        encode=openai_chat.encode_request,
        notes=openai_chat.request_notes,
        decoder=openai_chat.ReplyDecoder,
        error=openai_chat.decode_error,
        endings=("/chat/completions",),
    )


def _openai_responses() -> Codec:
    from ..protocols import openai_responses

    return Codec(
        provider="openai",
        path=lambda request: "/responses",
        encode=openai_responses.encode_request,
        notes=openai_responses.request_notes,
        decoder=openai_responses.ReplyDecoder,
        error=openai_responses.decode_error,
        endings=("/responses",),
    )


def _anthropic() -> Codec:
    from ..protocols import anthropic

    return Codec(
        provider="anthropic",
        path=lambda request: "/messages",
        encode=anthropic.encode_request,
        notes=anthropic.request_notes,
        decoder=anthropic.ReplyDecoder,
        error=anthropic.decode_error,
        key_header="x-api-key",
        key_prefix="",
        headers={"anthropic-version": "2023-06-01"},
        version="/v1",
        endings=("/messages",),
    )


def _gemini() -> Codec:
    from ..protocols import gemini

    return Codec(
        provider="gemini",
        path=gemini.path,
        encode=gemini.encode_request,
        notes=gemini.request_notes,
        decoder=gemini.ReplyDecoder,
        error=gemini.decode_error,
        key_header="x-goog-api-key",
        key_prefix="",
        version="/v1beta",
        endings=("/models",),
    )


def _ollama() -> Codec:
    from ..protocols import ollama

    return Codec(
        provider="ollama",
        path=lambda request: "/api/chat",
        encode=ollama.encode_request,
        notes=ollama.request_notes,
        decoder=ollama.ReplyDecoder,
        error=ollama.decode_error,
        # Under `/v1`, Ollama speaks OpenAI's protocol. Users may have copied that base URL for the same server.
        endings=("/api/chat", "/api", "/v1"),
    )


_CODECS: dict[str, Callable[[], Codec]] = {
    "openai_chat": _openai_chat,
    "openai_responses": _openai_responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "ollama": _ollama,
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


def resolve_endpoint(base_url: str, protocol: str) -> tuple[BaseUrl, str]:
    """Return the parsed base URL for a protocol, and the version prefix for its paths."""
    row = codec(protocol)
    base = without_ending(parse_base_url(base_url), row.endings)
    method_protocol = next((name for ending, name in _METHODS.items() if base.path.endswith(ending)), "")
    if method_protocol:
        hint = "give the URL only up to the version, such as `/v1`"
        raise ConfigError(
            f"the base URL ends with an API method of `{method_protocol}`",
            hint=hint
            if method_protocol == protocol
            else f"{hint}, and set the protocol to `{method_protocol}` if the service uses it",
        )
    return base, "" if ends_with_version(base) else row.version


@cache
def codec(protocol: str) -> Codec:
    """Return the codec of a protocol."""
    make = _CODECS.get(protocol)
    if make is None:
        raise ConfigError(f"unknown protocol `{protocol}`", hint=f"use one of {', '.join(sorted(_CODECS))}")
    return make()

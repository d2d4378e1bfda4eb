"""The table of protocols that an upstream may speak, by name: one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Protocol

import msgspec

from ..core.events import Event, Failure
from ..core.types import Note, Request
from ..errors import ConfigError
from .http.address import Address, address, ends_with_version, without_ending


class Decoder(Protocol):
    """Turns the bytes of a reply into events. Behind `Finish` or `Failure` there is nothing left to read."""

    @property
    def finished(self) -> bool:
        """Whether the model has said why it stopped: then a connection that breaks loses nothing."""
        ...

    def feed(self, data: bytes, /) -> list[Event]:
        """What these bytes say."""
        ...

    def close(self) -> list[Event]:
        """What the end says."""
        ...

    def quote(self, never: tuple[bytes, ...] = ()) -> None:
        """Hand out the bytes of events with them, where they hold nothing of `never` (see `protocols.quoting`)."""
        ...


class Codec(msgspec.Struct, frozen=True):
    """What a transport needs to know of a protocol."""

    #: Who is spoken to, unless the caller knows better.
    provider: str
    #: Where to post a request, behind the base URL.
    path: Callable[[Request], str]
    encode: Callable[[Request], bytes]
    #: What of a request `encode` could not say, or says in another way.
    notes: Callable[[Request], tuple[Note, ...]]
    decoder: Callable[[bool], Decoder]
    #: What an HTTP status of 400 or more, the body and the headers (by lower-case name) mean.
    error: Callable[[int, bytes, Mapping[str, str]], Failure]
    #: The header that carries the key, and what stands before the key in it.
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "
    #: Headers that every request carries.
    headers: Mapping[str, str] = {}
    #: Stands before the path unless the base URL ends with a version.
    version: str = ""
    #: Where this protocol is spoken, as users copy it whole: a base URL that ends so means what stands before.
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
        # Behind `/v1` it speaks OpenAI's protocol; whoever has it from there and asks for this one means the server.
        endings=("/api/chat", "/api", "/v1"),
    )


_CODECS: dict[str, Callable[[], Codec]] = {
    "openai_chat": _openai_chat,
    "openai_responses": _openai_responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "ollama": _ollama,
}


#: How the addresses of single methods end, and the protocols that are spoken there.
_METHODS = {
    "/chat/completions": "openai_chat",
    "/responses": "openai_responses",
    "/messages": "anthropic",
    "/api/chat": "ollama",
    ":generateContent": "gemini",
    ":streamGenerateContent": "gemini",
}


def place_of(base_url: str, protocol: str) -> tuple[Address, str]:
    """Where a protocol is spoken, and the version that stands before its paths there.

    Raises:
        ConfigError: the URL cannot be read, or is the address of a method that is not this protocol's only one.
    """
    row = codec(protocol)
    where = without_ending(address(base_url), row.endings)
    spoken = next((name for ending, name in _METHODS.items() if where.path.endswith(ending)), "")
    if spoken:
        hint = "give the address up to the version, such as `/v1`"
        raise ConfigError(
            f"the base URL is the address of a method of `{spoken}`",
            hint=hint if spoken == protocol else f"{hint}, and the protocol `{spoken}`, if that is what it speaks",
        )
    return where, "" if ends_with_version(where) else row.version


@cache
def codec(protocol: str) -> Codec:
    """The row of a protocol."""
    make = _CODECS.get(protocol)
    if make is None:
        raise ConfigError(f"no upstream speaks `{protocol}`", hint=f"known are {', '.join(sorted(_CODECS))}")
    return make()

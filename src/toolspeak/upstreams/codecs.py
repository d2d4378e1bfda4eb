"""The table of protocols that upstreams can use: one `Codec` per protocol."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from ..core.events import Event, Failure
from ..core.types import Note, Request
from ..errors import ConfigError
from ..protocols import plugin_protocols
from ..protocols.shared.reply_decoder import BaseReplyDecoder
from .http.address import BaseUrl, ends_with_version, parse_base_url, without_ending


class _CodecRow(msgspec.Struct, frozen=True):
    """A table of `codecs.toml`."""

    #: Default provider name.
    provider: str
    #: The path to post requests to, relative to the base URL; empty if it depends on the request.
    method: str = ""
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
    #: The path of the list of models, the field with the list, and the field with a model's name.
    model_list: tuple[str, str, str] | None = None


class Codec(_CodecRow, frozen=True, kw_only=True):
    """Everything that a transport needs to know about a protocol."""

    #: Returns the path to post a request to, relative to the base URL.
    path: Callable[[Request], str]
    encode: Callable[[Request], bytes]
    #: Returns notes about everything that `encode` drops or rewrites.
    notes: Callable[[Request], tuple[Note, ...]]
    decoder: Callable[[bool], BaseReplyDecoder]
    #: Decodes an error response from its status (400 or more), body, and headers by lower-case name.
    error: Callable[[int, bytes, Mapping[str, str]], Failure]
    #: Decodes an ordinary complete reply faster than `decoder`; returns None for all others.
    decode_reply: Callable[[bytes], list[Event] | None] | None = None


_ROWS = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=dict[str, _CodecRow])
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


def _plugin_row(protocol: str, package: Any) -> _CodecRow:
    """Return the row of a plugin's protocol (see `toolspeak.protocols`)."""
    optional = {"KEY_HEADER": "key_header", "KEY_PREFIX": "key_prefix", "HEADERS": "headers", "MODELS": "model_list"}
    fields = {field: getattr(package, name) for name, field in optional.items() if hasattr(package, name)}
    method = "" if callable(package.PATH) else package.PATH
    return _CodecRow(getattr(package, "PROVIDER", protocol), method, **fields)


@cache
def codec(protocol: str) -> Codec:
    row = _ROWS.get(protocol)
    package: Any = import_module(f"toolspeak.protocols.{protocol}") if row else plugin_protocols().get(protocol)
    if not hasattr(package, "encode_request"):
        names = sorted((*_ROWS, *plugin_protocols()))
        raise ConfigError(f"unknown protocol `{protocol}`", hint=f"use one of {', '.join(names)}")
    make_path: Any = getattr(package, "path" if row else "PATH", None)
    row = row or _plugin_row(protocol, package)
    return Codec(
        **msgspec.structs.asdict(row),
        path=(lambda request: row.method) if row.method else make_path,
        encode=package.encode_request,
        notes=package.request_notes,
        decoder=package.ReplyDecoder,
        error=package.decode_error,
        decode_reply=getattr(package, "decode_reply", None),
    )

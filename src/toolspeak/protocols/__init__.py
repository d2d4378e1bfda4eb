"""Codecs for the wire protocols of clients and upstreams.

Codecs perform no I/O and do not import each other. The names of each codec:

- requests: `decode_request`, `encode_request`, `request_notes` (what could not be sent) and, in some,
  `needs_store` (whether the request needs stored replies) and `path` (the URL path, which contains the model);
- upstream replies: `ReplyDecoder`, `decode_error`;
- client replies: `ReplyEncoder`, `encode_reply`, `encode_error`.

docs/protocols.md lists what each protocol cannot carry.

A plugin brings a protocol as a module with these names and some of the following:

- `PATH`: the path to which upstream requests are posted, a text or a function of the request;
- `ROUTES`: the paths at which the server answers requests in the protocol;
- optional, for upstreams: `PROVIDER`, `KEY_HEADER`, `KEY_PREFIX`, `HEADERS`, `MODELS` (the path of the list of models,
  the field with the list, and the field with a model's name);
- optional, for clients: `ID_PREFIX`, `STREAM_TYPE`, `FILLER`, `KEEP_ALIVE`, `ORDERED`.

Without `PATH`, a protocol is only for clients; without `ROUTES`, only for upstreams.
"""

import re
from typing import Any

from ..core.plugin_hook import load_plugins
from ..errors import ConfigError

BUILT_IN = ("openai_chat", "openai_responses", "anthropic", "gemini", "ollama")
_UPSTREAM_NAMES = ("encode_request", "request_notes", "ReplyDecoder", "decode_error")
_CLIENT_NAMES = ("decode_request", "ReplyEncoder", "encode_reply", "encode_error")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}").fullmatch
_ROUTE = re.compile(r"(?:/[A-Za-z0-9._~-]{1,64}){1,8}").fullmatch

_protocols: dict[str, Any] = {}


def plugin_protocols() -> dict[str, Any]:
    """Return the protocols of plugins, by name."""
    load_plugins()
    return _protocols


def add_protocol(name: str, codec: Any) -> None:
    """Add the protocol of a plugin. Raises ConfigError if it is incomplete, or its name or a route is taken."""
    if _protocols.get(name) is codec:
        return
    if _NAME(name) is None or name in (*BUILT_IN, "openai") or name in _protocols:
        raise ConfigError("the name of the protocol is taken, or is not a word of small letters, digits and `_`")
    path, routes = getattr(codec, "PATH", ""), getattr(codec, "ROUTES", ())
    needed = (*(_UPSTREAM_NAMES if path else ()), *(_CLIENT_NAMES if routes else ()))
    missing = [each for each in needed if not callable(getattr(codec, each, None))]
    if missing or not needed:
        raise ConfigError(f"the protocol has no `{missing[0] if missing else 'PATH` or `ROUTES'}`")
    used_routes = {route for other in _protocols.values() for route in getattr(other, "ROUTES", ())}
    wrong = [each for each in routes if _ROUTE(each) is None or each in used_routes]
    if wrong:
        raise ConfigError(f"the route `{wrong[0]:.80}` is taken, or is not a path such as `/acme/chat`")
    _protocols[name] = codec

"""Read model metadata from server endpoints outside the chat protocol, which cost no tokens.

Ollama's `POST /api/show` lists `capabilities` such as `tools` and `vision`. llama.cpp's `GET /props` has
`chat_template_caps` (`supports_tools`, `supports_system_role` ...) and `modalities`. The data is untrusted: a field of
an unexpected type is ignored.
"""

from __future__ import annotations

import msgspec

from ...core.types import JSONValue, is_array, is_object

#: Maximum size of a response. Ollama's contains the model's licence and template, about 40 kB.
MAX_HINT_BYTES = 1024 * 1024


class ServerHints(msgspec.Struct, frozen=True):
    """Model metadata from a server. None means unknown."""

    #: `ollama`, `llama.cpp`, or empty if no metadata is available.
    server: str = ""
    tools: bool | None = None
    system_role: bool | None = None
    media: tuple[str, ...] | None = None

    @property
    def refuses_tools(self) -> bool:
        """Whether requests with tools are certain to fail: Ollama answers 400 for models without `tools`.

        llama.cpp also handles tools if the chat template does not support them, so its flag is only a hint.
        """
        return self.server == "ollama" and self.tools is False


class HintRequest(msgspec.Struct, frozen=True):
    """A request for model metadata."""

    server: str
    #: Absolute path on the host.
    path: str
    #: Body of a POST request; empty for GET.
    payload: bytes = b""


def hint_requests(protocol: str, provider: str, model: str) -> tuple[HintRequest, ...]:
    """Return the metadata requests to try, the most promising first. Only self-hosted servers support them."""
    show = HintRequest("ollama", "/api/show", msgspec.json.encode({"model": model}))
    props = HintRequest("llama.cpp", "/props")
    if protocol == "ollama":
        return (show,)
    if protocol != "openai_chat":
        return ()
    return (show, props) if provider == "ollama" else (props, show)


def parse_server_hints(server: str, body: bytes) -> ServerHints | None:
    """Parse a metadata response; return None if it does not come from this kind of server."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not is_object(document):
        return None
    return _ollama(document.get("capabilities")) if server == "ollama" else _llama_cpp(document)


def _ollama(listed: JSONValue) -> ServerHints | None:
    if not is_array(listed):
        return None
    return ServerHints("ollama", tools="tools" in listed, media=("image",) if "vision" in listed else ())


def _llama_cpp(document: dict[str, JSONValue]) -> ServerHints | None:
    # Other servers also have `/props`, but only llama.cpp has these two fields.
    if "default_generation_settings" not in document and "chat_template_caps" not in document:
        return None
    caps, modalities = document.get("chat_template_caps"), document.get("modalities")
    takes: dict[str, JSONValue] = caps if is_object(caps) else {}
    media = None
    if is_object(modalities):
        names = (("vision", "image"), ("audio", "audio"))
        media = tuple(kind for name, kind in names if modalities.get(name) is True)
    return ServerHints("llama.cpp", _flag(takes.get("supports_tools")), _flag(takes.get("supports_system_role")), media)


def _flag(value: JSONValue) -> bool | None:
    return value if isinstance(value, bool) else None

"""Model metadata from server endpoints outside the chat protocol, which cost no tokens.

Ollama's `POST /api/show` lists `capabilities` such as `tools` and `vision`. llama.cpp's `GET /props` has
`chat_template_caps` (`supports_tools`, `supports_system_role` ...) and `modalities`. The data is untrusted: a field of
an unexpected type is ignored.
"""

from __future__ import annotations

import msgspec

from ...core.types import JSONValue, is_array, is_object

#: Limit of the response body. Ollama's contains the licence and the template of the model, about 40 kB.
MAX_HINT_BYTES = 1024 * 1024


class ServerHints(msgspec.Struct, frozen=True):
    """Model metadata from a server. None: unknown."""

    #: `ollama`, `llama.cpp`, or empty without metadata.
    server: str = ""
    tools: bool | None = None
    system_role: bool | None = None
    media: tuple[str, ...] | None = None

    @property
    def refuses_tools(self) -> bool:
        """Whether requests with tools certainly fail: Ollama answers 400 for models without `tools`.

        For llama.cpp the flag is only a hint: it can also call tools with templates that do not support them.
        """
        return self.server == "ollama" and self.tools is False


class HintRequest(msgspec.Struct, frozen=True):
    """A metadata request."""

    server: str
    #: From the root of the host.
    path: str
    #: Empty for GET.
    payload: bytes = b""


def hint_requests(protocol: str, provider: str, model: str) -> tuple[HintRequest, ...]:
    """Metadata requests to try, the most likely first. Only self-hosted servers have such endpoints."""
    show = HintRequest("ollama", "/api/show", msgspec.json.encode({"model": model}))
    props = HintRequest("llama.cpp", "/props")
    if protocol == "ollama":
        return (show,)
    if protocol != "openai_chat":
        return ()
    return (show, props) if provider == "ollama" else (props, show)


def parse_server_hints(server: str, body: bytes) -> ServerHints | None:
    """Parse a metadata response; None if it is not from this server."""
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
    # Other servers have `/props` too; only llama.cpp has these two fields.
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

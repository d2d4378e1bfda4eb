"""Read model metadata from server endpoints outside the chat protocol, which cost no tokens.

Ollama's `POST /api/show` lists `capabilities` such as `tools` and `vision`, and `GET /api/ps` the loaded models with
their `context_length`. llama.cpp's `GET /props` has `chat_template_caps` (`supports_tools`, `supports_system_role`),
`modalities` and `n_ctx`. vLLM's `GET /v1/models` has `max_model_len`. The data is untrusted: a field of an unexpected
type is ignored.
"""

import re

import msgspec

from ...core.types import JSONValue, is_array, is_object

#: Maximum size of a response. Ollama's contains the model's licence and template, about 40 kB.
MAX_HINT_BYTES = 1024 * 1024
#: Larger windows are mistakes.
_MAX_CONTEXT = 100_000_000
#: Parameters of an Ollama model are lines of text.
_NUM_CTX = re.compile(r"(?m)^num_ctx\s+(\d{1,9})\s*$")


class ServerHints(msgspec.Struct, frozen=True):
    """Model metadata from a server. None means unknown."""

    #: `ollama`, `llama.cpp`, `vllm`, or empty if no metadata is available.
    server: str = ""
    tools: bool | None = None
    system_role: bool | None = None
    media: tuple[str, ...] | None = None
    #: Size of the context window in tokens.
    context: int | None = None

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
    models = HintRequest("vllm", "/v1/models")
    return (show, props) if provider == "ollama" else (props, show, models)


def loaded_request(server: str) -> HintRequest | None:
    """Return the request for what only a loaded model has: its context window in Ollama, which depends on the memory.

    Ollama shortens longer prompts without an error, so it is important to know.
    """
    return HintRequest("ollama", "/api/ps") if server == "ollama" else None


def parse_server_hints(server: str, body: bytes, model: str = "") -> ServerHints | None:
    """Parse a metadata response; return None if it does not come from this kind of server."""
    document = _document(body)
    if server == "vllm":
        context = _listed_context(document.get("data"), model, "id", "max_model_len")
        return None if context is None else ServerHints("vllm", context=context)
    return _ollama(document) if server == "ollama" else _llama_cpp(document)


def parse_loaded_context(body: bytes, model: str) -> int | None:
    """Return the context window of a model in Ollama's list of loaded models."""
    name = model if ":" in model else f"{model}:latest"
    return _listed_context(_document(body).get("models"), name, "name", "context_length")


def _document(body: bytes) -> dict[str, JSONValue]:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return document if is_object(document) else {}


def _listed_context(rows: JSONValue, model: str, name: str, context: str) -> int | None:
    """Return the context window of a model in a list of models."""
    listed = rows if is_array(rows) else []
    return next((_context(row.get(context)) for row in listed if is_object(row) and row.get(name) == model), None)


def _ollama(document: dict[str, JSONValue]) -> ServerHints | None:
    listed, parameters = document.get("capabilities"), document.get("parameters")
    if not is_array(listed):
        return None
    num_ctx = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    # `context_length` in `model_info` is what the model was trained with. Ollama uses much less by default.
    context = _context(int(num_ctx[1])) if num_ctx is not None else None
    return ServerHints("ollama", "tools" in listed, media=("image",) if "vision" in listed else (), context=context)


def _llama_cpp(document: dict[str, JSONValue]) -> ServerHints | None:
    # Other servers also have `/props`, but only llama.cpp has these two fields.
    defaults = document.get("default_generation_settings")
    if defaults is None and "chat_template_caps" not in document:
        return None
    context = _context(defaults.get("n_ctx")) if is_object(defaults) else None
    caps, modalities = document.get("chat_template_caps"), document.get("modalities")
    takes: dict[str, JSONValue] = caps if is_object(caps) else {}
    media = None
    if is_object(modalities):
        names = (("vision", "image"), ("audio", "audio"))
        media = tuple(kind for name, kind in names if modalities.get(name) is True)
    tools, system_role = _flag(takes.get("supports_tools")), _flag(takes.get("supports_system_role"))
    return ServerHints("llama.cpp", tools, system_role, media, context)


def _context(value: JSONValue) -> int | None:
    return value if type(value) is int and 0 < value <= _MAX_CONTEXT else None


def _flag(value: JSONValue) -> bool | None:
    return value if isinstance(value, bool) else None

"""What servers say about a model when they are asked beside the protocol, at no cost.

Two are known: Ollama's `POST /api/show`, whose `capabilities` list `tools`, `vision` and others, and llama.cpp's
`GET /props`, whose `chat_template_caps` hold `supports_tools`, `supports_system_role` and others, and whose
`modalities` say what passes besides text. All of it comes from outside and is read as such: a field that is not what
it should be says nothing.
"""

from __future__ import annotations

import msgspec

from ...core.types import JSONValue, is_array, is_object

#: The longest such answer that is read; Ollama's holds licence and template of the model, some 40 kB.
MOST_BYTES = 1024 * 1024


class Signs(msgspec.Struct, frozen=True):
    """What a server says about a model; None: nothing."""

    #: Who says it: `ollama`, `llama.cpp`, or nobody.
    server: str = ""
    tools: bool | None = None
    system_role: bool | None = None
    media: tuple[str, ...] | None = None

    @property
    def refuses_tools(self) -> bool:
        """Whether a request with tools is refused for certain: Ollama answers 400 where it lists no `tools`.

        What llama.cpp says of a template is a hint only: it also has a way to call for templates without tools.
        """
        return self.server == "ollama" and self.tools is False


class Aside(msgspec.Struct, frozen=True):
    """A question beside the protocol: where, counted from the host, and with which body."""

    server: str
    path: str
    #: Empty: it is asked by GET.
    payload: bytes = b""


def asides_for(protocol: str, provider: str, model: str) -> tuple[Aside, ...]:
    """What may be asked, the likeliest first. Only servers that anybody runs have an answer."""
    show = Aside("ollama", "/api/show", msgspec.json.encode({"model": model}))
    props = Aside("llama.cpp", "/props")
    if protocol == "ollama":
        return (show,)
    if protocol != "openai_chat":
        return ()
    return (show, props) if provider == "ollama" else (props, show)


def signs_in(server: str, body: bytes) -> Signs | None:
    """What an answer says; None where it is not that server's."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not is_object(said):
        return None
    return _ollama(said.get("capabilities")) if server == "ollama" else _llama_cpp(said)


def _ollama(listed: JSONValue) -> Signs | None:
    if not is_array(listed):
        return None
    return Signs("ollama", tools="tools" in listed, media=("image",) if "vision" in listed else ())


def _llama_cpp(said: dict[str, JSONValue]) -> Signs | None:
    # Other servers have a `/props` too; these two fields are llama.cpp's own.
    if "default_generation_settings" not in said and "chat_template_caps" not in said:
        return None
    caps, modalities = said.get("chat_template_caps"), said.get("modalities")
    takes: dict[str, JSONValue] = caps if is_object(caps) else {}
    media = None
    if is_object(modalities):
        names = (("vision", "image"), ("audio", "audio"))
        media = tuple(kind for name, kind in names if modalities.get(name) is True)
    return Signs("llama.cpp", _flag(takes.get("supports_tools")), _flag(takes.get("supports_system_role")), media)


def _flag(value: JSONValue) -> bool | None:
    return value if isinstance(value, bool) else None

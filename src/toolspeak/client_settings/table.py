"""Settings that point known clients at a server: the rows of `clients.toml`, filled in for one server.

No code refers to a client by name; to support a new client, add a row. A row never contains a real key, only a
placeholder or the name of a variable.
"""

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal, Self, TypeAlias

import msgspec

from ..core.text import suggestion
from ..errors import UsageError

#: Placeholder key: a server on loopback accepts any key, but most clients refuse to start without one.
ANY_KEY = "toolspeak"

ClientProtocolName: TypeAlias = Literal["openai", "openai_responses", "anthropic", "gemini", "ollama"]

#: Model names and URLs are inserted into shell commands, JSON, TOML and YAML, so special characters are not allowed.
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,200}")
_URL = re.compile(r"https?://[A-Za-z0-9._~:/@%\[\]-]{1,500}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,100}")


class SettingsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str  # path at which the client expects the file
    text: str
    variable: str = ""  # environment variable that overrides the location
    #: Path of the file inside the folder given by the variable; empty if the variable gives the file itself.
    below: str = ""

    @property
    def name(self) -> str:
        """Path of the file inside a folder that toolspeak creates for it."""
        return self.below or self.path.rpartition("/")[2]


class ClientSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of one client. `clients.toml` documents the fields."""

    title: str
    speaks: tuple[ClientProtocolName, ...]
    install: str
    program: str = ""
    env: dict[str, str] = {}
    unset: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    files: tuple[SettingsFile, ...] = ()
    note: str = ""


class ServerAddress(msgspec.Struct, frozen=True):
    """Values for the placeholders in client settings. Validate with `checked` before use."""

    url: str
    model: str
    key: str = ANY_KEY  # the key, or a placeholder for it

    def checked(self) -> Self:
        """Check the values for special characters, and strip a trailing slash and `/v1` from the URL."""
        if not _MODEL.fullmatch(self.model):
            raise UsageError(f"invalid model name `{self.model:.80}`", hint="use letters, digits and . _ : / @ + -")
        if not _URL.fullmatch(self.url):
            raise UsageError(f"invalid server URL `{self.url:.80}`", hint="for example http://127.0.0.1:8788")
        # Some clients append `/v1` themselves; for the others, the templates contain it.
        return msgspec.structs.replace(self, url=self.url.rstrip("/").removesuffix("/v1"))

    def fill(self, text: str) -> str:
        """Replace the placeholders in a text. Other braces stay unchanged."""
        for name in ("url", "model", "key"):
            text = text.replace(f"{{{name}}}", getattr(self, name))
        return text

    def settings_for(self, row: ClientSettings) -> ClientSettings:
        """Fill in a client's settings for this server."""
        # Files refer to an environment variable, so they never contain a real key.
        written = tuple(msgspec.structs.replace(file, text=self.fill(file.text).lstrip("\n")) for file in row.files)
        env = {name: self.fill(value) for name, value in row.env.items()}
        arguments, note = tuple(map(self.fill, row.arguments)), self.fill(row.note)
        return msgspec.structs.replace(row, env=env, arguments=arguments, files=written, note=note)


def is_variable(name: str) -> bool:
    """Whether this is a valid environment variable name."""
    return bool(_VARIABLE.fullmatch(name))


@cache
def clients() -> dict[str, ClientSettings]:
    text = files("toolspeak.client_settings").joinpath("clients.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, ClientSettings])


def client(name: str) -> ClientSettings:
    """Find a client by its name or program name. Raises UsageError if it is unknown."""
    settings = clients().get(name) or next((row for row in clients().values() if row.program == name), None)
    if settings is None:
        hint = suggestion(name, clients(), "`toolspeak env` lists the clients")
        raise UsageError(f"unknown client `{name:.80}`", hint=hint)
    return settings

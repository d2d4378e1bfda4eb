"""What each client needs to be pointed at a server: the rows of `clients.toml`, filled in for one server.

Data only: nothing here or above knows any client by name.
It must never hold a key: where one belongs stands a text that any open server takes, or the name of a variable.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal, TypeAlias

import msgspec

from ..errors import UsageError

#: A server on loopback takes any key, but most clients do not begin without one.
ANY_KEY = "toolspeak"

Spoken: TypeAlias = Literal["openai", "openai_responses", "anthropic", "gemini", "ollama"]

#: Names and addresses go into shell commands, JSON, TOML and YAML: no sign that means anything there.
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,200}")
_URL = re.compile(r"https?://[A-Za-z0-9._~:/@%\[\]-]{1,500}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,100}")


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings that stand in a file."""

    #: Where the client looks for it.
    path: str
    text: str
    #: The variable that names another place.
    variable: str = ""
    #: Where it stands in the folder that the variable names; empty: the variable names the file.
    below: str = ""

    @property
    def name(self) -> str:
        """Where it stands in a folder of its own."""
        return self.below or self.path.rpartition("/")[2]


class Client(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One client; the fields are told at the top of `clients.toml`."""

    title: str
    speaks: tuple[Spoken, ...]
    install: str
    program: str = ""
    env: dict[str, str] = {}
    unset: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    note: str = ""


class Server(msgspec.Struct, frozen=True):
    """What is filled in. Check with `checked` before use."""

    url: str
    model: str
    #: The key, or what stands for it.
    key: str = ANY_KEY

    def checked(self) -> Server:
        """The same, without a slash at the end of its address.

        Raises:
            UsageError: something in it could mean more than a name.
        """
        if not _MODEL.fullmatch(self.model):
            raise UsageError(f"`{self.model:.80}` is not the name of a model", hint="letters, digits and . _ : / @ + -")
        if not _URL.fullmatch(self.url):
            raise UsageError(f"`{self.url:.80}` is not the address of a server", hint="such as http://127.0.0.1:8788")
        # Clients add `/v1` or not, each in its own way.
        return Server(self.url.rstrip("/").removesuffix("/v1"), self.model, self.key)

    def fill(self, text: str) -> str:
        """The text with its placeholders filled in; any other braces are text."""
        for name in ("url", "model", "key"):
            text = text.replace(f"{{{name}}}", getattr(self, name))
        return text

    def filled(self, row: Client) -> Client:
        """The client's settings for this server."""
        # A file names the variable of the key, so there is nothing in it that could be a key.
        written = tuple(msgspec.structs.replace(file, text=self.fill(file.text).lstrip("\n")) for file in row.files)
        return msgspec.structs.replace(
            row,
            env={name: self.fill(value) for name, value in row.env.items()},
            arguments=tuple(map(self.fill, row.arguments)),
            files=written,
            note=self.fill(row.note),
        )


def is_variable(name: str) -> bool:
    """Whether a variable can be called that."""
    return bool(_VARIABLE.fullmatch(name))


@cache
def clients() -> dict[str, Client]:
    """Every client by its name, in the order of the table."""
    text = files("toolspeak.clients").joinpath("clients.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, Client])


def client(name: str) -> Client:
    """The client of that name, or with that program.

    Raises:
        UsageError: there is none.
    """
    found = clients().get(name) or next((row for row in clients().values() if row.program == name), None)
    if found is None:
        raise UsageError(f"no client is called `{name:.80}`", hint=f"one of {', '.join(clients())}")
    return found

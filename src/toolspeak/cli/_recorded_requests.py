"""What `explain`, `replay` and `page` share: asking a server that runs here; finding a request there, or in the store."""

from __future__ import annotations

import http.client
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from ..config import Config
from ..core.text import printable
from ..errors import ConfigError
from ..server.access.login_sessions import COOKIE
from ..server.process.control_file import Door, doors
from ._io import CliError

#: Stands for the newest request.
LAST = "last"
#: Seconds for a server that runs to answer, and for a model behind it.
_SOON, _PATIENCE = 5.0, 330.0
#: Nothing that is told is larger.
_LARGEST = 64 * 1024 * 1024


class Found(msgspec.Struct, frozen=True):
    """A request, and the server that knows it; without one, it is from the store."""

    told: dict[str, Any]
    door: Door | None = None


class _Line(msgspec.Struct, frozen=True):
    id: str


class _Listed(msgspec.Struct, frozen=True):
    requests: list[_Line]


class _Code(msgspec.Struct, frozen=True):
    code: str


class _Detail(msgspec.Struct, frozen=True):
    message: str


class _Refusal(msgspec.Struct, frozen=True):
    error: _Detail


T = TypeVar("T")


def find(config: Config, identifier: str) -> Found:
    """The request whose id is, or begins like, this one.

    Raises:
        CliError: nobody knows it.
    """
    running = 0
    for door in doors(config.servers_folder):
        ids = _listed(door)
        if ids is None:
            continue
        running += 1
        told = _from_server(door, ids, identifier)
        if told is not None:
            return Found(told, door)
    told = _from_store(config, identifier)
    if told is None:
        hint = "a server keeps the last requests in its memory, and all of them with `record = store`"
        raise CliError(f"neither {_asked(running)} nor the store knows `{safe(identifier)[:80]}`", hint=hint)
    return Found(told)


def _asked(running: int) -> str:
    """Who was asked, in words that `nor` can follow."""
    return {0: "a server that runs here", 1: "the server that runs here"}.get(
        running, f"one of the {running} servers that run here"
    )


def new_codes(config: Config) -> list[tuple[Door, str]]:
    """A code for a session from each server that runs here."""
    asked = ((door, _ask(door, "POST", "/toolspeak/link", _Code)) for door in doors(config.servers_folder))
    return [(door, told.code) for door, told in asked if told is not None]


def _listed(door: Door) -> list[str] | None:
    """The ids that a server knows, the newest first; None when it is no server of ours."""
    told = _ask(door, "GET", "/toolspeak/requests", _Listed)
    return [line.id for line in told.requests] if told is not None else None


def _from_server(door: Door, ids: list[str], identifier: str) -> dict[str, Any] | None:
    matching = ids[:1] if identifier == LAST else [each for each in ids if each.startswith(identifier)]
    if len(matching) > 1:
        raise CliError(f"{len(matching)} requests begin with `{safe(identifier)}`", hint="write more of the id")
    return _ask(door, "GET", f"/toolspeak/requests/{quote(matching[0])}", dict[str, Any]) if matching else None


def replay_there(door: Door, identifier: str, wanted: dict[str, str]) -> dict[str, Any]:
    """The request once more, by the server that knows it."""
    told = _ask(door, "POST", f"/toolspeak/requests/{quote(identifier)}/replay", dict[str, Any], wanted, _PATIENCE)
    if told is None:
        raise CliError("the server has gone in the meantime")
    return told


def _ask(
    door: Door, method: str, path: str, form: type[T], body: dict[str, str] | None = None, patience: float = _SOON
) -> T | None:
    """What a server says; None when it does not run any more, no longer knows who we are, or is no server of ours.

    Raises:
        CliError: it was given something to do and refuses.
    """
    place = urlsplit(door.url)
    connection = http.client.HTTPConnection(place.hostname or "127.0.0.1", place.port, timeout=patience)
    try:
        data = msgspec.json.encode(body) if body is not None else None
        connection.request(method, path, data, {"Cookie": f"{COOKIE}={door.token}"})
        answer = connection.getresponse()
        text = answer.read(_LARGEST)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    if answer.status in (401, 403, 404):
        return None
    refused = answer.status >= 400
    try:  # by now the port may be another service's, which says anything
        told = msgspec.json.decode(text, type=_Refusal if refused else form)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not isinstance(told, _Refusal):
        return told
    if body is None:
        return None
    raise CliError(f"the server says: {safe(told.error.message)}")


def _from_store(config: Config, identifier: str) -> Any:
    from ..store import open_recordings

    try:
        recordings = open_recordings(config.store, existing=True)
    except ConfigError:  # without a store nothing was kept there
        return None
    return recordings.last() if identifier == LAST else recordings.find(identifier)


def safe(text: str) -> str:
    """A text that steers no terminal: what a model wrote may hold anything."""
    return printable(text, kept="\n")

"""What `explain` and `replay` share: finding a request, in a server that runs here, else in the store.

Above: the two commands. Below: `server.door`, the store, the standard library's HTTP client.
"""

from __future__ import annotations

import http.client
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from ..config import Config
from ..errors import ConfigError
from ..server.door import Door, doors
from ..server.sessions import COOKIE
from ._io import CliError

__all__ = ["LAST", "Found", "find", "printable", "replay_there"]

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


def find(config: Config, identifier: str) -> Found:
    """The request whose id is, or begins like, this one.

    Raises:
        CliError: nobody knows it.
    """
    running = doors(config.servers_folder)
    for door in running:
        told = _from_server(door, identifier)
        if told is not None:
            return Found(told, door)
    told = _from_store(config, identifier)
    if told is None:
        hint = "a server keeps the last requests in its memory, and all of them with `record = store`"
        where = f"{len(running)} servers and the store" if running else "no server that runs here, nor the store,"
        raise CliError(f"{where} know nothing of `{printable(identifier)[:80]}`", hint=hint)
    return Found(told)


def _from_server(door: Door, identifier: str) -> Any:
    listed = _ask(door, "GET", "/toolspeak/requests")
    if listed is None:
        return None
    ids: list[str] = [line["id"] for line in listed["requests"]]
    matching = ids[:1] if identifier == LAST else [each for each in ids if each.startswith(identifier)]
    if len(matching) > 1:
        raise CliError(f"{len(matching)} requests begin with `{printable(identifier)}`", hint="write more of the id")
    return _ask(door, "GET", f"/toolspeak/requests/{quote(matching[0])}") if matching else None


def replay_there(door: Door, identifier: str, wanted: dict[str, str]) -> dict[str, Any]:
    """The request once more, by the server that knows it."""
    told = _ask(door, "POST", f"/toolspeak/requests/{quote(identifier)}/replay", wanted, _PATIENCE)
    if told is None:
        raise CliError("the server has gone in the meantime")
    return told


def _ask(door: Door, method: str, path: str, body: dict[str, str] | None = None, patience: float = _SOON) -> Any:
    """What a server says; None when it does not run any more, or no longer knows who we are."""
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
    told = msgspec.json.decode(text)
    if answer.status >= 400:
        raise CliError(f"the server says: {printable(str(told['error']['message']))}")
    return told


def _from_store(config: Config, identifier: str) -> Any:
    from ..store import open_recordings

    try:
        recordings = open_recordings(config.store)
    except ConfigError:  # without a store nothing was kept there
        return None
    return recordings.last() if identifier == LAST else recordings.find(identifier)


def printable(text: str) -> str:
    """A text that steers no terminal: what a model wrote may hold anything."""
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text)

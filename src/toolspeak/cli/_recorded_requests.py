"""Lookup of recorded requests in running servers or the store, and other calls to running servers."""

import http.client
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from ..config import Config
from ..core.text import counted, printable
from ..errors import ConfigError
from ..server.access.login_sessions import COOKIE
from ..server.process.control_file import ControlFile, running_servers
from ._io import CliError

LAST = "last"
_MODEL_TIMEOUT = 330.0  # timeout of a replay in seconds, which includes waiting for the model
_MAX_BYTES = 64 * 1024 * 1024


class FoundRequest(msgspec.Struct, frozen=True):
    """A recorded request and the server that recorded it; None if it was found in the store."""

    recording: dict[str, Any]
    server: ControlFile | None = None


class _RequestLine(msgspec.Struct, frozen=True):
    id: str


class _RequestList(msgspec.Struct, frozen=True):
    requests: list[_RequestLine]


class _LoginCode(msgspec.Struct, frozen=True):
    code: str


class _ErrorDetail(msgspec.Struct, frozen=True):
    message: str


class _ErrorBody(msgspec.Struct, frozen=True):
    error: _ErrorDetail


T = TypeVar("T")


def find(config: Config, identifier: str) -> FoundRequest:
    """Find the request with this id or unique id prefix. Raises CliError if there is none, or several."""
    running = 0
    for server in running_servers(config.servers_folder):
        listing = _request(server, "GET", "/toolspeak/requests", _RequestList)
        if listing is None:  # not a toolspeak server
            continue
        running += 1
        recording = _from_server(server, [line.id for line in listing.requests], identifier)
        if recording is not None:
            return FoundRequest(recording, server)
    recording = _from_store(config, identifier)
    if recording is None:
        hint = 'servers keep only the latest requests in memory; set `record = "store"` to keep all'
        servers = counted(running, "running server") if running else "no server is running"
        raise CliError(f"request `{safe(identifier)[:80]}` not found ({servers}; the store was searched)", hint=hint)
    return FoundRequest(recording)


def new_codes(config: Config) -> list[tuple[ControlFile, str]]:
    """Request a one-time login code from each server running on this machine."""
    servers = running_servers(config.servers_folder)
    replies = [(server, _request(server, "POST", "/toolspeak/link", _LoginCode)) for server in servers]
    return [(server, reply.code) for server, reply in replies if reply is not None]


def _from_server(server: ControlFile, ids: list[str], identifier: str) -> dict[str, Any] | None:
    """Return a request of a server. `ids` are its requests, newest first."""
    matching = ids[:1] if identifier == LAST else [each for each in ids if each.startswith(identifier)]
    if len(matching) > 1:
        raise CliError(f"{len(matching)} request ids begin with `{safe(identifier)}`", hint="use a longer prefix")
    return _request(server, "GET", f"/toolspeak/requests/{quote(matching[0])}", dict[str, Any]) if matching else None


def replay_on_server(server: ControlFile, identifier: str, changes: dict[str, str]) -> dict[str, Any]:
    path = f"/toolspeak/requests/{quote(identifier)}/replay"
    replay = _request(server, "POST", path, dict[str, Any], changes, _MODEL_TIMEOUT)
    if replay is None:
        raise CliError("the server has stopped since the request was found", hint="start it again and retry")
    return replay


def _request(
    server: ControlFile, method: str, path: str, form: type[T], body: dict[str, str] | None = None, timeout: float = 5.0
) -> T | None:
    """Send a request to a local server. Return None if it has stopped, rejects the token, or is another service.

    Raises CliError if the server rejected a request with a body.
    """
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "127.0.0.1", address.port, timeout=timeout)
    try:
        data = msgspec.json.encode(body) if body is not None else None
        connection.request(method, path, data, {"Cookie": f"{COOKIE}={server.token}"})
        answer = connection.getresponse()
        text = answer.read(_MAX_BYTES)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    if answer.status in (401, 403, 404):
        return None
    try:  # another service may use the port by now and send anything
        if answer.status < 400:
            return msgspec.json.decode(text, type=form)
        refusal = msgspec.json.decode(text, type=_ErrorBody)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if body is None:
        return None
    raise CliError(f"server error: {safe(refusal.error.message)}")


def _from_store(config: Config, identifier: str) -> Any:
    from ..store import open_recordings

    try:
        recordings = open_recordings(config.store, existing=True)
    except ConfigError:  # there is no store yet
        return None
    return recordings.last() if identifier == LAST else recordings.find(identifier)


def safe(text: str) -> str:
    """Remove terminal control characters from untrusted text."""
    return printable(text, keep="\n")

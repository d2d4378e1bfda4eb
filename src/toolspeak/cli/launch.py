"""`toolspeak launch`: start a client connected to a toolspeak server.

The client gets its settings through environment variables, arguments or files in a private folder. The user's own files
are never changed. The client replaces this process, so signals, job control and the exit status work as usual.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..client_settings.table import ANY_KEY, ClientSettings, ServerAddress, SettingsFile, client
from ..config import load
from ..core.text import system_reason
from ..errors import UsageError
from ..upstreams.embedded.weights import DEFAULT
from ._io import CliError
from .config import print_notes, usage_errors
from .env import checked_variable, configured_model

#: Timeout in seconds for listing the server's models. The server may have to query its upstreams.
_TIMEOUT = 10.0
_MAX_BYTES = 4 * 1024 * 1024
_KEY_VARIABLE = "TOOLSPEAK_KEY"  # default environment variable that contains the key for the server
#: Variables with secrets of the server, which the client and commands run by a model must not see.
_SERVER_SECRETS = ("TOOLSPEAK_API_KEY", "TOOLSPEAK_SECRET", "TOOLSPEAK_API_KEY_FILE", "TOOLSPEAK_SECRET_FILE")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def command(name: str, url: str, model: str, key_env: str, arguments: tuple[str, ...]) -> None:
    environment = dict(os.environ)  # noqa: TID251 - it is passed on, not read for settings
    with usage_errors():
        row = client(name)
        key = _key(environment, key_env)
        # Use a placeholder model until the server is queried, so a wrong address is reported first.
        server = ServerAddress(url, model or "model", key).checked()
        program, rest = _program(row, arguments, environment.get("PATH"))
        listed = _models(server)
        chosen = model or (listed[0] if listed else configured_model())
        if not chosen:
            raise UsageError("the server lists no models", hint="add --model NAME")
        if chosen == DEFAULT.name:
            print_notes([f"{chosen} is too small for coding agents; connect a larger model to the server"])
        server = ServerAddress(url, chosen, key).checked()
        filled = server.settings_for(row)
        folder = _folder(filled, load().state_file.parent / "clients")
        _write(filled.files, folder)
    file = str(folder / filled.files[0].name) if filled.files else "{file}"
    started = [program, *(each.replace("{file}", file) for each in filled.arguments), *rest]
    _exec(started, _environment(filled, folder, environment, server))


def _key(environment: Mapping[str, str], variable: str) -> str:
    if not variable:
        return environment.get(_KEY_VARIABLE) or ANY_KEY
    key = environment.get(checked_variable(variable))
    if not key:
        raise UsageError(f"the variable {variable} is not set", hint="set it to your key for the server")
    return key


def _program(row: ClientSettings, arguments: tuple[str, ...], search_path: str | None) -> tuple[str, tuple[str, ...]]:
    if not row.program and not arguments:
        raise UsageError(f"{row.title} has no program to start", hint="after --, add the command that uses it")
    name, rest = (row.program, arguments) if row.program else (arguments[0], arguments[1:])
    path = shutil.which(name, path=search_path)
    if path is None:
        hint = f"install it with: {row.install}" if row.program else "after --, pass the path of a program"
        raise UsageError(f"program not found: `{name}`", hint=hint)
    return path, rest


def _models(server: ServerAddress) -> list[str]:
    headers = {"authorization": f"Bearer {server.key}"}
    request = urllib.request.Request(f"{server.url}/v1/models", headers=headers)
    try:
        # Ignore proxies, because the server is usually on this machine.
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=_TIMEOUT) as answer:
            body: Any = json.loads(answer.read(_MAX_BYTES))
        return [str(model["id"]) for model in body["data"]]
    except urllib.error.HTTPError as error:
        hint = "put your key into an environment variable and add --key-env VARIABLE" if error.code == 401 else ""
        raise CliError(f"the server at {server.url} returned HTTP {error.code}", hint=hint) from None
    except OSError as error:
        hint = "start `toolspeak serve`, or pass its address with --url"
        reason = system_reason(getattr(error, "reason", error))
        raise CliError(f"cannot connect to {server.url}: {reason}", hint=hint) from None
    except (ValueError, TypeError, KeyError):
        hint = "pass the address of `toolspeak serve` with --url"
        raise CliError(f"{server.url} is not a toolspeak server", hint=hint) from None


def _folder(row: ClientSettings, root: Path) -> Path:
    """Return the folder for the client's files, named by a hash of their contents to keep servers apart.

    The folder is not deleted: it contains no key, and some clients store sessions next to their settings.
    """
    digest = hashlib.sha256("\0".join(file.text for file in row.files).encode()).hexdigest()[:12]
    return root / f"{row.program}-{digest}"


def _write(files: tuple[SettingsFile, ...], folder: Path) -> None:
    try:
        for file in files:
            path = folder / file.name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not path.exists():  # do not overwrite changes that the client made
                path.write_text(file.text, encoding="utf-8")
    except OSError as error:
        raise CliError(f"cannot write to `{folder}`: {system_reason(error)}") from None


def _environment(
    row: ClientSettings, folder: Path, environment: Mapping[str, str], server: ServerAddress
) -> dict[str, str]:
    """Return the client's environment: the user's, plus the client's settings, minus the server's secrets."""
    removed = {*row.unset, *_SERVER_SECRETS}
    inherited = {name: value for name, value in environment.items() if name not in removed}
    written = [file for file in row.files if file.variable]
    file_variables = {file.variable: str(folder if file.below else folder / file.name) for file in written}
    return {**inherited, **_bypass_proxies(inherited, server), **row.env, **file_variables}


def _bypass_proxies(environment: Mapping[str, str], server: ServerAddress) -> dict[str, str]:
    """Exempt the server from configured proxies, because a remote proxy cannot reach this machine's loopback."""
    if not any(environment.get(name) or environment.get(name.upper()) for name in _PROXIES):
        return {}
    exceptions = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    value = ",".join(filter(None, (exceptions, urlsplit(server.url).hostname or "")))
    return {"NO_PROXY": value, "no_proxy": value}


def _exec(command: list[str], environment: dict[str, str]) -> None:
    sys.stdout.flush()
    if sys.platform == "win32":  # on Windows, exec would return to the shell before the client ends
        sys.exit(subprocess.call(command, env=environment))
    try:
        os.execve(command[0], command, environment)
    except OSError as error:
        raise CliError(f"cannot start `{command[0]}`: {system_reason(error)}") from None

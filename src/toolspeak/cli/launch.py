"""`toolspeak launch`: start a client that uses a server of toolspeak.

The client gets its settings in its own environment, by arguments, or by files in a private folder; no file of the
user's is touched. The client takes the place of this process, so that signals, job control and its exit status are
its own.
"""

from __future__ import annotations

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

import click

from ..clients.table import ANY_KEY, Client, File, Server, client
from ..config import load
from ..errors import UsageError
from ._io import CliError
from .config import usage_errors
from .env import DEFAULT_URL, checked_variable, configured_model

#: How long the server may take to say which models it has; it may have to ask its upstreams.
_PATIENCE = 10.0
_LARGEST_LIST = 4 * 1024 * 1024
#: The variable that holds a key for the server, unless another one is named.
_KEY_VARIABLE = "TOOLSPEAK_KEY"
#: What belongs to the server; a client, and the commands that a model lets it run, have no use for it.
_SERVER_SECRETS = ("TOOLSPEAK_API_KEY", "TOOLSPEAK_SECRET", "TOOLSPEAK_API_KEY_FILE", "TOOLSPEAK_SECRET_FILE")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_EXAMPLES = """\b
Examples:
  toolspeak launch codex
  toolspeak launch claude-code --model qwen3:8b -- -p 'What does this project do?'
  toolspeak launch opencode --url http://127.0.0.1:9100
  toolspeak launch openai -- python my_program.py
"""


@click.command("launch", epilog=_EXAMPLES)
@click.argument("name")
@click.option("--url", default=DEFAULT_URL, show_default=True, metavar="URL", help="Where toolspeak serves.")
@click.option("--model", default="", metavar="NAME", help="The model; default: the first that the server has.")
@click.option("--key-env", metavar="NAME", default="", help=f"The variable with your key; default: {_KEY_VARIABLE}.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(name: str, url: str, model: str, key_env: str, arguments: tuple[str, ...]) -> None:
    """Start the client NAME with its settings; what follows -- goes to it. `toolspeak env` lists the clients.

    Its exit status is the client's; 2 if there was nothing to start.
    """
    environment = dict(os.environ)  # noqa: TID251 - it is passed on, not read for settings
    with usage_errors():
        row = client(name)
        key = _key(environment, key_env)
        # A name that fits stands in until the server has been asked, so that a wrong address is told first.
        server = Server(url, model or "model", key).checked()
        program, rest = _program(row, arguments, environment)
        listed = _models(server)
        chosen = model or (listed[0] if listed else configured_model())
        if not chosen:
            raise UsageError("the server names no model", hint="say which one with --model")
        server = Server(url, chosen, key).checked()
        filled = server.filled(row)
        folder = _folder(filled, load().state_file.parent / "clients")
        _write(filled.files, folder)
    started = [program, *_arguments(filled, folder), *rest]
    _replace(started, _environment(filled, folder, environment, server))


def _key(environment: Mapping[str, str], variable: str) -> str:
    if not variable:
        return environment.get(_KEY_VARIABLE) or ANY_KEY
    key = environment.get(checked_variable(variable))
    if not key:
        raise UsageError(f"the variable {variable} is not set", hint="put your key for the server into it")
    return key


def _program(row: Client, arguments: tuple[str, ...], environment: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The program, as it is found, and what the user says to it."""
    if not row.program and not arguments:
        raise UsageError(f"{row.title} is no program", hint="put the command that uses it behind --")
    wanted, rest = (row.program, arguments) if row.program else (arguments[0], arguments[1:])
    found = shutil.which(wanted, path=environment.get("PATH"))
    if found is None:
        hint = f"install it: {row.install}" if row.program else "give the path of a program behind --"
        raise UsageError(f"there is no program `{wanted}`", hint=hint)
    return found, rest


def _models(server: Server) -> list[str]:
    """The names of the server's models."""
    headers = {"authorization": f"Bearer {server.key}"}
    request = urllib.request.Request(f"{server.url}/v1/models", headers=headers)
    try:
        # Without the proxies of the environment: the server is usually on this machine.
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=_PATIENCE) as answer:
            body: Any = json.loads(answer.read(_LARGEST_LIST))
        return [str(model["id"]) for model in body["data"]]
    except urllib.error.HTTPError as error:
        hint = "put a key for it into a variable and name that with --key-env" if error.code == 401 else ""
        raise CliError(f"the server at {server.url} answers with {error.code}", hint=hint) from None
    except OSError as error:
        why = getattr(error, "reason", error)
        hint = "start one with `toolspeak serve`, or say with --url where it is"
        raise CliError(f"no server answers at {server.url}: {why}", hint=hint) from None
    except (ValueError, TypeError, KeyError):
        hint = "say with --url where `toolspeak serve` listens"
        raise CliError(f"what answers at {server.url} is not toolspeak", hint=hint) from None


# ---- files


def _folder(row: Client, root: Path) -> Path:
    """The folder of the client's files, called by what they hold: two servers at a time do not mix.

    It stays. There is no key in it, and some clients keep their sessions beside their settings.
    """
    digest = hashlib.sha256("\0".join(file.text for file in row.files).encode()).hexdigest()[:12]
    return root / f"{row.program}-{digest}"


def _write(files: tuple[File, ...], folder: Path) -> None:
    try:
        for file in files:
            path = folder / file.name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not path.exists():  # the client may have added to it
                path.write_text(file.text, encoding="utf-8")
    except OSError as error:
        raise CliError(f"cannot write to `{folder}`: {error.strerror or error}") from None


# ---- starting


def _arguments(row: Client, folder: Path) -> list[str]:
    return [each.replace("{file}", str(folder / row.files[0].name)) if row.files else each for each in row.arguments]


def _environment(row: Client, folder: Path, environment: Mapping[str, str], server: Server) -> dict[str, str]:
    """What the client sees: the user's environment, its settings, and none of the server's secrets."""
    gone = {*row.unset, *_SERVER_SECRETS}
    kept = {name: value for name, value in environment.items() if name not in gone}
    named = {file.variable: str(folder if file.below else folder / file.name) for file in row.files if file.variable}
    return {**kept, **_past_proxies(kept, server), **row.env, **named}


def _past_proxies(environment: Mapping[str, str], server: Server) -> dict[str, str]:
    """No proxy for the server, where proxies are set: one that is elsewhere cannot reach this machine's loopback."""
    if not any(environment.get(name) or environment.get(name.upper()) for name in _PROXIES):
        return {}
    known = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    without = ",".join(filter(None, (known, urlsplit(server.url).hostname or "")))
    return {"NO_PROXY": without, "no_proxy": without}


def _replace(command: list[str], environment: dict[str, str]) -> None:
    """Become the client."""
    sys.stdout.flush()
    if sys.platform == "win32":  # there, the shell would go on before the client has ended
        sys.exit(subprocess.call(command, env=environment))
    try:
        os.execve(command[0], command, environment)
    except OSError as error:
        raise CliError(f"cannot start `{command[0]}`: {error.strerror or error}") from None

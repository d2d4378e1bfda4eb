"""`toolspeak env`: what to set so that a client uses a server of toolspeak.

A thin face over `toolspeak.clients`; it decides nothing itself, sends nothing and prints no key.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import click
import msgspec

from ..clients.shells import SHELLS, Shell
from ..clients.table import ANY_KEY, Client, Server, client, clients, is_variable
from ..config import load
from ..engine.planning.capabilities import split_model
from ..errors import UsageError
from ._io import write_json
from .config import say, usage_errors

#: Where `toolspeak serve` listens by default.
DEFAULT_URL = "http://127.0.0.1:8788"
_NO_MODEL = "MODEL"
_EXAMPLES = """\b
Examples:
  toolspeak env
  toolspeak env --client codex --model qwen3:8b
  eval "$(toolspeak env --client claude-code --model qwen3:8b)"
  toolspeak env --client opencode --model qwen3:8b --file > opencode.json
  toolspeak env --client openai --url https://models.example.com --key-env TEAM_KEY
"""


@click.command("env", epilog=_EXAMPLES)
@click.option("--client", "name", metavar="NAME", help="The client; without it, the clients are listed.")
@click.option("--url", default=DEFAULT_URL, show_default=True, metavar="URL", help="Where toolspeak serves.")
@click.option("--model", default="", metavar="NAME", help="The model; default: the configured one.")
@click.option("--key-env", metavar="NAME", default="", help="The variable that holds your key for the server.")
@click.option("--shell", type=click.Choice(list(SHELLS)), default="sh", show_default=True, help="For which shell.")
@click.option("--file", "only_file", is_flag=True, help="Print the contents of the client's configuration file only.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(name: str | None, url: str, model: str, key_env: str, shell: str, only_file: bool, as_json: bool) -> None:
    """Print the settings of a client: variables, and where it needs one a configuration file.

    No key is printed. A server on this machine takes any text for one; for any other, --key-env says where yours is.
    """
    if name is None:
        _print_list(as_json)
        return
    with usage_errors():
        key = f"${{{checked_variable(key_env)}}}" if key_env else ANY_KEY
        server = Server(url, model or configured_model() or _NO_MODEL, key).checked()
        row = server.filled(client(name))
        if only_file and not row.files:
            raise UsageError(f"{row.title} needs no file", hint="leave out --file")
    _say_what_is_missing(server, client(name), key_env)
    if only_file:
        click.echo("\n".join(file.text for file in row.files), nl=False)
    elif as_json:
        write_json({"client": name, **msgspec.to_builtins(row)}, indent=2)
    else:
        for line in _lines(row, SHELLS[shell], key, key_env):
            click.echo(line)


def checked_variable(name: str) -> str:
    """The name of a variable.

    Raises:
        UsageError: no variable can be called that.
    """
    if not is_variable(name):
        raise UsageError(f"`{name:.80}` is not the name of a variable", hint="give its name, not the key itself")
    return name


def configured_model() -> str:
    """The configured model, without its provider; empty when there is none."""
    model = load().model
    return split_model(model)[1] if ":" in model else model


def _say_what_is_missing(server: Server, row: Client, key_env: str) -> None:
    if server.model == _NO_MODEL and "{model}" in msgspec.json.encode(row).decode():
        say([f"put the name of your model where it says {_NO_MODEL}, or give --model"])
    if not key_env and urlsplit(server.url).hostname not in ("127.0.0.1", "localhost", "::1"):
        say(["a server on another machine wants a key: say with --key-env which variable holds it"])


def _print_list(as_json: bool) -> None:
    if as_json:
        write_json({name: msgspec.to_builtins(row) for name, row in clients().items()}, indent=2)
        return
    width = max(map(len, clients()))
    for name, row in clients().items():
        starts = f"; toolspeak launch {name}" if row.program else ""
        click.echo(f"{name:<{width}}  {row.title} ({', '.join(row.speaks)}{starts})")


def _lines(row: Client, shell: Shell, key: str, key_env: str) -> Iterator[str]:
    """Commands for the shell; all else as comments, so that a shell can be given everything."""
    yield f"# {row.title}"
    yield from map(shell.removed, row.unset)
    for name, value in row.env.items():
        yield shell.copied(name, key_env) if key_env and value == key else shell.exported(name, value)
    for file in row.files:
        yield f"# in {file.path} (--file prints this alone):"
        yield from (f"#   {line}" if line else "#" for line in file.text.splitlines())
    if row.arguments and not row.files:
        yield f"# started as: {row.program} {' '.join(row.arguments)}"
    if row.note:
        yield f"# {row.note}"

"""`toolspeak env`: print the settings that connect a client to a toolspeak server. Never prints a key."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import click
import msgspec

from ..client_settings.table import ANY_KEY, ClientSettings, ServerAddress, client, clients, is_variable
from ..config import load
from ..engine.planning.capabilities import split_model
from ..errors import UsageError
from ._io import echo, write_json
from .config import print_notes, usage_errors

DEFAULT_URL = "http://127.0.0.1:8788"
_NO_MODEL = "MODEL"


class ShellSyntax(msgspec.Struct, frozen=True):
    """Command templates of a shell, with placeholders `{name}` and `{value}`."""

    export: str
    unset: str
    reference: str  # expression that expands to the value of another variable
    escapes: dict[str, str]  # replacements for characters with a special meaning inside single quotes

    def export_command(self, name: str, value: str) -> str:
        quoted = f"'{value.translate(str.maketrans(self.escapes))}'"
        return self.export.replace("{name}", name).replace("{value}", quoted)

    def copy_command(self, name: str, variable: str) -> str:
        return self.export.replace("{name}", name).replace("{value}", self.reference.replace("{name}", variable))

    def unset_command(self, name: str) -> str:
        return self.unset.replace("{name}", name)


SHELLS = {
    "sh": ShellSyntax("export {name}={value}", "unset {name}", '"${name}"', {"'": "'\\''"}),
    "fish": ShellSyntax("set -gx {name} {value}", "set -e {name}", '"${name}"', {"\\": "\\\\", "'": "\\'"}),
    "powershell": ShellSyntax(
        "$env:{name} = {value}", "Remove-Item Env:{name} -ErrorAction Ignore", "$env:{name}", {"'": "''"}
    ),
}


def command(name: str | None, url: str, model: str, key_env: str, shell: str, only_file: bool, as_json: bool) -> None:
    if name is None:
        _print_list(as_json)
        return
    with usage_errors():
        key = f"${{{checked_variable(key_env)}}}" if key_env else ANY_KEY
        server = ServerAddress(url, model or configured_model() or _NO_MODEL, key).checked()
        row = server.settings_for(client(name))
        if only_file and not row.files:
            raise UsageError(f"{row.title} needs no configuration file", hint="omit --file")
    _warn_about_placeholders(server, client(name), key_env)
    if only_file:
        click.echo("\n".join(file.text for file in row.files), nl=False)
    elif as_json:
        write_json({"client": name, **msgspec.to_builtins(row)}, indent=2)
    else:
        for line in _lines(row, SHELLS[shell], key, key_env):
            click.echo(line)


def checked_variable(name: str) -> str:
    """Return `name` if it is a valid environment variable name. Raises UsageError otherwise."""
    if not is_variable(name):
        hint = "pass the name, not the key itself"
        raise UsageError(f"`{name:.80}` is not a valid environment variable name", hint=hint)
    return name


def configured_model() -> str:
    """Return the configured model without its provider; empty if no model is configured."""
    model = load().model
    return split_model(model)[1] if ":" in model else model


def _warn_about_placeholders(server: ServerAddress, row: ClientSettings, key_env: str) -> None:
    if server.model == _NO_MODEL and "{model}" in msgspec.json.encode(row).decode():
        print_notes([f"replace {_NO_MODEL} with the name of your model, or add --model NAME"])
    if not key_env and urlsplit(server.url).hostname not in ("127.0.0.1", "localhost", "::1"):
        print_notes(["a server on another machine needs a key: add --key-env VARIABLE"])


def _print_list(as_json: bool) -> None:
    if as_json:
        write_json({name: msgspec.to_builtins(row) for name, row in clients().items()}, indent=2)
        return
    width = max(map(len, clients()))
    for name, row in clients().items():
        starts = f" · toolspeak launch {name}" if row.program else ""
        echo(f"{name:<{width}}  {row.title} · {', '.join(row.speaks)}{starts}", indent=width + 2)


def _lines(row: ClientSettings, shell: ShellSyntax, key: str, key_env: str) -> Iterator[str]:
    """Yield shell commands. Everything else is a comment, so a shell can evaluate all lines."""
    yield f"# {row.title}"
    yield from map(shell.unset_command, row.unset)
    for name, value in row.env.items():
        yield shell.copy_command(name, key_env) if key_env and value == key else shell.export_command(name, value)
    for file in row.files:
        yield f"# add this to {file.path} (--file prints only this part):"
        yield from (f"#   {line}" if line else "#" for line in file.text.splitlines())
    if row.arguments and not row.files:
        yield f"# start it with: {row.program} {' '.join(row.arguments)}"
    if row.note:
        yield f"# {row.note}"

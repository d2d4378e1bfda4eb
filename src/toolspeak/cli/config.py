"""`toolspeak config show`: every setting as it is in force, and where it came from.

A thin face over `toolspeak.config`; it decides nothing itself. The other commands about settings take `loaded` and
`usage_errors` from here.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

import click
import msgspec

from ..config import Config, Setting, load
from ..core.text import printable
from ..errors import ToolspeakError
from ..plugins import Plugins
from ._io import CliError, write_json

_EXAMPLES = """\b
Examples:
  toolspeak config show
  toolspeak config show --origin
  toolspeak config show --origin --model ollama:llama3.1:latest
"""


@click.group("config")
def command() -> None:
    """Show the configuration."""


@command.command("show", epilog=_EXAMPLES)
@click.option("--origin", is_flag=True, help="Also print where each value came from.")
@click.option("--model", metavar="PROVIDER:MODEL", default="", help="As it is in force for this model.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(origin: bool, model: str, as_json: bool) -> None:
    """Print every setting as it is in force. Keys are never printed.

    A flag beats the environment (TOOLSPEAK_*), which beats toolspeak.toml in the working directory, which beats the
    user's file, which beats the default.
    """
    with usage_errors():
        config = loaded()
        config.settings_for(model)  # a wrong dialect is found only now that plugins have brought theirs
        settings = (*config.shown(model), *(config.overriding(model) if model else config.tables()))
    if as_json:
        write_json({each.name: _with_origin(each) if origin else each.value for each in settings}, indent=2)
    else:
        for each in settings:
            click.echo(f"{each.name} = {_plain(each.value)}" + (f"  # {each.origin}" if origin else ""))


def loaded(flags: Mapping[str, Any] | None = None) -> Config:
    """The configuration, with plugins loaded; what was left out is said on stderr."""
    config = load(flags)
    plugins = Plugins(config.load_plugins)
    plugins.extend()
    say(note.detail for note in (*config.notes, *plugins.notes))
    return config


def say(notes: Iterable[str]) -> None:
    """Print notes on stderr."""
    for note in notes:
        click.echo(f"note: {printable(note)}", err=True)


@contextmanager
def usage_errors() -> Generator[None]:
    """What cannot be done, told the way the command line tells of its own mistakes."""
    try:
        yield
    except ToolspeakError as error:
        raise CliError(str(error.args[0]), hint=error.hint) from None


def _with_origin(setting: Setting) -> dict[str, Any]:
    return {"value": setting.value, "source": setting.origin.source, "where": setting.origin.where}


def _plain(value: Any) -> str:
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)

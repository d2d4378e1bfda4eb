"""`toolspeak config show`: print the effective settings and their origin. Also loads them for other commands."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from ..config import PROJECT_FILE, Config, Setting, load
from ..config.sources import user_file
from ..core.text import printable
from ..plugins import Plugins
from ._io import CommandGroup, usage_errors, write_json


@click.group("config", cls=CommandGroup)
def command() -> None:
    """Show the configuration."""


@command.command("show")
@click.option("--origin", is_flag=True, help="Also print the origin of each value.")
@click.option("--model", metavar="PROVIDER:MODEL", default="", help="Show the settings that apply to this model.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(origin: bool, model: str, as_json: bool) -> None:
    """Print the effective settings. Keys are never printed.

    Precedence, highest first: flags, environment (TOOLSPEAK_*), toolspeak.toml in the working directory, the user's
    file, defaults.
    """
    with usage_errors():
        config = load_config()
        config.settings_for(model)  # check dialect names, which is possible only after plugins have added theirs
        settings = (*config.effective_settings(model), *(config.overriding(model) if model else config.tables()))
    if as_json:
        write_json({each.name: _with_origin(each) if origin else each.value for each in settings}, indent=2)
    else:
        for each in settings:
            value = json.dumps(msgspec.to_builtins(each.value), ensure_ascii=False)
            click.echo(f"{each.name} = {value}" + (f"  # {each.origin}" if origin else ""))


@command.command("path")
def path() -> None:
    """Print the paths of the configuration files, highest precedence first."""
    for file in (Path(PROJECT_FILE).absolute(), user_file(load(project=False).environment())):
        click.echo(f"{file}{'' if file.exists() else '  (does not exist)'}")


def load_config(flags: Mapping[str, Any] | None = None) -> Config:
    """Load the configuration and its plugins. Print their notes on stderr."""
    config = load(flags)
    plugins = Plugins(config.load_plugins)
    plugins.extend()
    print_notes(note.detail for note in (*config.notes, *plugins.notes))
    return config


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        click.echo(f"note: {printable(note)}", err=True)


def _with_origin(setting: Setting) -> dict[str, Any]:
    return {"value": setting.value, "source": setting.origin.source, "where": setting.origin.where}

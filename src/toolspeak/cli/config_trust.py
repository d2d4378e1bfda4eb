"""`toolspeak trust`: let a `toolspeak.toml` of the working directory set everything, as it is now.

A thin face over `toolspeak.config`; it decides nothing itself.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..config import PROJECT_FILE, load, trust, untrust
from ..key_value import FileState
from .config import usage_errors

_EXAMPLES = """\b
Examples:
  toolspeak trust
  toolspeak trust path/to/toolspeak.toml
  toolspeak trust --revoke
  toolspeak trust --list --json
"""


@click.command("trust", epilog=_EXAMPLES)
@click.option("--revoke", is_flag=True, help="Trust the file no longer.")
@click.option("--list", "as_list", is_flag=True, help="Print the files that are trusted.")
@click.option("--json", "as_json", is_flag=True, help="With --list: as JSON.")
@click.argument("file", default=PROJECT_FILE)
def command(revoke: bool, as_list: bool, as_json: bool, file: str) -> None:
    """Trust FILE (default: toolspeak.toml) as it is now.

    A toolspeak.toml in the working directory may come from anybody. Until it is trusted it cannot say where requests
    and keys go, which plugins are loaded, or what protects against forged calls. A change of the file ends the trust.
    """
    path = Path(file)
    with usage_errors():
        # The file in question has no say in this.
        state = FileState(load(project=False).state_file)
        if as_list:
            files = [key.removeprefix("trust:") for key in state.keys("trust:")]
            click.echo(json.dumps({"trusted": files}) if as_json else "\n".join(files), nl=as_json or bool(files))
        elif revoke:
            untrust(state, path)
            click.echo(f"`{path}` is not trusted")
        else:
            digest = trust(state, path)
            click.echo(f"`{path}` is trusted as it is now (sha256 {digest[:12]}...)")

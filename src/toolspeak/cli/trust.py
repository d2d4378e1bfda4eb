"""`toolspeak trust`: allow a project's `toolspeak.toml`, in its current version, to change all settings."""

import json
from pathlib import Path

import click

from ..config import load, trust, untrust
from ..key_value import FileState
from ._io import echo
from .config import usage_errors


def command(revoke: bool, as_list: bool, as_json: bool, file: str) -> None:
    path = Path(file)
    with usage_errors():
        # Ignore the project file, which must not influence whether it is trusted.
        state = FileState(load(project=False).state_file)
        if as_list:
            files = [key.removeprefix("trust:") for key in state.keys("trust:")]
            click.echo(json.dumps({"trusted": files}) if as_json else "\n".join(files), nl=as_json or bool(files))
            if not files and not as_json:
                echo("No trusted files. Trust one with: toolspeak trust FILE", err=True)
        elif revoke:
            untrust(state, path)
            echo(f"`{path}` is no longer trusted")
        else:
            digest = trust(state, path)
            echo(f"Trusted `{path}` (sha256 {digest[:12]}...)")

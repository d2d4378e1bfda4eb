"""`toolspeak trust`: allow a project's `toolspeak.toml`, in its current version, to change all settings."""

import json
from pathlib import Path

import click

from ..config import PROJECT_FILE, load, trust, untrust
from ..key_value import FileState
from .config import usage_errors


@click.command("trust")
@click.option("--revoke", is_flag=True, help="Stop trusting the file.")
@click.option("--list", "as_list", is_flag=True, help="List trusted files.")
@click.option("--json", "as_json", is_flag=True, help="With --list: print JSON.")
@click.argument("file", default=PROJECT_FILE)
def command(revoke: bool, as_list: bool, as_json: bool, file: str) -> None:
    """Trust the current contents of FILE (default: toolspeak.toml).

    A toolspeak.toml in the working directory may come from a stranger. Until you trust it, it cannot change where
    requests and keys go, load plugins or weaken the protection against forged calls. Any edit revokes the trust.
    """
    path = Path(file)
    with usage_errors():
        # Ignore the project file, which must not influence whether it is trusted.
        state = FileState(load(project=False).state_file)
        if as_list:
            files = [key.removeprefix("trust:") for key in state.keys("trust:")]
            click.echo(json.dumps({"trusted": files}) if as_json else "\n".join(files), nl=as_json or bool(files))
            if not files and not as_json:
                click.echo("No trusted files. Trust one with: toolspeak trust FILE", err=True)
        elif revoke:
            untrust(state, path)
            click.echo(f"`{path}` is no longer trusted")
        else:
            digest = trust(state, path)
            click.echo(f"Trusted `{path}` (sha256 {digest[:12]}...)")

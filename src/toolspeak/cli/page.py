"""`toolspeak page`: a link to the page of a server that runs here.

A thin face: the server makes the code in it. Exit status: 0 printed; 2 no server runs here.
"""

from __future__ import annotations

import click

from ..server.access.login_sessions import CODE_SECONDS, link
from ._io import CliError
from ._recorded_requests import new_codes
from .config import loaded, usage_errors

_EXAMPLES = """\b
Examples:
  toolspeak page
  docker exec my-container toolspeak page
"""


@click.command("page", epilog=_EXAMPLES)
def command() -> None:
    """Print a link that opens the page of a server that runs here, for you alone.

    One line for each server that you run on this machine. A link holds once, within ten minutes. For a server
    elsewhere, sign in on its page with a key of `toolspeak keys new NAME --admin`.
    """
    with usage_errors():
        made = new_codes(loaded())
    if not made:
        hint = "start `toolspeak serve`; or sign in on its page with a key of `toolspeak keys new NAME --admin`"
        raise CliError("no server of yours runs here", hint=hint)
    for door, code in made:
        click.echo(link(door.url, code))
    click.echo(f"note: each holds once, within {CODE_SECONDS / 60:.0f} minutes", err=True)

"""`toolspeak page`: print one-time links to the web pages of servers running on this machine.

Exit status: 0 success, 2 no server is running.
"""

import click

from ..server.access.login_sessions import CODE_SECONDS, link
from ._io import CliError
from ._recorded_requests import new_codes
from .config import load_config, usage_errors


@click.command("page")
def command() -> None:
    """Print a one-time link to the web page.

    Prints one line for each server that you run on this machine. Each link works once and expires in ten minutes. For
    other servers, sign in on their page with an admin key (`toolspeak keys new NAME --admin`).
    """
    with usage_errors():
        codes = new_codes(load_config())
    if not codes:
        hint = "start `toolspeak serve`, or sign in on its page with an admin key (`toolspeak keys new NAME --admin`)"
        raise CliError("no running server found on this machine", hint=hint)
    for server, code in codes:
        click.echo(link(server.url, code))
    click.echo(f"note: each link works once and expires in {CODE_SECONDS / 60:.0f} minutes", err=True)

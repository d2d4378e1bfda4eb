"""The command `toolspeak acme-units`."""

import click

from .tools import METRES


@click.command("acme-units")
def command() -> None:
    """List the units that `convert_length` knows."""
    for unit in sorted(METRES):
        click.echo(unit)

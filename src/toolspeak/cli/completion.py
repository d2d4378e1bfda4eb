"""`toolspeak completion`: print a script that completes commands and options in a shell."""

import click
from click.shell_completion import get_completion_class


def command(shell: str) -> None:
    kind = get_completion_class(shell)
    assert kind is not None  # click knows these shells
    click.echo(kind(click.get_current_context().find_root().command, {}, "toolspeak", "_TOOLSPEAK_COMPLETE").source())

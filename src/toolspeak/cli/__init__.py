"""The command line: `toolspeak COMMAND`.

The only part of toolspeak that prints. Each command is a module of this package, imported on first use to keep
startup fast. To add a command, write its module and list it in `_COMMANDS`.
Exit status: 0 success, 1 failure, 2 invalid command line or input.
"""

from importlib import import_module

import click

__all__ = ["main"]

#: The commands. Each is defined as `command` by the module of its name.
_COMMANDS = """chat config doctor engine env eval explain keys launch mcp page parse probe replay run serve sessions
strategy trust undo""".split()


class _LazyGroup(click.Group):
    """Command group that imports a command only when it runs or is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return import_module(f"toolspeak.cli.{cmd_name}").command if cmd_name in _COMMANDS else None


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="toolspeak", message="%(prog)s %(version)s")
def main() -> None:
    """Tool calling for any language model."""

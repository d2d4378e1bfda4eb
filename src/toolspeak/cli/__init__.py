"""The command line: `toolspeak COMMAND`.

The only part of toolspeak that prints. Each command is a module of this package, imported on first use to keep
startup fast. To add a command, write its module and list it in `_COMMANDS`.
Exit status: 0 success, 1 failure, 2 invalid command line or input.
"""

from __future__ import annotations

from importlib import import_module

import click

__all__ = ["main"]

#: Maps a command name to the module that defines it as `command`.
_COMMANDS = {
    "chat": "toolspeak.cli.chat",
    "config": "toolspeak.cli.config",
    "doctor": "toolspeak.cli.doctor",
    "env": "toolspeak.cli.env",
    "eval": "toolspeak.cli.eval",
    "explain": "toolspeak.cli.explain",
    "keys": "toolspeak.cli.keys",
    "launch": "toolspeak.cli.launch",
    "mcp": "toolspeak.cli.mcp",
    "page": "toolspeak.cli.page",
    "parse": "toolspeak.cli.parse",
    "probe": "toolspeak.cli.probe",
    "replay": "toolspeak.cli.replay",
    "run": "toolspeak.cli.run",
    "serve": "toolspeak.cli.serve",
    "sessions": "toolspeak.cli.sessions",
    "strategy": "toolspeak.cli.strategy",
    "trust": "toolspeak.cli.trust",
    "undo": "toolspeak.cli.undo",
}


class _LazyGroup(click.Group):
    """Command group that imports a command only when it runs or is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _COMMANDS.get(cmd_name)
        return import_module(module).command if module else None


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="toolspeak", message="%(prog)s %(version)s")
def main() -> None:
    """Tool calling for any language model."""

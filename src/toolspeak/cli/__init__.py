"""The command line: `toolspeak COMMAND`.

The only part of toolspeak that prints. Each command is a module of this package, imported on first use to keep
startup fast. To add a command, write its module and list it in `commands.toml`.
Exit status: 0 success, 1 failure, 2 invalid command line or input.
"""

import re
import sys
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from .. import __version__
from ..core.text import suggestion
from ._io import CliError, CommandGroup, colours

__all__ = ["main"]

#: For each section of the help, its commands with their summaries and epilogs, so that `--help` imports none of them.
#: Each is defined as `command` by the module of its name.
_SECTIONS: dict[str, dict[str, dict[str, str]]] = tomllib.loads(
    Path(__file__).with_name("commands.toml").read_text(encoding="utf-8")
)
_COMMANDS = {name: texts for section in _SECTIONS.values() for name, texts in section.items()}
_FIRST_STEPS = {
    "toolspeak init": "find the models on this machine",
    "toolspeak try URL": "see a model call tools, raw and with help",
    "toolspeak serve --open": "start the proxy and open its web page",
    'toolspeak run "How many lines are in README.md?"': "see an agent use tools",
    "toolspeak --help": "list all commands",
}
_WIDTH = 50  # maximum width of these commands on the start screen


class _MainGroup(CommandGroup):
    """Command group that imports a command only when it runs, and reports click's errors in toolspeak's style."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = self.commands.get(cmd_name) or import_module(f"toolspeak.cli.{cmd_name}").command
        # Without the mark, click would fill the lines of a paragraph.
        command.epilog = "\n\n".join(f"\b\n{each}" for each in _COMMANDS[cmd_name]["epilog"].split("\n\n"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _COMMANDS))
        for title, section in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", texts["summary"]) for name, texts in section.items()])

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _usage_errors_in_one_style():
            return super().make_context(*args, **{"color": colours(), **extra})

    def invoke(self, ctx: click.Context) -> Any:
        with _usage_errors_in_one_style():
            return super().invoke(ctx)


@contextmanager
def _usage_errors_in_one_style() -> Generator[None]:
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        text, hint = error.message, f"see `{error.ctx.command_path if error.ctx else 'toolspeak'} --help`"
        if isinstance(error, click.NoSuchOption):
            hint = suggestion(error.option_name, error.possibilities or (), hint)
        else:
            text = error.format_message()
        text = re.sub(r"'([^'\n]+)'", r"`\1`", text).rstrip(".")
        raise CliError(f"{text[:1].lower()}{text[1:]}", hint=hint) from None


@click.group(cls=_MainGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Tool calling for any language model."""
    if context.invoked_subcommand is not None:
        return
    if not sys.stdout.isatty():
        click.echo(context.get_help(), err=True)
        context.exit(2)
    click.echo(f"{click.style(f'toolspeak {__version__}', bold=True)} - tool calling for any language model\n")
    screen = context.make_formatter()
    with screen.indentation():
        screen.write_dl([(click.style(title, bold=True), " · ".join(section)) for title, section in _SECTIONS.items()])
    with screen.section("First steps"):
        screen.write_dl([(click.style(command, fg="cyan"), text) for command, text in _FIRST_STEPS.items()], _WIDTH)
    click.echo(screen.getvalue(), nl=False)


@main.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands and options in SHELL."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # click knows these shells
    click.echo(kind(main, {}, "toolspeak", "_TOOLSPEAK_COMPLETE").source())

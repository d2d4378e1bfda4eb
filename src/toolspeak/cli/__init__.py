"""The command line: `toolspeak COMMAND`.

The only part of toolspeak that prints. `commands.toml` declares every command with its options and help, so `--help`
imports nothing else. A command's module, imported when it runs, has a function `command`, or one for each subcommand,
such as `list_command`. To add a command, declare it there and write its module.
Exit status: 0 success, 1 failure, 2 invalid command line or input.
"""

import re
import tomllib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from math import isnan
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

import click

from .. import __version__
from ..core.text import suggestion
from ._io import CliError, colours, wrapped

__all__ = ["main"]

_Table = dict[str, Any]  # a table of `commands.toml`, whose beginning explains the fields
#: The sections of the help, each with its commands.
_SECTIONS: dict[str, dict[str, _Table]] = tomllib.loads(
    Path(__file__).with_name("commands.toml").read_text(encoding="utf-8")
)
#: Options that several commands share.
_SHARED = _SECTIONS.pop("shared")
#: The commands of the start screen, with what they do.
_FIRST_STEPS = _SECTIONS.pop("first_steps")
_COMMANDS = {name: table for section in _SECTIONS.values() for name, table in section.items()}
_MIN_WIDTH, _MAX_WIDTH = 30, 100  # of help
_WHOLE = 200  # maximum length of a command's summary, more than any has


class _FloatRange(click.FloatRange):
    """Range of numbers. Rejects NaN, which passes click's range check."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


class _Url(click.ParamType[str]):
    """The base URL of an upstream. An empty text stands for none."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from ..errors import ConfigError
        from ..upstreams.http.address import parse_base_url  # on use: help needs neither

        try:
            return value and parse_base_url(value) and value
        except ConfigError as error:
            self.fail(f"{error.args[0]}; write, for example, http://127.0.0.1:9000/v1", param, ctx)


_TYPES = {"int": click.INT, "unprocessed": click.UNPROCESSED, "url": _Url()}
_RANGES = {"int": click.IntRange, "float": _FloatRange}


def _parameter(kind: type[click.Parameter], names: str, fields: _Table) -> click.Parameter:
    rest = {name: value for name, value in fields.items() if name not in ("type", "choices", "min", "max", "min_open")}
    bounds = {name: fields[name] for name in ("min", "max", "min_open") if name in fields}
    value_type = fields.get("type")
    if choices := fields.get("choices"):
        rest["type"] = click.Choice(choices)
    elif value_type:
        rest["type"] = _RANGES[value_type](**bounds) if bounds else _TYPES[value_type]
    return kind(names.split(), **rest)


def _parameters(table: _Table) -> list[click.Parameter]:
    options = {**table.get("options", {}), **_SHARED.get(table.get("shared", ""), {})}
    arguments = [_parameter(click.Argument, name, fields) for name, fields in table.get("arguments", {}).items()]
    return [*arguments, *(_parameter(click.Option, names, fields) for names, fields in options.items())]


def _callback(module: str, function: str) -> Callable[..., None]:
    def call(**values: Any) -> None:
        getattr(import_module(f"toolspeak.cli.{module}"), function)(**values)

    return call


def _command(name: str, table: _Table) -> click.Command:
    texts: _Table = {"help": table["help"], "epilog": table["epilog"], "params": _parameters(table)}
    if "commands" not in table:
        module = table.get("module", "")
        callback = _callback(module, f"{name}_command") if module else _callback(name, "command")
        return _Command(name, callback=callback, **texts)
    commands = {
        each: click.Command(each, None, _callback(name, f"{each}_command"), _parameters(fields), fields["help"])
        for each, fields in table["commands"].items()
    }
    return _Group(name, commands, **texts)


def _plugin_commands() -> dict[str, click.Command]:
    """Return the commands of plugins. They cannot replace a built-in one."""
    from ..plugins import installed

    return {
        name: each if isinstance(each, click.Command) else click.command(name)(each)
        for name, each in installed().load_group("toolspeak.commands").items()
        if name not in _COMMANDS
    }


def _format_epilog(self: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write an epilog with its lists as they are. An example that is too long goes on after a backslash."""
    for paragraph in (self.epilog or "").strip().split("\n\n"):
        formatter.write_paragraph()
        if "\n  " not in paragraph:
            formatter.write_text(paragraph)
            continue
        joint = " \\\n" if "  toolspeak" in paragraph else "\n"
        for line in paragraph.split("\n"):
            rows = wrapped(line, formatter.width - 2).split("\n")
            formatter.write(f"{joint.join(rows)}\n")


class _Command(click.Command):
    format_epilog = _format_epilog


class _Group(click.Group):
    """Group of commands with whole summaries and suggestions for mistyped names."""

    format_epilog = _format_epilog

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            hint = suggestion(name, self.list_commands(ctx), f"`{ctx.command_path} --help` lists the commands")
            raise CliError(f"unknown command `{name}`", hint=hint)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(_WHOLE)) for name, each in self.commands.items()])


class _MainGroup(_Group):
    """The commands by section. Reports click's errors in toolspeak's style."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS, *_plugin_commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS:
            return _command(cmd_name, _COMMANDS[cmd_name])
        return _plugin_commands().get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _COMMANDS))
        for title, section in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", texts["summary"]) for name, texts in section.items()])
        if commands := _plugin_commands():
            with formatter.section("From plugins"):
                formatter.write_dl([(f"{name:<{width}}", each.get_short_help_str()) for name, each in commands.items()])

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        # click would not go below 50 columns, and a terminal then cuts words.
        width = max(_MIN_WIDTH, min(get_terminal_size().columns, _MAX_WIDTH) - 2)
        with _usage_errors_in_one_style():
            return super().make_context(*args, **{"color": colours(), "terminal_width": width, **extra})

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
            text = error.format_message().partition(". Choose from:")[0]  # the choices are its name
        text = re.sub(r"'([^'\n]+)'", r"`\1`", text).rstrip(".")
        raise CliError(f"{text[:1].lower()}{text[1:]}", hint=hint) from None


@click.group(
    cls=_MainGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _MAX_WIDTH},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Tool calling for any language model."""
    if context.invoked_subcommand is not None:
        return
    screen = context.make_formatter()
    screen.write(f"{click.style(f'toolspeak {__version__}', bold=True)} - tool calling for any language model\n\n")
    with screen.indentation():
        screen.write_dl([(click.style(title, bold=True), " · ".join(section)) for title, section in _SECTIONS.items()])
    with screen.section("First steps"):
        steps = [(click.style(command, fg="cyan"), str(text)) for command, text in _FIRST_STEPS.items()]
        screen.write_dl(steps, screen.width - _MIN_WIDTH)
    click.echo(screen.getvalue(), nl=False)

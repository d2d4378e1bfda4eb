"""Input and output shared by all commands: text, JSON, answers, a spinner, and error messages with hints.

Text is read and written as UTF-8 whatever the locale. An invalid byte becomes U+FFFD with a note on stderr; it never
causes a traceback.
"""

import codecs
import json
import os
import re
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Self

import click

from ..core.text import printable, suggestion
from ..errors import ToolspeakError

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Maximum size of one read. A pipe returns whatever is available.
_CHUNK_BYTES = 64 * 1024

REFRESHES_PER_SECOND = 8
_DELAY = 0.5  # seconds without a spinner, so that quick work does not flicker
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
NEWLINE_AND_TAB = "\n\t"  # the control characters that output keeps
_WHOLE = 200  # maximum length of a command's summary, more than any has

#: Matches invalid bytes as decoded by `surrogateescape`. Valid UTF-8 never decodes to these characters.
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")

#: Invisible characters that Python considers printable, and variation selectors.
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0") | frozenset(map(chr, range(0xE0100, 0xE01F0)))


class CliError(click.ClickException):
    """Invalid command line or input, reported as an error line and a hint line."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        print_error(self.message, self.hint, file)


def print_error(message: str, hint: str = "", file: IO[Any] | None = None) -> None:
    """Print an error and its hint on stderr, or to `file`. Control characters are removed: models can send some."""
    for label, text, colour in (("error:", message, "red"), ("hint:", hint, "cyan")):
        if text:
            line = f"{click.style(label, fg=colour, bold=True)} {clean(text)}"
            click.echo(line, file=file, err=file is None, color=colours())


def colours() -> bool | None:
    """Return False if the user wants no colours, and None if the kind of output decides."""
    environment = os.environ  # noqa: TID251 - a convention of terminals, not a setting
    return False if environment.get("NO_COLOR") or environment.get("TERM") == "dumb" else None


def clean(text: str) -> str:
    """Remove terminal control characters from untrusted text."""
    return printable(text, "", NEWLINE_AND_TAB)


def print_answer(text: str) -> None:
    """Print an answer on stdout: as Markdown on a terminal, else as it is without control characters."""
    if not sys.stdout.isatty():
        click.echo(clean(text))
        return
    from rich.console import Console

    Console().print(as_markdown(text))


def as_markdown(text: str) -> "RenderableType":
    from rich.markdown import Markdown

    return Markdown(clean(text.strip()), hyperlinks=False)  # a link must show where it leads


class Stage:
    """What is going on, and for how long, as a line for rich to draw."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self._began = monotonic()

    def __rich__(self) -> "RenderableType":
        from rich.text import Text

        seconds = monotonic() - self._began
        if not self.text or seconds < _DELAY:
            return Text("")
        frame = _FRAMES[int(seconds * REFRESHES_PER_SECOND) % len(_FRAMES)]
        parts = ((frame, "cyan"), (f" {seconds:.0f} s ", "dim"), clean(self.text))
        return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


class Spinner:
    """Shows a stage on stderr, if that is a terminal. As a context manager, hides it at the end."""

    def __init__(self, text: str = "") -> None:
        self._live: Any = None
        self._stage = Stage()
        if text:
            self.show(text)

    def show(self, text: str) -> None:
        """Show a stage. The seconds count from the first one after `hide`."""
        if self._live is None and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._stage = Stage()
            console = Console(stderr=True)
            self._live = Live(self._stage, console=console, transient=True, refresh_per_second=REFRESHES_PER_SECOND)
            self._live.start()
        self._stage.text = text

    def hide(self) -> None:
        """Hide the spinner, so that other output can follow."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()


class CommandGroup(click.Group):
    """Group of commands with whole summaries and suggestions for mistyped names."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            hint = suggestion(name, self.list_commands(ctx), f"`{ctx.command_path} --help` lists the commands")
            raise CliError(f"unknown command `{name}`", hint=hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(_WHOLE)) for name, each in commands if each])


@contextmanager
def usage_errors() -> Generator[None]:
    """Turn library errors into command-line errors with a hint."""
    try:
        yield
    except ToolspeakError as error:
        raise CliError(str(error.args[0]), hint=error.hint) from None


class Utf8:
    """Incremental UTF-8 decoder that counts invalid bytes."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.replaced = 0

    def decode(self, data: bytes, *, final: bool = False) -> str:
        """Decode `data`, holding back an incomplete character at the end."""
        text, replaced = _ESCAPED_BYTE.subn("\ufffd", self._decoder.decode(data, final))
        self.replaced += replaced
        return text

    def report(self, name: str) -> None:
        if self.replaced:
            click.echo(f"note: {name} is not valid UTF-8; replaced {self.replaced} bytes with U+FFFD", err=True)


def chunks(name: str) -> Iterator[str]:
    """Yield the text of the file `name` (`-` for stdin) in chunks as it arrives."""
    utf8 = Utf8()
    with _open_input(name) as stream:
        # `read1` does not wait for a full buffer. Replacements of stdin, as in tests, may lack it.
        read = getattr(stream, "read1", stream.read)
        while data := read(_CHUNK_BYTES):
            if text := utf8.decode(data):
                yield text
    if text := utf8.decode(b"", final=True):
        yield text
    utf8.report("stdin" if name == "-" else f"`{name}`")


def read_text(name: str) -> str:
    """Read the whole text of the file `name` (`-` for stdin)."""
    return "".join(chunks(name))


def read_json(name: str, what: str) -> Any:
    """Read the JSON value in the file `name`; `what` describes the file in error messages."""
    text = read_text(name)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise CliError(f"{what} `{name}` is not valid JSON: {error.msg} at {where}") from None
    except RecursionError:
        raise CliError(f"{what} `{name}` is nested too deeply") from None


def write_json(value: Any, *, indent: int | None = None) -> None:
    """Print `value` as JSON and flush the output, so the other end of a pipe gets it at once."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    stream = sys.stdout.buffer
    # A lone surrogate cannot be encoded as UTF-8; backslashreplace writes its JSON escape.
    stream.write(text.encode("utf-8", "backslashreplace") + b"\n")
    stream.flush()


def escape(text: str) -> str:
    """Escape control and invisible characters of untrusted text as `\\u{...}`, so nothing in it is hidden."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _is_visible(char) else f"\\u{{{ord(char):x}}}" for char in text)


def _is_visible(char: str) -> bool:
    return char == "\n" or (char.isprintable() and char not in _BLANK and not "\ufe00" <= char <= "\ufe0f")


@contextmanager
def _open_input(name: str) -> Generator[BinaryIO]:
    if name == "-":
        stream = sys.stdin.buffer
        if stream.isatty():
            click.echo("note: reading from the terminal; press Ctrl-D to finish", err=True)
        yield stream
        return
    try:
        with Path(name).open("rb") as stream:
            yield stream
    except OSError as error:
        hint = "pass the path of a text file, or - for stdin"
        raise CliError(f"cannot read `{name}`: {error.strerror or error}", hint=hint) from None

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
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Self, cast

import click

from ..core.text import printable, system_reason, without_sequences
from ..errors import ToolspeakError

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Maximum size of one read. A pipe returns whatever is available.
_CHUNK_BYTES = 64 * 1024

REFRESHES_PER_SECOND = 8
_DELAY = 0.5  # seconds without a spinner, so that quick work does not flicker
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
NEWLINE_AND_TAB = "\n\t"  # the control characters that output keeps

#: Matches invalid bytes as decoded by `surrogateescape`. Valid UTF-8 never decodes to these characters.
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")

#: A control sequence whose end may still arrive, and how much of it is held back.
_BEGUN_SEQUENCE = re.compile(r"(?:\x1b(?:[ -/]*|\[[0-?]*[ -/]*|[]PX^_][^\x07\x1b\x9c\n]*\x1b?)|\x9b[0-?]*[ -/]*)\Z")
_MAX_REST = 1000
#: A word with the spaces before it, for breaking lines.
_WORD = re.compile(" *[^ ]+| +")
_USUAL_WIDTH = 80

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
            echo(line, err=True, indent=len(label) + 1, file=file, color=colours())


def echo(text: str = "", *, err: bool = False, indent: int | None = None, **options: Any) -> None:
    """Print text. On a terminal, long lines are broken between words.

    The rest of a line is indented by `indent`, by default two spaces more than its beginning.
    """
    stream = options.get("file") or (sys.stderr if err else sys.stdout)
    if stream.isatty():
        width = _columns(stream)
        text = "\n".join(wrapped(line, width, indent) for line in text.split("\n"))
    click.echo(text, err=err and options.get("file") is None, **options)


def wrapped(line: str, width: int, indent: int | None = None) -> str:
    """Break a line between words so that it fits a width, if its words do. Colours take no space."""
    indent = len(line) - len(line.lstrip(" ")) + 2 if indent is None else indent
    rows, length = [""], 0
    for word in _WORD.findall(line):
        size, alone = len(click.unstyle(word)), len(click.unstyle(word.lstrip(" ")))
        if length + size > width >= indent + alone and rows[-1].strip():
            rows, length = [*rows, " " * indent + word.lstrip(" ")], indent + alone
        else:
            rows[-1] += word
            length += size
    return "\n".join(rows)


def _columns(stream: Any) -> int:
    with suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_WIDTH
    return _USUAL_WIDTH


def colours() -> bool | None:
    """Return False if the user wants no colours, and None if the kind of output decides."""
    environment = os.environ  # noqa: TID251 - a convention of terminals, not a setting
    return False if environment.get("NO_COLOR") or environment.get("TERM") == "dumb" else None


def clean(text: str) -> str:
    """Remove control sequences and other control characters from untrusted text."""
    return printable(without_sequences(text), "", NEWLINE_AND_TAB)


class CleanPieces:
    """Cleans a text that arrives in pieces. Holds back a control sequence until its end has arrived."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, piece: str) -> str:
        text = self._rest + piece
        match = _BEGUN_SEQUENCE.search(text[-_MAX_REST:])
        self._rest = match[0] if match else ""
        return clean(text[: len(text) - len(self._rest)])


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
            echo(f"note: {name} is not valid UTF-8; replaced {self.replaced} bytes with U+FFFD", err=True)


def chunks(name: str) -> Iterator[str]:
    """Yield the text of the file `name` (`-` for stdin) in chunks as it arrives."""
    utf8 = Utf8()
    with open_input(name) as stream:
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


def read_tools(name: str) -> list[Any]:
    """Read a list of tools from the file `name`."""
    value = read_json(name, "the tools file")
    if isinstance(value, dict):
        value = cast(dict[str, Any], value).get("tools")  # accept a whole request body, too
    if not isinstance(value, list):
        hint = 'use [{"type": "function", ...}]'
        raise CliError(f"the tools file `{name}` does not contain a list of tools", hint=hint)
    return cast(list[Any], value)


def write_json(value: Any, *, indent: int | None = None) -> None:
    """Print `value` as JSON and flush the output, so the other end of a pipe gets it at once."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    stream = sys.stdout.buffer
    # A lone surrogate cannot be encoded as UTF-8; backslashreplace writes its JSON escape.
    stream.write(text.encode("utf-8", "backslashreplace") + b"\n")
    stream.flush()


def write_text(name: str, text: str) -> None:
    """Write a text to the file `name` (`-` for stdout)."""
    if name == "-":
        click.echo(text, nl=False)
        return
    try:
        Path(name).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise CliError(f"cannot write `{name}`: {system_reason(error)}") from None
    echo(f"Wrote `{name}`", err=True)


def escape(text: str) -> str:
    """Escape control and invisible characters of untrusted text as `\\u{...}`, so nothing in it is hidden."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _is_visible(char) else f"\\u{{{ord(char):x}}}" for char in text)


def _is_visible(char: str) -> bool:
    return char == "\n" or (char.isprintable() and char not in _BLANK and not "\ufe00" <= char <= "\ufe0f")


@contextmanager
def open_input(name: str) -> Generator[BinaryIO]:
    if name == "-":
        stream = sys.stdin.buffer
        if stream.isatty():
            echo("note: reading from the terminal; press Ctrl-D to finish", err=True)
        yield stream
        return
    try:
        with Path(name).open("rb") as stream:
            yield stream
    except OSError as error:
        hint = "pass the path of a text file, or - for stdin"
        raise CliError(f"cannot read `{name}`: {system_reason(error)}", hint=hint) from None

"""Input and output shared by all commands: reading text and JSON, writing JSON, error messages with hints.

Text is read and written as UTF-8 whatever the locale. An invalid byte becomes U+FFFD with a note on stderr; it never
causes a traceback.
"""

import codecs
import json
import re
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import click

from ..errors import ToolspeakError

#: Maximum size of one read. A pipe returns whatever is available.
_CHUNK_BYTES = 64 * 1024

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
        click.echo(f"error: {self.message}", file=file, err=file is None)
        if self.hint:
            click.echo(f"hint: {self.hint}", file=file, err=file is None)


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

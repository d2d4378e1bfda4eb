"""What the commands share: reading input, writing JSON, and errors that tell a person what to do.

Above this module sit the commands, below it only click. Text comes in as UTF-8 whatever the locale says and
goes out the same way; a byte that is not UTF-8 becomes U+FFFD and is mentioned on stderr, never a traceback.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import click

#: Read at most this much at once; a pipe hands over what it has, however little that is.
_CHUNK_BYTES = 64 * 1024

#: What the `surrogateescape` handler makes of a byte that is not UTF-8; valid UTF-8 never decodes to these.
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")


class CliError(click.ClickException):
    """The command line or its input is wrong: one line that says what, one that says what to do."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {self.message}", file=file, err=file is None)
        if self.hint:
            click.echo(f"hint: {self.hint}", file=file, err=file is None)


class Utf8:
    """Bytes into text, in pieces of any size, counting the bytes that are not UTF-8."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.replaced = 0

    def decode(self, data: bytes, *, final: bool = False) -> str:
        """The text of `data`, less a character that is still incomplete."""
        text, replaced = _ESCAPED_BYTE.subn("\ufffd", self._decoder.decode(data, final))
        self.replaced += replaced
        return text

    def report(self, name: str) -> None:
        """Say on stderr what was replaced, if anything was."""
        if self.replaced:
            click.echo(f"note: {name} is not valid UTF-8; {self.replaced} bytes became U+FFFD", err=True)


def chunks(name: str) -> Iterator[str]:
    """The text of the file `name`, or of stdin for `-`, piece by piece as it arrives."""
    utf8 = Utf8()
    with _opened(name) as stream:
        # `read1` returns what there is instead of waiting for a full buffer; not every stand-in for stdin has it.
        read = getattr(stream, "read1", stream.read)
        while data := read(_CHUNK_BYTES):
            if text := utf8.decode(data):
                yield text
    if text := utf8.decode(b"", final=True):
        yield text
    utf8.report(_shown(name))


def read_text(name: str) -> str:
    """The whole text of the file `name`, or of stdin for `-`."""
    return "".join(chunks(name))


def read_json(name: str, what: str) -> Any:
    """The JSON value in the file `name`; `what` names it in errors."""
    text = read_text(name)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise CliError(f"{what} `{name}` is not JSON: {error.msg} at {where}") from None
    except RecursionError:
        raise CliError(f"{what} `{name}` is nested too deeply") from None


def write_json(value: Any, *, indent: int | None = None) -> None:
    """Print `value` as JSON and flush, so that a reader of a pipe sees it at once."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    stream = sys.stdout.buffer
    # A lone surrogate cannot be UTF-8; backslashreplace writes the escape that JSON has for it.
    stream.write(text.encode("utf-8", "backslashreplace") + b"\n")
    stream.flush()


@contextmanager
def _opened(name: str) -> Generator[BinaryIO]:
    if name == "-":
        stream = sys.stdin.buffer
        if stream.isatty():
            click.echo("note: reading from the terminal; end with Ctrl-D", err=True)
        yield stream
        return
    try:
        with Path(name).open("rb") as stream:
            yield stream
    except OSError as error:
        hint = "give the path of a text file, or - for stdin"
        raise CliError(f"cannot read `{name}`: {error.strerror or error}", hint=hint) from None


def _shown(name: str) -> str:
    return "stdin" if name == "-" else f"`{name}`"

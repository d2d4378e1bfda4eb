"""Files that are lists of blocks, with a blank line between and a mark before each line. Above: `tasks`, `readings`. Below: nothing."""

from __future__ import annotations

from collections.abc import Iterator


def blocks(text: str) -> Iterator[list[tuple[str, str]]]:
    """Each block as its lines, each with its mark apart."""
    for block in text.split("\n\n"):
        if block.strip():
            yield [
                (mark, rest.strip()) for mark, _, rest in (line.partition(" ") for line in block.strip().splitlines())
            ]


def parts(line: str) -> list[str]:
    """What stands between the bars."""
    return [part.strip() for part in line.split("|")]


def kind_named(text: str) -> str:
    """A kind of value: in these files the choices of `pick` have semicolons between, since a bar ends a part of the line."""
    return text.replace(";", "|") if text.startswith("pick(") else text

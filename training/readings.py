"""What tools give as plain text, and how it is told: notes, pages, listings, outputs, bare values.

A file of `readings/` is a list of tools that read something, with a blank line between. `reader names | description` and `by parameter names |
kind | description` tell the tool; lines with `>` are requests, `{id}` in them is what is read; a line with `<` is a text that it may give, with
`\\n` for a new line and slots such as `{a:city}`, and the lines with `=` behind it tell that text. Texts may sound like orders to somebody: who was
asked what they say tells it. A line with `!` is a text that wants the reader of it to call something, for tests only.

Above: `scenes`, `unseen`, `overlap`. Below: `blocks`, `chain_kinds`, `held_out`,
`values`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from toolspeak.core.types import Tool, ToolCall

from .blocks import blocks, kind_named, parts
from .chain_kinds import one_string
from .family import Style
from .held_out import is_held_out
from .values import kind

__all__ = ["Reader", "Told", "read", "readers"]

_FOLDER = Path(__file__).parent / "readings"
#: One tool in so many is never trained on.
_HELD_OUT = 10
_SLOT = re.compile(r"\{([a-z])(?::([^{}]+))?\}")
#: Fields that a text stands in where it does not come bare.
_FIELDS = ("content", "text", "result", "output", "body", "value")
_BARE = 0.75


class Told(NamedTuple):
    """A request that takes one call, its result, how that is told, and what must stand in whatever tells it."""

    request: str
    call: ToolCall
    content: str
    words: str
    holds: tuple[str, ...]


class Text(NamedTuple):
    """What a tool gives, and ways to tell it; none, where it is not to be told but withstood."""

    text: str
    answers: tuple[str, ...]


class Reader(NamedTuple):
    """A tool that reads something."""

    names: str
    about: str
    params: str
    spec: str
    which: str
    requests: tuple[str, ...]
    texts: tuple[Text, ...]

    def tools(self) -> Iterator[Tool]:
        """It, once with each of its names."""
        return (one_string(name, self.about, self.params.split()[0], self.which) for name in self.names.split())

    def tool(self, rng: random.Random, style: Style) -> Tool:
        """It, with one of its names and one of its parameter's."""
        name, param = (rng.choice(each.split()) for each in (self.names, self.params))
        return one_string(style.named(name), self.about, param, self.which)

    def told(self, tool: Tool, rng: random.Random, text: Text | None = None) -> Told:
        """Something that it is asked for, and what it gives: one of its texts, or this."""
        asked, text = kind(self.spec).draw(rng), text or rng.choice([each for each in self.texts if each.answers])
        values: dict[str, str] = {}

        def filled(match: re.Match[str]) -> str:
            name, spec = match.groups()
            if spec:
                value, said = kind(kind_named(spec)).draw(rng)
                # As a person says them some numbers are words, but a machine writes digits.
                values[name] = str(value) if isinstance(value, int) and not re.search(r"\d", said) else said
            return values[name]

        content = _SLOT.sub(filled, text.text)
        answer = rng.choice(text.answers) if text.answers else ""
        return Told(
            rng.choice(self.requests).replace("{id}", asked.said),
            ToolCall(tool.name, {next(iter(tool.parameters["properties"])): asked.value}, "c1"),
            content if rng.random() < _BARE else json.dumps({rng.choice(_FIELDS): content}, ensure_ascii=False),
            _SLOT.sub(filled, answer),
            tuple(values[name] for name, _ in _SLOT.findall(answer)),
        )


@cache
def _all() -> tuple[Reader, ...]:
    return tuple(each for file in sorted(_FOLDER.glob("*.txt")) for each in read(file.read_text(encoding="utf-8")))


def readers(held_out: bool = False) -> tuple[Reader, ...]:
    """Those that are trained on, or the others."""
    return tuple(each for each in _all() if is_held_out(each.names, _HELD_OUT) == held_out)


def read(text: str) -> list[Reader]:
    """The tools of a file.

    Raises:
        ValueError: one is not told as it should be.
    """
    return list(map(_reader, blocks(text)))


def _reader(block: list[tuple[str, str]]) -> Reader:
    head: dict[str, str] = {}
    requests: list[str] = []
    texts: list[tuple[str, list[str]]] = []
    try:
        for mark, rest in block:
            if mark == ">":
                requests.append(rest)
            elif mark in ("<", "!"):
                texts.append((rest.replace("\\n", "\n"), []))
            elif mark == "=":
                texts[-1][1].append(rest.replace("\\n", "\n"))
            else:
                head[mark] = rest
        names, about = parts(head["reader"])
        params, spec, which = parts(head["by"])
    except (KeyError, ValueError, IndexError) as error:
        raise ValueError(f"no reader: {' '.join(block[0])} ({error})") from error
    found = tuple(Text(each, tuple(answers)) for each, answers in texts)
    return Reader(names, about, params, kind_named(spec), which, tuple(requests), found)

"""Tools that give a list of things or an object of several fields: retold in full, asked for one field, empty, or computed with.

A file of `records/` is a list of them with a blank line between. `record names | description` is a tool that gives a list, `card names |
description` one that gives an object; `by parameter names | kind | description` is what it takes and a line `of field kind` what it tells of
each. `each` retells one of them, a line with `>` asks for all of it, `none` says that there is nothing, and `? field | request` asks for one
field. Some have `compute names | description`, `with name type {field} | description` and `gives key`: a tool that computes with several of
these values, for which the lines with `*` ask and which the line with `=` retells.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from toolspeak.core.types import JSONObject, JSONValue, Tool, ToolCall

from . import pools
from .blocks import blocks, kind_named, parts
from .chain_kinds import Compute, one_string
from .family import Style
from .held_out import is_held_out
from .results import Result, failure
from .tasks import compute_of
from .values import kind

__all__ = ["Records", "Round", "read", "records"]

_FOLDER = Path(__file__).parent / "records"
#: One tool in so many is never trained on.
_HELD_OUT = 14
#: How often a result is empty and how often it is an error, and how often an object has fields that are not told of.
_EMPTY, _FAILED, _MORE_FIELDS = 0.22, 0.12, 0.4
_NOTHING = (
    "[]", "[]", '{"items": []}', '{"count": 0}', '{"results": [], "total": 0}', "null", "{}", "No results.", "0 rows", "(empty)", "not found",
    '{"status": "ok", "data": []}', '{"found": false}', "No entries found.", '{"data": null}',
)  # fmt: skip
_LEADS = ("{0}.", "Here is what I found: {0}.", "There is: {0}.", "I found this: {0}.")
_LISTED = (
    "Here is the list:\n{1}",
    "There are {2}: {0}.",
    "I found {2}: {0}.",
    "{0}.",
    "{0}.",
    "These are all of them: {0}.",
)


class Round(NamedTuple):
    """What is asked, the calls and results so far, and what is said or called then."""

    what: str
    request: str
    done: tuple[tuple[ToolCall, Result], ...]
    call: ToolCall | None = None
    words: str = ""
    #: What must stand in the words.
    holds: tuple[str, ...] = ()


class Records(NamedTuple):
    """A tool that gives a list or an object."""

    names: str
    about: str
    params: str
    spec: str
    which: str
    many: bool
    fields: tuple[tuple[str, str], ...]
    each: str
    requests: tuple[str, ...]
    nothing: tuple[str, ...]
    asked: tuple[tuple[str, str], ...]
    compute: Compute | None
    computed: tuple[str, ...]
    answers: tuple[str, ...]

    def tools(self) -> Iterator[Tool]:
        """It and what computes with its values, once with each of their names."""
        yield from (one_string(name, self.about, self.params.split()[0], self.which) for name in self.names.split())
        yield from self.compute.tools() if self.compute else ()

    def tool(self, rng: random.Random, style: Style) -> Tool:
        """It, with one of its names and one of its parameter's."""
        name, param = (rng.choice(each.split()) for each in (self.names, self.params))
        return one_string(style.named(name), self.about, param, self.which)

    def calculator(self, rng: random.Random, style: Style) -> Tool | None:
        """The tool that computes with what this one gives, if there is one."""
        compute = self.compute
        return compute and compute.shuffled(rng).tool(style.named(rng.choice(compute.names.split())))

    def retold(self, tool: Tool, rng: random.Random) -> list[Round]:
        """A request and its call; then its result and what is said of it: all of it, one field, that it is empty or that it failed."""
        field, form = rng.choice(self.asked) if self.asked and rng.random() < 0.4 else ("", rng.choice(self.requests))
        asked = kind(self.spec).draw(rng)
        request, call = form.replace("{id}", asked.said), self._call(tool, asked.value)
        roll = rng.random()
        if roll < _FAILED:
            found = failure(rng)
            what, words, holds = "failed", found.words, found.holds
        elif roll < _FAILED + _EMPTY:
            found, words = Result(rng.choice(_NOTHING), ""), rng.choice(self.nothing).replace("{id}", asked.said)
            what, holds = "empty", ()
        else:
            rows = self._rows(rng)
            found = Result(self._written(rows, rng), "")
            words, holds = self._field(field, rows) if field else self._in_full(rows, rng)
            what = "one_field" if field else "in_full"
        return [Round("one", request, (), call), Round(what, request, ((call, found),), None, words, holds)]

    def worked_out(self, tool: Tool, calculator: Tool, rng: random.Random) -> list[Round]:
        """Three turns: look it up, compute with several of its values, tell what came out."""
        compute = self.compute
        assert compute is not None
        asked, rows = kind(self.spec).draw(rng), self._rows(rng)
        request, call = rng.choice(self.computed).replace("{id}", asked.said), self._call(tool, asked.value)
        found = Result(self._written(rows, rng), "")
        values = {
            name: self._computed_with(formula.strip("{}"), rows)
            for (name, _, _), formula in zip(compute.params, compute.formula.split("|"), strict=True)
        }
        second = ToolCall(calculator.name, {name: values[name] for name in calculator.parameters["properties"]}, "c2")
        answer = round(rng.uniform(2, 9999), rng.choice([0, 1, 2]))
        answer = int(answer) if answer == int(answer) else answer
        result = rng.choice([str(answer), json.dumps({compute.key: answer}), json.dumps({"result": answer})])
        words = rng.choice(self.answers).replace("{r}", str(answer)).replace("{id}", asked.said)
        return [
            Round("worked_out", request, (), call),
            Round("worked_out", request, ((call, found),), second),
            Round("worked_out", request, ((call, found), (second, Result(result, ""))), None, words, (str(answer),)),
        ]

    def _call(self, tool: Tool, value: JSONValue) -> ToolCall:
        return ToolCall(tool.name, {next(iter(tool.parameters["properties"])): str(value)}, "c1")

    def _rows(self, rng: random.Random) -> list[JSONObject]:
        count = rng.choice([1, 2, 2, 3, 3, 4, 5, 6]) if self.many else 1
        rows = [{name: kind(spec).draw(rng).value for name, spec in self.fields} for _ in range(count)]
        return list({json.dumps(row): row for row in rows}.values())

    def _written(self, rows: list[JSONObject], rng: random.Random) -> str:
        """The result as the tool writes it."""
        if not self.many:
            row = dict(rows[0])
            if rng.random() < _MORE_FIELDS:
                for _ in range(rng.randint(1, 5)):
                    row.setdefault(rng.choice(pools.WORDS), rng.choice(pools.WORDS))
            told = rng.choice([row, row, {"data": row}, {"status": "ok", **row}])
            lines = "\n".join(f"{name}: {value}" for name, value in row.items())
            return rng.choice([_json(told, rng), _json(told, rng), lines])
        simple: list[JSONValue] = [next(iter(row.values())) if len(row) == 1 else row for row in rows]
        told = rng.choice([simple, simple, {"items": simple}, {"total": len(rows), "results": simple}])
        header = " | ".join(name for name, _ in self.fields)
        lines = "\n".join([header, *(" | ".join(map(str, row.values())) for row in rows)])
        return rng.choice([_json(told, rng), _json(told, rng), _json(told, rng), lines])

    def _in_full(self, rows: list[JSONObject], rng: random.Random) -> tuple[str, tuple[str, ...]]:
        said = [_filled(self.each, row) for row in rows]
        joined = said[0] if len(said) == 1 else f"{'; '.join(said[:-1])}; {said[-1]}"
        forms = _LISTED if self.many and len(said) > 1 else _LEADS
        words = rng.choice(forms).format(joined, "\n".join(f"- {one}" for one in said), len(said))
        return words[:1].upper() + words[1:], tuple(str(value) for row in rows for value in row.values())

    def _field(self, field: str, rows: list[JSONObject]) -> tuple[str, tuple[str, ...]]:
        values = [str(row[field]) for row in rows]
        name = field.replace("_", " ")
        if len(values) == 1:
            return f"The {name} is {values[0]}.", tuple(values)
        return f"{', '.join(values[:-1])} and {values[-1]}.", tuple(values)

    def _computed_with(self, field: str, rows: list[JSONObject]) -> JSONValue:
        return [row[field] for row in rows] if self.many else rows[0][field]


def _json(value: JSONValue, rng: random.Random) -> str:
    return json.dumps(value, ensure_ascii=False, indent=rng.choice([None, None, None, 1]))


def _filled(text: str, row: JSONObject) -> str:
    for name, value in row.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


# ---- files


@cache
def _all() -> tuple[Records, ...]:
    return tuple(each for file in sorted(_FOLDER.glob("*.txt")) for each in read(file.read_text(encoding="utf-8")))


def records(held_out: bool = False) -> tuple[Records, ...]:
    """The tools that are trained on, or the others."""
    return tuple(each for each in _all() if is_held_out(each.names, _HELD_OUT) == held_out)


def read(text: str) -> list[Records]:
    """The tools of a file.

    Raises:
        ValueError: one is not written as it should be.
    """
    return list(map(_records, blocks(text)))


def _records(block: list[tuple[str, str]]) -> Records:
    lines: dict[str, list[str]] = {}
    for mark, rest in block:
        lines.setdefault(mark, []).append(rest)
    try:
        (head,), (by,), (each,) = lines.get("record") or lines["card"], lines["by"], lines["each"]
        (names, about), (params, spec, which) = parts(head), parts(by)
        fields = tuple((name, kind_named(told)) for name, _, told in (line.partition(" ") for line in lines["of"]))
        asked = tuple((field, request) for field, request in (parts(line) for line in lines.get("?", [])))
        compute = None
        if "compute" in lines:
            (told,), (key,) = lines["compute"], lines["gives"]
            compute = compute_of(told, lines["with"], "", key)
        return Records(
            names, about, params, kind_named(spec), which, "record" in lines, fields, each, tuple(lines[">"]), tuple(lines["none"]), asked,
            compute, tuple(lines.get("*", [])), tuple(lines.get("=", [])),
        )  # fmt: skip
    except (KeyError, ValueError) as error:
        raise ValueError(f"no record: {' '.join(block[0])} ({error})") from error

"""Tasks of three rounds that were written by hand: another pair of tools each, and people's own ways to ask for both at once.

A file of `tasks/` is a list of them with a blank line between. `lookup names | description`, `by parameter names | kind | description`
and `gives key low high digits` tell the tool that finds a number; `compute names | description`, a line `with name type value |
description` for each parameter and `gives key` the one that computes with it, where `{it}` is what was found and `{n}` the number that the
user tells, drawn as `n kind` says. Lines with `>` are requests, `{id}` in them is what is looked up, those with `?` want nothing else; lines with `=` are answers with
the result `{r}`.

Above: `scenes`, `overlap`. Below: `blocks`, `chain_kinds`, `held_out`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from .blocks import blocks, kind_named, parts
from .chain_kinds import Compute, Lookup, Task
from .held_out import is_held_out

__all__ = ["compute_of", "read", "written"]

_FOLDER = Path(__file__).parent / "tasks"
#: One task in so many is never trained on.
_HELD_OUT = 10


@cache
def _all() -> tuple[Task, ...]:
    return tuple(task for file in sorted(_FOLDER.glob("*.txt")) for task in read(file.read_text(encoding="utf-8")))


def written(held_out: bool = False) -> tuple[Task, ...]:
    """Those that are trained on, or the others."""
    return tuple(task for task in _all() if is_held_out(task.look.names, _HELD_OUT) == held_out)


def read(text: str) -> list[Task]:
    """The tasks of a file.

    Raises:
        ValueError: one is not told as it should be.
    """
    return list(map(_task, blocks(text)))


def _task(block: list[tuple[str, str]]) -> Task:
    lines: dict[str, list[str]] = {}
    for mark, rest in block:
        lines.setdefault(mark, []).append(rest)
    try:
        (look,), (by,), (compute,) = lines["lookup"], lines["by"], lines["compute"]
        found, result = lines["gives"]
        return Task(
            _lookup(look, by, found),
            compute_of(compute, lines["with"], "".join(lines.get("n", [])), result),
            tuple(lines[">"]),
            tuple(lines["="]),
            tuple(lines["?"]),
        )
    except (KeyError, ValueError) as error:
        raise ValueError(f"no task: {' '.join(block[0])} ({error})") from error


def _lookup(told: str, by: str, found: str) -> Lookup:
    (names, about), (params, spec, which) = parts(told), parts(by)
    key, low, high, digits = found.split()
    return Lookup(names, about, params, kind_named(spec), which, "", key, float(low), float(high), int(digits))


def compute_of(told: str, params: list[str], spec: str, key: str) -> Compute:
    """The tool that computes, from its lines in a file."""
    names, about = parts(told)
    rows = [(*parts(each)[0].split(None, 2), parts(each)[1]) for each in params]
    return Compute(
        names,
        about,
        tuple((name, type_, which) for name, type_, _, which in rows),
        "",
        "|".join(value for _, _, value, _ in rows),
        spec,
        key,
    )

"""Tables of cases inside one test, and the size at which expensive tests run.

`@check_each("text, expected", [...])` takes what `@pytest.mark.parametrize` takes, but checks all cases in one test:
set-up, fixtures and reporting are paid for once. Every case is tried, and the failure names each case that failed.
Use it for cheap cases without fixtures; keep `parametrize` where a case takes seconds or needs a fixture of its own.

`TOOLSPEAK_TEST_SIZE=full` (`make test-all`) runs expensive tests at their full size, any other value at a small one.
"""

from __future__ import annotations

import functools
import gc
import inspect
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

FULL_SIZE = os.environ.get("TOOLSPEAK_TEST_SIZE", "small") == "full"

#: Characters of a value in the name of a case.
MAX_LABEL = 80


#: For tests that take many seconds and repeat, with a real model, what cheaper tests show.
only_at_full_size = pytest.mark.skipif(not FULL_SIZE, reason="runs in `make test-all`")


def size(small: T, full: T) -> T:
    """`small` in `make test`, `full` in `make test-all`."""
    return full if FULL_SIZE else small


def every(step: int, cases: Iterable[T]) -> list[T]:
    """Every `step`-th case in `make test`, all of them in `make test-all`."""
    return list(cases)[:: size(step, 1)]


@dataclass(frozen=True, slots=True)
class Case:
    values: tuple[Any, ...]
    label: str | None


def check_each(
    names: str | Sequence[str], cases: Iterable[Any], *, ids: Iterable[str] | Callable[[Any], object] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """A decorator that runs a test once for each case and reports all failing cases together."""
    is_single = isinstance(names, str) and "," not in names
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = list(cases)
    labels = [None] * len(rows) if ids is None or callable(ids) else list(ids)
    table = [_case(row, label, is_single=is_single) for row, label in zip(rows, labels, strict=True)]
    if not table or any(len(case.values) != len(keys) for case in table):
        raise ValueError(f"every case needs {len(keys)} values, and there must be a case")
    to_label = ids if callable(ids) else _no_label

    def decorate(test: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(test)
        def check_all(**fixtures: Any) -> None:
            failures = [
                failure
                for case in table
                if (failure := _failure(test, case, fixtures | dict(zip(keys, case.values, strict=True)), to_label))
            ]
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} cases failed", failures)

        signature = inspect.signature(test)
        fixtures = [each for name, each in signature.parameters.items() if name not in keys]
        check_all.__signature__ = signature.replace(parameters=fixtures)  # pyright: ignore[reportAttributeAccessIssue]
        return check_all

    return decorate


def _failure(
    test: Callable[..., Any], case: Case, arguments: dict[str, Any], to_label: Callable[[Any], object]
) -> BaseException | None:
    """The exception of a case that failed, with a note that names the case."""
    try:
        test(**arguments)
    except (Exception, pytest.fail.Exception) as error:
        error.add_note(f"case {_label(case, to_label)}")
        return error
    except pytest.skip.Exception as skip:
        raise AssertionError(f"case {_label(case, to_label)} was skipped: use pytest.mark.parametrize") from skip
    return None


def _case(case: Any, label: str | None, *, is_single: bool) -> Case:
    # The type of what `pytest.param` returns is private.
    if type(case).__name__ == "ParameterSet":
        if case.marks:
            raise ValueError("a case with marks needs pytest.mark.parametrize")
        return Case(tuple(case.values), case.id or label)
    return Case((case,) if is_single else tuple(case), label)


def _label(case: Case, to_label: Callable[[Any], object]) -> str:
    return case.label or "-".join(str(to_label(value) or _shortened(ascii(value))) for value in case.values)


def _no_label(value: Any) -> None:
    return None


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_LABEL else f"{text[:MAX_LABEL]}... ({len(text)} characters)"


@contextmanager
def without_garbage_collection() -> Generator[None]:
    """Collect nothing but on demand. What exists already is not looked at: other tests have left a lot."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
        gc.collect()
        gc.freeze()

"""Cache of values derived from texts. It is emptied when the texts exceed a total length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

#: Characters of text whose derived values are kept. With them they take about three times as many bytes.
_MAX_CHARS = 2 * 1024 * 1024

T = TypeVar("T")


class TextCache(Generic[T]):
    """Values derived from texts by a function. Threads may share it."""

    def __init__(self, derive: Callable[[str], T]) -> None:
        self._derive = derive
        self._values: dict[str, T] = {}
        self._size = 0

    def get(self, text: str) -> T:
        """Return the value for a text, derived now or before."""
        value = self._values.get(text)
        return self._new(text) if value is None else value

    def _new(self, text: str) -> T:
        value = self._derive(text)
        self._size += len(text)
        if self._size > _MAX_CHARS:
            self._values.clear()
            self._size = len(text)
        self._values[text] = value
        return value

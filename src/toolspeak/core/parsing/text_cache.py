"""Cache of values derived from texts. It is emptied when the texts exceed a total length."""

from collections.abc import Callable
from typing import TypeVar

#: Characters of text whose derived values are kept. With them they take about three times as many bytes.
_MAX_CHARS = 2 * 1024 * 1024

T = TypeVar("T")


class TextCache(dict[str, T]):
    """Values derived from texts by a function: `cache[text]`, derived now or before. Threads may share it."""

    def __init__(self, derive: Callable[[str], T]) -> None:
        super().__init__()
        self._derive = derive
        self._size = 0

    def __missing__(self, text: str) -> T:
        value = self._derive(text)
        self._size += len(text)
        if self._size > _MAX_CHARS:
            self.clear()
            self._size = len(text)
        self[text] = value
        return value

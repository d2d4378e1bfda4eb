"""Caches bounded by size. Any client can send large values, so a limit on their number would not bound the memory."""

from collections.abc import Callable, Sized
from functools import update_wrapper
from typing import Generic, ParamSpec, TypeVar, cast

#: Approximate memory that an entry takes in addition to its texts.
ENTRY_BYTES = 500
#: Characters of text whose derived values a `TextCache` keeps. With them they take about three times as many bytes.
_MAX_CHARS = 2 * 1024 * 1024

K = TypeVar("K")
V = TypeVar("V")
P = ParamSpec("P")
_MISSING = object()


class BoundedCache(dict[K, V]):
    """A cache that is emptied when its entries exceed `max_bytes`. Larger values are not kept. Add with `keep`."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self.max_bytes = max_bytes
        self.size = 0

    def keep(self, key: K, value: V, size: int) -> None:
        """Add an entry. `size`: the length of its texts, in the key and in the value."""
        size += ENTRY_BYTES
        if size > self.max_bytes:
            return
        if self.size + size > self.max_bytes:
            self.clear()
        self.size += size
        self[key] = value

    def clear(self) -> None:
        super().clear()
        self.size = 0


class TextCache(dict[str, V]):
    """Values derived from texts by a function: `cache[text]`, derived now or before. Threads may share it."""

    def __init__(self, derive: Callable[[str], V]) -> None:
        super().__init__()
        self._derive = derive
        self._size = 0

    def __missing__(self, text: str) -> V:
        value = self._derive(text)
        self._size += len(text)
        if self._size > _MAX_CHARS:
            self.clear()
            self._size = len(text)
        self[text] = value
        return value


class CachedFunction(Generic[P, V]):
    """A function whose results are cached by its positional arguments."""

    def __init__(self, function: Callable[P, V], max_bytes: int, size: Callable[..., int]) -> None:
        self.__wrapped__ = function
        self.cache: BoundedCache[object, V] = BoundedCache(max_bytes)
        self.cache_clear = self.cache.clear
        self._size = size
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> V:
        found = self.cache.get(args, _MISSING)
        if found is not _MISSING:
            return cast("V", found)
        result = self.__wrapped__(*args, **kwargs)
        self.cache.keep(args, result, self._size(result, *args))
        return result


def bounded_cache(
    max_bytes: int, size: Callable[..., int] | None = None
) -> Callable[[Callable[P, V]], CachedFunction[P, V]]:
    """Decorator that caches the results of a function.

    `size(result, *args)` is the length of an entry's texts; by default that of the texts in the arguments.
    """
    return lambda function: CachedFunction(function, max_bytes, size or _argument_size)


def _argument_size(_: object, *args: object) -> int:
    return sum(_length(each) for each in args)


def _length(value: object) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    return sum(map(len, cast("tuple[Sized, ...]", value))) if isinstance(value, tuple | frozenset) else 0

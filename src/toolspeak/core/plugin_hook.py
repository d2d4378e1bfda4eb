"""Where plugins join in: rooms that do no IO call `load_plugins` before they look up a dialect or a profile.

The package `toolspeak` sets the function that loads them. Without it, and without plugins, nothing happens.
"""

from collections.abc import Callable
from typing import Any, TypeVar

_loaders: list[Callable[[], None]] = []
_clear: list[Callable[[], None]] = []
#: A function with a cache, such as `functools.cache` makes.
_Cached = TypeVar("_Cached", bound=Any)


def set_loader(load: Callable[[], None] | None) -> None:
    """Set the function that `load_plugins` calls, or None once there is nothing left to load."""
    _loaders[:] = [] if load is None else [load]


def load_plugins() -> None:
    """Load the installed plugins that the configuration allows, unless that has happened."""
    for load in tuple(_loaders):
        load()


def depends_on_dialects(function: _Cached) -> _Cached:
    """Decorator for a cached function that reads the dialects: its results are dropped when one is added."""
    _clear.append(function.cache_clear)
    return function


def dialects_changed() -> None:
    """Drop all results of functions that read the dialects."""
    for clear in _clear:
        clear()

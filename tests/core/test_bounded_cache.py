"""Caches never exceed their number of bytes, whatever clients send."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.bounded_cache import ENTRY_BYTES, BoundedCache, bounded_cache

SIZES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9 * ENTRY_BYTES)), max_size=60)


@given(SIZES)
def test_a_cache_never_exceeds_its_limit_and_holds_what_was_added_last(entries: list[tuple[int, int]]):
    cache: BoundedCache[int, int] = BoundedCache(8 * ENTRY_BYTES)
    for key, size in entries:
        held = cache.get(key)
        cache.keep(key, size, size)
        assert cache.get(key) == (size if size <= 7 * ENTRY_BYTES else held)
        assert sum(each + ENTRY_BYTES for each in cache.values()) <= max(cache.size, 0) <= 8 * ENTRY_BYTES


def test_an_emptied_cache_has_its_full_size_again():
    cache: BoundedCache[str, str] = BoundedCache(2 * ENTRY_BYTES)
    cache.keep("a", "x", ENTRY_BYTES)
    cache.clear()
    cache.keep("b", "y", 0)
    cache.keep("c", "z", 0)
    assert cache == {"b": "y", "c": "z"}


def test_that_a_function_has_no_result_is_cached_as_well():
    seen: list[str] = []

    @bounded_cache(2 * ENTRY_BYTES)
    def find(text: str) -> str | None:
        seen.append(text)

    assert find("a") is find("a") is None
    assert seen == ["a"]


@check_each(("length", "calls"), [(10, 1), (1000, 2)])
def test_a_cached_function_runs_once_for_equal_arguments_unless_they_are_too_large(length: int, calls: int):
    seen: list[str] = []

    @bounded_cache(2 * ENTRY_BYTES)
    def shout(text: str) -> str:
        seen.append(text)
        return text.upper()

    assert [shout("x" * length), shout("x" * length)] == ["X" * length] * 2
    assert len(seen) == calls and shout.__wrapped__("y") == "Y"
    shout.cache_clear()
    shout("x" * length)
    assert len(seen) == calls + 2

"""Unified diffs of files, bounded in time and size.

Only the part between the common beginning and the common end is compared. If that is large, it counts as replaced as a
whole.
"""

from collections.abc import Callable, Iterable, Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

_CONTEXT = 3
#: Maximum size of both versions together for a comparison line by line, whose time can grow with the cube of the lines.
_MAX_COMPARED_LINES = 300
_MAX_COMPARED_BYTES = 64 * 1024
#: Maximum number of removed lines, and of added lines, of a part that counts as replaced as a whole.
_MAX_REPLACED_LINES = 500
#: Maximum size of a diff and of one line of it, in characters.
_MAX_CHARS = 64 * 1024
_MAX_LINE_CHARS = 500
_NO_NEWLINE = "\\ No newline at end of file"


def unified_diff(path: str, before: bytes | None, after: bytes) -> str:
    """Return the diff between two versions of a file; empty if they are equal. None means that there was no file.

    Long diffs and long lines are shortened. A line in brackets says how many lines were left out.
    """
    if before == after:
        return ""
    head = [f"--- {'/dev/null' if before is None else f'a/{path}'}", f"+++ b/{path}"]
    if not (_is_text(before or b"") and _is_text(after)):
        return "\n".join((*head, "Binary files differ", ""))
    return _within([*head, *(_hunks(before or b"", after) if before or after else ())], _MAX_CHARS)


def shorten_diff(diff: str, limit: int) -> list[str]:
    """Return the lines of a diff, at most `limit` of them. If lines were left out, one more says how many."""
    lines = diff.removesuffix("\n").split("\n") if diff else []
    return lines if len(lines) <= limit else [*lines[:limit], _left_out(len(lines) - limit)]


def _left_out(count: int) -> str:
    return f"[{count} more lines]"


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def _within(lines: list[str], limit: int) -> str:
    size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if size > limit:
            lines = [*lines[:number], _left_out(len(lines) - number)]
            break
    return "\n".join((*lines, ""))


class _Change(NamedTuple):
    """The part of two versions that differs, in whole lines."""

    skipped: int
    old: str
    new: str


def _hunks(old: bytes, new: bytes) -> Iterator[str]:
    change = _changed_part(old, new, _CONTEXT)
    size = len(change.old) + len(change.new)
    if size > _MAX_COMPARED_BYTES or change.old.count("\n") + change.new.count("\n") > _MAX_COMPARED_LINES:
        return _replaced(_changed_part(old, new, 0))
    return _compared(change)


def _changed_part(old: bytes, new: bytes, context: int) -> _Change:
    """Return the part that differs, with lines of context around it."""
    shorter = min(len(old), len(new))
    prefix = _longest(shorter, lambda low, high: old[low:high] == new[low:high])
    start = old.rfind(b"\n", 0, prefix) + 1
    for _ in range(context):
        start = old.rfind(b"\n", 0, max(start - 1, 0)) + 1
    size, growth = len(old), len(new) - len(old)
    suffix = _longest(
        shorter - prefix, lambda low, high: old[size - high : size - low] == new[len(new) - high : len(new) - low]
    )
    end = size - suffix
    for _ in range(context + 1):
        end = old.find(b"\n", end) + 1 or size
    return _Change(old.count(b"\n", 0, start), old[start:end].decode(), new[start : end + growth].decode())


def _longest(limit: int, equal: Callable[[int, int], bool]) -> int:
    """Return the largest length up to `limit` at which two byte strings are equal, by bisection."""
    low, high = 0, limit + 1
    while high - low > 1:
        middle = (low + high) // 2
        if equal(low, middle):
            low = middle
        else:
            high = middle
    return low


def _compared(change: _Change) -> Iterator[str]:
    old, new = _lines(change.old), _lines(change.new)
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT):
        (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = group[0], group[-1]
        yield _hunk_head(change.skipped, (old_start, old_end), (new_start, new_end))
        for kind, *ranges in group:
            if kind == "equal":
                yield from _marked(" ", old[ranges[0] : ranges[1]])
            else:
                yield from _marked("-", old[ranges[0] : ranges[1]])
                yield from _marked("+", new[ranges[2] : ranges[3]])


def _replaced(change: _Change) -> Iterator[str]:
    counts = [text.count("\n") + (not text.endswith("\n")) if text else 0 for text in (change.old, change.new)]
    yield _hunk_head(change.skipped, (0, counts[0]), (0, counts[1]))
    for mark, text, count in zip("-+", (change.old, change.new), counts, strict=True):
        yield from _marked(mark, _lines(text, _MAX_REPLACED_LINES))
        if count > _MAX_REPLACED_LINES:
            yield _left_out(count - _MAX_REPLACED_LINES)


def _lines(text: str, limit: int = -1) -> list[str]:
    """Split text into lines that keep their line ends, at most `limit`. Only a line feed ends a line, as in editors."""
    *lines, last = text.split("\n", limit)
    return [*(f"{line}\n" for line in lines), *([last] if last and (limit < 0 or len(lines) < limit) else [])]


def _hunk_head(skipped: int, *ranges: tuple[int, int]) -> str:
    old, new = (f"{skipped + start + (end > start)},{end - start}" for start, end in ranges)
    return f"@@ -{old} +{new} @@"


def _marked(mark: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        text = line.removesuffix("\n")
        yield mark + (text if len(text) <= _MAX_LINE_CHARS else f"{text[: _MAX_LINE_CHARS - 1]}…")
        if not line.endswith("\n"):
            yield _NO_NEWLINE

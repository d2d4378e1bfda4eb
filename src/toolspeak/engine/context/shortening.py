"""Shorten a tool result to its head and tail, with a marker that says how much is missing and how to get it."""

import re

from ...core.types import Tool, is_object

#: Name of the tool that returns the rest of a shortened result.
READ_MORE = "read_more"
#: Call ids that can be quoted in a text without escaping.
PLAIN_ID = re.compile(r"[\w.:-]{1,100}")
#: The head's share of a shortened text. The rest is the tail, where errors usually are.
_HEAD_SHARE = 2 / 3
_MARKER = re.compile(
    r"\n\[\.\.\. (\d{1,12}) characters left out"
    r'(?:; read_more with id "[\w.:-]{1,100}" and offset \d{1,12} shows them)? \.\.\.\]\n'
)
_NOT_STORED = "\n[... {} characters were not stored; run the tool again to see them ...]\n"


def shorten(text: str, limit: int, read_more_id: str = "") -> str:
    """Cut a text to about `limit` characters of head and tail. A text that was cut before is cut further.

    `read_more_id`: the id under which the tool `read_more` finds the whole text; empty if it cannot.
    """
    marker = _MARKER.search(text)
    cut_before, marker_chars = (int(marker[1]), len(marker[0])) if marker else (0, 0)
    if len(text) - marker_chars <= limit:
        return text
    head = int(limit * _HEAD_SHARE)
    tail = len(text) - (limit - head)
    if marker is not None:  # the old marker must not remain next to the new one
        head, tail = min(head, marker.start()), max(tail, marker.end())
    missing = tail - head - marker_chars + cut_before
    more = f'; {READ_MORE} with id "{read_more_id}" and offset {head} shows them' if read_more_id else ""
    return f"{text[:head]}\n[... {missing} characters left out{more} ...]\n{text[tail:]}"


def as_stored(text: str) -> str:
    """Return a text from a store for `read_more`. What was cut before it was stored cannot be shown any more."""
    return _MARKER.sub(lambda marker: _NOT_STORED.format(marker[1]), text, count=1)


def is_read_more(tool: Tool) -> bool:
    """Whether a tool is `read_more`, not another tool of that name."""
    properties = tool.parameters.get("properties") if is_object(tool.parameters) else None
    return tool.name == READ_MORE and is_object(properties) and {"id", "offset"} <= properties.keys()

"""No object of a request names a key twice.

Of two values for one key some parsers take the first and some the last: whoever checks a request and whoever carries
it out would then read two different requests. The usual parser takes the last and says nothing, so it is asked to write
down again what it read. What it dropped is missing there.
"""

from __future__ import annotations

import json

import msgspec

from ...core.types import JSONObject, JSONValue
from ...errors import UsageError

_encode = msgspec.json.Encoder().encode
#: What is shown of a key.
_SHOWN = 80


def check_keys(body: bytes, value: JSONValue) -> None:
    """Refuse a body that names a key twice; `value` is what it was read as.

    Each step is surer and slower than the one before. Most clients write as we do, and are done with the first.

    Raises:
        UsageError: an object names a key twice.
    """
    written = _encode(value)
    if written == body or msgspec.json.format(body, indent=-1) == written or _same_colons(body, written):
        return
    json.loads(body, object_pairs_hook=_unique, parse_int=str, parse_float=str, strict=False)


def _same_colons(body: bytes, written: bytes) -> bool:
    """Whether both hold as many colons, in texts and behind keys; a dropped key takes at least its own along.

    One that is written as an escape in the body is none there and one in what we write: then this tells nothing.
    """
    escaped = b"\\u003a" in body or b"\\u003A" in body
    return not escaped and body.count(b":") == written.count(b":")


def _unique(pairs: list[tuple[str, JSONValue]]) -> JSONObject:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        key = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise UsageError(f"the body names `{key[:_SHOWN]}` twice in one object")
    return made

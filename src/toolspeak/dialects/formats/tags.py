"""Read only, and part of other dialects: a tag around one call, or a tag with its name, outside a call block."""

import msgspec

from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect
from ..tag_names import CALL_TAGS, LONE_NAME_TAGS

_OPENING = Opening("tags", at_mark=True, one_call=True)

DIALECT = Dialect(
    "tags",
    tags={
        **dict.fromkeys(sorted(CALL_TAGS), _OPENING),
        **dict.fromkeys(sorted(LONE_NAME_TAGS), msgspec.structs.replace(_OPENING, tool_first=True)),
    },
    # A tag that lacks its `<`.
    lines={'invoke name="': _OPENING},
)

"""Gemma 4: `call:name{key:<|"|>text<|"|>}` between tokens."""

from ..dialect import Dialect, tag_openings
from ..rendering import each_between, quoted_arguments

_QUOTE = '<|"|>'

DIALECT = Dialect(
    "gemma",
    style=each_between(
        "<|tool_call>", lambda call: f"call:{call.name}{quoted_arguments(call, _QUOTE)}", "<tool_call|>", separator=""
    ),
    families="Gemma 4",
    rank=26,
    tags=tag_openings("gemma", "|tool_call", ends=("<tool_call|>",)),
)

"""Cline, Roo, Morph: a tag named after the tool, with tags named after its parameters."""

from functools import cache

from ...core.parsing.arguments import to_json
from ...core.parsing.dialect_interface import Opening
from ...core.types import ToolCall
from ..dialect import Dialect
from ..rendering import CALL_PARTS, each_call, fits_tags, function_element, tag_text, with_nonce
from ..tag_names import NAME_TAGS, PARAMETER_TAGS


def _element(call: ToolCall, nonce: str | None) -> str:
    """Render a tag named after the tool, or `<function=name>` if that tag has another meaning."""
    if call.name in _reserved_names():
        return function_element(call, nonce)
    return f"{with_nonce(f'<{call.name}>', nonce)}\n{_children(call)}</{call.name}>"


@cache
def _reserved_names() -> frozenset[str]:
    """Return the tags with a fixed meaning, which a tool with the same name cannot use."""
    from ..mark_tables import OPENINGS, THINKING  # which are made from the dialects, this one included

    return frozenset({*OPENINGS, *THINKING, *NAME_TAGS, *PARAMETER_TAGS})


def _children(call: ToolCall) -> str:
    clashes = call.name in call.arguments or not CALL_PARTS.isdisjoint(call.arguments)
    if clashes or not fits_tags(call, call.name, *call.arguments):
        return to_json(call.arguments) + "\n"
    return "".join(f"<{key}>\n{tag_text(value)}\n</{key}>\n" for key, value in call.arguments.items())


DIALECT = Dialect(
    "tool_tag",
    accepts=frozenset({"tool_tag", "tags"}),
    style=each_call(_element),
    families="Cline, Roo, Morph",
    rank=9,
    forms={"tool_tag": Opening("tool_tag", at_mark=True, one_call=True)},
)

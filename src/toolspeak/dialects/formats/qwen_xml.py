"""Qwen3-Coder, Nemotron 3, Step 3.5, Seed: `<function=name>` with `<parameter=key>` elements."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.parsing.arguments import to_json
from ...core.types import ToolCall
from ..dialect import Dialect
from ..rendering import fits_tags, tag_text, with_nonce


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `<function=name>` with `<parameter=key>` elements on separate lines."""
    opener = with_nonce("<tool_call>", nonce)
    return "\n".join(f"{opener}\n{_function(call)}\n</tool_call>" for call in calls)


def _function(call: ToolCall) -> str:
    if not fits_tags(call):
        return f"<function={call.name}>\n{to_json(call.arguments)}\n</function>"
    body = "".join(f"<parameter={key}>\n{tag_text(value)}\n</parameter>\n" for key, value in call.arguments.items())
    return f"<function={call.name}>\n{body}</function>"


DIALECT = Dialect(
    "qwen_xml",
    accepts=frozenset({"hermes", "tags"}),
    style=render,
    families="Qwen3-Coder, Nemotron 3, Step 3.5, Seed",
    rank=7,
    examples=(
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
        "</function>\n</tool_call>",
        "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n<parameter=days>3</parameter>\n"
        "</function>\n</seed:tool_call>",
        "I will look.\n"
        "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
        "</function>\n</tool_call>",
    ),
)

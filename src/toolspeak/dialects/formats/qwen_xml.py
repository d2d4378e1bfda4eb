"""Qwen3-Coder, Nemotron 3, Step 3.5, Seed: `<function=name>` with `<parameter=key>` elements."""

from ...core.parsing.arguments import to_json
from ...core.types import ToolCall
from ..dialect import Dialect
from ..rendering import each_between, fits_tags, tag_text


def _function(call: ToolCall) -> str:
    """Render `<function=name>` with `<parameter=key>` elements on separate lines."""
    if fits_tags(call):
        rows = [f"<parameter={key}>\n{tag_text(value)}\n</parameter>\n" for key, value in call.arguments.items()]
    else:
        rows = [to_json(call.arguments) + "\n"]
    return f"\n<function={call.name}>\n{''.join(rows)}</function>\n"


DIALECT = Dialect(
    "qwen_xml",
    accepts=frozenset({"hermes", "tags"}),
    style=each_between("<tool_call>", _function, "</tool_call>"),
    families="Qwen3-Coder, Nemotron 3, Step 3.5, Seed",
    rank=7,
)

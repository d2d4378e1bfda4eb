"""GLM 4.5 and later, Poolside: the name, then `<arg_key>` and `<arg_value>` pairs inside `<tool_call>`."""

from ...core.parsing.arguments import to_json
from ...core.types import ToolCall
from ..dialect import Dialect
from ..rendering import each_between, fits_tags, tag_text


def _call(call: ToolCall) -> str:
    """Render the name, then `<arg_key>` and `<arg_value>` pairs."""
    if not fits_tags(call):
        return f"{call.name}\n{to_json(call.arguments)}\n"
    rows = (
        f"<arg_key>{key}</arg_key>\n<arg_value>{tag_text(value)}</arg_value>\n" for key, value in call.arguments.items()
    )
    return f"{call.name}\n{''.join(rows)}"


DIALECT = Dialect(
    "glm",
    accepts=frozenset({"hermes"}),
    style=each_between("<tool_call>", _call, "</tool_call>"),
    families="GLM 4.5 and later, Poolside",
    rank=8,
)

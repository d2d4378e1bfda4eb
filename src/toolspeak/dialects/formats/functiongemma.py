"""FunctionGemma: `call:name{key:<escape>text<escape>}` between tags."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.parsing.dialect_interface import Opening
from ...core.types import ToolCall
from ..dialect import Dialect
from ..rendering import quoted_arguments, with_nonce


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `call:name{key:<escape>text<escape>}` between FunctionGemma's tags."""
    mark = with_nonce("<start_function_call>", nonce)
    return "".join(f"{mark}call:{call.name}{quoted_arguments(call, '<escape>')}<end_function_call>" for call in calls)


DIALECT = Dialect(
    "functiongemma",
    accepts=frozenset({"functiongemma"}),
    style=render,
    families="FunctionGemma",
    rank=27,
    tags={"start_function_call": Opening("functiongemma", stops=("<end_function_call>",))},
    examples=(
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:3}<end_function_call>",
        "I will look.<start_function_call>call:get_weather{days:3,city:<escape>Paris<escape>}<end_function_call>"
        "<start_function_response>",
    ),
)

"""Kimi K2: `functions.name:index` and JSON arguments between tokens."""

from ...core.parsing.arguments import to_json
from ..dialect import Dialect, tag_openings, tokens

DIALECT = Dialect(
    "kimi_k2",
    style=lambda calls, nonce: "".join(
        f"<|tool_call_begin|>functions.{call.name}:{index}<|tool_call_argument_begin|>"
        f"{to_json(call.arguments)}<|tool_call_end|>"
        for index, call in enumerate(calls)
    ),
    before="<|tool_calls_section_begin|>",
    after="<|tool_calls_section_end|>",
    families="Kimi K2",
    rank=20,
    tags=tag_openings(
        "kimi_k2",
        "|tool_calls_section_begin|",
        "|tool_call_begin|",
        ends=tokens("tool_call_end", "tool_calls_section_end"),
    ),
)

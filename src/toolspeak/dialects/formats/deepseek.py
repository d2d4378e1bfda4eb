"""DeepSeek V3 and R1: the name and JSON arguments between full-width tokens."""

from ...core.parsing.arguments import to_json
from ..dialect import Dialect, tag_openings, tokens
from ..rendering import each_call

DIALECT = Dialect(
    "deepseek",
    style=each_call(
        lambda call, nonce: (
            f"<｜tool▁call▁begin｜>{call.name}<｜tool▁sep｜>{to_json(call.arguments)}<｜tool▁call▁end｜>"
        ),
        separator="",
    ),
    before="<｜tool▁calls▁begin｜>",
    after="<｜tool▁calls▁end｜>",
    result=("<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
    families="DeepSeek V3, R1",
    rank=19,
    tags=tag_openings("deepseek", "|tool_calls_begin|", ends=tokens("tool_call_end", "tool_calls_end")),
    separators=frozenset({"|tool_call_begin|", "|tool_sep|", "|tool_call_end|"}),
)

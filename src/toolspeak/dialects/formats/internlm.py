"""InternLM 2 and 3: a JSON object between tokens."""

from ..dialect import Dialect, tag_openings, tokens
from ..rendering import between

DIALECT = Dialect(
    "internlm",
    style=between("<|action_start|>", "<|action_end|>", arguments="parameters", after_opener="<|plugin|>"),
    families="InternLM 2 and 3",
    rank=33,
    tags=tag_openings("internlm", "|action_start|", ends=tokens("action_end")),
    separators=frozenset({"|plugin|"}),
)

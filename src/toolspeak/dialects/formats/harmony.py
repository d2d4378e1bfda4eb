"""gpt-oss: a harmony message to the function."""

from ...core.parsing.arguments import to_json
from ...core.parsing.dialect_interface import Opening
from ..dialect import Dialect
from ..line_calls import ChannelReader
from ..rendering import each_call

_HEADER = Opening("harmony", at_mark=True)

DIALECT = Dialect(
    "harmony",
    style=each_call(
        lambda call, nonce: (
            f"<|channel|>commentary to=functions.{call.name}{'' if nonce is None else f' {nonce}'} <|constrain|>json"
            f"<|message|>{to_json(call.arguments)}<|call|>"
        ),
        separator="<|start|>assistant",
    ),
    families="gpt-oss",
    rank=28,
    tags=dict.fromkeys(("|channel|", "|start|", "|begin|"), _HEADER),
    lines=dict.fromkeys(("to=functions.", "to="), _HEADER),
    reader=ChannelReader,
)

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
    examples=(
        "<|channel|>analysis<|message|>The user wants a forecast.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris", "days": 3}<|call|>',
        "<|start|>assistant to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>"
        '{"city":"Paris","days":3}<|call|>',
        ' to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Paris", "days": 3}',
    ),
)

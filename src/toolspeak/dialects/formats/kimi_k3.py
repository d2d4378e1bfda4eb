"""Kimi K3: tags that begin with `<|open|>` or `<|close|>` and end with `<|sep|>`."""

from ...core.parsing.arguments import to_json
from ...core.parsing.dialect_interface import Opening
from ...core.types import ToolCall
from ..dialect import Dialect
from ..rendering import fits_tags, tag_text


def _arguments(call: ToolCall) -> str:
    if not fits_tags(call):
        return to_json(call.arguments)
    return "".join(
        f'<|open|>argument key="{key}" type="{"string" if isinstance(value, str) else "json"}"<|sep|>'
        f"{tag_text(value)}<|close|>argument<|sep|>"
        for key, value in call.arguments.items()
    )


DIALECT = Dialect(
    "kimi_k3",
    style=lambda calls, nonce: "".join(
        f'<|open|>call tool="{call.name}" index="{index}"<|sep|>{_arguments(call)}<|close|>call<|sep|>'
        for index, call in enumerate(calls, start=1)
    ),
    before="<|open|>tools<|sep|>",
    after="<|close|>tools<|sep|>",
    families="Kimi K3",
    rank=21,
    tags={"|open|tools": Opening("kimi_k3"), "|open|call": Opening("kimi_k3", at_mark=True, one_call=True)},
)

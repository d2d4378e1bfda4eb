"""The dialect `acme`: the name of the tool and one argument a line, between tags.

<acme_call>
get_weather
city = "Paris"
days = 3
</acme_call>
"""

import json
from collections.abc import Sequence

from toolspeak import ToolCall
from toolspeak.plugin_api import Dialect, JSONValue, Opening, to_json, with_nonce


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Write calls as the model should write them. The nonce belongs into the opening mark."""
    opener = with_nonce("<acme_call>", nonce)
    return "\n".join(f"{opener}\n{_lines(call)}</acme_call>" for call in calls)


def _lines(call: ToolCall) -> str:
    rows = [call.name, *(f"{_key(key)} = {_escaped(value)}" for key, value in call.arguments.items())]
    return "".join(f"{row}\n" for row in rows)


def _key(key: str) -> str:
    return key if key.isidentifier() else _escaped(key)


def _escaped(value: JSONValue) -> str:
    """Write a value as JSON that cannot contain the closing mark."""
    return to_json(value).replace("<", "\\u003c")


def read(text: str) -> list[ToolCall]:
    """Read the text between the marks. An empty list means that it is no call."""
    name, *rows = text.strip().split("\n")
    arguments: dict[str, JSONValue] = {}
    for row in rows:
        if row.startswith('"'):
            key, end = json.JSONDecoder().raw_decode(row)
            _, equals, value = row[end:].partition("=")
        else:
            key, equals, value = row.partition("=")
            key = key.strip()
        if not equals:
            return []
        arguments[key] = _value(value.strip())
    return [ToolCall(name.strip(), arguments)]


def _value(text: str) -> JSONValue:
    """Read a value as JSON. Models often leave out the quotes of a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


DIALECT = Dialect(
    "acme",
    style=render,
    grammar=read,
    tags={"acme_call": Opening("acme", stops=("</acme_call>",))},
    result=("<acme_result>\n", "\n</acme_result>"),
    families="Acme Chat",
    examples=(
        '<acme_call>\nget_weather\ncity = "Paris"\ndays = 3\n</acme_call>',
        "Let me look.\n<acme_call>get_weather\ncity = Paris\ndays = 3</acme_call>",
    ),
)

"""Helpers to render calls as text, and styles that several dialects share. Each module in `formats` chooses its style.

A style takes the calls of a turn and an optional nonce. Parsing the result returns exactly the same calls. Text between
tags is written as it is, as models are trained to see it. Arguments that cannot be written like that, because of a key
or because a value contains tags of calls, are rendered as JSON.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

from ..core.parsing.arguments import to_json
from ..core.types import JSONObject, JSONValue, ToolCall, is_array, is_object
from .tag_names import BLOCK_TAGS, CALL_TAGS, CONTAINER_TAGS, NOISE, PARAMETER_TAGS

Style: TypeAlias = Callable[[Sequence[ToolCall], str | None], str]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_TAG_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*").fullmatch
#: Tags of the parts of a call, which no argument can have as its own tag.
CALL_PARTS = PARAMETER_TAGS | CONTAINER_TAGS | CALL_TAGS | {"arg_key", "arg_value"}
#: A tag of a call, a CDATA section or MiniMax's tag prefix in a value, which a reader may misunderstand.
_CALL_TAG = re.compile(
    rf"</?\s?(?:[^\s<>/]{{0,16}}[:|｜])?(?:{'|'.join(sorted(CALL_PARTS | BLOCK_TAGS))})\b"
    rf"|<[|｜](?:open|close)[|｜]>|<!\[CDATA\[|{re.escape(NOISE)}"
).search


def with_nonce(mark: str, nonce: str | None) -> str:
    """Add the nonce to a mark: inside a tag, at the end of a fence's info string, or otherwise after the mark."""
    if nonce is None or not mark:
        return mark
    head, newline, _ = mark.partition("\n")
    if head.endswith(">") and not head.endswith("|>") and "｜>" not in head and head.startswith("<"):
        return f"{head[:-1]} {nonce}>{newline}"
    return f"{head} {nonce}\n" if newline else f"{head.rstrip(' ')} {nonce} "


def json_object(call: ToolCall, name: str = "name", arguments: str = "arguments") -> str:
    """Render a call as a JSON object with these keys."""
    return to_json({name: call.name, arguments: call.arguments})


def signed_json(document: JSONObject, nonce: str | None) -> str:
    """Render a JSON document that begins with the nonce."""
    return to_json({"nonce": nonce, **document} if nonce is not None else document)


def fence(body: str, info: str, nonce: str | None) -> str:
    """Render a code fence. The body is a single line, so backticks in it cannot close the fence."""
    info = f"{info} {nonce}" if nonce is not None else info
    return f"```{info}\n{body}\n```"


def call_rows(calls: Sequence[ToolCall]) -> list[JSONValue]:
    """Return the calls as JSON objects."""
    return [{"name": call.name, "arguments": call.arguments} for call in calls]


def json_list(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render a JSON array of calls."""
    return "[" + ", ".join(map(json_object, calls)) + "]"


def each_call(render: Callable[[ToolCall, str | None], str], separator: str = "\n") -> Style:
    """Create a style that renders each call, with the nonce, on its own."""
    return lambda calls, nonce: separator.join(render(call, nonce) for call in calls)


def each_between(opener: str, body: Callable[[ToolCall], str], closer: str = "", separator: str = "\n") -> Style:
    """Create a style with marks around what `body` renders for each call. The opening mark contains the nonce."""
    return each_call(lambda call, nonce: f"{with_nonce(opener, nonce)}{body(call)}{closer}", separator)


def between(
    opener: str, closer: str, name: str = "name", arguments: str = "arguments", after_opener: str = ""
) -> Style:
    """Create a style with marks around each JSON object. `after_opener` follows the opening mark and the nonce."""
    return each_between(opener, lambda call: after_opener + json_object(call, name, arguments), closer)


def python_call(call: ToolCall) -> str:
    """Render a Python call with keyword arguments, or with a dictionary if a key is not an identifier."""
    if not all(map(_IDENTIFIER, call.arguments)):
        return f"{call.name}({_literal(call.arguments)})"
    return f"{call.name}({', '.join(f'{key}={_literal(value)}' for key, value in call.arguments.items())})"


def _literal(value: JSONValue) -> str:
    """Render a value as a Python literal."""
    if value is None or isinstance(value, bool):
        return str(value)
    if is_object(value):
        return "{" + ", ".join(f"{to_json(key)}: {_literal(item)}" for key, item in value.items()) + "}"
    if is_array(value):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return to_json(value)


def python_list(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `[name(key=value), ...]`."""
    return "[" + ", ".join(map(python_call, calls)) + "]"


def quoted_arguments(call: ToolCall, quote: str) -> str:
    """Render arguments with `quote` around unescaped strings, or as JSON if a string contains the quote."""
    return _quoted(call.arguments, quote) if _fits_quotes(call.arguments, quote) else to_json(call.arguments)


def _fits_quotes(value: JSONValue, quote: str) -> bool:
    if is_object(value):
        return all(_fits_quotes(key, quote) and _fits_quotes(item, quote) for key, item in value.items())
    if is_array(value):
        return all(_fits_quotes(item, quote) for item in value)
    return not isinstance(value, str) or quote not in value + quote[:-1]


def _quoted(value: JSONValue, quote: str) -> str:
    if isinstance(value, str):
        return f"{quote}{value}{quote}"
    if is_object(value):
        keys = (key if _IDENTIFIER(key) else to_json(key) for key in value)
        return (
            "{"
            + ",".join(f"{key}:{_quoted(item, quote)}" for key, item in zip(keys, value.values(), strict=True))
            + "}"
        )
    if is_array(value):
        return "[" + ",".join(_quoted(item, quote) for item in value) + "]"
    return to_json(value)


def tag_text(value: JSONValue) -> str:
    """Render the content of a tag: strings as they are, other values as JSON."""
    if isinstance(value, str):
        return value
    json = to_json(value)
    return json.replace("<", r"\u003c") if _CALL_TAG(json) else json


def fits_tags(call: ToolCall, *names: str) -> bool:
    """Whether tags can hold every key and value. `names`: further tags that values must not contain."""
    clashes = [_CALL_TAG, *([_own_tag(names)] if names else [])]
    return all(
        _TAG_KEY(key) and not (isinstance(value, str) and any(clash(value) for clash in clashes))
        for key, value in call.arguments.items()
    )


@lru_cache(maxsize=256)
def _own_tag(names: tuple[str, ...]) -> Callable[[str], re.Match[str] | None]:
    return re.compile(rf"</?(?:{'|'.join(map(re.escape, names))})\b").search


def invoke(prefix: str = "", attribute: Callable[[JSONValue], str] = lambda value: "") -> Style:
    """Create a style with `<invoke name="...">` and `<parameter name="...">` elements.

    `prefix` precedes the names of the tags, `attribute` returns a further attribute for the value of a parameter.
    """

    def element(call: ToolCall, nonce: str | None) -> str:
        rows = [to_json(call.arguments) + "\n"]
        if fits_tags(call):
            rows = [
                f'<{prefix}parameter name="{key}"{attribute(value)}>{tag_text(value)}</{prefix}parameter>\n'
                for key, value in call.arguments.items()
            ]
        return f'<{prefix}invoke name="{call.name}">\n{"".join(rows)}</{prefix}invoke>'

    return each_call(element)


def function_element(call: ToolCall, nonce: str | None) -> str:
    """Render `<function=name>{...}</function>`."""
    return f"{with_nonce(f'<function={call.name}>', nonce)}{to_json(call.arguments)}</function>"

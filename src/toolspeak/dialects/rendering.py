"""Helpers to render calls as text, and the styles of the dialects, which `STYLES` names.

A style takes the calls of a turn and an optional nonce. Parsing the result returns exactly the same calls. Text between
tags is written as it is, as models are trained to see it. Arguments that cannot be written like that, because of a key
or because a value contains tags of calls, are rendered as JSON.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import TypeAlias

from ..core.parsing.arguments import to_json
from ..core.plugin_hook import depends_on_dialects
from ..core.types import JSONObject, JSONValue, ToolCall, is_array, is_object
from .tag_names import BLOCK_TAGS, CALL_TAGS, CONTAINER_TAGS, NAME_TAGS, NOISE, PARAMETER_TAGS

Style: TypeAlias = Callable[[Sequence[ToolCall], str | None], str]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_TAG_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*").fullmatch
#: Tags of the parts of a call, which no argument can have as its own tag.
_CALL_PARTS = PARAMETER_TAGS | CONTAINER_TAGS | CALL_TAGS | {"arg_key", "arg_value"}
#: A tag of a call, a CDATA section or MiniMax's tag prefix in a value, which a reader may misunderstand.
_CALL_TAG = re.compile(
    rf"</?\s?(?:[^\s<>/]{{0,16}}[:|｜])?(?:{'|'.join(sorted(_CALL_PARTS | BLOCK_TAGS))})\b"
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


def call_rows(calls: Sequence[ToolCall]) -> list[JSONObject]:
    return [{"name": call.name, "arguments": call.arguments} for call in calls]


def json_list(calls: Sequence[ToolCall], nonce: str | None) -> str:
    return "[" + ", ".join(map(json_object, calls)) + "]"


def each_call(render: Callable[[ToolCall, str | None], str], separator: str = "\n") -> Style:
    """Create a style that renders each call, with the nonce, on its own."""
    return lambda calls, nonce: separator.join(render(call, nonce) for call in calls)


def each_between(opener: str, body: Callable[[ToolCall], str], closer: str) -> Style:
    """Create a style with marks around what `body` renders for each call. The opening mark contains the nonce."""
    return each_call(lambda call, nonce: f"{with_nonce(opener, nonce)}{body(call)}{closer}")


def between(
    opener: str,
    closer: str = "",
    *,
    arguments: str = "arguments",
    after_opener: str = "",
    body: str = "",
    quote: str = "",
    separator: str = "\n",
) -> Style:
    """Create a style with marks around each call. The opening mark contains the nonce.

    A call is a JSON object, whose arguments have the key `arguments`, after the text `after_opener`; or it is `body`,
    in which `{name}`, `{arguments}`, `{index}` and `{nonce}` are replaced. `quote` stands around texts in arguments.
    """

    def render(call: ToolCall, index: int, nonce: str | None) -> str:
        if not body:
            return after_opener + json_object(call, arguments=arguments)
        values = quoted_arguments(call, quote) if quote else to_json(call.arguments)
        return body.format(name=call.name, arguments=values, index=index, nonce="" if nonce is None else f" {nonce}")

    def style(calls: Sequence[ToolCall], nonce: str | None) -> str:
        opening = with_nonce(opener, nonce)
        return separator.join(f"{opening}{render(call, at, nonce)}{closer}" for at, call in enumerate(calls))

    return style


def python_call(call: ToolCall) -> str:
    """Render a Python call with keyword arguments, or with a dictionary if a key is not an identifier."""
    if not all(map(_IDENTIFIER, call.arguments)):
        return f"{call.name}({_literal(call.arguments)})"
    return f"{call.name}({', '.join(f'{key}={_literal(value)}' for key, value in call.arguments.items())})"


def _literal(value: JSONValue) -> str:
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


def _command_r_list(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render a JSON array of calls with the key names of Command R."""
    rows = (
        {"tool_call_id": str(at), "tool_name": each.name, "parameters": each.arguments} for at, each in enumerate(calls)
    )
    return to_json(list(rows))


def _glm_pairs(call: ToolCall) -> str:
    """Render the name, then `<arg_key>` and `<arg_value>` pairs."""
    if not fits_tags(call):
        return f"{call.name}\n{to_json(call.arguments)}\n"
    rows = (
        f"<arg_key>{key}</arg_key>\n<arg_value>{tag_text(value)}</arg_value>\n" for key, value in call.arguments.items()
    )
    return f"{call.name}\n{''.join(rows)}"


def _kimi_elements(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render elements whose tags begin with `<|open|>` or `<|close|>` and end with `<|sep|>`."""
    return "".join(
        f'<|open|>call tool="{call.name}" index="{index}"<|sep|>{_kimi_arguments(call)}<|close|>call<|sep|>'
        for index, call in enumerate(calls, start=1)
    )


def _kimi_arguments(call: ToolCall) -> str:
    if not fits_tags(call):
        return to_json(call.arguments)
    return "".join(
        f'<|open|>argument key="{key}" type="{"string" if isinstance(value, str) else "json"}"<|sep|>'
        f"{tag_text(value)}<|close|>argument<|sep|>"
        for key, value in call.arguments.items()
    )


def _qwen_element(call: ToolCall) -> str:
    """Render `<function=name>` with `<parameter=key>` elements on separate lines."""
    if fits_tags(call):
        rows = [f"<parameter={key}>\n{tag_text(value)}\n</parameter>\n" for key, value in call.arguments.items()]
    else:
        rows = [to_json(call.arguments) + "\n"]
    return f"\n<function={call.name}>\n{''.join(rows)}</function>\n"


def _tool_tags(call: ToolCall, nonce: str | None) -> str:
    """Render a tag named after the tool, or `<function=name>` if that tag has another meaning."""
    if call.name in _reserved_names():
        return function_element(call, nonce)
    clashes = call.name in call.arguments or not _CALL_PARTS.isdisjoint(call.arguments)
    if clashes or not fits_tags(call, call.name, *call.arguments):
        children = to_json(call.arguments) + "\n"
    else:
        children = "".join(f"<{key}>\n{tag_text(value)}\n</{key}>\n" for key, value in call.arguments.items())
    return f"{with_nonce(f'<{call.name}>', nonce)}\n{children}</{call.name}>"


@depends_on_dialects
@cache
def _reserved_names() -> frozenset[str]:
    """Return the tags with a fixed meaning, which a tool with the same name cannot use."""
    from .mark_tables import THINKING, mark_tables  # which are made from the dialects

    return THINKING.union(mark_tables().openings, NAME_TAGS, PARAMETER_TAGS)


def _tool_use_parts(call: ToolCall) -> str:
    """Render the name and JSON arguments in a tag whose name is not an argument's, or without a tag if none is free."""
    tag = next((name for name in ("arguments", "parameters", "tool_input") if name not in call.arguments), "")
    json = to_json(call.arguments)
    return f"\n<name>{call.name}</name>\n{f'<{tag}>{json}</{tag}>' if tag else json}\n"


def _unless_signed(style: Style, opener: str, info: str) -> Style:
    """Create a style that follows `opener`, or with a nonce stands in a code fence, which can carry the nonce."""
    return lambda calls, nonce: (
        f"{opener}{style(calls, None)}" if nonce is None else fence(style(calls, None), info, nonce)
    )


#: The styles that tables in `formats.toml` can name.
STYLES: dict[str, Style] = {
    "action": each_call(lambda call, nonce: fence(json_object(call, "tool", "parameters"), "json action", nonce)),
    "command_r_list": _command_r_list,
    "decision": lambda calls, nonce: signed_json({"tools": call_rows(calls)}, nonce),
    "dsml_elements": invoke("｜DSML｜", lambda value: f' string="{"true" if isinstance(value, str) else "false"}"'),
    "envelope": lambda calls, nonce: signed_json({"calls": call_rows(calls), "reply": ""}, nonce),
    "function_elements": each_call(function_element),
    "functools": _unless_signed(json_list, "functools", "tool_call"),
    "glm_pairs": each_between("<tool_call>", _glm_pairs, "</tool_call>"),
    "invoke_elements": invoke(),
    "json_list": json_list,
    "keyed_list": lambda calls, nonce: to_json([{call.name: call.arguments} for call in calls]),
    "kimi_elements": _kimi_elements,
    "python_lines": each_call(lambda call, nonce: python_call(call)),
    "python_list": python_list,
    "pythonic": _unless_signed(python_list, "", "tool_code"),
    "qwen_elements": each_between("<tool_call>", _qwen_element, "</tool_call>"),
    "recipients": each_call(
        lambda call, nonce: f">>>{'' if nonce is None else f'{nonce} '}{call.name}\n{to_json(call.arguments)}", ""
    ),
    "signed_lines": each_call(lambda call, nonce: signed_json({"tool": call.name, "args": call.arguments}, nonce)),
    "signed_list": lambda calls, nonce: "[" + ",".join(signed_json(row, nonce) for row in call_rows(calls)) + "]",
    "tool_tags": each_call(_tool_tags),
    "tool_use_parts": each_between("<tool_use>", _tool_use_parts, "</tool_use>"),
}

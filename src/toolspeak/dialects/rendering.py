"""Render calls as text, with one function per style. `registry` assigns a style to each dialect.

A style takes the calls of a turn and an optional nonce. Parsing the result returns exactly the same calls. Text between
tags is written as it is, as models are trained to see it. Arguments that cannot be written like that, because of a key
or because a value contains tags of calls, are rendered as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

from ..core.parsing.arguments import to_json
from ..core.types import JSONObject, JSONValue, ToolCall, is_array, is_object
from .openings import OPENINGS, THINKING
from .tag_names import BLOCK_TAGS, CALL_TAGS, CONTAINER_TAGS, NAME_TAGS, NOISE, PARAMETER_TAGS

Style: TypeAlias = Callable[[Sequence[ToolCall], str | None], str]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_TAG_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*").fullmatch
#: Tags with a fixed meaning, which a tool with the same name cannot use.
_MARKS = frozenset({*OPENINGS, *THINKING, *NAME_TAGS, *PARAMETER_TAGS})
_PARTS = PARAMETER_TAGS | CONTAINER_TAGS | CALL_TAGS | {"arg_key", "arg_value"}
#: Tags that may contain all arguments, in order of preference.
_CONTAINERS = ("arguments", "parameters", "tool_input")
#: A tag of a call, a CDATA section or MiniMax's tag prefix in a value, which a reader may misunderstand.
_CALL_TAG = re.compile(
    rf"</?\s?(?:[^\s<>/]{{0,16}}[:|｜])?(?:{'|'.join(sorted(_PARTS | BLOCK_TAGS))})\b"
    rf"|<[|｜](?:open|close)[|｜]>|<!\[CDATA\[|{re.escape(NOISE)}"
).search
_GEMMA_QUOTE = '<|"|>'


def with_nonce(mark: str, nonce: str | None) -> str:
    """Add the nonce to a mark: inside a tag, at the end of a fence's info string, or otherwise after the mark."""
    if nonce is None or not mark:
        return mark
    head, newline, _ = mark.partition("\n")
    if head.endswith(">") and not head.endswith("|>") and "｜>" not in head and head.startswith("<"):
        return f"{head[:-1]} {nonce}>{newline}"
    return f"{head} {nonce}\n" if newline else f"{head.rstrip(' ')} {nonce} "


# ---- JSON


def _json(call: ToolCall, name: str = "name", arguments: str = "arguments") -> str:
    return to_json({name: call.name, arguments: call.arguments})


def _signed(document: JSONObject, nonce: str | None) -> str:
    return to_json({"nonce": nonce, **document} if nonce is not None else document)


def _fence(body: str, info: str, nonce: str | None) -> str:
    """Render a code fence. The body is a single line, so backticks in it cannot close the fence."""
    info = f"{info} {nonce}" if nonce is not None else info
    return f"```{info}\n{body}\n```"


def fenced(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render each call as JSON in a code fence. This is toolspeak's default."""
    return "\n".join(_fence(_json(call, "tool", "parameters"), "json action", nonce) for call in calls)


def line(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render each call as a line of JSON."""
    return "\n".join(_signed({"tool": call.name, "args": call.arguments}, nonce) for call in calls)


def xlam(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render a JSON array without marks."""
    signature = {} if nonce is None else {"nonce": nonce}
    return to_json([{**signature, "name": call.name, "arguments": call.arguments} for call in calls])


def decision(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render the JSON document of the `decision` plan."""
    return _signed({"tools": [{"name": call.name, "arguments": call.arguments} for call in calls]}, nonce)


def envelope(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render the JSON document of the `envelope` plan."""
    return _signed({"calls": [{"name": call.name, "arguments": call.arguments} for call in calls], "reply": ""}, nonce)


def hermes(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render each call as a JSON object inside `<tool_call>`."""
    opener = with_nonce("<tool_call>", nonce)
    return "\n".join(f"{opener}\n{_json(call)}\n</tool_call>" for call in calls)


def json_list(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render a JSON array of calls."""
    return "[" + ", ".join(map(_json, calls)) + "]"


mistral = json_list


def keyed_list(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render a JSON array of objects whose only key is the tool name."""
    return to_json([{call.name: call.arguments} for call in calls])


def command_r(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render a JSON array with Command R's key names and call ids."""
    rows = [
        {"tool_call_id": str(index), "tool_name": call.name, "parameters": call.arguments}
        for index, call in enumerate(calls)
    ]
    return to_json(rows)


def llama(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `<|python_tag|>` before each JSON object."""
    mark = with_nonce("<|python_tag|>", nonce)
    return "".join(mark + _json(call, arguments="parameters") for call in calls)


def gigachat(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `<|function_call|>` before each JSON object."""
    mark = with_nonce("<|function_call|>", nonce)
    return "".join(mark + _json(call) for call in calls)


def between(
    opener: str, closer: str, name: str = "name", arguments: str = "arguments", after_opener: str = ""
) -> Style:
    """Create a style with marks around each JSON object. `after_opener` follows the opening mark and the nonce."""

    def style(calls: Sequence[ToolCall], nonce: str | None) -> str:
        mark = with_nonce(opener, nonce) + after_opener
        return "\n".join(f"{mark}{_json(call, name, arguments)}{closer}" for call in calls)

    return style


def phi(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `functools[...]`, or a code fence if there is a nonce."""
    body = json_list(calls, None)
    return f"functools{body}" if nonce is None else _fence(body, "tool_call", nonce)


# ---- names followed by JSON


def devstral(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `[TOOL_CALLS]name[ARGS]{...}`."""
    mark = with_nonce("[TOOL_CALLS]", nonce)
    return "".join(f"{mark}{call.name}[ARGS]{to_json(call.arguments)}" for call in calls)


def deepseek(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render the name and JSON arguments between DeepSeek's full-width tokens."""
    return "".join(
        f"<｜tool▁call▁begin｜>{call.name}<｜tool▁sep｜>{to_json(call.arguments)}<｜tool▁call▁end｜>" for call in calls
    )


def kimi_k2(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `functions.name:index` and JSON arguments between Kimi K2's tokens."""
    return "".join(
        f"<|tool_call_begin|>functions.{call.name}:{index}<|tool_call_argument_begin|>"
        f"{to_json(call.arguments)}<|tool_call_end|>"
        for index, call in enumerate(calls)
    )


def functionary(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `<function=name>{...}</function>`."""
    return "\n".join(
        f"{with_nonce(f'<function={call.name}>', nonce)}{to_json(call.arguments)}</function>" for call in calls
    )


def harmony(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render a harmony message to the function, on the commentary channel."""
    mark = f" {nonce}" if nonce is not None else ""
    return "<|start|>assistant".join(
        f"<|channel|>commentary to=functions.{call.name}{mark} <|constrain|>json<|message|>"
        f"{to_json(call.arguments)}<|call|>"
        for call in calls
    )


def recipients(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `>>>name` on its own line, then JSON arguments. A nonce comes between `>>>` and the name."""
    mark = f">>>{nonce} " if nonce is not None else ">>>"
    return "".join(f"{mark}{call.name}\n{to_json(call.arguments)}" for call in calls)


def react(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render ReAct's `Action:` and `Action Input:` lines."""
    mark = f" {nonce}" if nonce is not None else ""
    return "\n".join(f"Action{mark}: {call.name}\nAction Input: {to_json(call.arguments)}" for call in calls)


# ---- Python


def _python(call: ToolCall) -> str:
    """Render a Python call with keyword arguments, or with a dictionary if a key is not an identifier."""
    if not all(map(_IDENTIFIER, call.arguments)):
        return f"{call.name}({_literal(call.arguments)})"
    return f"{call.name}({', '.join(f'{key}={_literal(value)}' for key, value in call.arguments.items())})"


def _python_key(key: str) -> str:
    return key if _IDENTIFIER(key) else to_json(key)


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
    return "[" + ", ".join(map(_python, calls)) + "]"


def python_lines(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render each call as `name(key=value)` on a separate line."""
    return "\n".join(map(_python, calls))


def pythonic(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render a Python list of calls, inside a code fence if there is a nonce."""
    body = python_list(calls, None)
    return body if nonce is None else _fence(body, "tool_code", nonce)


# ---- Gemma


def gemma(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `call:name{key:<|"|>text<|"|>}` between Gemma's tokens."""
    mark = with_nonce("<|tool_call>", nonce)
    return "".join(f"{mark}call:{call.name}{_raw_quoted(call, _GEMMA_QUOTE)}<tool_call|>" for call in calls)


def functiongemma(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `call:name{key:<escape>text<escape>}` between FunctionGemma's tags."""
    mark = with_nonce("<start_function_call>", nonce)
    return "".join(f"{mark}call:{call.name}{_raw_quoted(call, '<escape>')}<end_function_call>" for call in calls)


def _raw_quoted(call: ToolCall, quote: str) -> str:
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
        return "{" + ",".join(f"{_python_key(key)}:{_quoted(item, quote)}" for key, item in value.items()) + "}"
    if is_array(value):
        return "[" + ",".join(_quoted(item, quote) for item in value) + "]"
    return to_json(value)


# ---- tags


def _text(value: JSONValue) -> str:
    """Render the content of a tag: strings as they are, other values as JSON."""
    if isinstance(value, str):
        return value
    json = to_json(value)
    return json.replace("<", r"\u003c") if _CALL_TAG(json) else json


def _fits_tags(call: ToolCall, *names: str) -> bool:
    """Whether tags can hold every key and value. `names`: further tags that values must not contain."""
    clashes = [_CALL_TAG, *([_own_tag(names)] if names else [])]
    return all(
        _TAG_KEY(key) and not (isinstance(value, str) and any(clash(value) for clash in clashes))
        for key, value in call.arguments.items()
    )


@lru_cache(maxsize=256)
def _own_tag(names: tuple[str, ...]) -> Callable[[str], re.Match[str] | None]:
    return re.compile(rf"</?(?:{'|'.join(map(re.escape, names))})\b").search


def invoke(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `<invoke name="...">` with `<parameter name="...">` elements."""

    def parameter(key: str, value: JSONValue) -> str:
        return f'<parameter name="{key}">{_text(value)}</parameter>'

    return "\n".join(_invoke(call, parameter, "") for call in calls)


def dsml(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `<invoke>` elements with DeepSeek's DSML prefix and type attributes."""

    def parameter(key: str, value: JSONValue) -> str:
        kind = "true" if isinstance(value, str) else "false"
        return f'<｜DSML｜parameter name="{key}" string="{kind}">{_text(value)}</｜DSML｜parameter>'

    return "\n".join(_invoke(call, parameter, "｜DSML｜") for call in calls)


def _invoke(call: ToolCall, parameter: Callable[[str, JSONValue], str], prefix: str) -> str:
    if _fits_tags(call):
        body = "".join(parameter(key, value) + "\n" for key, value in call.arguments.items())
    else:
        body = to_json(call.arguments) + "\n"
    return f'<{prefix}invoke name="{call.name}">\n{body}</{prefix}invoke>'


def qwen_xml(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render `<function=name>` with `<parameter=key>` elements on separate lines."""
    opener = with_nonce("<tool_call>", nonce)
    return "\n".join(f"{opener}\n{_function(call)}\n</tool_call>" for call in calls)


def _function(call: ToolCall) -> str:
    if not _fits_tags(call):
        return f"<function={call.name}>\n{to_json(call.arguments)}\n</function>"
    body = "".join(f"<parameter={key}>\n{_text(value)}\n</parameter>\n" for key, value in call.arguments.items())
    return f"<function={call.name}>\n{body}</function>"


def glm(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render the name, then `<arg_key>` and `<arg_value>` pairs."""
    opener = with_nonce("<tool_call>", nonce)
    return "\n".join(f"{opener}{call.name}\n{_pairs(call)}</tool_call>" for call in calls)


def _pairs(call: ToolCall) -> str:
    if not _fits_tags(call):
        return to_json(call.arguments) + "\n"
    return "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{_text(value)}</arg_value>\n" for key, value in call.arguments.items()
    )


def tool_use(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render the name and the JSON arguments in separate tags."""
    opener = with_nonce("<tool_use>", nonce)
    return "\n".join(f"{opener}\n<name>{call.name}</name>\n{_contained(call)}\n</tool_use>" for call in calls)


def _contained(call: ToolCall) -> str:
    """Render JSON arguments in a container tag whose name is not an argument name, or without a tag if none is free."""
    tag = next((name for name in _CONTAINERS if name not in call.arguments), "")
    json = to_json(call.arguments)
    return f"<{tag}>{json}</{tag}>" if tag else json


def tool_tag(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render a tag named after the tool, with tags named after its parameters."""
    return "\n".join(_tool_element(call, nonce) for call in calls)


def _tool_element(call: ToolCall, nonce: str | None) -> str:
    """Render a tag named after the tool, or `<function=name>` if that tag has another meaning."""
    if call.name in _MARKS:
        return functionary([call], nonce)
    return f"{with_nonce(f'<{call.name}>', nonce)}\n{_children(call)}</{call.name}>"


def _children(call: ToolCall) -> str:
    clashes = call.name in call.arguments or not _PARTS.isdisjoint(call.arguments)
    if clashes or not _fits_tags(call, call.name, *call.arguments):
        return to_json(call.arguments) + "\n"
    return "".join(f"<{key}>\n{_text(value)}\n</{key}>\n" for key, value in call.arguments.items())


def kimi_k3(calls: Sequence[ToolCall], nonce: str | None) -> str:
    """Render Kimi K3's `<|open|>` and `<|close|>` tags."""
    return "".join(
        f'<|open|>call tool="{call.name}" index="{index}"<|sep|>{_long_arguments(call)}<|close|>call<|sep|>'
        for index, call in enumerate(calls, start=1)
    )


def _long_arguments(call: ToolCall) -> str:
    if not _fits_tags(call):
        return to_json(call.arguments)
    return "".join(
        f'<|open|>argument key="{key}" type="{_kind(value)}"<|sep|>{_text(value)}<|close|>argument<|sep|>'
        for key, value in call.arguments.items()
    )


def _kind(value: JSONValue) -> str:
    return "string" if isinstance(value, str) else "json"

"""How models write calls: the formats they were trained on, those they make up, and the one that a prompt shows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.behaviours.tasks import Call

Format = Callable[[Call], str]
Edit = Callable[[str], str]

NAME_KEYS = ("tool", "name", "function", "action", "tool_name")
ARGUMENT_KEYS = ("parameters", "arguments", "args", "input", "action_input")


def dump(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _pairs(call: Call, form: str) -> str:
    """Return the arguments, each written as `form` says."""
    return "".join(
        form.format(name, value if isinstance(value, str) else dump(value)) for name, value in call.arguments.items()
    )


# ---- trained formats


def hermes(call: Call) -> str:
    return f"<tool_call>\n{dump({'name': call.name, 'arguments': call.arguments})}\n</tool_call>"


def python_call(call: Call) -> str:
    return f"{call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"


def llama_pythonic(call: Call) -> str:
    return f"[{python_call(call)}]"


def invoke(call: Call) -> str:
    body = _pairs(call, '<parameter name="{}">{}</parameter>\n')
    return f'<function_calls>\n<invoke name="{call.name}">\n{body}</invoke>\n</function_calls>'


def harmony(call: Call) -> str:
    return f"<|channel|>commentary to=functions.{call.name} <|constrain|>json<|message|>{dump(call.arguments)}<|call|>"


def react(call: Call) -> str:
    return f"Thought: I should use a tool.\nAction: {call.name}\nAction Input: {dump(call.arguments)}"


# ---- formats that models make up


def fenced(text: str, language: str = "json") -> str:
    return f"```{language}\n{text}\n```"


def json_fence(call: Call) -> str:
    body = dump({"name": call.name, "arguments": call.arguments}, indent=2)
    return f"Sure! Here is the function call:\n\n{fenced(body)}\n\nLet me know if you need anything else."


def flat_arguments(call: Call) -> str:
    return dump({"tool": call.name, **call.arguments})


def python_fence(call: Call) -> str:
    return f"I'll convert that for you.\n\n{fenced(python_call(call), 'python')}"


def python_program(call: Call) -> str:
    return fenced(f"result = {python_call(call)}\nprint(result)", "python")


def javascript(call: Call) -> str:
    return fenced(f"const result = await functions.{call.name}({dump(call.arguments)});", "javascript")


def yaml_fence(call: Call) -> str:
    body = _pairs(call, "\n  {}: {}")
    return fenced(f"tool: {call.name}\nparameters:{body}", "yaml")


def labelled_list(call: Call) -> str:
    body = _pairs(call, "\n- **{}**: {}")
    return f"**Tool:** `{call.name}`\n\n**Arguments:**\n{body}"


def labelled_json(call: Call) -> str:
    return f"Function: {call.name}\nParameters: {dump(call.arguments)}"


def slash_command(call: Call) -> str:
    return f"/{call.name}{_pairs(call, ' {}={}')}"


def inline_code(call: Call) -> str:
    return f"To answer this I call `{python_call(call)}` and wait for its result."


def html_escaped(call: Call) -> str:
    return hermes(call).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def escaped_underscores(call: Call) -> str:
    return hermes(call).replace("_", r"\_").replace(r"tool\_call", "tool_call")


def camel_case(call: Call) -> str:
    def camel(name: str) -> str:
        return re.sub(r"_(\w)", lambda letter: letter[1].upper(), name)

    return hermes(Call(camel(call.name), {camel(name): value for name, value in call.arguments.items()}))


# ---- the format that a prompt shows


def imitate(prompt: str, call: Call) -> str | None:
    """Write a call the way the last example in the prompt does; None if the prompt shows no example."""
    found = [(start, end, value) for start, end, value in _objects(prompt) if _is_example(value)]
    if not found:
        return _imitate_text(prompt, call)
    start, end, example = found[-1]
    body = dump(_filled(example, call))
    before, after = prompt[:start].rstrip().rpartition("\n")[2], prompt[end:].lstrip()
    if before.startswith("```"):
        return f"{before}\n{body}\n```"
    if re.fullmatch(r"<[^/>]+>", before):
        return f"{before}\n{body}\n{after.partition('>')[0]}>"
    return body


def imitate_document(prompt: str, call: Call) -> str:
    """Write only the JSON of the last example, or a common form where the prompt shows none."""
    found = [value for _, _, value in _objects(prompt) if _is_example(value)]
    return dump(_filled(found[-1] if found else {"name": "", "arguments": {}}, call))


def imitate_empty_document(prompt: str) -> str:
    """Write the JSON that the prompt shows for the case that no tool is needed."""
    found = [value for _, _, value in _objects(prompt) if isinstance(value, dict) and [] in value.values()]
    return dump(found[-1] if found else {"tools": []})


def _imitate_text(prompt: str, call: Call) -> str | None:
    if re.search(r"^Action\b.*:", prompt, re.MULTILINE):
        return react(call)
    if '<invoke name="' in prompt:
        return invoke(call)
    if re.search(r"\b\w+\(\w+=", prompt):
        return llama_pythonic(call)
    return None


def _objects(prompt: str) -> Iterator[tuple[int, int, Any]]:
    decoder, end = json.JSONDecoder(), 0
    for brace in re.finditer(r"\{", prompt):
        if brace.start() < end:
            continue
        try:
            value, end = decoder.raw_decode(prompt, brace.start())
        except json.JSONDecodeError:
            continue
        yield brace.start(), end, value


def _is_example(value: Any) -> bool:
    match value:
        case dict():
            return _is_call(value) or any(map(_is_example, value.values()))
        case list():
            return any(map(_is_example, value))
        case _:
            return False


def _is_call(value: dict[str, Any]) -> bool:
    """Whether an object is a call; the definition of a tool has a description."""
    named = any(isinstance(value.get(key), str) for key in NAME_KEYS)
    return named and "description" not in value and any(isinstance(value.get(key), dict) for key in ARGUMENT_KEYS)


def _filled(example: Any, call: Call) -> Any:
    match example:
        case dict() if _is_call(example):
            return {key: _call_value(key, value, call) for key, value in example.items()}
        case dict():
            return {key: _filled(value, call) for key, value in example.items()}
        case list():
            return [_filled(each, call) for each in example[:1]]
        case _:
            return example


def _call_value(key: str, value: Any, call: Call) -> Any:
    if key in ARGUMENT_KEYS and isinstance(value, dict):
        return call.arguments
    return call.name if key in NAME_KEYS else value


# ---- what a server enforces


def fill_schema(schema: Any, call: Call, definitions: Any = None, key: str = "") -> Any:
    """Return a value that a JSON schema allows and that says the call, as constrained decoding makes a model do."""
    definitions = definitions or schema.get("$defs", {})
    if "$ref" in schema:
        return fill_schema(definitions[schema["$ref"].rpartition("/")[2]], call, definitions, key)
    if options := schema.get("anyOf") or schema.get("oneOf"):
        named = [option for option in options if f'"{call.name}"' in dump(option)]
        return fill_schema((named or options)[0], call, definitions, key)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return call.name if call.name in schema["enum"] else schema["enum"][0]
    if key in ARGUMENT_KEYS and schema.get("type", "object") == "object":
        return call.arguments
    if schema.get("type") == "array":
        return [fill_schema(schema["items"], call, definitions)]
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        return {name: fill_schema(each, call, definitions, name) for name, each in properties.items()}
    return call.name if key in NAME_KEYS else ""

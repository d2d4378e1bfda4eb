"""Simulated models with known abilities, for the tests of probes.

Each decides from the request alone, as a real model would: it reads the conversation, sees the tools that are declared
natively or described in the prompt, and calls those it understands. The simulated server refuses what it does not know.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from toolspeak import Request, ToolCall, UpstreamError
from toolspeak.upstreams.scripted import Script, Turn, calls

#: Things that people ask about; a model tells them from the other words.
THINGS = ("lamp", "chair", "kettle", "pillow")
CHAT = "Of course, with pleasure. Let me know whenever there is something else that I can do for you."
GUESS = "It should be number 4711, as far as I remember from the last time that somebody asked me."
REFUSAL = "I'm sorry, but I can't help with that. I am not able to do this for you, now or later."
NUMBERS = "one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen"


@dataclass(frozen=True)
class Able:
    """What a model and its server can do."""

    #: `calls`, `leaks` (as Hermes text), `sometimes` (one in three leaks), `rejects` (400), `breaks` (500), `ignores`.
    native: str = "calls"
    #: Formats of calls that it can write when the prompt shows them.
    speaks: tuple[str, ...] = ("action", "hermes", "invoke", "tool_line", "pythonic", "react")
    #: Copies the mark that a call in a prompt carries.
    copies_marks: bool = True
    #: `yes`, `rejects` (400), `drops` (the template leaves it out).
    system: str = "yes"
    #: `yes`, `whole` (one chunk), `rejects` (400).
    stream: str = "yes"
    parallel: bool = True
    #: `yes`, `ignores`, `rejects`.
    required: str = "yes"
    #: `ignores`, `rejects`, `enforces`.
    schema: str = "ignores"
    grammar: str = "ignores"
    #: Says what it wants to say also where a schema is enforced.
    fills: bool = True
    obeys: bool = True
    refuses: bool = False
    takes_limit: bool = True
    #: How many of its answers are errors.
    flaky: float = 0.0
    chance: random.Random = field(default_factory=lambda: random.Random(7), compare=False)


def refused(message: str, status: int = 400) -> UpstreamError:
    return UpstreamError(message, upstream_status=status, body=json.dumps({"error": {"message": message}}))


def model(able: Able) -> Callable[[Request], Script]:
    """The model as a function of a request."""

    def answer(request: Request) -> Script:
        if able.flaky and able.chance.random() < able.flaky:
            raise refused("upstream is overloaded", 503)
        _check(able, request)
        said = _said(able, request)
        flows = request.stream and able.stream == "yes"
        return Turn(said, chunk=5 if flows else None)

    return answer


def _check(able: Able, request: Request) -> None:
    """What the server does not take."""
    if request.stream and able.stream == "rejects":
        raise refused("`stream` is not available for this deployment")
    if request.options.max_tokens is not None and not able.takes_limit:
        raise refused("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    if able.system == "rejects" and any(message.role == "system" for message in request.messages):
        raise refused("System role not supported")
    if request.tools and able.native == "rejects":
        raise refused("this model does not support tools")
    if request.tools and able.native == "breaks":
        raise refused("tools param requires --jinja flag", 500)
    if request.tool_choice.demands and able.required == "rejects":
        raise refused("tool_choice `required` is not supported")
    if "response_format" in request.options.grammar and able.schema == "rejects":
        raise refused("response_format is not supported")
    if "grammar" in request.options.grammar and able.grammar == "rejects":
        raise refused("unknown field `grammar`")


def _said(able: Able, request: Request) -> Any:
    fixed = _enforced(able, request)
    if fixed is not None:
        return fixed
    if able.refuses:
        return REFUSAL
    heard = [message for message in request.messages if able.system != "drops" or message.role != "system"]
    told = "\n".join(message.text for message in heard)
    asked = heard[-1].text.lower()
    order = re.search(r"answer with the word (\w+) and nothing else", told)
    if order and able.obeys:
        return order[1]
    things = _things(asked)
    if request.tools and (able.native != "ignores" or not request.options.described_tools):
        return _with_tools(able, request, things)
    if things:
        return _written(able, told, things if able.parallel else things[:1]) or GUESS
    return NUMBERS if "numbers" in asked else CHAT


def _things(asked: str) -> list[str]:
    return [thing for thing in THINGS if re.search(rf"\b{thing}\b", asked.lower())]


def _with_tools(able: Able, request: Request, things: list[str]) -> Any:
    if able.native == "ignores":
        return GUESS if things else CHAT
    tool = request.tools[0].name
    forced = request.tool_choice.demands and able.required == "yes"
    made = [ToolCall(tool, {"item": thing}) for thing in (things if able.parallel else things[:1])]
    if not made and forced:
        made = [ToolCall(tool, {"item": "nothing"})]
    if not made:
        return CHAT
    # Which question makes it leak is a matter of its words, not of its order.
    leaks = able.native == "leaks" or (able.native == "sometimes" and "chair" in things)
    if leaks:
        return "\n".join(f"<tool_call>\n{_json(call)}\n</tool_call>" for call in made)
    return calls(*made)


def _json(call: ToolCall) -> str:
    return json.dumps({"name": call.name, "arguments": call.arguments})


# ---- calls as the prompt describes them


def _written(able: Able, told: str, things: list[str]) -> str:
    tool = re.search(r"^- (\w+)\b", told, re.MULTILINE)
    if tool is None:
        return ""
    for name, (shown, write) in _FORMATS.items():
        found = re.search(shown, told)
        if found and name in able.speaks:
            mark = (found[1] or "") if able.copies_marks else ""
            return "\n".join(write(tool[1], thing, mark) for thing in things)
    return ""


def _invoke(tool: str, thing: str, mark: str) -> str:
    body = f'<invoke name="{tool}">\n<parameter name="item">{thing}</parameter>\n</invoke>'
    return f"<function_calls{mark}>\n{body}\n</function_calls>"


def _line(tool: str, thing: str, mark: str) -> str:
    signed = {"nonce": mark} if mark else {}
    return json.dumps({**signed, "tool": tool, "args": {"item": thing}})


#: How a format is recognised in a prompt, with its mark, and how a call is written in it.
_FORMATS: dict[str, tuple[str, Callable[[str, str, str], str]]] = {
    "action": (
        r"```json action( \w+)?\n",
        lambda tool, thing, mark: (
            f"```json action{mark}\n{json.dumps({'tool': tool, 'parameters': {'item': thing}})}\n```"
        ),
    ),
    "hermes": (
        r"<tool_call( \w+)?>",
        lambda tool, thing, mark: f"<tool_call{mark}>\n{_json(ToolCall(tool, {'item': thing}))}\n</tool_call>",
    ),
    "invoke": (r"<function_calls( \w+)?>\n<invoke", _invoke),
    "tool_line": (r'\{(?:"nonce":"(\w+)",)?"tool":', _line),
    "pythonic": (
        r"```tool_code( \w+)?\n",
        lambda tool, thing, mark: f'```tool_code{mark}\n[{tool}(item="{thing}")]\n```',
    ),
    "react": (
        r"Action( \w+)?: ",
        lambda tool, thing, mark: f'Action{mark}: {tool}\nAction Input: {{"item": "{thing}"}}',
    ),
}


# ---- what the server enforces


def _enforced(able: Able, request: Request) -> str | None:
    fields = request.options.grammar
    things = _things(request.messages[-1].text) if able.fills else []
    if "response_format" in fields and able.schema == "enforces":
        return json.dumps(_instance(fields["response_format"]["json_schema"]["schema"], things))
    if "format" in fields and able.schema == "enforces":
        return json.dumps(_instance(fields["format"], things))
    if "grammar" in fields and able.grammar == "enforces":
        return _sentence(fields["grammar"])
    return None


def _instance(schema: dict[str, Any], things: list[str]) -> Any:
    """What a schema allows and the model wants to say: a value for each thing that it was asked about."""
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return _instance(schema["anyOf"][0], things)
    if schema.get("type") == "array":
        return [_instance(schema["items"], [thing]) for thing in things]
    if schema.get("type") == "object":
        return {name: _instance(each, things) for name, each in schema["properties"].items()}
    return things[0] if things else "text"


def _sentence(grammar: str) -> str:
    """The first sentence of a GBNF grammar of literals and names."""
    rules = dict(re.findall(r"^([\w-]+) ::= (.*)$", grammar, re.MULTILINE))

    def expand(name: str) -> str:
        parts = re.findall(r'("(?:[^"\\]|\\.)*"|[\w-]+)(\?)?', rules[name])
        return "".join(
            json.loads(part) if part.startswith('"') else expand(part) for part, optional in parts if not optional
        )

    return expand("root")

"""Brings public data sets for function calling into one form: a request, its tools, and the calls that serve it.

    python -m training.gather --out recorded toolace.json xlam.jsonl glaive.json rlla_sft.json

What form a file has is told by its rows; these are known: xLAM's (`query`, `tools`, `answers`), ToolRL's (`instruction`, `input`,
`output`), Glaive's (`system`, `chat`), and conversations (ToolACE, and what others made of Glaive), whose tools stand beside them
or in the words of the system. Of a conversation only the first request counts. What cannot be read is left out, and told how
often. What of it can be trained on is decided by `recorded`, what shares something with a test by `overlap`. Above: nothing.
Below: `seal`.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from toolspeak.core.types import JSONObject, JSONValue, is_object

from .seal import rows_of

_SORRY = re.compile(r"\s*(?:I'm sorry|Sorry|I apologi[sz]e|As an AI|I'm afraid|Unfortunately)", re.IGNORECASE)
_GLAIVE = re.compile(r"\s*<functioncall>\s*\{\"name\":\s*\"([^\"]+)\",\s*\"arguments\":\s*'(.*)'\}\s*$", re.DOTALL)
_NUMBERED = re.compile(r"^\d+\. Name: (.*)\nDescription: (.*)\nParameters: (\{.*\})$", re.MULTILINE)
_CALLS = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_USER = re.compile(r"<user>(.*?)</user>", re.DOTALL)
_RESPONSE = re.compile(r"<response>(.*)", re.DOTALL)
_SPEAKER = re.compile(r"(?:^|\n\s*)(USER|ASSISTANT|FUNCTION RESPONSE): ")
#: What the roles of a conversation are called.
_ROLES = {"human": "user", "gpt": "assistant", "function_call": "tool_call", "USER": "user", "ASSISTANT": "assistant"}
#: Of prose instead of a call so much is kept.
_LONGEST = 220


class Unreadable(ValueError):
    """A row that does not say what was asked or called."""


class Said(NamedTuple):
    """A message, and the calls that it makes if they stand beside its text."""

    role: str
    text: str
    calls: list[JSONObject] | None


def _objects(text: str) -> Iterator[JSONObject]:
    """The objects in a text that have a name, one after another."""
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        try:
            found, end = decoder.raw_decode(text, at)
        except ValueError:
            end = at + 1
        else:
            if is_object(found) and "name" in found:
                yield found
        at = text.find("{", end)


def _decoded(value: JSONValue) -> JSONValue:
    """What is often written as a text within the JSON."""
    return json.loads(value) if isinstance(value, str) else value


def _functions(value: JSONValue) -> list[JSONObject]:
    tools: list[JSONObject] = _decoded(value) or []
    return [_shortened(tool.get("function", tool)) for tool in tools]


def _shortened(tool: JSONObject) -> JSONObject:
    """A tool of xLAM, also where its short form was put into a schema that demands nothing; without empty defaults.

    What has no default is required (`recorded`), and an empty text is none.
    """
    given = tool.get("parameters")
    if not is_object(given):
        return tool
    inner = given.get("properties")
    short = inner if is_object(inner) and given.get("required") == [] else given
    return {**tool, "parameters": _without_empty_defaults(short)}


def _called(call: JSONObject) -> JSONObject:
    call = call.get("function", call)
    return {"name": call["name"], "arguments": _decoded(call.get("arguments", call.get("parameters", {})))}


# ---- the forms


def of_fields(row: JSONObject) -> JSONObject:
    """A row of xLAM."""
    calls: list[JSONObject] = _decoded(row["answers"])
    return {"query": row["query"], "tools": _functions(row["tools"]), "answers": [_called(call) for call in calls]}


def of_instruction(row: JSONObject) -> JSONObject:
    """A row of ToolRL: tools by number, and marked calls or a marked response. Its thoughts are not kept."""
    tools = [
        {"name": name, "description": about, "parameters": _without_empty_defaults(json.loads(parameters))}
        for name, about, parameters in _NUMBERED.findall(row["instruction"])
    ]
    asked, calls = _USER.findall(row["input"]), _CALLS.search(row["output"])
    if len(asked) != 1 or "<obs>" in row["input"]:
        raise Unreadable("not one request")
    if calls is None:
        said = _RESPONSE.search(row["output"])
        return {"query": asked[0].strip(), "tools": tools, **_declined(said[1] if said else "")}
    answers = [_called(json.loads(line)) for line in calls[1].strip().splitlines()]
    return {"query": asked[0].strip(), "tools": tools, "answers": answers}


def _without_empty_defaults(parameters: JSONObject) -> JSONObject:
    return {
        name: {key: value for key, value in each.items() if (key, value) != ("default", "")}
        if is_object(each)
        else each
        for name, each in parameters.items()
    }


def of_conversation(row: JSONObject) -> JSONObject:
    """The first request of a conversation, and what was done about it."""
    said = [_said(each) for each in row.get("messages") or row.get("conversations") or row.get("input_messages") or ()]
    if "input_messages" in row and said and said[-1].role == "user":  # the answer stands beside them
        said.append(Said("assistant", str(row.get("ground_truth") or ""), None))
    system = "".join(each.text for each in said if each.role == "system") or str(row.get("system") or "")
    said = [each for each in said if each.role != "system"]
    if len(said) < 2 or said[0].role != "user":
        raise Unreadable("no request with an answer")
    at = system.find("[{")
    if row.get("tools"):
        tools = _functions(row["tools"])
    elif at >= 0:
        tools = [each for each in json.JSONDecoder().raw_decode(system, at)[0] if is_object(each) and each.get("name")]
    else:
        tools = list(_objects(system))
    if not tools:
        raise Unreadable("no tools")
    return {"query": said[0].text, "tools": tools, **_answer(said[1:], tools, any_prose=at >= 0)}


def of_chat(row: JSONObject) -> JSONObject:
    """A row of Glaive: a conversation in one text."""
    parts = _SPEAKER.split(row["chat"].replace("<|endoftext|>", ""))[1:]
    messages = [{"role": role, "content": text.strip()} for role, text in zip(parts[::2], parts[1::2], strict=True)]
    return of_conversation({"system": row["system"], "messages": messages})


def _said(message: JSONObject) -> Said:
    role = str(message.get("role") or message.get("from"))
    calls: list[JSONObject] | None = message.get("tool_calls")
    return Said(_ROLES.get(role, role), str(message.get("content") or message.get("value") or ""), calls)


def _answer(said: list[Said], tools: list[JSONObject], any_prose: bool) -> JSONObject:
    """What the first answer calls; or what it says instead, which in ToolACE (`any_prose`) is to the point."""
    first = said[0]
    if first.calls:
        return {"answers": [_called(call) for call in first.calls]}
    if first.role == "tool_call":
        return {
            "answers": [_called(json.loads(each.text)) for each in takewhile(lambda it: it.role == "tool_call", said)]
        }
    if (written := _GLAIVE.match(first.text)) is not None:
        return {"answers": [{"name": written[1], "arguments": json.loads(written[2])}]}
    if first.role != "assistant":
        raise Unreadable("no answer")
    if not any_prose:
        return _declined(first.text)
    if first.text.lstrip().startswith("["):
        return {"answers": _as_python(first.text.strip(), [tool["name"] for tool in tools])}
    reply = re.split(r"(?<=[.!?])\s", first.text.strip().replace("\n", " "), maxsplit=1)[0]
    return {"answers": [], "reply": reply[:_LONGEST]}


def _declined(text: str) -> JSONObject:
    if not _SORRY.match(text):
        raise Unreadable("prose that may mean anything")
    return {"answers": []}


def _as_python(text: str, names: list[str]) -> list[JSONObject]:
    """Calls in a list as Python would write them, but for the names, which may hold spaces. Nothing is run."""
    stand_ins = {f"f{number}_": name for number, name in enumerate(sorted(names, key=len, reverse=True))}
    for stand_in, name in stand_ins.items():
        text = text.replace(f"{name}(", f"{stand_in}(")
    body = ast.parse(text, mode="eval").body
    calls = [each for each in getattr(body, "elts", ()) if isinstance(each, ast.Call) and not each.args]
    if not isinstance(body, ast.List) or len(calls) < len(body.elts):
        raise Unreadable("not a list of calls")
    return [
        {
            "name": stand_ins[ast.unparse(call.func)],
            "arguments": {str(given.arg): ast.literal_eval(given.value) for given in call.keywords},
        }
        for call in calls
    ]


#: A row that has these keys has this form; the first that fits.
_FORMS: tuple[tuple[frozenset[str], Callable[[JSONObject], JSONObject]], ...] = (
    (frozenset({"query", "tools", "answers"}), of_fields),
    (frozenset({"instruction", "input", "output"}), of_instruction),
    (frozenset({"system", "chat"}), of_chat),
    (frozenset({"messages"}), of_conversation),
    (frozenset({"conversations"}), of_conversation),
    (frozenset({"input_messages"}), of_conversation),
)


def gathered(row: JSONValue) -> JSONObject | None:
    """The row in the one form; nothing where it cannot be read."""
    form = next((read for keys, read in _FORMS if keys <= row.keys()), None) if is_object(row) else None
    if form is None:
        return None
    try:
        found: JSONObject = json.loads(json.dumps(form(row)))  # what Python can say and JSON cannot is not for tools
        if isinstance(found["query"], str) and all(isinstance(tool["name"], str) for tool in found["tools"]):
            return found
        return None
    except (ValueError, KeyError, TypeError, AttributeError, SyntaxError, RecursionError):
        return None


def _rows(file: Path) -> list[JSONValue]:
    if file.suffix not in (".json", ".jsonl"):
        raise SystemExit(f"{file}: only .json with a list and .jsonl can be read")
    try:
        rows: JSONValue = json.loads(file.read_text(encoding="utf-8")) if file.suffix == ".json" else rows_of(file)
    except (OSError, ValueError) as error:
        raise SystemExit(f"{file} cannot be read: {error}") from error
    if not isinstance(rows, list):
        raise SystemExit(f"{file}: a list of rows was expected")
    return rows


def main() -> None:
    """Read files and keep what could be read of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", help="data sets as they come: .json with a list, or .jsonl")
    parser.add_argument("--out", type=Path, default=Path("recorded"), help="the folder for what could be read")
    asked = parser.parse_args()
    if len({file.stem for file in asked.files}) < len(asked.files):
        raise SystemExit("two files of one name would become one: give them other names")
    asked.out.mkdir(parents=True, exist_ok=True)
    for file in asked.files:
        rows = _rows(file)
        found = [row for row in map(gathered, rows) if row is not None]
        print(f"{file.name}: {len(found)} of {len(rows)} read")
        lines = "".join(json.dumps(row) + "\n" for row in found)
        (asked.out / f"{file.stem}.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()

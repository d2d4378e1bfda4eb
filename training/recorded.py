"""Requests of public data sets for function calling, with the tools that they came with and the calls that serve them.

A folder holds files `*.jsonl`; a line is `{"query": ..., "tools": [...], "answers": [{"name": ..., "arguments": {...}}]}`, as
xLAM is written, and perhaps `reply`; parameters may be a JSON schema or xLAM's own short form. Such data is noisy: a call whose values do not stand
in the request teaches to invent them, so it is left out, and an optional value that repeats the default goes. One request in
ten is never trained on. Above: `scenes`, `measure`. Below: `seal` (how files are read and values compared).
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from toolspeak.core.schema.argument_schema import ArgumentSchema
from toolspeak.core.types import JSONObject, JSONValue, Tool, ToolCall
from toolspeak.errors import SchemaError

from .family import Style
from .held_out import is_held_out
from .seal import TYPES, rows_of, stands_in, typed

#: Of so many requests one is held out.
HELD_OUT = 10
#: Prompts beyond this do not fit a row.
_LONGEST, _MOST_TOOLS = 900, 12
#: How often a request is drawn that no tool serves, and of the rest one that takes several calls: most that is recorded takes one.
_NONE, _SEVERAL = 0.12, 0.3
_TYPES = {**TYPES, **{name: name for name in TYPES.values()}, "tuple": "array", "set": "array"}


class Record(NamedTuple):
    """A request, its tools, and the calls that serve it; none, where no tool does."""

    request: str
    tools: tuple[Tool, ...]
    calls: tuple[ToolCall, ...]
    #: What is said instead of a call, where that was recorded.
    reply: str = ""

    def styled(self, rng: random.Random, style: Style) -> Record:
        """The same with names as the rest of a list has them."""
        if rng.random() < 0.5:
            return self
        names = {tool.name: style.named(_under(tool.name)) for tool in self.tools}
        if len(set(names.values())) < len(names):
            return self
        return Record(
            self.request,
            tuple(Tool(names[tool.name], style.told(tool.description), tool.parameters) for tool in self.tools),
            tuple(ToolCall(names[call.name], call.arguments) for call in self.calls),
            self.reply,
        )

    def without(self, others: tuple[Tool, ...]) -> Record:
        """The same request where only these tools are listed, none of which serves it."""
        return Record(self.request, others, ())


class Recorded:
    """All requests of a folder that can be used."""

    def __init__(self, folder: Path, held_out: bool = False) -> None:
        found = {record.request: record for path in sorted(folder.glob("*.jsonl")) for record in _records(path)}
        if not found:  # a folder that was mistaken for another would be missed only in what was learned
            raise SystemExit(f"{folder} holds no *.jsonl with a request that can be used")
        chosen = [record for record in found.values() if is_held_out(record.request, HELD_OUT) == held_out]
        self.calling = [record for record in chosen if record.calls]
        self.declining = [record for record in chosen if not record.calls]
        self._by_tool = _by_tool(self.calling)
        self._several = _by_tool([record for record in self.calling if len(record.calls) > 1])

    def draw(self, rng: random.Random) -> Record:
        """One of them; each tool as often as another."""
        if self.declining and rng.random() < _NONE:
            return rng.choice(self.declining)
        tools = self._several if self._several and rng.random() < _SEVERAL else self._by_tool
        return rng.choice(tools[rng.choice(list(tools))])


def _by_tool(records: list[Record]) -> dict[str, list[Record]]:
    """The records by the tool that is called first."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.calls[0].name, []).append(record)
    return found


def _records(path: Path) -> Iterator[Record]:
    for row in rows_of(path):
        try:
            record = record_of(row["query"].strip(), row["tools"], row["answers"])
        except (KeyError, TypeError, AttributeError):  # a type where another is meant: such data is noisy
            continue
        if record is not None:
            yield record._replace(reply=row.get("reply", ""))


def record_of(request: str, tools: list[JSONObject], answers: list[JSONObject]) -> Record | None:
    """The record, where it can be trained on."""
    listed = {name_of(each["name"]): _tool(each) for each in tools[:_MOST_TOOLS]}
    calls = [_call(each, listed.get(name_of(each["name"])), request) for each in answers]
    kept = [call for call in calls if call is not None]
    if not listed or len(kept) < len(calls) or not 8 < len(request) < _LONGEST:
        return None
    if not all(map(_can_be_served, listed.values())):
        return None
    if len({json.dumps([call.name, call.arguments]) for call in kept}) < len(kept):
        return None
    return Record(request, tuple(listed.values()), tuple(kept))


def _can_be_served(tool: Tool) -> bool:
    """Whether a request may list it: the engine refuses schemas that are none, and would in the midst of the training."""
    try:
        ArgumentSchema.of(tool.parameters)
    except SchemaError:
        return False
    return True


def name_of(name: str) -> str:
    """A name as tools have them."""
    return re.sub(r"[^\w.-]+", "_", name.strip()).strip("_")[:64] or "tool"


def _under(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()


def _tool(row: JSONObject) -> Tool:
    given = row.get("parameters") or {}
    schema = given if given.get("type") in ("object", "dict") and "properties" in given else _schema(given)
    return Tool(name_of(row["name"]), str(row.get("description") or "").strip()[:300], _normal(schema))


def _schema(short: JSONObject) -> JSONObject:
    """A JSON schema from xLAM's short form: what has no default and is not called optional is required."""
    given = {name: each for name, each in short.items() if isinstance(each, dict)}
    required = [
        name for name, each in given.items() if "default" not in each and "optional" not in str(each.get("type"))
    ]
    return {"type": "object", "properties": given, "required": required}


def _normal(schema: JSONObject) -> JSONObject:
    """The schema with JSON's names of types, and without defaults that say nothing."""
    out = {key: value for key, value in schema.items() if key not in ("default", "optional")}
    if "type" in out:
        out["type"], items = _type(out["type"])
        if out["type"] == "array" and not isinstance(out.get("items"), dict):
            out["items"] = items
    if schema.get("default") not in (None, "", [], {}):
        out["default"] = typed(schema["default"], str(out.get("type")))
    if isinstance(out.get("properties"), dict):
        out["properties"] = {name: _normal(each) for name, each in out["properties"].items() if isinstance(each, dict)}
        out["required"] = [name for name in out.get("required") or [] if name in out["properties"]]
    if isinstance(out.get("items"), dict):
        out["items"] = _normal(out["items"])
    return out


def _type(given: JSONValue) -> tuple[str, JSONObject]:
    """A type, and that of its items: `List[int], optional` is an array of integers."""
    words = re.findall(r"[a-z]+", str(given).lower())
    known = [_TYPES[word] for word in words if word in _TYPES]
    first = known[0] if known else "string"
    inner = known[1] if len(known) > 1 and known[1] != "array" else "string"
    return first, {"type": inner} if first == "array" else {}


def _call(row: JSONObject, tool: Tool | None, request: str) -> ToolCall | None:
    """The call, if it can be told from the request; without options that only repeat their default."""
    given = row.get("arguments") or {}
    if tool is None or not isinstance(given, dict) or set(given) - set(tool.parameters["properties"]):
        return None
    arguments: JSONObject = {}
    for name, schema in tool.parameters["properties"].items():
        required = name in tool.parameters["required"]
        if name not in given:
            if required:
                return None
            continue
        value = typed(given[name], str(schema.get("type")))
        told = _told(value, schema, request)
        if not told and not required and value in (schema.get("default"), "", None):
            continue
        if not told:
            return None
        arguments[name] = value
    return ToolCall(tool.name, arguments)


def _told(value: JSONValue, schema: JSONObject, request: str) -> bool:
    """Whether the request says this value."""
    if isinstance(value, dict):
        return all(_told(each, {}, request) for each in value.values())
    if isinstance(value, list):
        return all(_told(each, {}, request) for each in value)
    if value is None or value == "":
        return False
    return value in (schema.get("enum") or ()) or stands_in(value, request)

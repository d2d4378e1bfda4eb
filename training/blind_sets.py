"""Runs the blind test sets in `training/blind` through toolspeak and judges the answers.

    python -m training.blind_sets tasks --model embedded --out tasks.jsonl
    python -m training.blind_sets described --model parse --json

The sets were written without a look at the training data, and nothing here is trained on. `tasks` are run by toolspeak's
agent in a temporary folder; `closings` and `hostile` are one turn after a tool result; `described`, `ordinary` and `echoes`
are finished answers of another model, to be turned into calls or left alone. The model `parse` stands for toolspeak's
parser without any model and works for these three only. `--out FILE` keeps each result, and the same command resumes.

There is no bubblewrap sandbox around the shell tool unless one is installed; the program then says so and runs the
commands as ordinary processes, so use a machine or container that holds nothing of value.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import operator
import random
import re
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from toolspeak import AsyncAgent, AsyncClient, parse
from toolspeak.cli.agent_options import INSTRUCTIONS
from toolspeak.cli.config import load_config
from toolspeak.config import Config
from toolspeak.core.types import JSONObject, JSONValue, Message, TextPart, Tool, ToolCall, ToolResult
from toolspeak.errors import ToolError, ToolspeakError
from toolspeak.evaluation.statistics import wilson
from toolspeak.tools.approval import Approval
from toolspeak.tools.base import CallContext, Executable, ToolOutput
from toolspeak.tools.files import file_tools
from toolspeak.tools.final_output import FinalOutput
from toolspeak.tools.shell import Shell
from toolspeak.tools.wrappers import cut_short

from .served import part_of

FOLDER = Path(__file__).parent / "blind"
CHATS = ("closings", "hostile")
ANSWERS = ("described", "ordinary", "echoes")
SETS = ("tasks", *CHATS, *ANSWERS)
#: Four rounds are the most that a task takes; the others leave room for a detour and the final answer.
_MAX_ROUNDS = 8
_FINAL = FinalOutput.tool.name

#: Turns a model's answer into calls: the answer, the tools on offer, and the conversation before the answer.
Interpret: TypeAlias = Callable[[str, Sequence[Tool], Sequence[Message]], Awaitable[Sequence[ToolCall]]]


# ---- the files


class Field(NamedTuple):
    name: str
    head: str  # the rest of the line that names the field
    body: str  # the lines below it

    @property
    def text(self) -> str:
        return f"{self.head}\n{self.body}".strip("\n")


class Item(NamedTuple):
    id: str
    kind: str
    tools: str  # `agent`, `page` or the name of a tool set
    fields: tuple[Field, ...]

    def all(self, name: str) -> list[Field]:
        return [field for field in self.fields if field.name == name]

    def text(self, name: str) -> str:
        return next((field.text for field in self.fields if field.name == name), "")

    @property
    def checksum(self) -> int:
        return zlib.crc32(repr(self).encode())


_FIELD = re.compile(
    r"@(user|said|call|result|answer|want|file|dice|weather|holds|lacks|content|contains|gone|used|nocall|asked|"
    r"written|echo)(?: (.*))?"
)


def read_items(name: str) -> list[Item]:
    """Read a set. Echoes are several per block: one for each answer that repeats the call written there."""
    items = [_item(head, lines) for head, lines in _blocks(name)]
    return [each for item in items for each in _echoes(item)] if name == "echoes" else items


def _blocks(name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the heading of each block, a line that starts with `%% `, and the lines below it."""
    head, lines = "", list[str]()
    for line in (FOLDER / f"{name}.txt").read_text(encoding="utf-8").split("\n"):
        if line.startswith("%% "):
            if head:
                yield head, lines
            head, lines = line[3:], []
        else:
            lines.append(line)
    if head:
        yield head, lines


def _item(head: str, lines: list[str]) -> Item:
    id_, kind, tools = head.split()
    fields: list[tuple[str, str, list[str]]] = []
    for line in lines:
        if found := _FIELD.fullmatch(line):
            fields.append((found[1], found[2] or "", []))
        elif fields:
            fields[-1][2].append(line)
        elif line.strip():
            raise ValueError(f"{id_}: `{line}` stands before the first field")
    return Item(id_, kind, tools, tuple(Field(name, head, "\n".join(body).strip("\n")) for name, head, body in fields))


def _echoes(item: Item) -> Iterator[Item]:
    written = item.text("written")
    before = [field for field in item.fields if field.name not in ("written", "echo")]
    for number, echo in enumerate(item.all("echo"), 1):
        fields = [*before, Field("answer", echo.head, echo.body)]
        filled = (
            Field(name, head.replace("{{call}}", written), body.replace("{{call}}", written))
            for name, head, body in fields
        )
        yield Item(f"{item.id}.{number}", item.kind, item.tools, tuple(filled))


# ---- tools

_TOKEN = re.compile(r'"([^"]*)"|([\w./-]+)|([(){}\[\]?:,|])|(\s+)')
_TYPES = ("string", "integer", "number", "boolean", "null", "object")


class _Signature:
    """Reads one tool: `name(city: string "where", days?: integer, unit?: enum(C, F)) What it does.`

    `[type]` is an array, `{...}` an object with these properties, `any` accepts everything, `| null` allows null.
    """

    def __init__(self, line: str) -> None:
        self._line, self._at = line, 0

    def tool(self) -> Tool:
        name = self._next()
        parameters = self._object("(", ")")
        return Tool(name, self._line[self._at :].strip(), parameters)

    def _peek(self) -> str:
        found = _TOKEN.match(self._line, self._at)
        if found is None:
            raise ValueError(f"cannot read {self._line[self._at :]!r}")
        if found[4]:
            self._at = found.end()
            return self._peek()
        return found[0]

    def _next(self, expected: str = "") -> str:
        token = self._peek()
        if expected and token != expected:
            raise ValueError(f"`{expected}` expected at {self._line[self._at :]!r}")
        self._at += len(token)
        return token

    def _takes(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._next()
        return True

    def _object(self, opening: str, closing: str) -> JSONObject:
        properties: JSONObject = {}
        required: list[str] = []
        self._next(opening)
        while not self._takes(closing):
            name = self._next()
            if not self._takes("?"):
                required.append(name)
            self._next(":")
            schema = self._type()
            if self._peek().startswith('"'):
                schema["description"] = self._next()[1:-1]
            properties[name] = schema
            if not self._takes(","):
                self._next(closing)
                break
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}

    def _type(self) -> JSONObject:
        schema = self._plain_type()
        if self._peek() == "|":
            self._next()
            self._next("null")
            schema["type"] = [schema["type"], "null"]
            if "enum" in schema:
                schema["enum"] = [*schema["enum"], None]
        return schema

    def _plain_type(self) -> JSONObject:
        if self._peek() == "{":
            return self._object("{", "}")
        if self._takes("["):
            items = self._type()
            self._next("]")
            return {"type": "array", "items": items}
        word = self._next()
        if word == "enum":
            self._next("(")
            values = [self._next().strip('"')]
            while self._takes(","):
                values.append(self._next().strip('"'))
            self._next(")")
            return {"type": "string", "enum": values}
        if word == "any":
            return {}
        if word not in _TYPES:
            raise ValueError(f"`{word}` is not a type")
        return {"type": word}


@cache
def tool_sets() -> dict[str, tuple[Tool, ...]]:
    """Return the tool sets by name."""
    return {
        head.strip(): tuple(_Signature(line).tool() for line in lines if line.strip())
        for head, lines in _blocks("tool_sets")
    }


class _WorldTool:
    """A tool of the chat page, or the weather, with results that a task determines."""

    def __init__(self, tool: Tool, function: Callable[[JSONObject], str]) -> None:
        self.tool, self._function = tool, function

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        return ToolOutput(self._function(arguments))


#: The time at which all tasks take place.
_NOW = datetime(2025, 3, 14, 9, 26, 53, tzinfo=UTC)
_PAGE = (
    Tool(
        "clock",
        "Returns the current date and time in a time zone or city.",
        {
            "type": "object",
            "properties": {"zone": {"type": "string", "description": "such as Europe/Oslo; default: the user's own"}},
        },
    ),
    Tool(
        "calculator",
        "Evaluates an arithmetic expression with + - * / % ^ and brackets.",
        {
            "type": "object",
            "properties": {"expression": {"type": "string", "description": "such as (3 + 4) * 2"}},
            "required": ["expression"],
        },
    ),
    Tool(
        "dice",
        "Rolls dice and returns the results.",
        {
            "type": "object",
            "properties": {
                "count": {"type": "integer", "minimum": 1, "maximum": 100},
                "sides": {"type": "integer", "minimum": 2, "maximum": 1000},
            },
        },
    ),
)
_WEATHER = Tool(
    "get_weather",
    "Tells the current weather in a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def calculate(text: str) -> str:
    """Evaluate an arithmetic expression as the page's calculator does. Raises ToolError if it is not one."""

    def value(node: ast.AST) -> float:
        match node:
            case ast.Expression():
                return value(node.body)
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return number
            case ast.UnaryOp(op=ast.USub()):
                return -value(node.operand)
            case ast.UnaryOp(op=ast.UAdd()):
                return value(node.operand)
            case ast.BinOp() if type(node.op) in _OPERATORS:
                return _OPERATORS[type(node.op)](value(node.left), value(node.right))
            case _:
                raise ToolError(f"`{text[:40]}` is no sum")

    try:
        result = value(ast.parse(text.strip().replace("^", "**"), mode="eval"))
        return str(int(result) if result == int(result) else float(result))
    except (SyntaxError, ArithmeticError, ValueError, TypeError, RecursionError, MemoryError):
        raise ToolError(f"`{text[:40]}` is no sum") from None


def world_tools(item: Item) -> list[Executable]:
    """Return the page's tools, and the weather if the task knows any, with the results that the task determines."""
    throws = [int(number) for number in item.text("dice").split()] or [4, 2, 5, 1, 6, 3]

    def clock(arguments: JSONObject) -> str:
        zone = str(arguments.get("zone") or "UTC")
        try:
            now = _NOW.astimezone(ZoneInfo(zone))
        except (KeyError, ValueError, OSError):
            raise ToolError(f"Invalid time zone specified: {zone}") from None
        return f"{now:%A} {now.day} {now:%B %Y} at {now:%H:%M:%S %Z}"

    def dice(arguments: JSONObject) -> str:
        count, sides = int(arguments.get("count") or 1), int(arguments.get("sides") or 6)
        return ", ".join(str((throws[at % len(throws)] - 1) % sides + 1) for at in range(max(1, min(100, count))))

    known = {
        city.strip().casefold(): weather.strip()
        for city, _, weather in (field.head.partition(":") for field in item.all("weather"))
    }

    def weather(arguments: JSONObject) -> str:
        city = str(arguments.get("city", ""))
        found = known.get(city.partition(",")[0].strip().casefold())
        if found is None:
            raise ToolError(f"no weather station in `{city}`")
        return found

    functions = (clock, lambda arguments: calculate(str(arguments.get("expression", ""))), dice)
    tools: list[Executable] = [_WorldTool(tool, function) for tool, function in zip(_PAGE, functions, strict=True)]
    return [*tools, _WorldTool(_WEATHER, weather)] if known else tools


def agent_tools(folder: Path) -> tuple[list[Executable], str]:
    """Return the tools that `toolspeak run` offers, with consent to all calls, and why there is no sandbox, if so."""
    shell = Shell(folder, Approval(lambda _: "once"))
    return [*cut_short([*file_tools(folder), shell]), FinalOutput()], shell.problem


# ---- conversations


def call_from(text: str) -> ToolCall:
    """Read a call written as its name and its arguments in JSON."""
    name, _, arguments = text.partition(" ")
    return ToolCall(name, json.loads(arguments or "{}"))


def conversation(item: Item) -> list[Message]:
    """Return the messages before the answer that is judged."""
    messages: list[Message] = []
    waiting: list[str] = []
    for field in item.fields:
        match field.name:
            case "user" | "said":
                role = "user" if field.name == "user" else "assistant"
                messages.append(Message(role, (TextPart(field.text),)))
            case "call":
                call = call_from(field.text)
                call = ToolCall(call.name, call.arguments, f"call_{len(messages)}_{len(waiting)}")
                if waiting:
                    messages[-1] = Message("assistant", calls=(*messages[-1].calls, call))
                else:
                    messages.append(Message("assistant", calls=(call,)))
                waiting.append(call.id)
            case "result":
                id_ = waiting.pop(0)
                name = next(call.name for message in messages for call in message.calls if call.id == id_)
                messages.append(Message("tool", results=(ToolResult(id_, field.text, name),)))
            case _:
                pass
    return messages


def read_texts(messages: Sequence[Message]) -> list[str]:
    """Return the texts that the model has read, of which it may repeat parts."""
    results = [result.content for message in messages for result in message.results]
    return [*(message.text for message in messages if message.role in ("user", "system")), *results]


# ---- judges


class Outcome(NamedTuple):
    right: bool
    calls: list[JSONObject]
    text: str = ""
    obeyed: bool = False  # whether a call was made that a hostile result asked for


def _normal(text: str) -> str:
    text = re.sub(r"(?<=\d)[,\u2009\u202f\u00a0](?=\d{3})", "", text.casefold())
    text = text.replace("’", "'").replace("\u00a0", " ")
    return " ".join(re.sub(r"[`*]", "", text).split())


def holds(text: str, wanted: str) -> bool:
    """Whether a text holds one of the alternatives, which ` | ` separates, as whole words or numbers."""
    normal = _normal(text)
    patterns = (re.escape(_normal(each)) for each in wanted.split(" | "))
    return any(re.search(rf"(?<!\w)(?<!\d\.){each}(?!\w|\.\d)", normal) for each in patterns)


def _tells(item: Item, text: str) -> bool:
    """Whether an answer holds all that it must hold, and nothing that it must not."""
    wanted = all(holds(text, line) for field in item.all("holds") for line in field.text.splitlines())
    return wanted and not any(holds(text, line) for field in item.all("lacks") for line in field.text.splitlines())


def judge_task(item: Item, text: str, calls: Sequence[ToolCall], folder: Path) -> Outcome:
    names = {call.name for call in calls} - {_FINAL}
    right = bool(text.strip()) and _tells(item, text)
    right &= all(names & set(one.split("|")) for field in item.all("used") for one in field.head.split())
    right &= not (item.all("nocall") and names)
    for field in item.all("content"):
        right &= _content(folder / field.head).rstrip() == field.body.rstrip()
    for field in item.all("contains"):
        right &= field.body in _content(folder / field.head)
    right &= not any((folder / field.head).exists() for field in item.all("gone"))
    return Outcome(right, [_plain(call) for call in calls], text)


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return "\0"


def judge_turn(item: Item, text: str, calls: Sequence[ToolCall]) -> Outcome:
    """Judge a turn in which nothing may be called. A call of `final_output` is an answer."""
    summaries = [str(call.arguments.get("summary", "")) for call in calls if call.name == _FINAL]
    text = "\n".join([text, *summaries]).strip()
    names = [call.name for call in calls if call.name != _FINAL]
    asked = {name for field in item.all("asked") for name in field.head.split()}
    return Outcome(not names and _tells(item, text), [_plain(call) for call in calls], text, bool(asked & set(names)))


def judge_calls(item: Item, calls: Sequence[ToolCall]) -> Outcome:
    """Judge what was made of a finished answer: exactly the calls that are meant, in any order, or none."""
    wanted = sorted(_key(call_from(field.text)) for field in item.all("want"))
    return Outcome(sorted(map(_key, calls)) == wanted, [_plain(call) for call in calls])


def _plain(call: ToolCall) -> JSONObject:
    return {"name": call.name, "arguments": call.arguments}


def _key(call: ToolCall) -> str:
    return json.dumps([call.name, _number_form(call.arguments)], sort_keys=True)


def _number_form(value: JSONValue) -> JSONValue:
    """Write whole numbers alike, because `2` and `2.0` are the same number in JSON."""
    match value:
        case dict():
            return {name: _number_form(inner) for name, inner in value.items()}
        case list():
            return [_number_form(inner) for inner in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


# ---- runs


async def interpret_by_parser(answer: str, tools: Sequence[Tool], messages: Sequence[Message]) -> Sequence[ToolCall]:
    """Read an answer with toolspeak's parser alone: the baseline."""
    return parse(answer, tools, untrusted=read_texts(messages)).calls


class ModelInterpreter:
    """Reads answers as a turn with `interpreter = "embedded"` does: by the parser, else by the embedded model."""

    def __init__(self, config: Config) -> None:
        self._answer = ""
        settings: JSONObject = {"mode": "force", "retries": 0, "check_other_languages": False}
        self.client = AsyncClient(self._model, config=config, interpreter="embedded", **settings)

    def _model(self, messages: object) -> str:
        return self._answer

    async def __call__(self, answer: str, tools: Sequence[Tool], messages: Sequence[Message]) -> Sequence[ToolCall]:
        self._answer = answer
        return (await self.client.chat(messages or [Message("user", (TextPart("Go on."),))], tools)).calls


async def run_answers(items: Sequence[Item], interpret: Interpret, record: Callable[[Item, Outcome], None]) -> None:
    for item in items:
        try:
            calls = await interpret(item.text("answer"), tool_sets()[item.tools], conversation(item))
        except ToolspeakError as error:
            record(item, Outcome(False, [], f"error: {error}"))
        else:
            record(item, judge_calls(item, calls))


async def run_chats(items: Sequence[Item], client: AsyncClient, record: Callable[[Item, Outcome], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="blind-") as name:
        built_in = tuple(each.tool for each in agent_tools(Path(name))[0])
    for item in items:
        tools, messages = {"agent": built_in, "page": _PAGE, **tool_sets()}[item.tools], conversation(item)
        if item.tools == "agent":
            messages.insert(0, Message("system", (TextPart(INSTRUCTIONS),)))
        try:
            reply = await client.chat(messages, tools)
        except ToolspeakError as error:
            record(item, Outcome(False, [], f"error: {error}"))
        else:
            record(item, judge_turn(item, reply.text, reply.calls))


async def run_tasks(items: Sequence[Item], client: AsyncClient, record: Callable[[Item, Outcome], None]) -> None:
    """Run each task in the same folder, emptied before, because the folder's name is part of the prompt."""
    with tempfile.TemporaryDirectory(prefix="blind-") as name:
        work = Path(name, "work")
        for number, item in enumerate(items):
            _build_world(work, item)
            tools, problem = agent_tools(work)
            if problem and not number:
                print(f"note: shell commands run without a sandbox: {problem}", file=sys.stderr)
            of_page = item.tools == "page"
            agent = AsyncAgent(
                client,
                world_tools(item) if of_page else tools,
                instructions="" if of_page else INSTRUCTIONS,
                approve=lambda _: True,
                max_rounds=_MAX_ROUNDS,
                max_output=None,
            )
            async with agent:
                result = await agent.run(item.text("user"))
            calls = [each.call for round_ in result.rounds for each in round_.calls]
            record(item, judge_task(item, result.text, calls, work))


def _build_world(work: Path, item: Item) -> None:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    for field in item.all("file"):
        path = work / field.head
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{field.body}\n" if field.body else "", encoding="utf-8")


class Results:
    """The results so far, by item, and in a file if there is one."""

    def __init__(self, path: str, items: Sequence[Item]) -> None:
        self._path = Path(path) if path else None
        self._total, self._started = len(items), time.monotonic()
        self.rows: dict[str, JSONObject] = {}
        checksums = {item.id: item.checksum for item in items}
        if self._path is not None and self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                if checksums.get(row["id"]) == row["checksum"]:
                    self.rows[row["id"]] = row

    def record(self, item: Item, outcome: Outcome) -> None:
        seconds = round(time.monotonic() - self._started, 2)
        self._started = time.monotonic()
        row = {"id": item.id, "kind": item.kind, "checksum": item.checksum, "seconds": seconds, **outcome._asdict()}
        self.rows[item.id] = row
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        mark = "right" if outcome.right else "wrong"
        print(f"[{len(self.rows)}/{self._total}] {item.id} {mark} {seconds} s", file=sys.stderr)

    def summary(self) -> list[JSONObject]:
        """Return how many are right, for each kind and in all."""
        rows = list(self.rows.values())
        kinds = {"all": rows} | {
            kind: [row for row in rows if row["kind"] == kind] for kind in sorted({row["kind"] for row in rows})
        }
        told: list[JSONObject] = []
        for kind, each in kinds.items():
            right = sum(row["right"] for row in each)
            low, high = wilson(right, len(each))
            numbers = {"right": right, "of": len(each), "share": round(right / max(1, len(each)), 3)}
            calls = {"with_calls": sum(any(call["name"] != _FINAL for call in row["calls"]) for row in each)}
            told.append(
                {
                    "kind": kind,
                    **numbers,
                    "low": round(low, 3),
                    "high": round(high, 3),
                    **calls,
                    "obeyed": sum(row["obeyed"] for row in each),
                }
            )
        return told


async def _run(asked: argparse.Namespace, items: Sequence[Item], results: Results) -> None:
    config = load_config({"adapter": asked.adapter} if asked.adapter else None)
    if asked.set in ANSWERS and asked.model == "parse":
        await run_answers(items, interpret_by_parser, results.record)
        return
    if asked.set in ANSWERS:
        interpret = ModelInterpreter(config)
        async with interpret.client:
            await run_answers(items, interpret, results.record)
        return
    model = "embedded:" if asked.model == "embedded" else asked.model
    async with AsyncClient(model, config=config) as client:
        await (run_tasks if asked.set == "tasks" else run_chats)(items, client, results.record)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--model", default="embedded", help="`embedded`, `parse`, or PROVIDER:MODEL")
    parser.add_argument("--adapter", default="", help="the embedded model's adapter, a GGUF file")
    parser.add_argument("--count", type=int, default=0, help="how many items, chosen at random; all if left out")
    parser.add_argument("--seed", type=int, default=0, help="chooses the items of --count")
    parser.add_argument("--part", type=part_of, default=(1, 1), help="run one part of the items, such as 2/16")
    parser.add_argument("--out", default="", help="keep each result in this file, and resume from it")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON lines")
    asked = parser.parse_args(arguments)
    if asked.model == "parse" and asked.set not in ANSWERS:
        parser.error("`parse` reads finished answers only")
    items = read_items(asked.set)
    if 0 < asked.count < len(items):
        items = random.Random(asked.seed).sample(items, asked.count)
    part, parts = asked.part
    items = items[part - 1 :: parts]
    results = Results(asked.out, items)
    asyncio.run(_run(asked, [item for item in items if item.id not in results.rows], results))
    for row in results.summary():
        if asked.json:
            print(json.dumps(row))
        else:
            obeyed = f", {row['obeyed']} obeyed" if asked.set == "hostile" else ""
            span = f"{row['low']:.1%} to {row['high']:.1%}"
            print(
                f"{row['kind']:<12} {row['right']}/{row['of']} right, {row['share']:.1%} ({span}), {row['with_calls']} with calls{obeyed}"
            )


if __name__ == "__main__":
    main()

"""The built-in suite, thirty small tasks in `builtin.json`, and suites in files like it, judged by exact rules.

A round is correct if the calls match the expected ones in any order, with every argument equal to one of its accepted
values. If no call is expected, the answer must be text without calls. Tools are not executed; the file has the results.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import msgspec

from ..core.text import system_reason
from ..core.types import JSONObject, JSONValue, Message, TextPart, Tool, ToolCall, is_array, is_object
from ..errors import UsageError
from .cases import EvalCase, Judgement, ModelAnswer


class ExpectedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    #: Accepted values of each argument; null means that it may be omitted. Other arguments are faults.
    arguments: dict[str, list[JSONValue]] = {}
    result: str = ""  # result of the call, if the conversation continues


class ExpectedRound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    calls: Annotated[tuple[ExpectedCall, ...], msgspec.Meta(max_length=100)] = ()
    says: tuple[str, ...] = ()  # strings of which the text must contain at least one, ignoring case


class _Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    category: str
    ask: str
    tools: tuple[str, ...]
    rounds: Annotated[tuple[ExpectedRound, ...], msgspec.Meta(min_length=1)]

    def case(self, tools: Mapping[str, Tool]) -> EvalCase:
        messages = (Message("user", (TextPart(self.ask),)),)
        return EvalCase(self.id, self.category, messages, tuple(tools[name] for name in self.tools))


class _SuiteFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: str
    tools: dict[str, JSONObject]
    tasks: tuple[_Task, ...]


class Builtin:
    """The tasks of a file, by default of the built-in one; `text` is its content, if it was read already.

    Raises UsageError if the tasks cannot be read.
    """

    def __init__(self, path: Path | None = None, text: bytes = b"") -> None:
        self.name = path.stem if path is not None else "builtin"
        try:
            text = text or (path or files("toolspeak.evaluation").joinpath("builtin.json")).read_bytes()
            file = msgspec.json.decode(text, type=_SuiteFile)
            tools = {name: Tool(name, each["description"], each["parameters"]) for name, each in file.tools.items()}
            self.cases: Sequence[EvalCase] = tuple(task.case(tools) for task in file.tasks)
        except (OSError, KeyError, msgspec.DecodeError, UnicodeDecodeError) as error:
            name = f"the suite `{path}`" if path is not None else "the suite"
            why = f"`{error.args[0]}` is missing" if isinstance(error, KeyError) else system_reason(error)
            hint = "use `builtin`, `bfcl`, or a file that the web page has exported" if path is not None else ""
            raise UsageError(f"cannot read {name}: {why}", hint=hint) from None
        self.file = file
        self.version = file.version  # version of the suite, which changes whenever a task changes
        self.rounds = {task.id: task.rounds for task in file.tasks}

    def judge(self, case: EvalCase, round_: int, answer: ModelAnswer) -> Judgement:
        rounds = self.rounds[case.id]
        judgement = judge_round(rounds[round_], answer)
        return msgspec.structs.replace(judgement, results=()) if round_ == len(rounds) - 1 else judgement


def judge_json(body: JSONObject) -> JSONValue:
    """Judge an answer to the round `expected` by its `calls` and `text`. Raises UsageError if they are invalid."""
    try:
        expected = msgspec.convert(body.get("expected"), ExpectedRound)
        answer = msgspec.convert({"calls": body.get("calls", []), "text": body.get("text", "")}, ModelAnswer)
    except msgspec.ValidationError as error:
        raise UsageError(f"invalid answer: {error}") from None
    return msgspec.to_builtins(judge_round(expected, answer))


def judge_round(expected: ExpectedRound, answer: ModelAnswer) -> Judgement:
    """Judge an answer by the expectations of one round. If it is correct, return the results of its calls as well."""
    if not expected.calls:
        return _judge_text(expected, answer)
    if not answer.calls:
        return Judgement(False, "no_call", f"expected {_names(expected)}")
    if len(answer.calls) != len(expected.calls):
        return Judgement(False, "wrong_count", f"{len(answer.calls)} calls, expected {len(expected.calls)}")
    if sorted(call.name for call in answer.calls) != sorted(each.name for each in expected.calls):
        names = ", ".join(call.name for call in answer.calls)
        return Judgement(False, "wrong_tool", f"{names}, expected {_names(expected)}")
    matches = _match_calls(answer.calls, expected.calls)
    if matches is None:
        return Judgement(False, "wrong_arguments", _differences(answer.calls, expected.calls))
    return Judgement(True, results=tuple(each.result for each in matches))


def _judge_text(expected: ExpectedRound, answer: ModelAnswer) -> Judgement:
    if answer.calls:
        return Judgement(False, "needless_call", ", ".join(call.name for call in answer.calls))
    if not answer.text.strip():
        return Judgement(False, "no_text", "neither a call nor text")
    text = answer.text.casefold()
    if expected.says and not any(each.casefold() in text for each in expected.says):
        return Judgement(False, "wrong_text", f"does not contain any of {', '.join(expected.says)}")
    return Judgement(True)


def _match_calls(calls: Sequence[ToolCall], expected: Sequence[ExpectedCall]) -> list[ExpectedCall] | None:
    """Return the expected calls in the order of the actual ones, or None unless they match one to one."""
    matches = [[place for place, each in enumerate(expected) if not _difference(call, each)] for call in calls]
    taken: dict[int, int] = {}  # the calls by the place of the expected call that they match

    def assign(call: int, tried: set[int]) -> bool:
        """Assign a call to an expected one, moving others if needed. Trying every order would take too long."""
        for place in matches[call]:
            if place not in tried:
                tried.add(place)
                if place not in taken or assign(taken[place], tried):
                    taken[place] = call
                    return True
        return False

    if not all(assign(call, set()) for call in range(len(calls))):
        return None
    return [expected[place] for place in sorted(taken, key=lambda place: taken[place])]


def _difference(call: ToolCall, expected: ExpectedCall) -> str:
    """Describe the first difference between a call and an expected call; empty if they match."""
    if call.name != expected.name:
        return f"`{call.name}` is not `{expected.name}`"
    unknown = sorted(set(call.arguments) - set(expected.arguments))
    if unknown:
        return f"`{unknown[0]}` is unexpected"
    for name, accepted in expected.arguments.items():
        if name not in call.arguments:
            if None not in accepted:
                return f"`{name}` is missing"
        elif not any(same_value(call.arguments[name], each) for each in accepted):
            return f"`{name}` is {msgspec.json.encode(call.arguments[name]).decode()[:80]}"
    return ""


def _differences(calls: Sequence[ToolCall], expected: Sequence[ExpectedCall]) -> str:
    """Describe why the first call without a match does not match any expected call."""
    for call in calls:
        differences = [_difference(call, each) for each in expected if each.name == call.name]
        if all(differences):
            return f"{call.name}: {differences[0]}"
    return "two calls match the same expected call"


def same_value(value: JSONValue, expected: JSONValue) -> bool:
    """Whether two JSON values are equal: 1 equals 1.0 but not true; case and surrounding spaces are ignored."""
    if isinstance(value, str) and isinstance(expected, str):
        return value.strip().casefold() == expected.strip().casefold()
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    if is_array(value) and is_array(expected):
        return len(value) == len(expected) and all(map(same_value, value, expected))
    if is_object(value) and is_object(expected):
        return value.keys() == expected.keys() and all(same_value(value[key], expected[key]) for key in expected)
    return bool(value == expected)


def _names(expected: ExpectedRound) -> str:
    return ", ".join(each.name for each in expected.calls)

"""The suite that comes with toolspeak: thirty small tasks as data, judged by exact rules.

A round is right if the calls are the expected ones, in any order, each with its name and with every argument equal to
one of the accepted values; where no call is expected, there must be none, and some text. Nothing is executed: the
results of calls stand in the data. Pure but for reading its own file.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

import msgspec

from ..core.types import JSONObject, JSONValue, Message, TextPart, Tool, ToolCall, is_array, is_object
from .cases import Answer, Case, Judgement


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that is expected."""

    name: str
    #: The values that each argument may have; null among them: it may also be left out. No others are right.
    arguments: dict[str, list[JSONValue]] = {}
    #: What the call returns, where the conversation goes on.
    result: str = ""


class Round(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is expected of one answer."""

    calls: tuple[Expected, ...] = ()
    #: The text must hold one of these, whatever the case of its letters.
    says: tuple[str, ...] = ()


class _Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    category: str
    ask: str
    tools: tuple[str, ...]
    rounds: tuple[Round, ...]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: str
    tools: dict[str, JSONObject]
    tasks: tuple[_Task, ...]


class Builtin:
    """The suite."""

    name = "builtin"

    def __init__(self) -> None:
        text = files("toolspeak.evaluation").joinpath("builtin.json").read_bytes()
        file = msgspec.json.decode(text, type=_File)
        tools = {name: Tool(name, each["description"], each["parameters"]) for name, each in file.tools.items()}
        #: Changes whenever a task does.
        self.version = file.version
        self.cases: Sequence[Case] = tuple(
            Case(
                task.id,
                task.category,
                (Message("user", (TextPart(task.ask),)),),
                tuple(tools[name] for name in task.tools),
            )
            for task in file.tasks
        )
        #: What is expected, by the id of the case.
        self.rounds = {task.id: task.rounds for task in file.tasks}

    def judge(self, case: Case, round_: int, answer: Answer) -> Judgement:
        """Whether an answer is right."""
        rounds = self.rounds[case.id]
        found = judge_round(rounds[round_], answer)
        last = round_ == len(rounds) - 1
        return msgspec.structs.replace(found, results=()) if last else found


def judge_round(wanted: Round, answer: Answer) -> Judgement:
    """Whether an answer is what one round expects; if so, with the results of its calls."""
    if not wanted.calls:
        return _judge_text(wanted, answer)
    if not answer.calls:
        return Judgement(False, "no_call", f"expected {_names(wanted)}")
    if len(answer.calls) != len(wanted.calls):
        return Judgement(False, "wrong_count", f"{len(answer.calls)} calls, expected {len(wanted.calls)}")
    if sorted(call.name for call in answer.calls) != sorted(each.name for each in wanted.calls):
        made = ", ".join(call.name for call in answer.calls)
        return Judgement(False, "wrong_tool", f"{made}, expected {_names(wanted)}")
    taken = _matched(answer.calls, wanted.calls)
    if taken is None:
        return Judgement(False, "wrong_arguments", _differences(answer.calls, wanted.calls))
    return Judgement(True, results=tuple(each.result for each in taken))


def _judge_text(wanted: Round, answer: Answer) -> Judgement:
    if answer.calls:
        return Judgement(False, "needless_call", ", ".join(call.name for call in answer.calls))
    if not answer.text.strip():
        return Judgement(False, "no_text", "neither a call nor a text")
    text = answer.text.casefold()
    if wanted.says and not any(each.casefold() in text for each in wanted.says):
        return Judgement(False, "wrong_text", f"nothing of {', '.join(wanted.says)} is in it")
    return Judgement(True)


def _matched(calls: Sequence[ToolCall], wanted: Sequence[Expected]) -> list[Expected] | None:
    """The expected calls in the order of those that were made; None where a call fits none that is left."""
    if not calls:
        return []
    for at, each in enumerate(wanted):
        if not _difference(calls[0], each):
            rest = _matched(calls[1:], [*wanted[:at], *wanted[at + 1 :]])
            if rest is not None:
                return [each, *rest]
    return None


def _difference(call: ToolCall, wanted: Expected) -> str:
    """What is wrong with a call; empty if nothing is."""
    if call.name != wanted.name:
        return f"`{call.name}` is not `{wanted.name}`"
    unknown = sorted(set(call.arguments) - set(wanted.arguments))
    if unknown:
        return f"`{unknown[0]}` is not wanted"
    for name, accepted in wanted.arguments.items():
        if name not in call.arguments:
            if None not in accepted:
                return f"`{name}` is missing"
        elif not any(same_value(call.arguments[name], each) for each in accepted):
            return f"`{name}` is {_short(call.arguments[name])}"
    return ""


def _differences(calls: Sequence[ToolCall], wanted: Sequence[Expected]) -> str:
    """What is wrong with the first call that is like none that is expected."""
    for call in calls:
        found = [_difference(call, each) for each in wanted if each.name == call.name]
        if all(found):
            return f"{call.name}: {found[0]}"
    return "two calls are the same one"


def same_value(value: JSONValue, wanted: JSONValue) -> bool:
    """Whether two JSON values are equal: 1 is 1.0, true is not 1; outer spaces and the case of letters are nothing."""
    if isinstance(value, str) and isinstance(wanted, str):
        return value.strip().casefold() == wanted.strip().casefold()
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if is_array(value) and is_array(wanted):
        return len(value) == len(wanted) and all(map(same_value, value, wanted))
    if is_object(value) and is_object(wanted):
        return value.keys() == wanted.keys() and all(same_value(value[key], wanted[key]) for key in wanted)
    return bool(value == wanted)


def _names(wanted: Round) -> str:
    return ", ".join(each.name for each in wanted.calls)


def _short(value: JSONValue) -> str:
    """A value in one line, not longer than a line."""
    return msgspec.json.encode(value).decode()[:80]

"""Tools and functions that raise what is meant to end the program: the agent goes on, and nobody waits for ever."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import threading
from typing import Any, cast

import pytest

from tests.agent_helpers import agent as async_agent
from tests.agent_helpers import calling, content, model, run, sender
from tests.cases import check_each
from toolspeak import Agent, Client, ToolCall, UsageError
from toolspeak.errors import ToolError

#: Nothing here takes longer, unless it hangs.
PATIENCE = 20.0


class _Mute(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


class _MuteToolError(ToolError):
    def __str__(self) -> str:
        raise ValueError("no words")


class _OwnBase(BaseException):
    pass


CASES = [
    (SystemExit(2), "SystemExit: 2"),
    (SystemExit(), "SystemExit"),
    (KeyboardInterrupt(), "KeyboardInterrupt"),
    (GeneratorExit("out"), "GeneratorExit: out"),
    (_OwnBase("mine"), "_OwnBase: mine"),
    (_Mute(), "_Mute"),
    (_MuteToolError("x"), "_MuteToolError"),
]


def in_time(work: Any) -> Any:
    """What a blocking function returns or raises; a test that hangs fails instead."""
    outcome: list[Any] = []

    def watched() -> None:
        try:
            outcome.append((work(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=watched, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert outcome, "it hangs"
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def blocking(error: BaseException) -> Any:
    def leave() -> str:
        """Leave."""
        raise error

    return leave


def coroutine(error: BaseException) -> Any:
    async def leave() -> str:
        """Leave."""
        await asyncio.sleep(0)
        raise error

    return leave


def child(error: BaseException) -> Any:
    async def leave() -> str:
        """Leave by way of another task."""
        async with asyncio.TaskGroup() as group:
            group.create_task(coroutine(error)())
        return ""

    return leave


@pytest.mark.requirement("F1")
@check_each(("error", "told"), CASES, ids=lambda value: type(value).__name__)
@check_each("make", [blocking, coroutine])
def test_whatever_a_tool_raises_the_model_is_told(make: Any, error: BaseException, told: str):
    with Client(model(calling(ToolCall("leave", {})), "It did not work.")) as client:
        result = in_time(lambda: Agent(client, [make(error)]).run("Go."))
        assert result.content == "It did not work."
        (record,) = result.rounds[0].calls
        assert record.result is not None
        assert (record.result.error, record.result.content) == (True, told)


@pytest.mark.requirement("F1")
@check_each("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_what_another_task_of_a_tool_raises_does_not_end_the_loop_either(error: BaseException):
    with Client(model(calling(ToolCall("leave", {})), "It did not work.")) as client:
        result = in_time(lambda: Agent(client, [child(error)]).run("Go."))
    assert result.content == "It did not work."
    assert content(result.rounds[0].calls[0]).startswith(type(error).__name__)


@pytest.mark.requirement("F1")
def test_a_parser_of_command_lines_in_a_tool_ends_nothing():
    def old_cli(n: str) -> str:
        """Parse."""
        with contextlib.redirect_stderr(io.StringIO()):
            return str(argparse.ArgumentParser().parse_args([n]))

    upstream = model(calling(ToolCall("old_cli", {"n": "--bogus"})), "It is bogus.")
    result = run(async_agent(upstream, old_cli).run("Parse it."))
    assert (result.content, content(result.rounds[0].calls[0])) == ("It is bogus.", "SystemExit: 2")


def test_a_function_that_is_asked_and_leaves_is_heard_by_the_caller():
    def approve(question: object) -> bool:
        raise SystemExit(4)

    with Client(model(calling(ToolCall("send", {"to": "anna"})), "Sent.", "Still here.")) as client:
        with pytest.raises(SystemExit):
            in_time(lambda: Agent(client, [sender([])], approve=approve).run("Send it."))
        assert in_time(lambda: client.chat("Hello?")).text  # the loop is alive


@check_each("limit", ["max_rounds", "max_tokens"])
def test_rounds_and_tokens_are_whole_numbers(limit: str):
    with pytest.raises(UsageError, match="whole number"):
        Agent(model("x"), (), **cast("Any", {limit: 1.5}))

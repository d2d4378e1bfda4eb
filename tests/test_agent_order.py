"""The order of the calls of one round: read-only calls in parallel, all others one after the other."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.agent_helpers import Held, agent, calling, content, model, run
from tests.cases import check_each
from toolspeak import AsyncAgent, AsyncClient, ToolCall, tool
from toolspeak.agent.calls import barriers
from toolspeak.core.types import JSONObject
from toolspeak.engine.planning.capabilities import Capabilities, Profile
from toolspeak.engine.rounds.loop import PlannedCall
from toolspeak.tools.approval import Question
from toolspeak.tools.base import CallContext, ToolOutput
from toolspeak.tools.files import file_tools

#: How often the event loop turns while a call runs: enough for every call that is free to start to do so.
_TURNS = 20


class Steps:
    """Tools that record when each of their calls starts and ends."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def acting(self, name: str = "act", **declared: Any) -> Callable[..., Any]:
        @tool(name=name, **declared)
        async def act(number: int) -> str:
            """Take one step."""
            self.log.append(f"start {name} {number}")
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            self.log.append(f"end {name} {number}")
            return f"{name} {number}"

        return act


def act(number: int, name: str = "act") -> ToolCall:
    return ToolCall(name, {"number": number}, f"{name}_{number}")


def one_by_one(*names: str) -> list[str]:
    return [f"{what} {name}" for name in names for what in ("start", "end")]


# ---- files


@pytest.mark.requirement("F4", "F5")
@pytest.mark.skipif(sys.platform == "win32", reason="files cannot be opened relative to folders")
def test_an_edit_builds_on_the_one_before_it(tmp_path: Path):
    file = tmp_path / "chain.txt"
    file.write_text("step 0")
    edits = [
        ToolCall("edit_file", {"path": "chain.txt", "old": f"step {at}", "new": f"step {at + 1}"}) for at in range(8)
    ]
    write = ToolCall("write_file", {"path": "chain.txt", "content": "step 0"})
    run(agent(model(calling(write, *edits), "Done."), *file_tools(tmp_path)).run("Edit it."))
    assert file.read_text() == "step 8"


# ---- order


@pytest.mark.requirement("F10")
@check_each("parallel", [None, True, False])
@check_each("declared", [{"side_effects": True}, {}])
def test_calls_that_may_change_something_run_one_after_the_other_in_the_order_of_the_model(
    declared: dict[str, Any], parallel: bool | None
):
    steps = Steps()
    asked = [act(number) for number in (3, 1, 2, 0)]
    upstream = model(calling(*asked), "Done.")
    run(agent(upstream, steps.acting(**declared), parallel=parallel).run("Go."))
    assert steps.log == one_by_one("act 3", "act 1", "act 2", "act 0")
    assert [each.content for each in upstream.requests[1].messages[-1].results] == ["act 3", "act 1", "act 2", "act 0"]


@pytest.mark.requirement("F10")
def test_calls_of_the_shell_run_one_after_the_other_whatever_the_tool_says_of_itself():
    steps = Steps()
    asked = [act(number, "shell") for number in range(3)]
    run(agent(model(calling(*asked), "Done."), steps.acting("shell", read_only=True)).run("Go."))
    assert steps.log == one_by_one("shell 0", "shell 1", "shell 2")


@pytest.mark.requirement("F4", "F10")
def test_read_only_calls_overlap_between_other_calls_and_the_record_shows_it():
    async def main() -> None:
        steps = Steps()
        pair = asyncio.Barrier(2)

        @tool(read_only=True)
        async def read(number: int) -> str:
            """Read, and wait for the other call that reads."""
            steps.log.append("start read")
            await pair.wait()
            steps.log.append("end read")
            return f"read {number}"

        asked = [act(0, "read"), act(1, "read"), act(0), act(1), act(2, "read"), act(3, "read"), act(2)]
        result = await agent(model(calling(*asked), "Done."), read, steps.acting()).run("Go.")
        reads = ["start read", "start read", "end read", "end read"]
        assert steps.log == [*reads, *one_by_one("act 0", "act 1"), *reads, *one_by_one("act 2")]
        expected = ["read 0", "read 1", "act 0", "act 1", "read 2", "read 3", "act 2"]
        records = result.rounds[0].calls
        assert [content(record) for record in records] == expected
        spans = [(record.started, record.started + record.seconds) for record in records]
        assert [first[1] > second[0] for first, second in pairwise(spans)] == [True, *[False] * 3, True, False]

    run(main())


def _reading(number: int) -> ToolCall:
    return act(number, "read")


@pytest.mark.requirement("F4")
def test_each_way_to_switch_parallel_calls_off_runs_read_only_calls_one_after_the_other():
    def log_of(client: AsyncClient, **options: Any) -> list[str]:
        steps = Steps()
        one = AsyncAgent(client, [steps.acting("read", read_only=True)], **options)
        result = run(one.run("Go."))
        assert [content(record) for record in result.rounds[0].calls] == ["read 0", "read 1"]
        return steps.log

    def client(**settings: Any) -> AsyncClient:
        return AsyncClient(model(calling(_reading(0), _reading(1)), "Done."), **settings)

    known = Capabilities()
    known.override_provider("openai", Profile("openai", parallel=False))

    one_at_a_time = one_by_one("read 0", "read 1")
    assert log_of(client()) == ["start read 0", "start read 1", "end read 0", "end read 1"]
    assert log_of(client(), parallel=False) == one_at_a_time
    assert log_of(client(parallel=False)) == one_at_a_time
    assert log_of(client(parallel=False), parallel=True) != one_at_a_time
    assert log_of(client(known=known)) == one_at_a_time


@pytest.mark.requirement("F4")
def test_a_call_that_cannot_run_does_not_change_the_order_of_the_others():
    steps = Steps()
    wrong = ToolCall("act", {"number": "many"}, "wrong")
    result = run(agent(model(calling(act(1), wrong, act(0)), "Done."), steps.acting(), retries=0).run("Go."))
    assert steps.log == one_by_one("act 1", "act 0")
    assert len(result.rounds[0].calls) == 3


@pytest.mark.requirement("F4")
@check_each(
    ("calls", "expected"),
    [
        ("", []),
        ("r", ["r"]),
        ("w", ["w"]),
        ("rr", ["rr"]),
        ("ww", ["w", "w"]),
        ("rrwrwwr", ["rr", "w", "r", "w", "w", "r"]),
    ],
)
def test_a_call_that_may_change_something_is_alone_between_two_barriers(calls: str, expected: list[str]):
    planned = [PlannedCall(ToolCall(kind, {}), False, "", read_only=kind == "r") for kind in calls]
    assert ["".join(each.call.name for each in batch) for batch in barriers(planned)] == expected


# ---- what ends a call early


@pytest.mark.requirement("F4", "F7")
def test_a_call_that_fails_or_is_denied_or_takes_too_long_lets_the_next_one_run():
    async def main() -> None:
        steps = Steps()

        @tool(side_effects=True)
        async def fail() -> str:
            """Fail."""
            steps.log.append("fail")
            raise ValueError("broken")

        def approve(question: Question) -> bool:
            steps.log.append(f"ask {question.tool.name}")
            return question.tool.name != "deny"

        asked = [ToolCall("fail", {}), act(0, "deny"), ToolCall("hold", {}), act(0)]
        tools = [
            fail,
            steps.acting("deny", side_effects=True),
            Held(side_effects=True),
            steps.acting(side_effects=True),
        ]
        one = agent(model(calling(*asked), "Done."), *tools, approve=approve, tool_timeout=0.05)
        result = await one.run("Go.")
        assert steps.log == ["ask fail", "fail", "ask deny", "ask hold", "ask act", *one_by_one("act 0")]
        results = [record.result for record in result.rounds[0].calls]
        assert [each is not None and each.error for each in results] == [True, True, True, False]

    run(main())


@pytest.mark.requirement("F7", "F4")
def test_a_cancelled_round_leaves_the_calls_after_a_barrier_unstarted_and_a_resumed_one_keeps_the_order():
    async def main() -> None:
        steps = Steps()
        held = Recorded(steps)
        again = [ToolCall("hold", {}, "h2"), act(1), act(2)]
        upstream = model(calling(act(0), ToolCall("hold", {}, "h1"), act(1), act(2)), calling(*again), "Done.")
        one = agent(upstream, steps.acting(), held, approve=lambda _: True)
        task = asyncio.create_task(one.run("Go."))
        await held.begun.wait()
        one.cancel()
        result = await task
        states = [record.state for record in result.rounds[0].calls]
        assert states == ["finished", "started", "planned", "planned"]
        steps.log.clear()
        held.let_go.set()
        result = await one.resume(result.session)
        assert result.content == "Done."
        assert steps.log == one_by_one("hold", "act 1", "act 2")

    run(main())


class Recorded(Held):
    """A tool with side effects that runs until it is let go, and records its start and end."""

    def __init__(self, steps: Steps) -> None:
        super().__init__(side_effects=True)
        self._steps = steps

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        self._steps.log.append("start hold")
        output = await super().run(arguments, context)
        self._steps.log.append("end hold")
        return output

"""Several sessions of one agent at once: what a person said in one of them counts in that one only."""

from __future__ import annotations

import asyncio

import pytest

from tests.agent_helpers import agent, calling, content, model, run, sender
from tests.cases import check_each
from toolspeak import ToolCall
from toolspeak.core.events import Event
from toolspeak.core.types import Request
from toolspeak.tools.approval import ApprovalAnswer, Question


@pytest.mark.requirement("F6")
@check_each("answer", ["tool", "call"])
def test_consent_given_in_one_session_does_not_count_in_another_that_runs_at_once(answer: ApprovalAnswer):
    sent: list[str] = []

    def turn(request: Request) -> str | list[Event]:
        last = request.messages[-1].text
        return calling(ToolCall("send", {"to": "anna"})) if last.startswith("Write") else "Done."

    async def main() -> tuple[list[str], list[str]]:
        asked: list[str] = []
        first_asked, go_on = asyncio.Event(), asyncio.Event()

        async def approve(question: Question) -> ApprovalAnswer:
            asked.append(question.session)
            if len(asked) > 1:
                return "deny"
            first_asked.set()
            await go_on.wait()
            return answer

        worker = agent(model(turn, again=True), sender(sent), approve=approve)
        one = asyncio.create_task(worker.run("Write to Anna."))
        await first_asked.wait()
        second_began = asyncio.Event()
        worker._on_event = lambda event: second_began.set()
        two = asyncio.create_task(worker.run("Write to Anna, again."))
        await second_began.wait()
        go_on.set()
        results = await one, await two
        assert asked == [result.session for result in results]
        assert results[0].session != results[1].session
        return asked, [content(result.rounds[0].calls[0]) for result in results]

    _, contents = run(main())
    assert contents == ["sent to anna", "the call was not allowed: the user said no"]
    assert sent == ["anna"]

"""Who says yes: rules, memory, `yes` in a sandbox, a person; and what never passes by itself."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolspeak.core.types import JSONObject, Tool
from toolspeak.tools.approval import Approval, ApprovalAnswer, ApprovalDecision, Question
from toolspeak.tools.base import CallContext

pytestmark = pytest.mark.requirement("F6")

WRITE = Tool("write", "", {"type": "object", "properties": {"path": {}}}, side_effects=True)
READ = Tool("read")


class Person:
    """Gives the answers one after the other."""

    def __init__(self, *answers: ApprovalAnswer) -> None:
        self.answers = list(answers)
        self.questions: list[Question] = []

    def __call__(self, question: Question) -> ApprovalAnswer:
        self.questions.append(question)
        return self.answers.pop(0)


def decide(
    approval: Approval,
    tool: Tool = WRITE,
    arguments: JSONObject | None = None,
    *,
    tainted: bool = False,
    sandboxed: bool = False,
) -> ApprovalDecision:
    context = CallContext("call_1", tainted=tainted)
    return asyncio.run(approval.decide(tool, arguments or {"path": "a"}, context, sandboxed=sandboxed))


def test_a_tool_that_changes_nothing_needs_nobody():
    assert decide(Approval(), READ) == ApprovalDecision(True, "the tool changes nothing", "harmless", "read", "call_1")


def test_with_nobody_to_ask_the_answer_is_no():
    decision = decide(Approval())
    assert (decision.allowed, decision.by) == (False, "nobody")
    assert "no one can approve it" in decision.reason


def test_a_rule_allows_and_a_rule_that_forbids_is_stronger():
    approval = Approval(allow=["write(docs/*)"], deny=["write(docs/secret*)", "read"])
    assert decide(approval, arguments={"path": "docs/a"}).by == "rule"
    assert decide(approval, arguments={"path": "docs/a"}).allowed
    assert not decide(approval, arguments={"path": "docs/secret"}).allowed
    assert not decide(approval, arguments={"path": "src/a"}).allowed
    assert not decide(approval, READ).allowed


def test_a_rule_that_forbids_is_not_got_round_by_signs_of_the_shell():
    shell = Tool("shell", "", {"type": "object", "properties": {"command": {}}}, side_effects=True)
    approval = Approval(Person("once"), allow=["shell"], deny=["shell(git push*)", "shell(rm *)"])
    for command in ("git push origin $B", "rm -rf ${HOME}", "rm x; true", "  rm x", "true && rm x", "echo $(rm x)"):
        decision = decide(approval, shell, {"command": command})
        assert (decision.allowed, decision.by) == (False, "rule"), command
    assert decide(approval, shell, {"command": "git status"}).allowed


def test_an_answer_counts_once_for_the_same_call_or_for_the_tool():
    once = Person("once", "deny")
    approval = Approval(once)
    assert decide(approval).allowed
    assert not decide(approval).allowed

    same = Person("call", "deny")
    approval = Approval(same)
    assert decide(approval).allowed
    assert decide(approval).by == "memory"
    assert not decide(approval, arguments={"path": "b"}).allowed

    always = Person("tool")
    approval = Approval(always)
    assert decide(approval).by == "person"
    assert decide(approval, arguments={"path": "b"}).by == "memory"
    assert len(always.questions) == 1


def test_a_new_session_remembers_nothing():
    person = Person("tool", "call", "deny")
    approval = Approval(person)
    decide(approval)
    approval.forget()
    assert decide(approval).by == "person"
    approval.forget()
    assert not decide(approval).allowed


def test_yes_counts_inside_the_sandbox_only():
    assert decide(Approval(yes=True), sandboxed=True).by == "yes"
    outside = decide(Approval(yes=True))
    assert not outside.allowed
    assert "outside a sandbox" in outside.reason


@pytest.mark.requirement("R-E10")
def test_a_tainted_call_with_side_effects_is_always_put_to_the_person():
    person = Person("tool", "deny", "deny")
    approval = Approval(person, allow=["write"])
    decide(Approval(person), tainted=False)
    assert decide(approval, tainted=True).by == "person"
    assert person.questions[-1].tainted
    assert "untrusted content" in person.questions[-1].reason
    # Not even what was said for every call of the tool covers it.
    remembered = Approval(Person("tool", "deny"))
    assert decide(remembered).allowed
    assert decide(remembered).by == "memory"
    assert not decide(remembered, tainted=True).allowed


def test_tainted_calls_of_tools_without_side_effects_pass():
    assert decide(Approval(), READ, tainted=True).allowed


def test_anything_but_a_clear_yes_is_a_no():
    odd: Any = Person("yes, sure")  # type: ignore[arg-type]
    assert not decide(Approval(odd)).allowed


def test_decisions_are_kept_with_their_reasons():
    approval = Approval(Person("deny"))
    decide(approval, READ)
    decide(approval, tainted=True)
    assert [(each.name, each.allowed, each.by, each.tainted) for each in approval.decisions] == [
        ("read", True, "harmless", False),
        ("write", False, "person", True),
    ]


def test_a_function_that_blocks_does_not_stop_the_rest():
    released = threading.Event()

    def ask(question: Question) -> ApprovalAnswer:
        released.wait(30)
        return "once"

    async def scenario() -> bool:
        deciding = asyncio.create_task(Approval(ask).decide(WRITE, {}, CallContext()))
        await asyncio.sleep(0)
        released.set()
        return (await deciding).allowed

    assert asyncio.run(scenario())


def test_an_answer_may_be_awaited():
    async def ask(question: Question) -> ApprovalAnswer:
        return "once"

    def later(ask: Callable[[Question], Awaitable[ApprovalAnswer]], question: Question) -> Awaitable[ApprovalAnswer]:
        return ask(question)

    class Asker:
        async def __call__(self, question: Question) -> ApprovalAnswer:
            return "deny"

    assert decide(Approval(ask)).allowed
    assert not decide(Approval(Asker())).allowed
    assert decide(Approval(functools.partial(later, ask))).allowed


def test_questions_come_one_at_a_time_and_an_answer_covers_those_that_wait():
    asked: list[str] = []

    async def ask(question: Question) -> ApprovalAnswer:
        asked.append(question.call_id)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(asked) == 1
        return "tool"

    async def scenario() -> list[ApprovalDecision]:
        approval = Approval(ask)
        calls = [approval.decide(WRITE, {"path": str(at)}, CallContext(f"c{at}")) for at in range(5)]
        return await asyncio.gather(*calls)

    decisions = asyncio.run(scenario())
    assert [each.by for each in decisions] == ["person", "memory", "memory", "memory", "memory"]


def test_consent_counts_in_the_session_in_which_it_was_asked_for(monkeypatch: pytest.MonkeyPatch):
    person = Person("tool", "call", "deny", "deny", "tool", "deny")
    approval = Approval(person)

    def by(session: str, path: str = "a") -> str:
        context = CallContext("call_1", session=session)
        return asyncio.run(approval.decide(WRITE, {"path": path}, context)).by

    assert [by("one"), by("two"), by("one"), by("two"), by("one", "b")] == [
        "person", "person", "memory", "memory", "memory",
    ]  # fmt: skip
    assert by("two", "b") == "person"
    assert by("three") == "person"
    assert [question.session for question in person.questions] == ["one", "two", "two", "three"]
    # A session that is forgotten to make room is asked about again.
    monkeypatch.setattr("toolspeak.tools.approval._MAX_SESSIONS", 2)
    assert by("four") == "person"
    assert by("one") == "person"

"""Agents that change files: no edit is lost, a conflict is told, every change has a diff and can be undone."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import toolspeak as ts
from tests.agent_helpers import Held, agent, calling, content, kinds, model, run
from tests.cases import size
from toolspeak import ToolCall
from toolspeak.agent.events import AgentEvent, FileChanged
from toolspeak.engine.rounds.transcript import FileDiff
from toolspeak.errors import NoSessionError, SessionBusyError, ToolError, UsageError
from toolspeak.store.session_interface import FileChange
from toolspeak.tools.approval import Approval
from toolspeak.tools.base import CallContext
from toolspeak.tools.files import file_tools
from toolspeak.tools.shell import Shell

pytestmark = [
    pytest.mark.requirement("F10"),
    pytest.mark.skipif(sys.platform == "win32", reason="files cannot be opened relative to folders"),
]
ROOT = Path(__file__).parents[1]


def edit(path: str, old: str, new: str) -> ToolCall:
    return ToolCall("edit_file", {"path": path, "old": old, "new": new})


# ---- order and conflicts


@pytest.mark.requirement("F4", "F5")
@pytest.mark.parametrize("number", [2, 6, 20])
def test_all_edits_of_one_file_in_one_answer_survive(tmp_path: Path, number: int):
    file = tmp_path / "list.txt"
    edits = [edit("list.txt", f"<{at}>", f"[{at}]") for at in range(number)]
    for _ in range(size(5, 100)):
        file.write_text("".join(f"<{at}>\n" for at in range(number)))
        with ts.Agent(model(calling(*edits), "Done."), file_tools(tmp_path)) as one:
            result = one.run("Edit it.")
        assert [content(record) for record in result.rounds[0].calls] == ["edited `list.txt`"] * number
        assert file.read_text() == "".join(f"[{at}]\n" for at in range(number))


def test_a_command_finds_what_was_written_before_it_in_the_same_answer(tmp_path: Path):
    shell = Shell(tmp_path, Approval(lambda _: "once"), sandbox=False)
    made = [
        ToolCall("write_file", {"path": "a.sh", "content": "echo one > out"}),
        ToolCall("shell", {"command": "sh a.sh; cat out"}),
        edit("out", "one", "two"),
        ToolCall("shell", {"command": "cat out"}),
    ]
    for _ in range(size(2, 20)):
        result = run(agent(model(calling(*made), "Done."), *file_tools(tmp_path), shell).run("Go."))
        texts = [content(record) for record in result.rounds[0].calls]
        assert ["one" in texts[1], "two" in texts[3]] == [True, True], texts


def editing(folder: Path, old: str, new: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.tools.editing_agent", str(folder), old, new]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("attempt", range(size(2, 20)))
def test_of_two_agents_in_two_processes_one_gets_a_conflict_and_no_edit_is_lost(tmp_path: Path, attempt: int):
    (tmp_path / "list.txt").write_text("one\ntwo\n")
    with ExitStack() as stack:
        agents = [stack.enter_context(editing(tmp_path, old, old.upper())) for old in ("one", "two")]
        for each in agents:
            assert each.stdout is not None
            assert each.stdout.readline() == "read\n"
        for each in agents:  # both have read the file as it was
            assert each.stdin is not None
            each.stdin.write("\n")
            each.stdin.flush()
        results = [json.loads(each.communicate(timeout=60)[0]) for each in agents]
    first, second = sorted(results, key=len)
    assert first == ["one\ntwo\n", "edited `list.txt`"]
    assert len(second) == 4
    assert "`list.txt` was changed by someone else since you last read it" in second[1]
    assert second[3] == "edited `list.txt`"
    assert (tmp_path / "list.txt").read_text() == "ONE\nTWO\n"


def test_agents_without_a_store_that_share_tools_have_sessions_of_their_own(tmp_path: Path):
    (tmp_path / "f").write_text("0")
    tools = file_tools(tmp_path)
    read = ToolCall("read_file", {"path": "f"})
    one = agent(model(calling(read), "Read.", calling(edit("f", "1", "2")), "Done."), *tools)
    other = agent(model(calling(edit("f", "0", "1")), "Done."), *tools)

    async def main() -> None:
        first = await one.run("Read it.")
        second = await other.run("Edit it.")
        assert first.session != second.session
        third = await one.run("Edit it.", first.session)
        assert "changed by someone else" in content(third.rounds[0].calls[0])

    run(main())
    assert (tmp_path / "f").read_text() == "1"


# ---- diffs


def test_an_edit_is_an_event_with_its_diff_and_so_is_its_record(tmp_path: Path):
    (tmp_path / "f").write_text("one\n")
    events: list[AgentEvent] = []
    one = agent(model(calling(edit("./f", "one", "two")), "Done."), *file_tools(tmp_path), on_event=events.append)
    result = run(one.run("Edit it."))
    diff = "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-one\n+two\n"
    changed = [event for event in events if isinstance(event, FileChanged)]
    assert [(event.path, event.diff) for event in changed] == [("f", diff)]
    assert kinds(events).index("CallStarted") < kinds(events).index("FileChanged") < kinds(events).index("ResultReady")
    assert result.rounds[0].calls[0].diffs == (FileDiff("f", diff),)


def test_an_edit_that_fails_is_no_event(tmp_path: Path):
    events: list[AgentEvent] = []
    one = agent(model(calling(edit("f", "one", "two")), "Done."), *file_tools(tmp_path), on_event=events.append)
    run(one.run("Edit it."))
    assert "FileChanged" not in kinds(events)


def test_a_tool_of_a_loop_that_has_ended_cannot_record_a_change():
    held = Held(side_effects=True)
    held.let_go.set()
    run(agent(model(calling(ToolCall("hold", {})), "Done."), held).run("Go."))
    (context,) = held.contexts
    with pytest.raises(ToolError, match="the agent has ended, so nothing was changed"):
        context.record_change(FileChange("/", "f", "", ""))


def test_a_tool_that_outlives_its_call_cannot_record_a_change():
    async def main() -> None:
        held = Held(side_effects=True)
        held.let_go.set()
        await agent(model(calling(ToolCall("hold", {})), "Done."), held).run("Go.")
        context: CallContext = held.contexts[0]
        with pytest.raises(UsageError, match="is not running"):
            await asyncio.to_thread(context.record_change, FileChange("/", "f", "", ""))

    run(main())


# ---- undo


@pytest.mark.parametrize("store", [None, "sqlite"])
def test_an_agent_undoes_what_a_session_changed(tmp_path: Path, store: str | None):
    if store:
        pytest.importorskip("sqlalchemy")
        store = f"sqlite:///{tmp_path}/sessions.db"
    work = tmp_path / "work"
    work.mkdir()
    (work / "f").write_text("0")
    made = [edit("f", "0", "1"), ToolCall("write_file", {"path": "new/g", "content": "x"}), edit("f", "1", "2")]
    with ts.Agent(model(calling(*made), "Done."), file_tools(work), store=store) as one:
        session = one.run("Go.").session
        assert one.undo(session, dry_run=True).complete
        assert (work / "f").read_text() == "2"
        result = one.undo(session)
        assert {file.path: file.action for file in result.files} == {"f": "restored", "new/g": "deleted"}
        assert [(path.name, path.read_text()) for path in work.iterdir()] == [("f", "0")]
        assert one.undo(session).files == ()
        assert not result.ran_shell
        with pytest.raises(NoSessionError):
            one.undo("nowhere")
        with pytest.raises(UsageError, match="without a session"):
            one.undo("")


def test_undo_says_that_commands_of_the_shell_are_not_covered(tmp_path: Path):
    shell = Shell(tmp_path, Approval(lambda _: "once"), sandbox=False)

    async def main() -> Any:
        one = agent(model(calling(ToolCall("shell", {"command": "echo 1 > f"})), "Done."), shell)
        return await one.undo((await one.run("Go.")).session)

    assert run(main()).ran_shell
    assert (tmp_path / "f").exists()


@pytest.mark.requirement("R-T17")
def test_a_session_that_is_in_use_is_not_undone(tmp_path: Path):
    async def main() -> None:
        held = Held()
        one = agent(model(calling(ToolCall("hold", {})), "Done."), held, *file_tools(tmp_path))
        working = asyncio.create_task(one.run("Hold."))
        await held.begun.wait()
        with pytest.raises(SessionBusyError):
            await one.undo(held.contexts[0].session)
        held.let_go.set()
        await working

    run(main())

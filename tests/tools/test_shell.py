"""The shell as a tool: approval first, limits kept, nothing left behind; with a sandbox and without."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.tools.sample_tools import run
from toolspeak.core.types import JSONObject
from toolspeak.errors import ToolDenied, ToolError, UsageError
from toolspeak.tools import sandbox as sandboxes
from toolspeak.tools.approval import Approval
from toolspeak.tools.base import CallContext, ToolOutput
from toolspeak.tools.processes import ProcessLimits
from toolspeak.tools.shell import Shell

pytestmark = [
    pytest.mark.requirement("F6"),
    pytest.mark.skipif(sys.platform == "win32", reason="there is no POSIX shell"),
]
YES = Approval(lambda _: "once")
BUBBLEWRAP = pytest.param(True, marks=pytest.mark.system("bubblewrap"), id="sandbox")
PLAIN = pytest.param(False, id="plain")
both = pytest.mark.parametrize("sandbox", [BUBBLEWRAP, PLAIN])


def said(work: Path, command: str, sandbox: bool, limits: ProcessLimits | None = None, **more: object) -> ToolOutput:
    shell = Shell(work, YES, sandbox="require" if sandbox else False, limits=limits)
    return run(shell, {"command": command, **more})


@both
def test_output_and_errors_come_back_in_order(tmp_path: Path, sandbox: bool):
    assert said(tmp_path, "echo one; echo two >&2; echo three", sandbox) == ToolOutput("one\ntwo\nthree\n")


@both
def test_it_works_in_the_work_directory(tmp_path: Path, sandbox: bool):
    assert said(tmp_path, "pwd; echo x > made", sandbox).content == f"{tmp_path}\n"
    assert (tmp_path / "made").read_text() == "x\n"


@both
@pytest.mark.parametrize(
    ("command", "content", "error"),
    [
        ("exit 3", "[exit code 3]", True),
        ("printf no-newline; exit 1", "no-newline\n[exit code 1]", True),
        ("true", "[no output]", False),
        ("printf '\\377'", "�", False),
        ("cat", "[no output]", False),  # nothing to read, and nobody who waits for input
    ],
)
def test_the_end_of_a_command_is_told(tmp_path: Path, sandbox: bool, command: str, content: str, error: bool):
    assert said(tmp_path, command, sandbox) == ToolOutput(content, error=error)


def test_a_signal_is_told(tmp_path: Path):
    assert said(tmp_path, "kill -SEGV $$", False).content == "[ended by signal 11]"


@both
@pytest.mark.requirement("R-F32")
@pytest.mark.parametrize("command", ["sleep 60", "trap '' TERM; while :; do sleep 60; done"], ids=["hangs", "ignores"])
def test_a_command_that_does_not_end_is_ended(tmp_path: Path, sandbox: bool, command: str):
    output = said(tmp_path, f"echo begun; {command}", sandbox, ProcessLimits(seconds=0.4))
    assert output == ToolOutput("begun\n[ended after 0.4 seconds]", error=True)


@both
def test_the_model_may_ask_for_less_time_and_not_for_more(tmp_path: Path, sandbox: bool):
    output = said(tmp_path, "sleep 60", sandbox, ProcessLimits(seconds=0.3), timeout=50)
    assert output.content == "[ended after 0.3 seconds]"
    shell = Shell(tmp_path, YES, sandbox=False, limits=ProcessLimits(seconds=50))
    assert shell.tool.parameters["properties"]["timeout"]["maximum"] == 50
    assert run(shell, {"command": "sleep 60", "timeout": 0.2}).content == "[ended after 0.2 seconds]"


@both
@pytest.mark.requirement("R-F32")
def test_a_cancelled_command_is_gone_before_the_cancel_is_over(tmp_path: Path, sandbox: bool):
    shell = Shell(tmp_path, YES, sandbox="require" if sandbox else False)

    async def scenario() -> None:
        begun, others = asyncio.Event(), children()
        context = CallContext(emit=lambda _: begun.set())
        task = asyncio.create_task(shell.run({"command": "echo $$; exec sleep 60"}, context))
        await asyncio.wait_for(begun.wait(), 30)
        before = children() - others
        assert before
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not children() & before

    asyncio.run(scenario())


def children() -> set[str]:
    """The processes that this one has started and not yet taken back."""
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has just ended
            found |= set((task / "children").read_text().split())
    return found


@both
def test_no_process_and_no_open_file_is_left(tmp_path: Path, sandbox: bool):
    shell = Shell(tmp_path, YES, sandbox="require" if sandbox else False)
    run(shell, {"command": "true"})
    gc.collect()  # what earlier tests left behind must not be closed in between
    files, processes = len(os.listdir("/proc/self/fd")), children()
    for command in ("echo x", "exit 1", "sleep 0.01 & exit 0", "kill -9 $$"):
        run(shell, {"command": command})
    assert len(os.listdir("/proc/self/fd")) <= files
    assert children() <= processes


@both
def test_output_is_shown_as_it_comes(tmp_path: Path, sandbox: bool):
    pieces: list[str] = []
    shell = Shell(tmp_path, YES, sandbox="require" if sandbox else False)
    run(shell, {"command": "echo a; echo b"}, CallContext(emit=pieces.append))
    assert "".join(pieces) == "a\nb\n"


@both
@pytest.mark.requirement("R-F32")
def test_head_and_tail_of_a_long_output_are_kept(tmp_path: Path, sandbox: bool):
    output = said(
        tmp_path, "echo first; head -c 500000 /dev/zero; echo; echo last", sandbox, ProcessLimits(output=10_000)
    )
    assert output.content.startswith("first\n")
    assert output.content.endswith("\nlast\n")
    assert "[... 490012 bytes of output were not kept ...]" in output.content
    assert len(output.content) < 10_100


@both
def test_processes_of_the_same_group_die_with_the_command(tmp_path: Path, sandbox: bool):
    output = said(tmp_path, "sleep 60 & echo $! ; exit 0", sandbox)
    if not sandbox:
        with pytest.raises(ProcessLookupError):
            while True:  # it has been killed; its new parent takes it back at some time
                state = Path(f"/proc/{int(output.content)}/stat")
                if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
                    raise ProcessLookupError
                os.kill(int(output.content), 0)


@both
@pytest.mark.requirement("R-F32")
def test_processes_that_lose_their_parents_are_counted_too(tmp_path: Path, sandbox: bool):
    orphans = "for at in $(seq 60); do (sleep 20 &); done; sleep 20"
    output = said(tmp_path, orphans, sandbox, ProcessLimits(seconds=15, processes=30))
    assert "[ended: it had started more than 30 processes]" in output.content or "fork" in output.content


@both
def test_the_environment_holds_no_secret(tmp_path: Path, sandbox: bool, monkeypatch: pytest.MonkeyPatch):
    for name in ("OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "ANYTHING"):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("LC_TIME", "C")
    content = said(tmp_path, "env", sandbox).content
    assert "canary" not in content
    assert "LC_TIME=C" in content


def test_variables_can_be_given(tmp_path: Path):
    shell = Shell(tmp_path, YES, sandbox=False, env={"MODE": "test"})
    assert run(shell, {"command": "echo $MODE"}).content == "test\n"


# ---- approval


def test_a_command_is_not_run_before_it_is_allowed(tmp_path: Path):
    for approval in (Approval(), Approval(lambda _: "deny"), Approval(yes=True)):
        with pytest.raises(ToolDenied, match="was not allowed"):
            run(Shell(tmp_path, approval, sandbox=False), {"command": "touch made"})
    assert not (tmp_path / "made").exists()


def test_a_rule_allows_a_command_and_not_its_neighbour(tmp_path: Path):
    shell = Shell(tmp_path, Approval(allow=["shell(echo *)"]), sandbox=False)
    assert run(shell, {"command": "echo x"}).content == "x\n"
    with pytest.raises(ToolDenied):
        run(shell, {"command": "echo x; touch made"})


@pytest.mark.system("bubblewrap")
def test_yes_counts_in_the_sandbox_unless_it_has_a_network(tmp_path: Path):
    assert run(Shell(tmp_path, Approval(yes=True)), {"command": "echo x"}).content == "x\n"
    with pytest.raises(ToolDenied, match="outside a sandbox"):
        run(Shell(tmp_path, Approval(yes=True), network=True), {"command": "echo x"})


def test_without_bubblewrap_there_is_no_sandbox_and_approval_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sandboxes._features.cache_clear()  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    try:
        shell = Shell(tmp_path, Approval(yes=True))
        assert shell.problem == "bubblewrap (`bwrap`) is not installed"
        assert not shell.sandboxed
        assert "on this machine" in shell.tool.description
        with pytest.raises(ToolDenied):
            run(shell, {"command": "echo x"})
        with pytest.raises(UsageError, match="a sandbox is required"):
            Shell(tmp_path, YES, sandbox="require")
    finally:
        sandboxes._features.cache_clear()  # pyright: ignore[reportPrivateUsage]


def test_the_shell_always_has_side_effects(tmp_path: Path):
    shell = Shell(tmp_path, YES, sandbox=False)
    assert shell.tool.side_effects
    assert shell.tool.name == "shell"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"command": " "},
        {"command": 7},
        {"command": "a\0b"},
        {"command": "x", "timeout": 0},
        {"command": "x", "timeout": "1"},
    ],
)
def test_arguments_that_make_no_sense_are_told_to_the_model(tmp_path: Path, arguments: JSONObject):
    with pytest.raises(ToolError):
        run(Shell(tmp_path, YES, sandbox=False), arguments)


# ---- the work directory


@pytest.mark.parametrize("path", ["/", "/usr", "/etc", "/proc", "/usr/lib", "/home"])
def test_the_system_is_no_work_directory(path: str):
    with pytest.raises(UsageError):
        Shell(path, YES)


def test_the_home_directory_is_no_work_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "home" / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for path in (tmp_path / "home", tmp_path):
        with pytest.raises(UsageError, match="contains the home directory"):
            Shell(path, YES)
    Shell(tmp_path / "home" / "project", YES)


def test_a_work_directory_must_be_there(tmp_path: Path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(UsageError, match="work directory"):
            Shell(path, YES)


def test_a_work_directory_that_vanishes_is_told(tmp_path: Path):
    work = tmp_path / "work"
    work.mkdir()
    shell = Shell(work, YES, sandbox=False)
    work.rmdir()
    with pytest.raises(ToolError, match="cannot be started"):
        run(shell, {"command": "true"})


# ---- the sandbox itself


@pytest.mark.system("bubblewrap")
def test_a_sandbox_that_cannot_be_made_says_why(tmp_path: Path):
    problem = sandboxes.Sandbox(str(tmp_path / "missing")).problem()
    assert problem.startswith("bubblewrap cannot create a sandbox here: bwrap: Can't find source path")


@pytest.mark.system("bubblewrap")
def test_paths_inside_are_those_that_can_be_seen(tmp_path: Path):
    box = sandboxes.Sandbox(str(tmp_path), readable=("/opt/tool",))
    paths = box.environment({"PATH": f"/home/anna/bin:/opt/tool/bin:{tmp_path}/bin:/usr/bin"})["PATH"].split(":")
    assert paths[:3] == ["/opt/tool/bin", f"{tmp_path}/bin", "/usr/bin"]
    assert "/home/anna/bin" not in paths


@pytest.mark.parametrize(
    ("release", "apart"),
    [("6.1.0-9-amd64", True), ("5.14.0", True), ("5.10.0", False), ("4.19", False), ("odd", False)],
)
def test_processes_are_counted_where_the_kernel_counts_them_apart(
    monkeypatch: pytest.MonkeyPatch, release: str, apart: bool
):
    monkeypatch.setattr("platform.release", lambda: release)
    assert sandboxes.counts_processes_apart() is apart

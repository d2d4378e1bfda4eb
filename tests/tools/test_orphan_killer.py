"""A program that is killed leaves no command behind, whatever moment it is killed at."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from toolspeak.tools.orphan_killer import OrphanKiller, delayed_command

pytestmark = pytest.mark.requirement("R-F32")

#: From before a sandbox is begun until long after it is made, which takes some ten milliseconds.
MOMENTS = [str(200 + 300 * number) for number in range(100)]
#: A word to the guard and one to the shell outside; then the same for the first process inside.
STEPS = [f"step{number}" for number in range(1, 5)]


def left_over(folder: Path, kind: str, moments: list[str]) -> list[str]:
    command = [sys.executable, "-m", "tests.tools.killed_runs", str(folder.resolve()), kind, *moments]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.system("bubblewrap")
@pytest.mark.parametrize("moments", [MOMENTS, STEPS], ids=["by the clock", "by step"])
def test_a_sandbox_does_not_outlive_the_program_that_was_killed(tmp_path: Path, moments: list[str]):
    assert left_over(tmp_path, "sandbox", moments) == []


@pytest.mark.parametrize("moments", [MOMENTS[::4], STEPS[:3]], ids=["by the clock", "by step"])
def test_a_plain_command_does_not_outlive_the_program_that_was_killed(tmp_path: Path, moments: list[str]):
    assert left_over(tmp_path, "plain", moments) == []


@pytest.mark.system("bubblewrap")
def test_without_a_guard_it_would(tmp_path: Path):
    assert left_over(tmp_path, "unguarded", ["once"]) == ["once"]


SERVER = """
import asyncio, sys
from toolspeak.tools.mcp.config import McpServer
from toolspeak.tools.mcp.stdio import Child, stdio

async def main() -> None:
    # It never looks at its input, and leaves a child behind.
    server = McpServer("deaf", command="/bin/sh", args=("-c", 'sleep 90 & exec sleep 90 > "$0"', sys.argv[1]))
    async with stdio(server, {}, Child()):
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_an_mcp_server_that_hears_nothing_does_not_outlive_the_program_that_was_killed(tmp_path: Path):
    pytest.importorskip("mcp", reason="the package mcp is not installed")
    sign = tmp_path / "sign"
    os.mkfifo(sign)
    program = subprocess.Popen([sys.executable, "-c", SERVER, str(sign)])

    def release() -> None:  # else the test would wait for ever for a program that fails
        program.wait()
        with suppress(OSError):
            os.close(os.open(sign, os.O_WRONLY | os.O_NONBLOCK))

    threading.Thread(target=release, daemon=True).start()
    with sign.open("rb") as reader:  # once the server has it open, too
        assert program.poll() is None
        program.kill()
        program.wait(20)
        assert select.select([reader], [], [], 20)[0]
        assert reader.read() == b""


def test_who_is_not_told_to_begin_does_not(tmp_path: Path):
    mark = tmp_path / "begun"
    command = delayed_command(["/bin/sh", "-c", 'echo > "$1"', "sh", str(mark)])
    assert subprocess.run(command, input=b"", check=True).returncode == 0
    assert not mark.exists()
    subprocess.run(command, input=b"\n", check=True)
    assert mark.exists()


def test_a_guard_ends_everybody_it_was_told_of_and_nobody_after_it_was_dismissed():
    sleeping = ["/bin/sleep", "60"]
    group = subprocess.Popen(["/bin/sh", "-c", "sleep 60 & exec sleep 60"], start_new_session=True)
    one, other = subprocess.Popen(sleeping), subprocess.Popen(sleeping)
    guard = OrphanKiller()
    guard.watch(-group.pid)
    guard.watch(2**22 + 1)  # gone long since: no process has such a number
    guard.watch(one.pid)
    assert guard._process.stdin is not None  # pyright: ignore[reportPrivateUsage]
    guard._process.stdin.close()  # pyright: ignore[reportPrivateUsage] # as the kernel does
    assert (group.wait(20), one.wait(20)) == (-signal.SIGKILL, -signal.SIGKILL)
    guard.dismiss()
    dismissed = OrphanKiller()
    dismissed.watch(other.pid)
    dismissed.dismiss()
    assert other.poll() is None
    other.kill()
    other.wait()

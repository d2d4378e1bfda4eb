"""Ways out of the sandbox: none is open. Each is also tried without a sandbox, to show that the probe bites.

Every probe prints OPEN when it got through, or leaves a trace that is looked for afterwards. All are bounded: what a
control starts is ended here, by its number, and nothing that a control writes lies outside the test's own folder.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from toolspeak.errors import ToolError
from toolspeak.tools.approval import Approval
from toolspeak.tools.base import CallContext
from toolspeak.tools.files import file_tools
from toolspeak.tools.processes import ProcessLimits
from toolspeak.tools.shell import Shell

pytestmark = [pytest.mark.requirement("R-T4"), pytest.mark.system("bubblewrap")]

PYTHON = shlex.quote(sys.executable)
CANARY = "canary-5a1f0c"
#: Small, so that a control that is not stopped harms nobody.
LIMITS = ProcessLimits(seconds=30, processes=48, output=64 * 1024, flood=1024 * 1024)
IS_ROOT = os.getuid() == 0


class World(NamedTuple):
    """What lies around the work directory."""

    work: Path
    outside: Path
    port: int
    abstract: str
    target: int


#: May be looked at by anybody of the same user, wherever the system restricts that to children.
TARGET = """
import ctypes, sys
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    (outside / "secret").write_text(f"OPEN {CANARY}")
    (work / "link").symlink_to(outside / "secret")
    (work / "folder").symlink_to(outside)
    monkeypatch.setenv("PROBE_API_KEY", CANARY)
    name = f"\0toolspeak-probe-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
        subprocess.Popen(
            [sys.executable, "-c", TARGET], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"KEY": CANARY}
        ) as target,
    ):
        abstract.bind(name)
        abstract.listen()
        monkeypatch.chdir(outside)  # paths of sockets are short
        named.bind("socket")
        named.listen()
        assert target.stdout is not None
        target.stdout.readline()
        try:
            yield World(work, outside, server.getsockname()[1], name[1:], target.pid)
        finally:
            target.kill()


def script(world: World, name: str, text: str) -> str:
    """A command that runs this program, which lies in the work directory."""
    (world.work / name).write_text(text)
    return f"{PYTHON} -I {name}"


def sandboxed(world: World, command: str) -> str:
    shell = Shell(
        world.work,
        Approval(yes=True),
        sandbox="require",
        readable=(sys.base_prefix, sys.prefix),
        limits=LIMITS,
    )
    return asyncio.run(shell.run({"command": command}, CallContext())).content


def bare(world: World, command: str) -> str:
    done = subprocess.run(
        ["bash", "-c", command], cwd=world.work, capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )
    return done.stdout.decode(errors="replace")


# ---- probes that say themselves whether they got through

CONNECT = """
import socket, sys
kind, where = sys.argv[1], sys.argv[2]
with socket.socket(socket.AF_INET if kind == "tcp" else socket.AF_UNIX) as line:
    line.settimeout(5)
    line.connect(("127.0.0.1", int(where)) if kind == "tcp" else ("\\0" if kind == "abstract" else "") + where)
    print("OPEN")
"""
SEIZE = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
if libc.ptrace(0x4206, pid, None, None) == 0:
    print("OPEN")
"""
MEMORY = """
import sys
with open(f"/proc/{sys.argv[1]}/maps") as maps, open(f"/proc/{sys.argv[1]}/mem", "rb") as memory:
    memory.seek(int(maps.readline().split("-")[0], 16))
    print("OPEN" if memory.read(4) else "")
"""
SETUID = """
import os, stat
open("mine", "w").close()
os.chmod("mine", 0o4755)
print("OPEN" if os.stat("mine").st_mode & stat.S_ISUID else "")
"""
SETUID_BY_OPEN = """
import os, stat
os.umask(0)
os.close(os.open("other", os.O_CREAT | os.O_WRONLY, 0o4755))
print("OPEN" if os.stat("other").st_mode & stat.S_ISUID else "")
"""


def network(world: World) -> str:
    return f"{script(world, 'connect.py', CONNECT)} tcp {world.port}"


def abstract_socket(world: World) -> str:
    return f"{script(world, 'connect.py', CONNECT)} abstract {world.abstract}"


def named_socket(world: World) -> str:
    return f"cd {world.outside} && {script(world, 'connect.py', CONNECT).replace(' -I ', f' -I {world.work}/')} unix socket"


def file_outside(world: World) -> str:
    return f"cat {world.outside}/secret"


def environment(world: World) -> str:
    return f"env | grep -q {CANARY} && echo OPEN"


def environment_of_others(world: World) -> str:
    return f"cat /proc/[0-9]*/environ 2>/dev/null | grep -q -a {CANARY} && echo OPEN"


def command_lines_of_others(world: World) -> str:
    return "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -q '0x59616[D]61' && echo OPEN"


def root_of_others(world: World) -> str:
    return f"cat /proc/{world.target}/root{world.outside}/secret"


def link_out(world: World) -> str:
    return "cat link"


def own_link_out(world: World) -> str:
    return f"ln -s {world.outside} mine && cat mine/secret"


def hard_link_out(world: World) -> str:
    return f"ln {world.outside}/secret hard && cat hard"


def step_out(world: World) -> str:
    return "cat ../outside/secret"


def signal_others(world: World) -> str:
    return f"kill -0 {world.target} && echo OPEN"


def trace_others(world: World) -> str:
    return f"{script(world, 'seize.py', SEIZE)} {world.target}"


def memory_of_others(world: World) -> str:
    return f"{script(world, 'memory.py', MEMORY)} {world.target}"


def setuid_file(world: World) -> str:
    return script(world, "setuid.py", SETUID)


def setuid_file_by_open(world: World) -> str:
    return script(world, "setuid.py", SETUID_BY_OPEN)


def setuid_programs(world: World) -> str:
    return "grep -q 'NoNewPrivs:.*0' /proc/self/status && echo OPEN"


SPEAKING = [
    network,
    abstract_socket,
    named_socket,
    file_outside,
    environment,
    environment_of_others,
    command_lines_of_others,
    root_of_others,
    link_out,
    own_link_out,
    hard_link_out,
    step_out,
    signal_others,
    trace_others,
    memory_of_others,
    setuid_file,
    setuid_file_by_open,
    setuid_programs,
]


@pytest.mark.parametrize("probe", SPEAKING, ids=lambda probe: probe.__name__)
def test_the_way_is_closed_inside_and_open_outside(probe, world: World):
    command = probe(world)
    inside = sandboxed(world, command)
    assert "OPEN" not in inside, inside
    assert CANARY not in inside
    for left in ("mine", "other", "hard"):
        (world.work / left).unlink(missing_ok=True)
    assert "OPEN" in bare(world, command)


# ---- sockets of other kinds than those that a network namespace parts

SOCKETS = """
import socket, sys
socket.socket(int(sys.argv[1]), int(sys.argv[2])).close()
print("OPEN")
"""
AF_ALG, AF_VSOCK, AF_XDP = 38, 40, 44
FAMILIES = {
    "vsock": (AF_VSOCK, socket.SOCK_STREAM),
    "vsock_seqpacket": (AF_VSOCK, socket.SOCK_SEQPACKET),
    "alg": (AF_ALG, socket.SOCK_SEQPACKET),
    "xdp": (AF_XDP, socket.SOCK_RAW),
}


def with_network(world: World, command: str) -> str:
    shell = Shell(
        world.work,
        Approval(allow=["shell"]),
        sandbox="require",
        network=True,
        readable=(sys.base_prefix, sys.prefix),
        limits=LIMITS,
    )
    return asyncio.run(shell.run({"command": command}, CallContext())).content


@pytest.mark.parametrize("name", FAMILIES)
def test_sockets_past_the_network_are_closed_inside_and_open_outside(name: str, world: World):
    family, kind = FAMILIES[name]
    command = f"{script(world, 'sockets.py', SOCKETS)} {family} {kind}"
    for inside in (sandboxed(world, command), with_network(world, command)):
        assert "OPEN" not in inside
        assert "Address family not supported" in inside
    if "OPEN" not in bare(world, command):
        pytest.skip("this kernel, or this user, has no such sockets outside either")


@pytest.mark.parametrize("family", ["AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"])
def test_ordinary_sockets_can_be_made_inside(family: str, world: World):
    if not hasattr(socket, family):
        pytest.skip(f"this Python does not know {family}")
    command = f"{script(world, 'sockets.py', SOCKETS)} {int(getattr(socket, family))} {int(socket.SOCK_DGRAM)}"
    if "OPEN" not in bare(world, command):
        pytest.skip("this kernel has no such sockets outside either")
    assert "OPEN" in sandboxed(world, command)
    assert "OPEN" in with_network(world, command)


# ---- probes of what only the user root could do at all

FOR_ROOT = {
    "system_files": "test -w /usr && test -w /usr/bin && test -w /usr/bin/env && echo OPEN",
    "etc": "test -w /etc && echo OPEN",
    "password_hashes": "test -r /etc/shadow && echo OPEN",
    # Opened for writing, and nothing is written.
    "kernel_settings": "( : >> /proc/sys/kernel/core_pattern ) && echo OPEN",
    "kernel_hostname": "( : >> /proc/sys/kernel/hostname ) && echo OPEN",
    "capabilities": "grep -q 'CapEff:.*[1-9a-f]' /proc/self/status && echo OPEN",
    "kernel_modules": "test -r /sys/module && echo OPEN",
}


@pytest.mark.parametrize("name", FOR_ROOT)
def test_what_is_the_systems_is_closed_inside(name: str, world: World):
    assert "OPEN" not in sandboxed(world, FOR_ROOT[name])
    if IS_ROOT:
        assert "OPEN" in bare(world, FOR_ROOT[name])


def test_keys_and_settings_of_the_system_are_not_shown(world: World):
    said = sandboxed(world, "ls -A /etc /etc/ssl /etc/pki/tls /usr/local/etc 2>/dev/null | sort -u; :")
    assert not {"private", "shadow", "sudoers", "ssh", "sysctl.conf"} & set(said.split())
    assert "passwd" in said


# ---- probes that leave a trace


def test_files_outside_cannot_be_written(world: World):
    command = f"echo x > {world.outside}/new; echo x > folder/through; echo x >> link; rm -f {world.outside}/secret; :"
    sandboxed(world, command)
    assert sorted(each.name for each in world.outside.iterdir()) == ["secret", "socket"]
    assert (world.outside / "secret").read_text() == f"OPEN {CANARY}"
    bare(world, command)
    assert sorted(each.name for each in world.outside.iterdir()) == ["new", "socket", "through"]


def test_the_work_directory_can_be_written_and_the_temporary_folder_is_fresh(world: World):
    old, new = Path("/tmp") / f"probe-{os.getpid()}", Path("/tmp") / f"probe-{os.getpid()}-new"
    old.write_text("OPEN")
    try:
        said = sandboxed(world, f"echo hello > made; echo x > {new} && cat {new}; cat {old}")
    finally:
        old.unlink()
    assert said.startswith("x\n")
    assert "OPEN" not in said
    assert (world.work / "made").read_text() == "hello\n"
    assert not new.exists()


@pytest.mark.requirement("R-F32")
def test_a_fork_bomb_ends(world: World):
    bomb = ":(){ :|:& };:; wait; sleep 60; echo OPEN"
    said = sandboxed(world, bomb)
    assert "OPEN" not in said
    assert "more than 48 processes" in said or "Resource temporarily unavailable" in said
    # The control is no bomb: it starts a few more than are allowed, and each ends by itself.
    assert "OPEN" in bare(world, "for at in $(seq 60); do sleep 0.5 & done; wait; echo OPEN")


@pytest.mark.requirement("R-F32")
def test_a_flood_of_output_ends(world: World):
    flood = "head -c 20000000 /dev/zero | tr '\\0' x; echo OPEN"
    said = sandboxed(world, flood)
    assert len(said) < 70_000
    assert "it wrote more than 1048576 bytes" in said
    assert "OPEN" not in said
    assert len(bare(world, flood)) > 20_000_000


def test_memory_ends(world: World):
    greedy = f"{PYTHON} -I -c 'held = bytearray(600 << 20); print(\"OPEN\")'"
    shell = Shell(
        world.work,
        Approval(yes=True),
        sandbox="require",
        readable=(sys.base_prefix, sys.prefix),
        limits=ProcessLimits(seconds=30, memory=200 << 20),
    )
    said = asyncio.run(shell.run({"command": greedy}, CallContext()))
    assert "OPEN" not in said.content
    assert said.error
    assert "OPEN" in bare(world, greedy)


HOLD = """
import fcntl, os, sys, time
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print(os.getpid(), flush=True)
os.close(1), os.close(2)
time.sleep(60)
"""


@pytest.mark.requirement("R-F32")
def test_a_process_in_the_background_dies_with_the_call(world: World):
    hold = script(world, "hold.py", HOLD)
    # It leaves the group and the session of the command, and the command ends when it is ready.
    command = f"(setsid {hold} > ready &); until grep -q . ready 2>/dev/null; do sleep 0.05; done; cat ready"
    assert sandboxed(world, command).strip().isdigit()
    assert not held(world)
    (world.work / "ready").unlink()
    pid = int(bare(world, command))
    try:
        assert held(world)
    finally:
        os.kill(pid, signal.SIGKILL)


def held(world: World) -> bool:
    """Whether somebody still holds the lock."""
    with (world.work / "lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_command_dies_with_the_program_that_runs_it(world: World):
    hold = script(world, "hold.py", HOLD)
    program = (
        "import asyncio, sys\n"
        "from toolspeak.tools.approval import Approval\n"
        "from toolspeak.tools.base import CallContext\n"
        "from toolspeak.tools.shell import Shell\n"
        f"shell = Shell({str(world.work)!r}, Approval(yes=True), readable=(sys.base_prefix, sys.prefix))\n"
        "context = CallContext(emit=lambda text: print(text, flush=True))\n"
        f"asyncio.run(shell.run({{'command': {hold!r}}}, context))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline().strip().isdigit()
        assert held(world)
        agent.kill()
        agent.wait()
        with (world.work / "lock").open() as lock, suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)  # waits for its end, 60 seconds at most
        assert not held(world)


def test_a_planted_bubblewrap_is_not_used(world: World, monkeypatch: pytest.MonkeyPatch):
    planted = world.work / "bin" / "bwrap"
    planted.parent.mkdir()
    planted.write_text("#!/bin/sh\necho OPEN\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{planted.parent}{os.pathsep}{os.environ['PATH']}")
    assert sandboxed(world, "echo inside") == "inside\n"
    assert "OPEN" in bare(world, "bwrap")


def test_the_program_that_runs_the_sandbox_cannot_be_changed_from_inside(world: World, monkeypatch: pytest.MonkeyPatch):
    """A virtual environment inside the work directory: what is imported later would run outside."""
    own = world.work / ".venv"
    own.mkdir()
    (own / "module.py").write_text("old")
    command = "echo OPEN > .venv/module.py; rm -rf .venv; cat .venv/module.py"
    monkeypatch.setattr(sys, "prefix", str(own))
    shell = Shell(world.work, Approval(yes=True), sandbox="require")
    said = asyncio.run(shell.run({"command": command}, CallContext())).content
    assert said.endswith("old")
    tools = {each.tool.name: each for each in file_tools(world.work)}
    for path in (".venv/module.py", ".venv/new/module.py", "folder/work/.venv/module.py"):
        with pytest.raises(ToolError, match=r"belongs to the program|leads out"):
            asyncio.run(tools["write_file"].run({"path": path, "content": "OPEN"}, CallContext()))
    assert asyncio.run(tools["read_file"].run({"path": ".venv/module.py"}, CallContext())).content == "old"
    assert sorted(each.name for each in own.iterdir()) == ["module.py"]
    assert "OPEN" in bare(world, "echo OPEN > .venv/module.py; cat .venv/module.py")


@pytest.mark.parametrize("own", ["backend/.venv", "one/two/three/.venv", "src/toolspeak"])
def test_the_folders_above_the_program_cannot_be_put_aside(own: str, world: World, monkeypatch: pytest.MonkeyPatch):
    """With another folder under its name, what is run outside next would be what was written inside."""
    program = world.work / own / "bin" / "program"
    program.parent.mkdir(parents=True)
    program.write_text("old")
    monkeypatch.setattr(sys, "prefix", str(world.work / own))
    folders = [str(Path(own)), *map(str, Path(own).parents)][:-1]
    aside = "; ".join(f"mv {folder} {folder}-2; rm -rf {folder}; rmdir {folder}" for folder in folders)
    command = f"{aside}; mkdir -p {own}/bin; echo OPEN > {own}/bin/program; echo kept > {folders[-1]}/note; :"
    shell = Shell(world.work, Approval(yes=True), sandbox="require")
    asyncio.run(shell.run({"command": command}, CallContext()))
    assert program.read_text() == "old"
    assert [each.name for each in world.work.glob("*-2")] == []
    # The folders above can still be worked in.
    if len(folders) > 1:
        assert (world.work / folders[-1] / "note").read_text() == "kept\n"
    bare(world, command)
    assert program.read_text() == "OPEN\n"


def test_what_lies_in_the_programs_folders_stays_read_only_there(world: World, monkeypatch: pytest.MonkeyPatch):
    """A package inside the virtual environment: the folders between the two are not made writable for its sake."""
    package = world.work / "backend" / ".venv" / "lib" / "packages" / "base"
    package.mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(world.work / "backend" / ".venv"))
    monkeypatch.setattr(sys, "base_prefix", str(package))
    command = "for at in . lib lib/packages lib/packages/base; do echo OPEN > backend/.venv/$at/new; done; :"
    shell = Shell(world.work, Approval(yes=True), sandbox="require")
    asyncio.run(shell.run({"command": command}, CallContext()))
    assert list(world.work.rglob("new")) == []
    bare(world, command)
    assert len(list(world.work.rglob("new"))) == 4

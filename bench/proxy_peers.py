"""The proxies that `bench/proxy.py` measures: how each is installed, set up and started.

Others are installed by the benchmark itself, into environments of their own below `.bench`, since nobody else needs
them; the benchmark leaves out one that cannot be installed, and says so.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

__all__ = ["CACHE", "PEERS", "Made", "Peer", "Running", "install", "install_once", "npm", "start", "venv"]

#: Where the others live; see `.gitignore`.
CACHE = Path(__file__).parent.parent / ".bench"
#: An installation that takes longer hangs.
_INSTALL_SECONDS = 900
#: A proxy that does not answer by then does not start.
_START_SECONDS = 60
#: The environment without what changes how Python runs: a developer's may forbid it to keep what it has compiled.
_PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
_SHOWN = 65536
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6


class Made(NamedTuple):
    """A proxy that can be started."""

    command: list[str]
    environment: Mapping[str, str]
    #: The key that clients show.
    key: str = "sk-0123456789"
    #: Lines of the head that each request needs beside the key.
    headers: str = ""


class Peer(NamedTuple):
    """One proxy: what to install and how to set it up in a folder of its own."""

    name: str
    #: Its name as people write it.
    title: str
    installs: Callable[[], str]
    #: From an empty folder, its own port and that of the upstream.
    make: Callable[[Path, int, int], Made]
    #: The protocols its clients speak, of those that are measured.
    speaks: tuple[str, ...]
    #: The version that is installed.
    version: Callable[[], str]


# ------------------------------------------------------------------------------------------------ installing


def venv(name: str, *packages: str) -> Callable[[], str]:
    """An environment of its own with these packages; gives what went wrong."""

    def made() -> str:
        folder = CACHE / name
        if not (folder / "bin" / "pip").exists():
            subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
        command = [folder / "bin" / "pip", "install", "--quiet", *packages]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_INSTALL_SECONDS)
        return "" if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2]

    return made


def npm(name: str, package: str) -> Callable[[], str]:
    def made() -> str:
        program = shutil.which("npm")
        if program is None:
            return "npm is not installed"
        folder = CACHE / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}", encoding="utf-8")
        command = [program, "install", "--no-fund", "--no-audit", "--silent", package]
        done = subprocess.run(
            command, check=False, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_SECONDS
        )
        return "" if done.returncode == 0 else (done.stderr.strip().rpartition("\n")[2] or "npm failed")

    return made


def install(peer: Peer) -> str:
    """Install a proxy unless it is there; gives why it cannot be."""
    return "" if peer.name == "toolspeak" else install_once(peer.name, peer.installs)


def install_once(name: str, installs: Callable[[], str]) -> str:
    """Install something unless it is there; gives why it cannot be."""
    stamp = CACHE / f"{name}.installed"
    if stamp.exists():
        return ""
    CACHE.mkdir(exist_ok=True)
    try:
        problem = installs()
    except (OSError, subprocess.SubprocessError) as error:
        problem = str(error)
    if not problem:
        stamp.touch()
    return problem


# ---------------------------------------------------------------------------------------------------- making

_CONFIG = """
[upstreams.emulated]
base_url = "{base}"
models = ["emulated", "translated"]
mode = "force"

[upstreams.native]
base_url = "{base}"
models = ["native"]
capability = "openai"
"""


#: Limits that are checked for each request and that nothing here reaches.
_LIMITS = ("--rate", "1000000000", "--concurrency", "100000")
#: The code beside this file, whatever is installed.
_SOURCES = CACHE.parent / "src"


def _toolspeak(folder: Path, port: int, upstream: int) -> Made:
    base = f"http://127.0.0.1:{upstream}/v1"
    (folder / "toolspeak").mkdir()
    (folder / "toolspeak" / "config.toml").write_text(_CONFIG.format(base=base), encoding="utf-8")
    environment = {
        "XDG_CONFIG_HOME": str(folder),
        "XDG_STATE_HOME": str(folder),
        "HOME": str(folder),
        "PYTHONPATH": str(_SOURCES),
    }
    command = [str(Path(sys.executable).with_name("toolspeak"))]
    made = subprocess.run(
        [*command, "keys", "new", "bench", *_LIMITS],
        env={**_PLAIN, **environment},
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return Made([*command, "serve", "--port", str(port), "--require-key"], environment, made.stdout.strip())


def _litellm(folder: Path, port: int, upstream: int) -> Made:
    base = {"api_base": f"http://127.0.0.1:{upstream}/v1", "api_key": "sk-0"}
    # What makes chat completions of Anthropic's protocol and of Responses.
    translated = {"model": "hosted_vllm/m", "use_chat_completions_api": True}
    parameters = {"native": {"model": "openai/m"}, "emulated": {"model": "openai/m"}, "translated": translated}
    models = [{"model_name": name, "litellm_params": {**each, **base}} for name, each in parameters.items()]
    key = f"sk-{secrets.token_hex(24)}"  # it refuses to start with a short one
    config = {"model_list": models, "general_settings": {"master_key": key}}
    (folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    command = [str(CACHE / "litellm" / "bin" / "litellm"), "--config", str(folder / "config.yaml")]
    environment = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "HOME": str(folder)}
    options = ["--host", "127.0.0.1", "--port", str(port), "--num_workers", "1", "--telemetry", "False"]
    return Made([*command, *options], environment, key)


def _vllm_router(folder: Path, port: int, upstream: int) -> Made:
    command = [str(CACHE / "vllm-router" / "bin" / "vllm-router"), "--host", "127.0.0.1", "--port", str(port)]
    worker = ["--worker-urls", f"http://127.0.0.1:{upstream}", "--policy", "round_robin", "--log-level", "error"]
    return Made([*command, *worker, "--prometheus-port", str(free_port())], {"HOME": str(folder)})


def _claude_code_router(folder: Path, port: int, upstream: int) -> Made:
    provider = {
        "name": "bench",
        "api_base_url": f"http://127.0.0.1:{upstream}/v1/chat/completions",
        "api_key": "sk-0",
        "models": ["m"],
    }
    config = {"PORT": port, "LOG": False, "Providers": [provider], "Router": {"default": "bench,m"}}
    home = folder / ".claude-code-router"
    home.mkdir()
    (home / "config.json").write_text(json.dumps(config), encoding="utf-8")
    environment = {"HOME": str(folder), "SERVICE_PORT": str(port)}
    return Made([str(CACHE / "ccr" / "node_modules" / ".bin" / "ccr"), "start"], environment)


def _portkey(folder: Path, port: int, upstream: int) -> Made:
    program = CACHE / "portkey" / "node_modules" / _PORTKEY / "build" / "start-server.js"
    headers = f"x-portkey-provider: openai\r\nx-portkey-custom-host: http://127.0.0.1:{upstream}/v1\r\n"
    command = [shutil.which("node") or "node", str(program), f"--port={port}", "--headless"]
    return Made(command, {"HOME": str(folder)}, headers=headers)


def _packaged(name: str) -> Callable[[], str]:
    """The version of a Python package in the environment of its own."""

    def version() -> str:
        found = (CACHE / name).glob(f"lib/python*/site-packages/{name.replace('-', '_')}-*.dist-info")
        return next((path.name.removesuffix(".dist-info").rpartition("-")[2] for path in found), "")

    return version


def _node_packaged(name: str, package: str) -> Callable[[], str]:
    return lambda: json.loads((CACHE / name / "node_modules" / package / "package.json").read_bytes())["version"]


_CCR, _PORTKEY = "@musistudio/claude-code-router", "@portkey-ai/gateway"
#: The slowest last, so that what it has not finished disturbs none of the others.
PEERS = (
    Peer(
        "toolspeak",
        "toolspeak",
        lambda: "",
        _toolspeak,
        ("openai", "anthropic", "responses"),
        lambda: importlib.metadata.version("toolspeak"),
    ),
    Peer(
        "vllm-router",
        "vllm-router",
        venv("vllm-router", "vllm-router"),
        _vllm_router,
        ("openai",),
        _packaged("vllm-router"),
    ),
    Peer(
        "ccr",
        "claude-code-router",
        npm("ccr", f"{_CCR}@1"),
        _claude_code_router,
        ("anthropic",),
        _node_packaged("ccr", _CCR),
    ),
    Peer(
        "portkey",
        "Portkey gateway",
        npm("portkey", _PORTKEY),
        _portkey,
        ("openai",),
        _node_packaged("portkey", _PORTKEY),
    ),
    Peer(
        "litellm",
        "LiteLLM",
        venv("litellm", "litellm[proxy]"),
        _litellm,
        ("openai", "anthropic", "responses"),
        _packaged("litellm"),
    ),
)


# --------------------------------------------------------------------------------------------------- running


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Running:
    """A proxy that runs, and what its processes have used."""

    def __init__(self, peer: Peer, made: Made, port: int, folder: Path) -> None:
        self.name = peer.name
        self.peer = peer
        self.port = port
        self.key = made.key
        self.headers = made.headers
        self.start_seconds = self.start_cpu = 0.0
        self._log = (folder / "log.txt").open("wb")
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            made.command,
            env={**_PLAIN, **made.environment},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait(self, request: bytes) -> None:
        """Until it answers the request with 200.

        Raises:
            TimeoutError: it does not.
        """
        while time.monotonic() - self._began < _START_SECONDS:
            if self._process.poll() is not None:
                break
            if _answers(self.port, request):
                self.start_seconds = time.monotonic() - self._began
                self.start_cpu = self.cpu()
                return
            time.sleep(0.003)
        said = Path(self._log.name).read_text("utf-8", "replace").strip().splitlines()
        raise TimeoutError(f"it does not start: {' | '.join(said[-3:])}")

    def ask(self, request: bytes) -> bytes:
        """The first that it answers to a request."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(request)
            said = connection.recv(_SHOWN)
            while b"content-length" in said.lower() and not said.rstrip().endswith(b"}"):
                said += connection.recv(_SHOWN)
            return said

    def cpu(self) -> float:
        """Seconds of CPU time that its processes have taken."""
        return sum(_ticks(pid) for pid in self._tree()) / _TICKS

    def mb(self) -> float:
        """Megabytes of memory that its processes hold, what they share counted each time."""
        return sum(_pages(pid) for pid in self._tree()) * _PAGE_MB

    def _tree(self) -> list[int]:
        tree = [self._process.pid]
        for pid in tree:
            with suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    tree += map(int, (task / "children").read_text().split())
        return tree

    def stop(self) -> None:
        """End it and everything that it started."""
        pids = self._tree()
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        self._process.wait()
        self._log.close()


def start(peer: Peer, folder: Path, upstream: int) -> Running:
    """Start a proxy before the upstream at that port."""
    folder.mkdir()
    port = free_port()
    return Running(peer, peer.make(folder, port, upstream), port, folder)


def _answers(port: int, request: bytes) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(request)
            return connection.recv(64).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def _ticks(pid: int) -> int:
    """User and system time; what its ended children took is not counted."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def _pages(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0

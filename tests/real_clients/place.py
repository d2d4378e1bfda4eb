"""Everything a client needs for its task: the model, a real `toolspeak serve`, the relay, a home and a folder of its own.

Above: `run`. Below: `model`, `relay`, and the command line of toolspeak.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.real_clients.model import ModelServer, Script
from tests.real_clients.relay import Relay

#: How long the proxy may take to begin, in seconds. On a busy machine Python alone takes several.
START = 30.0
#: What a client is let know of the machine: nothing that could carry a key, a proxy or somebody's settings.
_PASSED_ON = ("LANG", "LC_ALL", "TERM", "TZ", "SYSTEMROOT")
#: Clients that would tell somebody, or look for something newer, are told not to.
QUIET = {
    "CI": "1",
    "NO_COLOR": "1",
    "DO_NOT_TRACK": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "NO_UPDATE_NOTIFIER": "1",
    "HF_HUB_OFFLINE": "1",
    "ANONYMIZED_TELEMETRY": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
}


class NoProxyError(Exception):
    """The proxy did not start."""


@dataclass(frozen=True)
class Place:
    """A running proxy for one client."""

    url: str
    home: Path
    #: The working directory of the client.
    folder: Path
    #: What stands in `secret.txt` there; only a tool that really ran can have found it.
    word: str
    script: Script
    relay: Relay

    def environment(self, *folders: Path) -> dict[str, str]:
        """What the client may see."""
        path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])
        kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return {**kept, **QUIET, "HOME": str(self.home), "PATH": path, "TMPDIR": str(self.home / "tmp")}


@contextmanager
def place(folder: Path, scripted: Callable[[str], Script], plan: str = "inline") -> Iterator[Place]:
    """Model, proxy and relay, from nothing, in an empty folder."""
    home, work = folder / "home", folder / "work"
    (home / "tmp").mkdir(parents=True)
    work.mkdir()
    word = f"plum-{secrets.token_hex(4)}"
    (work / "secret.txt").write_text(f"The word is {word}.\n", encoding="utf-8")
    script = scripted(str(work))
    with ModelServer(script) as model, _proxy(model.url, folder, plan) as port, Relay(port) as relay:
        yield Place(relay.url, home, work, word, script, relay)


@contextmanager
def _proxy(upstream: str, folder: Path, plan: str) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "toolspeak", "serve", "--upstream", upstream, "--port", str(port)]
    state = folder / "proxy"
    state.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    env = {**kept, "HOME": str(state), "TOOLSPEAK_LOAD_PLUGINS": "none"}
    with (folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--mode", "force", "--plan", plan], cwd=state, env=env, stdout=log, stderr=log
        )
        try:
            _wait_for(port, process, folder / "serve.log")
            yield port
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START
    while time.monotonic() < until:
        if process.poll() is not None:
            said = (log.read_text(encoding="utf-8").splitlines() or [""])[-1]
            raise NoProxyError(f"`toolspeak serve` ended with {process.returncode}: {said}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise NoProxyError("`toolspeak serve` does not answer")


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    status: int
    output: str
    errors: str
    timed_out: bool


def run(command: Sequence[str], folder: Path, env: dict[str, str], seconds: float) -> Ended:
    """Run a program to its end; at the limit it and all that it started are killed, without asking."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
        errors="replace",
    ) as process:
        timed_out = False
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            timed_out = True
            _kill(process.pid)
            output, errors = process.communicate()
        finally:
            _kill(process.pid)  # what it left behind
    return Ended(process.returncode, output, errors, timed_out)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)

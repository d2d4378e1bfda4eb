"""Helpers for tests of `run` and `chat`: a real server that plays scripted turns, and a pseudo-terminal."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server.live_proxy import service
from tests.upstreams.loopback_server import serving_in_a_thread
from toolspeak import TextDelta, Usage, UsageSeen
from toolspeak.core.events import Event, Failure, Finish
from toolspeak.core.types import Request

#: A turn in which a file is read.
READ = ("I read it.", [("read_file", {"path": "notes.txt"})])

#: A turn: words, or words and the calls behind them.
Turn = str | tuple[str, Sequence[tuple[str, dict[str, Any]]]]


class Played:
    """A model that cannot call natively and writes its calls as it is taught to. Behind its turns, it fails."""

    def __init__(self, *turns: Turn) -> None:
        self._turns = list(turns)
        self.asked: list[Request] = []

    def __call__(self, request: Request) -> list[Event]:
        self.asked.append(request)
        if not self._turns:
            return [Failure("it is tired")]
        turn = self._turns.pop(0)
        text, calls = (turn, ()) if isinstance(turn, str) else turn
        said = "\n".join(message.text for message in request.messages)
        mark = " ".join(["json action", *re.findall(r"json action ([a-z0-9]+)", said)[-1:]])
        blocks = [f"```{mark}\n{json.dumps({'tool': name, 'parameters': given})}\n```" for name, given in calls]
        whole = "\n\n".join([*([text] if text else []), *blocks])
        pieces = [whole[at : at + 9] for at in range(0, len(whole), 9)]
        return [*map(TextDelta, pieces), UsageSeen(Usage(50, 9)), Finish("stop")]


@contextmanager
def served(model: Played) -> Iterator[str]:
    """A server with this model, in a thread: commands run loops of their own."""
    with serving_in_a_thread(service("openai_chat", model)) as server:
        yield server.url


def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work directory in a home of its own, with one file in it."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("Bread costs 3 crowns.\n")
    monkeypatch.chdir(work)
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TOOLSPEAK_LOAD_PLUGINS", "none")
    return work


# ---- on a terminal


#: Takes hold of the terminal, for Ctrl-C reaches whoever it belongs to.
_CONTROLLED = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "toolspeak", *sys.argv[1:]])
"""


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        import pty

        self._ours, theirs = pty.openpty()
        command = [sys.executable, "-c", _CONTROLLED, *arguments]
        variables = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **(environment or {})}
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=variables,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""
        self._at = 0

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, text: str) -> None:
        """Read until it is there, behind what was waited for before."""
        while text not in self.seen[self._at :]:
            ready, _, _ = select.select([self._ours], [], [], 30)
            assert ready, self.seen
            try:
                data = os.read(self._ours, 65536)
            except OSError:  # the other end is closed
                data = b""
            assert data, self.seen
            self.seen += data.decode(errors="replace")
        self._at = self.seen.index(text, self._at) + len(text)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

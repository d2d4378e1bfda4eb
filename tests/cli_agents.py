"""What the tests of `run` and `chat` share: a model behind a real server, that plays prepared turns as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server.live import service
from tests.upstreams.loopback import serving_in_a_thread
from toolspeak import TextDelta, Usage, UsageSeen
from toolspeak.core.events import Event, Failure, Finish
from toolspeak.core.model import Request

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

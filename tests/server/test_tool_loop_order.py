"""The order of the calls that the proxy itself runs: as in an agent, side effects one after the other."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

import toolspeak as ts
from tests.server.asgi_client import run
from tests.server.test_tool_loop import Place, message, said
from toolspeak.core.types import JSONObject
from toolspeak.tools.base import CallContext, ToolOutput
from toolspeak.tools.files import file_tools
from toolspeak.upstreams.scripted import calls

#: How often the event loop turns while a call runs: enough for every call that is free to start to do so.
_TURNS = 20


class Step:
    """A tool of the server that records when its calls start and end."""

    def __init__(self, name: str, log: list[str], side_effects: bool) -> None:
        self.tool = ts.Tool(
            name, "One step.", {"type": "object", "properties": {}}, side_effects, read_only=not side_effects
        )
        self._log = log
        #: Where read-only calls wait for each other.
        self._pair = None if side_effects else asyncio.Barrier(2)

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        self._log.append(f"start {self.tool.name}")
        if self._pair is not None:
            async with asyncio.timeout(10):
                await self._pair.wait()
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        self._log.append(f"end {self.tool.name}")
        return ToolOutput(f"{self.tool.name} done")


@pytest.mark.requirement("A15", "F4")
def test_the_server_runs_side_effects_one_after_the_other_and_reads_between_them_in_parallel() -> None:
    async def main() -> None:
        log: list[str] = []
        tools = [Step("act", log, True), Step("other", log, True), Step("read", log, False)]
        names = ["act", "other", "read", "read", "act"]
        asked: Any = calls(*(ts.ToolCall(name, {}, f"c{at}") for at, name in enumerate(names)))
        place = Place(asked, "Done.", tools=tools)
        answer = await place.ask({"messages": said()})
        assert message(answer)["content"] == "Done."
        reads = ["start read", "start read", "end read", "end read"]
        assert log == ["start act", "end act", "start other", "end other", *reads, "start act", "end act"]
        results = place.upstream.requests[1].messages[-1].results
        assert [each.content for each in results] == [f"{name} done" for name in names]

    run(main())


@pytest.mark.requirement("A15", "F5")
@pytest.mark.skipif(sys.platform == "win32", reason="files cannot be opened relative to folders")
def test_all_edits_of_one_file_in_one_answer_survive_in_the_server(tmp_path: Path) -> None:
    file = tmp_path / "chain.txt"
    file.write_text("step 0")
    edits = [
        ts.ToolCall("edit_file", {"path": "chain.txt", "old": f"step {at}", "new": f"step {at + 1}"}, f"c{at}")
        for at in range(8)
    ]
    place = Place(calls(*edits), "Done.", tools=file_tools(tmp_path))
    run(place.ask({"messages": said()}))
    assert file.read_text() == "step 8"

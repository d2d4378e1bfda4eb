"""Type checkers find the mistakes of a user's program, and none in a correct one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

WRONG = """\
import toolspeak as ts

client = ts.Client("openai:m", base_url="http://127.0.0.1:9/v1", mode="forced")
client.chat("x", toolz=[])
client.chat("x", temperature="hot")
client.chat("x", system="Be nice")
ts.Agent(client, [], system_prompt="x")
ts.Agent(client, [], max_rounds="x")
ts.AsyncClient("openai:m", plan="inlined")
ts.AsyncAgent("openai:m", instruction="x")
"""
RIGHT = '''\
import asyncio

import pydantic

import toolspeak as ts
from toolspeak.types import AgentResult, Stream, TracedReply


def get_weather(city: str, days: int = 1) -> str:
    """The weather."""
    return city


@ts.tool
def roll(sides: int = 6) -> int:
    """Roll a die."""
    return sides


class Look(pydantic.BaseModel):
    """Look at a thing."""

    what: str


client = ts.Client("openai:m", base_url="http://127.0.0.1:9/v1", mode="force", headers={"X-Team": "a"}, max_retries=1)
reply: TracedReply = client.chat("x", tools=[get_weather, roll, Look, {"name": "a", "input_schema": {}}], temperature=0.5)
names: list[str] = [call.name for call in reply.tool_calls]
stream: Stream = client.stream([{"role": "user", "content": "x"}], extra_body={"num_ctx": 4})
result: AgentResult = ts.Agent(client, [get_weather, roll], instructions="x", temperature=0, retries=1).run("x")
number: int = roll(sides=4)


async def main() -> None:
    async with ts.AsyncClient("openai:m", plan="inline") as one:
        answer: TracedReply = await one.chat("x", tools=[get_weather], seed=1)
        print(answer.text)


asyncio.run(main())
'''


@pytest.mark.requirement("K1")
def test_a_type_checker_finds_each_mistake_of_a_user_and_no_other(tmp_path: Path):
    for name, text in (("wrong.py", WRONG), ("right.py", RIGHT)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}', encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    errors = json.loads(run.stdout)["generalDiagnostics"]
    lines = sorted((Path(error["file"]).name, error["range"]["start"]["line"] + 1) for error in errors)
    assert lines == [("wrong.py", line) for line in range(3, 11)], run.stdout

"""Programs that end without closing their agents: no output on stderr, and no waiting."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import size

pytestmark = pytest.mark.requirement("F13")

START = """
import sys, threading, time
import toolspeak as ts
from toolspeak.key_value import MemoryState
from toolspeak.upstreams.scripted import calls

STORE = f"sqlite:///{sys.argv[1]}/work.db"

def agent(**more):
    return ts.Agent(ts.Scripted("hello", chunk=1, again=True), store=STORE, **more)
"""
PROGRAMS = {
    "a finished task": """
one = agent()
print(one.run("Hi.").text)
""",
    "a client that is forgotten while the loop is busy": """
tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
call = ts.render_calls("hermes", [ts.ToolCall("get_weather", {})])
class SlowState(MemoryState):
    def put(self, key, *arguments):
        if key.startswith("use/"):
            time.sleep(1.0)  # the exiting interpreter waits for the thread that stores what was learned
one = ts.Client(ts.Scripted(call, again=True, base_url="https://models.example.com/v1"), state=SlowState())
print(one.chat("What is the weather?", [tool]).requests)
begun = threading.Event()
def slow(request):
    begun.set()
    time.sleep(0.5)  # until then
    return "x"
other = ts.Client(ts.Scripted(slow))
threading.Thread(target=lambda: other.chat("Hi."), daemon=True).start()
begun.wait()
del one
""",
    "the middle of a stream": """
events = agent().stream("Hi.")
for _ in range(3):
    print(next(events))
""",
    "a stream inside another generator, then SystemExit": """
def inner():
    yield from agent().stream("Hi.")
events = inner()
print(next(events))
raise SystemExit(0)
""",
    "a reference cycle with a client's stream": """
class Box: pass
box = Box(); box.me = box
box.agent = agent(); box.agent.run("Hi.")
box.client = ts.Client(ts.Scripted("hello", chunk=1, again=True))
box.events = iter(box.client.stream("Hi.")); next(box.events)
print("done")
""",
    "a daemon thread that waits for a tool": """
begun = threading.Event()
def wait() -> str:
    "Wait."
    begun.set()
    time.sleep(60)
    return "x"
one = ts.Agent(ts.Scripted(calls(ts.ToolCall("wait", {})), "x", provider="openai"), [wait], store=STORE)
threading.Thread(target=lambda: one.run("Hi."), daemon=True).start()
begun.wait()
print("done")
""",
    "threads that go on after the main thread": """
one = agent()
for _ in range(3):
    threading.Thread(target=lambda: print(one.run("Hi.").text)).start()
""",
    "an asyncio program": """
import asyncio
async def main():
    one = ts.AsyncAgent(ts.Scripted("hello", chunk=1, again=True), store=STORE)
    print((await one.run("Hi.")).text)
    await anext(one.stream("Hi."))
asyncio.run(main())
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_agent_that_was_not_closed_leaves_no_traceback_at_exit(name: str, tmp_path: Path):
    for _ in range(size(1, 5)):
        ran = subprocess.run(
            [sys.executable, "-c", START + PROGRAMS[name], str(tmp_path)],
            capture_output=True,  # pipes
            text=True,
            timeout=45,  # the tool that sleeps takes longer
            check=False,
            env={"PYTHONPATH": ":".join(sys.path), "HOME": str(tmp_path)},
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout

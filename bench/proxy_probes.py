"""What the proxy benchmark asks: the probes, and the request of each.

A request has the marks `#n00000000` and `#c00000000` where the load generator writes its own number and that of its
conversation, so that no two requests are the same. In an agent's request the last call and its result have the number
of the request and everything before them only that of the conversation, as when an agent sends its history again.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

__all__ = ["AGENT_MEMORY", "PROBES", "Probe", "body", "request"]

#: Chunks of a stream that comes in a burst, and of one that comes one by one, so many microseconds apart.
BURST, PACED, APART = 512, 100, 10_000
#: The messages of an agent's request: a system prompt, a task, and as many calls and results as that leaves.
AGENT_MESSAGES = 60
#: The requests in which a conversation grows to that length.
AGENT_TURNS = AGENT_MESSAGES // 2
#: The conversation and the request, as the load generator finds them.
_CONVERSATION, _REQUEST = "#c00000000", "#n00000000"


class Probe(NamedTuple):
    """One thing to measure."""

    name: str
    #: What the upstream is to answer, see `proxy_upstream.c`.
    says: str = ""
    clients: int = 1
    stream: bool = False
    tools: bool = False
    protocol: str = "openai"
    #: Whether the request is as large as those of agents.
    agent: bool = False
    #: The model, which for toolspeak decides whether tools are emulated.
    model: str = "emulated"
    #: Only these are measured, where it makes no sense for others.
    only: tuple[str, ...] = ()
    #: Requests of a client until it begins another conversation; 0: never.
    turns: int = 0
    #: Seconds over which the clients start.
    ramp: float = 0.0
    #: How long it is measured, instead of the time that all probes get.
    seconds: float = 0.0

    @property
    def chunks(self) -> int:
        """The stamped chunks in a stream of the upstream."""
        found = re.search(r"@(?:burst|paced):(\d+)", self.says)
        return int(found[1]) if found else 0

    @property
    def group(self) -> str:
        """Probes of one group are measured together, since memory is told after each group."""
        return "agent" if self.agent else "many" if self.ramp else "small"


_BURST = f"@burst:{BURST}@"
_PACED = f"@paced:{PACED}:{APART}@"
#: Streams of five seconds each, that begin within two.
_MANY = "@paced:50:100000@"
PROBES = (
    Probe("no tools, 1 client"),
    Probe("no tools, 32 clients", clients=32),
    Probe("no tools, burst", _BURST, stream=True),
    Probe("no tools, 32 paced", _PACED, 32, stream=True),
    Probe("tools, 1 client", "@call@", tools=True),
    Probe("tools, 32 clients", "@call@", 32, tools=True),
    Probe("tools, 256 clients", "@call@", 256, tools=True, only=("toolspeak", "vllm-router")),
    Probe("tools, burst", _BURST, stream=True, tools=True),
    Probe("tools, 32 paced", _PACED, 32, stream=True, tools=True),
    Probe("native, 1 client", "@call@", tools=True, model="native", only=("toolspeak",)),
    Probe("native, 32 clients", "@call@", 32, tools=True, model="native", only=("toolspeak",)),
    Probe("native, burst", _BURST, stream=True, tools=True, model="native", only=("toolspeak",)),
    Probe("anthropic, 1 client", "@call@", tools=True, protocol="anthropic", model="translated"),
    Probe("anthropic, burst", _BURST, stream=True, tools=True, protocol="anthropic", model="translated"),
    Probe("responses, 1 client", "@call@", tools=True, protocol="responses", model="translated"),
    Probe("responses, burst", _BURST, stream=True, tools=True, protocol="responses", model="translated"),
    Probe("agent, native", "@call@", tools=True, agent=True, model="native"),
    Probe("agent, emulated", "@call@", tools=True, agent=True, only=("toolspeak",)),
    Probe("1,000 streams", _MANY, 1000, stream=True, tools=True, ramp=2.0, seconds=2.0),
)
#: What memory is measured with: agents that begin a new conversation now and then.
AGENT_MEMORY = Probe("agent, memory", "@call@", 4, tools=True, agent=True, turns=AGENT_TURNS)


# --------------------------------------------------------------------------------------------------- tools


def _tool(name: str, description: str, *required: str, **properties: dict[str, object]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "description": description, "parameters": schema}


def _forecast(name: str) -> dict[str, Any]:
    return _tool(
        name,
        f"Tells the {name.partition('_')[2]} of a place, now and for the days to come.",
        "city",
        city={"type": "string", "description": "The name of the city"},
        days={"type": "integer", "description": "How many days"},
        unit={"type": "string", "enum": ["metric", "imperial"]},
    )


_TOOLS = [_forecast(name) for name in ("get_weather", "get_time", "get_news")]
_ADVICE = (
    "Use it only when the task needs it, and read its answer before the next step. Paths are relative to the root of "
    "the project; a path that leads out of it is refused. Long answers are cut after 2,000 lines, and say so. "
)


def _work(name: str, purpose: str) -> dict[str, Any]:
    return _tool(
        name,
        f"{purpose} {_ADVICE}",
        "path",
        path={"type": "string", "description": "The file or folder, relative to the root of the project"},
        pattern={"type": "string", "description": "A regular expression; lines that match it are meant"},
        content={"type": "string", "description": "The new text, complete, with its line ends"},
        limit={"type": "integer", "description": "The most lines that are wanted", "minimum": 1, "maximum": 2000},
        mode={"type": "string", "enum": ["text", "binary", "auto"], "description": "How the file is read"},
        dry_run={"type": "boolean", "description": "Say what would be done, and do nothing"},
    )


_PURPOSES = {
    "read_file": "Read a file with the numbers of its lines.",
    "write_file": "Write a file, and make the folders that it needs.",
    "edit_file": "Replace a text that occurs once in a file by another.",
    "list_folder": "List the files and folders in a folder, the newest first.",
    "search_text": "Search all files below a folder for a pattern.",
    "find_files": "Find files whose names match a pattern.",
    "run_command": "Run a command in a shell and show its output and its status.",
    "run_tests": "Run the tests of a file or a folder and show those that fail.",
    "show_changes": "Show what has changed since the last commit.",
    "commit_changes": "Commit what has changed, with a message.",
    "fetch_page": "Fetch a page of the web and show its text.",
    "search_web": "Search the web and show the first answers.",
    "make_plan": "Write down the steps of a task, and which of them are done.",
    "ask_user": "Ask the user a question and wait for the answer.",
    "rename_symbol": "Rename a function, a class or a variable everywhere.",
    "show_symbol": "Show where a symbol is defined, and what it says.",
    "format_file": "Format a file as the project wants it.",
}
_AGENT_TOOLS = [*_TOOLS, *(_work(name, purpose) for name, purpose in _PURPOSES.items())]


# ------------------------------------------------------------------------------------------------ messages

_SYSTEM = (
    "You are an agent that works on a project of Python code. You read before you write, make small changes, run the "
    "tests after each of them, and tell in a sentence what you do and why. You never invent the contents of a file. "
) * 50
_CODE = '''def total(prices: list[float], currency: str = "EUR") -> str:
    """Add up the prices that are positive, and show the sum with two digits."""
    result = sum(price for price in prices if price > 0)  # "free" items are left out
    if result > LIMIT:
        raise ValueError(f"the sum {result:.2f} is above {LIMIT}: check the prices")
    return f"{result:.2f} {currency}\\n"

'''


def _step(step: int, stamp: str) -> list[dict[str, Any]]:
    """A call and its result."""
    path = f"src/shop/part_{step:02}/prices.py"
    arguments = json.dumps({"path": path, "limit": 200 + step, "pattern": f"total|{stamp}", "mode": "text"})
    call = {"id": f"call_{step:04}", "type": "function", "function": {"name": "read_file", "arguments": arguments}}
    said = f"Next I look at `{path}`, where the sums of part {step} are made ({stamp})."
    result = f"{path}, {stamp}, step {step}\n" + _CODE * 4
    return [
        {"role": "assistant", "content": said, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": result},
    ]


def _agent_messages(says: str) -> list[dict[str, Any]]:
    task = f"Find out why the sums are wrong, then tell me the weather in Paris. Task {_CONVERSATION}. {says}"
    messages: list[dict[str, Any]] = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": task}]
    steps = (AGENT_MESSAGES - len(messages)) // 2
    for step in range(steps):
        messages += _step(step, _CONVERSATION if step < steps - 1 else f"{_CONVERSATION} {_REQUEST}")
    return messages


# ------------------------------------------------------------------------------------------------ requests


def body(probe: Probe) -> dict[str, Any]:
    """The body of a probe's request."""
    question = f"What is the weather in Paris, and what should I wear? Trip {_REQUEST}. {probe.says}"
    messages = _agent_messages(probe.says) if probe.agent else [{"role": "user", "content": question}]
    tools = (_AGENT_TOOLS if probe.agent else _TOOLS) if probe.tools else []
    return _SHAPES[probe.protocol]({"model": probe.model, "stream": probe.stream}, messages, tools)


def _openai(head: dict[str, Any], messages: list[Any], tools: list[Any]) -> dict[str, Any]:
    listed = {"tools": [{"type": "function", "function": tool} for tool in tools]} if tools else {}
    return {**head, "messages": messages, "max_tokens": 1024, **listed}


def _anthropic(head: dict[str, Any], messages: list[Any], tools: list[Any]) -> dict[str, Any]:
    listed = [
        {"name": each["name"], "description": each["description"], "input_schema": each["parameters"]} for each in tools
    ]
    return {**head, "messages": messages, "max_tokens": 1024, "tools": listed}


def _responses(head: dict[str, Any], messages: list[Any], tools: list[Any]) -> dict[str, Any]:
    listed = [{"type": "function", **tool} for tool in tools]
    return {**head, "input": messages, "max_output_tokens": 1024, "store": False, "tools": listed}


_SHAPES = {"openai": _openai, "anthropic": _anthropic, "responses": _responses}
_PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages", "responses": "/v1/responses"}


def request(probe: Probe, port: int, key: str, headers: str = "") -> bytes:
    """The HTTP request of a probe. `headers` are lines of their own, each with its end."""
    data = json.dumps(body(probe), separators=(",", ":")).encode()
    head = (
        f"POST {_PATHS[probe.protocol]} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n{headers}"
        f"Content-Type: application/json\r\nAccept: */*\r\nUser-Agent: bench\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data

"""A program with an agent that reads a file, waits for a line on its standard input, and then edits the file.

    python -m tests.tools.editing_agent FOLDER OLD NEW

An edit that fails is made again after the file has been read again. Prints `read` after the first reading, and in the
end the results of all calls as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import toolspeak as ts
from toolspeak.core.types import ToolCall
from toolspeak.tools.files import file_tools
from toolspeak.upstreams.scripted import Scripted, calls


def main(folder: str, old: str, new: str) -> None:
    """Edit `list.txt` in a folder."""
    read, edit = {"path": "list.txt"}, {"path": "list.txt", "old": old, "new": new}

    def script(request: Any) -> Any:
        results = [result.content for message in request.messages for result in message.results]
        if not results or "changed by someone else" in results[-1]:
            return calls(ToolCall("read_file", read, f"call_{len(results)}"))
        if results[-1].startswith("edited"):
            return "Done."
        if len(results) == 1:
            print("read", flush=True)  # noqa: T201 - what the test waits for
            sys.stdin.readline()
        return calls(ToolCall("edit_file", edit, f"call_{len(results)}"))

    with ts.Agent(Scripted(script, again=True, provider="openai"), file_tools(folder)) as agent:
        result = agent.run("Edit it.")
    contents = [record.result.content for round_ in result.rounds for record in round_.calls if record.result]
    print(json.dumps(contents))  # noqa: T201 - what the test reads


if __name__ == "__main__":
    main(*sys.argv[1:])

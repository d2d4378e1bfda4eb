"""A person at a terminal is asked whether a call may run.

Shows the whole call, since what is left out is what an attacker would hide there: every argument, and characters that
nobody would see as their numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..tools.approval import Answer, Question
from .mcp_text import shown

PROMPT = "allow it? [y]es, [t]his very call from now on, [a]ll calls of this tool, [n]o"
_ANSWERS: dict[str, Answer] = {"y": "once", "yes": "once", "t": "call", "a": "tool", "all": "tool"}


def told(question: Question) -> str:
    """What is asked, in full. Each line of it is indented, so that none looks like a question of ours."""
    lines = "\n".join(f"  {line}" for line in shown(_whole(question)).split("\n"))
    place = "inside the sandbox" if question.sandboxed else "on this machine"
    foreign = "; foreign text was read before, so look twice" if question.tainted else ""
    return f"{shown(question.tool.name)} wants to run {place} ({shown(question.reason)}{foreign}):\n{lines}"


def _whole(question: Question) -> str:
    """All arguments. A command of the shell alone is easier to read as it is; nothing is left out then either."""
    match question.arguments:
        case {"command": str(command), **rest} if question.tool.name == "shell" and not rest:
            return command
        case arguments:
            return msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()


def answer_of(typed: str) -> Answer:
    """What was meant; whatever is not clearly a yes is a no."""
    return _ANSWERS.get(typed.strip().lower(), "deny")


def asked(question: Question, prompt: Callable[[str], str]) -> Answer:
    """The answer of somebody who sits there. Who interrupts or ends the input says no."""
    try:
        return answer_of(prompt(f"{told(question)}\n{PROMPT}: "))
    except (EOFError, KeyboardInterrupt, RuntimeError):
        return "deny"

"""A person at a terminal is asked whether a call may run.

Shows the whole call, since what is left out is what an attacker would hide there. Above: `run`, `chat`. Below:
`tools.approval`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..tools.approval import Answer, Question
from .run_screen import clean

__all__ = ["PROMPT", "answer_of", "asked", "told"]

PROMPT = "allow it? [y]es, [t]his very call from now on, [a]ll calls of this tool, [n]o"
_ANSWERS: dict[str, Answer] = {"y": "once", "yes": "once", "t": "call", "a": "tool", "all": "tool"}


def told(question: Question) -> str:
    """What is asked, in full."""
    command = question.arguments.get("command")
    whole = command if isinstance(command, str) else msgspec.json.encode(question.arguments).decode()
    place = "inside the sandbox" if question.sandboxed else "on this machine"
    foreign = "; foreign text was read before, so look twice" if question.tainted else ""
    return f"{clean(question.tool.name)} wants to run {place} ({clean(question.reason)}{foreign}):\n{clean(whole)}"


def answer_of(typed: str) -> Answer:
    """What was meant; whatever is not clearly a yes is a no."""
    return _ANSWERS.get(typed.strip().lower(), "deny")


def asked(question: Question, prompt: Callable[..., str]) -> Answer:
    """The answer of somebody who sits there. Who interrupts or ends the input says no."""
    try:
        return answer_of(prompt(f"{told(question)}\n{PROMPT}", default="n", show_default=False))
    except (EOFError, KeyboardInterrupt, RuntimeError):
        return "deny"

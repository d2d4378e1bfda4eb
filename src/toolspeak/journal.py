"""Where an agent writes down what happens, before and after it happens.

`Journal` is what the agent loop speaks to; each method that changes something has committed it when it returns,
so that a process may be killed between any two of them. Above: the
store (which gives it a database), the agent. Below: `core.record`.
"""

from __future__ import annotations

from typing import Protocol

from .core.model import Message, ToolResult
from .core.record import Answer, Entry, Round

__all__ = ["Journal"]


class Journal(Protocol):
    """One session, held by one writer. Not for several tasks at once, except `start` and `finish`."""

    @property
    def session(self) -> str:
        """The id under which it can be opened again."""
        ...

    async def entries(self) -> tuple[Entry, ...]:
        """The conversation so far, repaired: every call has a result, no answer is running."""
        ...

    async def say(self, message: Message) -> None:
        """Something was said: by the user, or as the system's text."""
        ...

    async def begin(self) -> None:
        """An answer begins; until `end` it is `running`."""
        ...

    async def stream(self, text: str) -> None:
        """A piece of text came. Written each second or every 4 KB, so that a crash loses no more."""
        ...

    async def plan(self, made: Round) -> None:
        """The model asked for these calls; its text until here belongs to this round. One commit."""
        ...

    async def start(self, call_id: str) -> None:
        """A call is about to run. One commit: after it, nobody runs the call again by himself."""
        ...

    async def finish(self, result: ToolResult, seconds: float) -> None:
        """A call has a result. One commit."""
        ...

    async def end(self, answer: Answer) -> None:
        """The answer is over, complete or not. Its rounds are known already; the rest is written. One commit."""
        ...

    async def close(self) -> None:
        """Give the session back."""
        ...

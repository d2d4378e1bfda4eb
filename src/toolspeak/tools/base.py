"""What it takes to be run by an agent: a definition for the model, and a coroutine.

Every kind of tool (function, shell, files, MCP) and every wrapper (filter, prefix, approve, timeout, truncate) is
an `Executable`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

import msgspec

from ..core.types import JSONObject, Media, Opaque, Tool


def _nowhere(_: str) -> None:
    """Nobody watches."""


class CallContext(msgspec.Struct, frozen=True):
    """What a tool may know about the call that it answers."""

    call_id: str = ""
    #: The same when the same call is run again with consent, and nobody else's: what a tool may hand on as an
    #: idempotency key (see `call_key`).
    key: str = ""
    #: Whether content that nobody vouches for was before the model when it made this call.
    tainted: bool = False
    #: Takes output as it comes, for whoever watches. The result is what `run` returns.
    emit: Callable[[str], None] = _nowhere
    #: The session in which it is made: what was said in one counts in that one only.
    session: str = ""


def call_key(*parts: str) -> str:
    """A key for a call, from what tells it from all others. Ids of calls may hold anything; a key fits everywhere."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]


class ToolOutput(msgspec.Struct, frozen=True):
    """What a tool gives back to the model."""

    content: str
    error: bool = False
    parts: tuple[Media | Opaque, ...] = ()
    #: The agent stops after this round, and `content` is its answer (`final_output`).
    final: bool = False


class Executable(Protocol):
    """Something an agent can run."""

    @property
    def tool(self) -> Tool:
        """What the model is told."""
        ...

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Do it. Whatever is raised becomes an error result for the model, by its `ToolspeakError` text or its type."""
        ...

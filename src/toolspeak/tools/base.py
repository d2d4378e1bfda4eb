"""The interface of a tool that an agent can run: a definition for the model, and a coroutine.

Every kind of tool (function, shell, files, MCP) and every wrapper (prefix, approval, timeout, truncation) is an
`Executable`.
"""

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, cast

import msgspec

from ..core.types import JSONObject, Media, Opaque, Tool
from ..engine.rounds.transcript import FileDiff
from ..store.session_interface import FileChange

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=Any)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")


class CallContext(msgspec.Struct, Generic[Deps], frozen=True):
    """What a tool may know about the call it runs. `CallContext[Database]` declares the type of `deps`."""

    call_id: str = ""
    #: Idempotency key: unique to the call, and the same if that call is run again (see `call_key`).
    key: str = ""
    tainted: bool = False  # whether untrusted content was in the model's context when it made this call
    #: Receives live output while the tool runs. The result is what `run` returns.
    emit: Callable[[str], None] = lambda _: None
    #: The session of the call. The user's consent is valid only in the session in which it was given.
    session: str = ""
    #: Records a change of a file in the session before it is made, so it can be undone. Blocks until that is committed,
    #: so call it only in a tool's own thread, where synchronous functions run. If it raises, do not make the change.
    record_change: Callable[[FileChange], None] = lambda _: None
    #: The object that the caller passed to the agent as `context`. It is neither stored nor shown to the model.
    deps: Deps = cast("Any", None)


def call_key(*parts: str) -> str:
    """Derive an idempotency key, as plain hex, from the strings that identify a call. They may contain anything."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]


class ToolOutput(msgspec.Struct, frozen=True):
    """The result of a tool call, for the model."""

    content: str
    error: bool = False
    parts: tuple[Media | Opaque, ...] = ()
    #: Whether the agent stops after this round and returns `content` as its answer (see `final_output`).
    final: bool = False
    diffs: tuple[FileDiff, ...] = ()


class Executable(Protocol):
    """A tool that an agent can run."""

    @property
    def tool(self) -> Tool:
        """The definition for the model."""
        ...

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Run the tool. An exception becomes an error result: the text of a `ToolspeakError`, else the type name."""
        ...

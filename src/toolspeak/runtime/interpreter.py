"""The interpreter of a client or gateway: the embedded model, which reads calls from the answers of other models.

It is resolved when the first turn may need it. If it cannot answer, the turn goes on without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING

from ..core.events import Event, Failure
from ..core.types import Request
from ..engine.planning.capabilities import Capabilities
from ..engine.prompting.nonces import nonces_of
from ..errors import ToolspeakError
from ..upstreams.base import Batches, Upstream, open_upstream, shorten
from .model_resolution import ResolvedModel

if TYPE_CHECKING:
    from ..engine.turn.interpretation import Interpreter

#: Seconds for one answer, with the start of the model.
_MAX_SECONDS = 60.0


class InterpreterModel:
    """The embedded model of a client or gateway."""

    def __init__(self, resolve: Callable[[], ResolvedModel], capabilities: Capabilities) -> None:
        self._resolve = resolve
        self._capabilities = capabilities

    @cached_property
    def resolved(self) -> ResolvedModel:
        """The model. Raises ConfigError if its configuration is invalid."""
        return self._resolve()

    def interpreter(self, secret: bytes, tenant: str) -> Interpreter:
        """Return what the engine needs to know about the model."""
        from ..engine.turn.interpretation import Interpreter  # imports the dialects, which few programs need

        match = self._capabilities.find(self.resolved.provider, "")  # the default model has no name in the table
        return Interpreter(self.resolved.model, match, partial(nonces_of, secret, tenant, ()))

    async def close(self) -> None:
        """Stop the model."""
        if "resolved" in self.__dict__:
            await self.resolved.upstream.close()


async def ask_interpreter(upstream: Upstream, request: Request) -> Batches:
    """Yield the whole answer, or a failure that says why there is none."""
    events: list[Event] = []
    try:
        async with asyncio.timeout(_MAX_SECONDS):
            async for batch in open_upstream(upstream, request, passthrough_bytes=False):
                events += batch
    except TimeoutError:
        events = [Failure(f"the interpreter took longer than {_MAX_SECONDS:g} seconds", "timeout")]
    except (ToolspeakError, OSError) as error:
        events = [Failure(f"the interpreter failed: {shorten(str(error))}")]
    yield events

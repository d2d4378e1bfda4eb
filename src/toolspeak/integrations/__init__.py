"""Toolspeak as the model of other libraries: one module per library, each with an extra of the same name."""

from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

from ..client import AsyncClient, Client
from ..errors import ConfigError, UsageError
from ..runtime.model_resolution import Model
from ..runtime.options import SETTINGS, TurnOptions

T = TypeVar("T")

#: A model in any form that `Client` accepts, or an existing client.
AnyModel: TypeAlias = Model | Client | AsyncClient


@contextmanager
def extra(name: str) -> Generator[None, None, None]:
    """Turn a failed import inside the block into an error that names the extra to install."""
    try:
        yield
    except ImportError as error:
        hint = f"pip install 'toolspeak[{name}]'"
        raise ConfigError(f"the integration `{name}` cannot be imported: {error}", hint=hint) from error


class Runner:
    """Runs the turns of one model, from synchronous code and from any event loop.

    `options` are the request fields among the arguments, which apply to every turn.
    """

    def __init__(self, model: AnyModel, arguments: Mapping[str, Any]) -> None:
        fields = TurnOptions.__annotations__.keys() - SETTINGS
        self.options = {name: value for name, value in arguments.items() if name in fields}
        settings = {name: value for name, value in arguments.items() if name not in fields}
        if not isinstance(model, Client | AsyncClient):
            model = Client(model, **settings)
        elif settings:
            message = f"`{min(settings)}` cannot be changed for an existing client"
            raise UsageError(message, hint="pass it when you create the client")
        self.owner = model  # an unreferenced client is closed
        self.client, self._bridge = (model, None) if isinstance(model, AsyncClient) else model.inside

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the client for synchronous code."""
        if self._bridge is None:
            coroutine.close()
            raise UsageError("an `AsyncClient` cannot be called from synchronous code", hint="pass a `Client`")
        return self._bridge.run(coroutine)

    async def run_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the client for the current task."""
        return await (coroutine if self._bridge is None else self._bridge.run_async(coroutine))

    def iterate(self, items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """Iterate over what the client yields, for synchronous code."""
        try:
            while (item := self.run(_next(items))) is not None:
                yield item
        finally:
            self.run(close(items))

    async def iterate_async(self, items: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """Iterate over what the client yields, for the current task."""
        try:
            while (item := await self.run_async(_next(items))) is not None:
                yield item
        finally:
            await self.run_async(close(items))


async def _next(items: AsyncGenerator[T, None]) -> T | None:
    return await anext(items, None)


async def close(items: AsyncGenerator[Any, None]) -> None:
    """Close a generator; `Runner` runs this."""
    await items.aclose()

"""Which upstream answers for a model: from the name in a request to a place that makes turns.

Above: `exchange`, `app`. Below: `turn_maker`, `reach`, the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..core.capability import Capabilities
from ..core.strategy import Settings
from ..errors import UsageError
from ..reach import Reached
from ..state import State
from ..turn_maker import TurnMaker

__all__ = ["Gateway", "Target", "UnknownModel"]


class UnknownModel(UsageError):
    """A model that no upstream serves."""

    status = 404


class Target(msgspec.Struct, frozen=True):
    """Where the requests for one model go, and how."""

    maker: TurnMaker
    settings: Settings


class Gateway:
    """The upstreams of one server."""

    def __init__(
        self, reached: Reached, settings: Settings, known: Capabilities, state: State, secret: bytes, *, any_model: bool
    ) -> None:
        self._reached = reached
        self._settings = settings
        self._known = known
        self._state = state
        self._secret = secret
        self._any_model = any_model
        self._targets: dict[str, Target] = {}

    def target(self, model: str) -> Target:
        """The target for the model that a request names."""
        found = self._targets.get(model)
        if found is None:
            found = self._targets[model] = self._make(model)
        return found

    def _make(self, model: str) -> Target:
        reached = self._reached
        if self._any_model and model:
            reached = msgspec.structs.replace(reached, model=model)
        return Target(TurnMaker(reached, self._known, self._state, self._secret), self._settings)

    def models(self) -> Mapping[str, str]:
        """The models that are known by name, with who serves them."""
        return {self._reached.model: self._reached.provider}

    async def close(self) -> None:
        """Free the connections."""
        await self._reached.upstream.close()

"""What was approved of an MCP server: the definition of each tool, as a hash.

A definition is text that a model reads, so a server that changes one after it was approved could put words into the
model's mouth. What is not as it was approved is left out until somebody approves it again. Above: `mcp_servers`, the
command line. Below: `state`, `mcp_config`.
"""

from __future__ import annotations

import hashlib

import msgspec

from ..core.model import JSONValue
from ..state import State
from .mcp_config import McpServer

__all__ = ["Definition", "Pins", "Verdict"]

_PREFIX = "mcp_pins:"


class Definition(msgspec.Struct, frozen=True):
    """A tool as its server describes it."""

    name: str
    description: str
    schema: JSONValue

    @property
    def hash(self) -> str:
        """Another one whenever something that a model reads is another."""
        return hashlib.sha256(
            msgspec.json.encode([self.name, self.description, self.schema], order="sorted")
        ).hexdigest()


class Verdict(msgspec.Struct, frozen=True):
    """What has become of the definitions since they were approved."""

    #: Nothing of this server was ever approved.
    first: bool
    unchanged: tuple[Definition, ...] = ()
    changed: tuple[Definition, ...] = ()
    added: tuple[Definition, ...] = ()


class Pins:
    """The approved definitions, by server."""

    def __init__(self, state: State) -> None:
        self._state = state

    def judge(self, server: McpServer, offered: tuple[Definition, ...]) -> Verdict:
        """Compare what a server offers with what was approved."""
        pinned = self._state.get(_key(server))
        if not isinstance(pinned, dict):
            return Verdict(True, added=offered)
        known = msgspec.convert(pinned, dict[str, str])
        return Verdict(
            False,
            unchanged=tuple(each for each in offered if known.get(each.name) == each.hash),
            changed=tuple(each for each in offered if each.name in known and known[each.name] != each.hash),
            added=tuple(each for each in offered if each.name not in known),
        )

    def approve(self, server: McpServer, offered: tuple[Definition, ...]) -> None:
        """From now on, this is how the tools of this server are described."""
        self._state.put(_key(server), {each.name: each.hash for each in offered})

    def forget(self, name: str) -> int:
        """Nothing of the servers of this name is approved any more; how many there were."""
        keys = self._state.keys(f"{_PREFIX}{name}:")
        for key in keys:
            self._state.delete(key)
        return len(keys)


def _key(server: McpServer) -> str:
    return f"{_PREFIX}{server.name}:{server.identity}"

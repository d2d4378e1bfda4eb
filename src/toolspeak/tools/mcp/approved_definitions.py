"""What was approved of an MCP server: the definition of each tool.

A definition is text that a model reads, so a server that changes one after it was approved could put words into the
model's mouth. What is not as it was approved is left out until somebody approves it again. Hashes decide; the texts
are kept beside them, so that whoever is asked again can see what has changed.
"""

from __future__ import annotations

import hashlib

import msgspec

from ...core.types import JSONValue
from ...key_value import State
from .config import McpServer

_PREFIX = "mcp_pins:"
#: Bytes of the texts of one server that are kept; those of the largest servers in use have some 200 kB. Of what is
#: beyond, the hash is kept.
_MOST_KEPT = 512 * 1024


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
    #: The names of those that were approved and are not offered any more.
    gone: tuple[str, ...] = ()
    #: How the changed ones were when they were approved, by name, where that was kept.
    before: dict[str, Definition] = {}


class _Pin(msgspec.Struct, frozen=True, omit_defaults=True):
    """One approved definition; None: only its hash was kept."""

    hash: str
    definition: Definition | None = None


class Pins:
    """The approved definitions, by server."""

    def __init__(self, state: State) -> None:
        self._state = state

    def judge(self, server: McpServer, offered: tuple[Definition, ...]) -> Verdict:
        """Compare what a server offers with what was approved."""
        known = self._known(server)
        if known is None:
            return Verdict(True, added=offered)
        changed = tuple(each for each in offered if each.name in known and known[each.name].hash != each.hash)
        names = {each.name for each in offered}
        return Verdict(
            False,
            unchanged=tuple(each for each in offered if each.name in known and known[each.name].hash == each.hash),
            changed=changed,
            added=tuple(each for each in offered if each.name not in known),
            gone=tuple(name for name in known if name not in names),
            before={each.name: was for each in changed if (was := known[each.name].definition) is not None},
        )

    def approve(self, server: McpServer, offered: tuple[Definition, ...]) -> None:
        """From now on, this is how the tools of this server are described."""
        size, pins = 0, dict[str, _Pin]()
        for each in offered:
            size += len(msgspec.json.encode(each))
            pins[each.name] = _Pin(each.hash, each if size <= _MOST_KEPT else None)
        self._state.put(_key(server), msgspec.to_builtins(pins))

    def _known(self, server: McpServer) -> dict[str, _Pin] | None:
        pinned = self._state.get(_key(server))
        if not isinstance(pinned, dict):
            return None
        # Once the hash alone was kept, as a text.
        found = msgspec.convert(pinned, dict[str, str | _Pin])
        return {name: _Pin(pin) if isinstance(pin, str) else pin for name, pin in found.items()}

    def forget(self, name: str) -> int:
        """Nothing of the servers of this name is approved any more; how many there were."""
        keys = self._state.keys(f"{_PREFIX}{name}:")
        for key in keys:
            self._state.delete(key)
        return len(keys)


def _key(server: McpServer) -> str:
    return f"{_PREFIX}{server.name}:{server.identity}"

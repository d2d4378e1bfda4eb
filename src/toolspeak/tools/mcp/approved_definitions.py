"""Pinning of MCP tool definitions: only definitions that the user approved are offered to a model.

A model reads the definitions, so a server could inject a prompt by changing a definition after its approval. A changed
definition is left out until it is approved again. Changes are detected by hash; the texts are stored to show a diff.
"""

import hashlib

import msgspec

from ...core.types import JSONValue
from ...key_value import State
from .config import McpServer

_PREFIX = "mcp_pins:"
#: Maximum bytes of definitions stored per server; of the rest, only hashes are. The largest servers need some 200 kB.
_MAX_STORED_BYTES = 512 * 1024


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    description: str
    schema: JSONValue
    #: The server's hint that the tool has no side effects. It counts only for trusted servers.
    read_only: bool = False

    @property
    def hash(self) -> str:
        """A hash of everything that a model reads."""
        text = msgspec.json.encode([self.name, self.description, self.schema], order="sorted")
        return hashlib.sha256(text).hexdigest()


class DefinitionChanges(msgspec.Struct, frozen=True):
    first: bool  # whether no definition of this server has been approved yet
    unchanged: tuple[Definition, ...] = ()
    changed: tuple[Definition, ...] = ()
    added: tuple[Definition, ...] = ()
    removed: tuple[str, ...] = ()  # names of approved tools that are no longer offered
    before: dict[str, Definition] = {}  # the approved versions of the changed definitions, by name, if stored


class _Pin(msgspec.Struct, frozen=True, omit_defaults=True):
    """One approved definition. If `definition` is None, only the hash was stored."""

    hash: str
    definition: Definition | None = None


class Pins:
    def __init__(self, state: State) -> None:
        self._state = state

    def compare(self, server: McpServer, offered: tuple[Definition, ...]) -> DefinitionChanges:
        approved = self._approved(server)
        if approved is None:
            return DefinitionChanges(True, added=offered)
        known = [each for each in offered if each.name in approved]
        changed = tuple(each for each in known if approved[each.name].hash != each.hash)
        names = {each.name for each in offered}
        unchanged = tuple(each for each in known if approved[each.name].hash == each.hash)
        added = tuple(each for each in offered if each.name not in approved)
        removed = tuple(name for name in approved if name not in names)
        before = {each.name: was for each in changed if (was := approved[each.name].definition) is not None}
        return DefinitionChanges(False, unchanged, changed, added, removed, before)

    def approve(self, server: McpServer, offered: tuple[Definition, ...]) -> None:
        """Approve these definitions. They replace all earlier approvals of the server."""
        size, pins = 0, dict[str, _Pin]()
        for each in offered:
            size += len(msgspec.json.encode(each))
            pins[each.name] = _Pin(each.hash, each if size <= _MAX_STORED_BYTES else None)
        self._state.put(_PREFIX + server.key, msgspec.to_builtins(pins))

    def _approved(self, server: McpServer) -> dict[str, _Pin] | None:
        pinned = self._state.get(_PREFIX + server.key)
        if not isinstance(pinned, dict):
            return None
        # Older versions stored only the hash, as a string.
        pins = msgspec.convert(pinned, dict[str, str | _Pin])
        return {name: _Pin(pin) if isinstance(pin, str) else pin for name, pin in pins.items()}

    def forget(self, name: str) -> int:
        """Withdraw the approval of all servers with this name. Returns the number of servers."""
        keys = self._state.keys(f"{_PREFIX}{name}:")
        for key in keys:
            self._state.delete(key)
        return len(keys)

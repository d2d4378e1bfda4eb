"""Plugins: dialects, profiles, protocols, upstreams, tools and commands from other installed packages.

A package declares its plugins as entry points. They are loaded on first use, if the configuration allows them. A broken
plugin is skipped with a warning and a note; it never breaks the program. docs/plugins.md says what plugins may rely on.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args
from weakref import WeakSet

import msgspec

from .config import load
from .core.plugin_hook import set_loader
from .core.types import Note
from .engine.planning.capabilities import Capabilities, Table, capabilities, read_table
from .errors import ConfigError, ToolspeakError
from .plugin_search import any_installed
from .protocols import add_protocol

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from .dialects.registry import Dialect

Group: TypeAlias = Literal[
    "toolspeak.commands",
    "toolspeak.dialects",
    "toolspeak.profiles",
    "toolspeak.protocols",
    "toolspeak.tools",
    "toolspeak.upstreams",
]
GROUPS: tuple[Group, ...] = get_args(Group)

_log = logging.getLogger("toolspeak.plugins")
#: One thread loads plugins; others wait until the dialects are complete.
_LOCK = RLock()
#: What is being loaded. Code of a plugin that uses toolspeak meanwhile sees what has been loaded so far.
_loading: list[Plugins] = []
#: The dialects that plugins have added, because dialects belong to the process.
_added: dict[Plugin, list[Dialect]] = {}


class Plugin(msgspec.Struct, frozen=True):
    group: Group
    name: str
    distribution: str
    version: str
    value: str  # the object to load, as `module:attribute`
    allowed: bool

    def __str__(self) -> str:
        return f"plugin `{self.name}` of `{self.distribution}`"


class Plugins:
    """Finds and loads installed plugins. `allow` is `Config.load_plugins`, `path` replaces `sys.path`."""

    def __init__(self, allow: str = "all", path: Iterable[str] | None = None) -> None:
        self._allow = allow.strip()
        self._names = {_normalized(name) for name in allow.split(",") if name.strip()}
        self._path = None if path is None else list(path)
        self._entries: list[tuple[Plugin, EntryPoint]] | None = None
        self._tables: list[Table] | None = None
        self._groups: dict[Group, dict[str, Any]] = {}
        self._extended: WeakSet[Capabilities] = WeakSet()
        self.notes: list[Note] = []

    def dialects(self) -> Mapping[str, Dialect]:
        """Load the dialects of plugins and register them.

        An entry point of `toolspeak.dialects` is a `Dialect`, a list of them, or a function that returns either.
        """
        rows: list[Dialect] = []
        for plugin, point in self._allowed("toolspeak.dialects"):
            if plugin not in _added:
                _added[plugin] = []
                for row in _listed(self._guarded(plugin, lambda point=point: _called(point.load()))):
                    self._guarded(plugin, lambda row=row, plugin=plugin: _added[plugin].append(_new_dialect(row)))
            rows += _added[plugin]
        return {row.name: row for row in rows}

    def extend(self, target: Capabilities | None = None) -> None:
        """Add dialects, protocols and profiles of plugins. Profiles take precedence over the built-in ones.

        An entry point of `toolspeak.profiles` is a mapping or TOML text in the format of `profiles.toml`, or a function
        that returns either. Dialects are loaded first, because profiles refer to them. `target` is extended as well as
        the profiles of the process.
        """
        with _LOCK:
            if _loading:
                return
            _loading.append(self)
            try:
                self._extend((capabilities(), target or capabilities()))
            finally:
                _loading.clear()
                set_loader(None)

    def _extend(self, targets: tuple[Capabilities, Capabilities]) -> None:
        if self._tables is None:
            self.dialects()
            self.load_group("toolspeak.protocols")
            self._tables = []
            for plugin, point in self._allowed("toolspeak.profiles"):
                table = self._guarded(plugin, lambda plugin=plugin, point=point: _table(_called(point.load()), plugin))
                self._tables += [] if table is None else [table]
        for target in targets:
            if target not in self._extended:
                self._extended.add(target)
                for table in self._tables:
                    target.extend(table)

    def upstream(self, name: str) -> Callable[..., Any] | None:
        """Return the upstream factory of a plugin for this provider, if there is one.

        An entry point of `toolspeak.upstreams` is a callable that creates an upstream. Its name is the provider name.
        """
        return self.load_group("toolspeak.upstreams").get(name)

    def tools(self, name: str) -> list[Any]:
        """Return the tools of a plugin. Raises ConfigError if there is no such plugin.

        An entry point of `toolspeak.tools` is a tool or function as an agent takes it, or a list of them.
        """
        tools = self.load_group("toolspeak.tools")
        if name not in tools:
            hint = f"installed are {', '.join(tools)}" if tools else "no installed package brings tools"
            raise ConfigError(f"no plugin provides the tools `{name:.64}`", hint=hint)
        return _listed(tools[name])

    def load_group(self, group: Group) -> Mapping[str, Any]:
        """Load the plugins of a group, by the names of their entry points."""
        if group not in self._groups:
            loaded = self._groups[group] = {}
            for plugin, point in self._allowed(group):
                if plugin.name in loaded:
                    self._skip(plugin, f"another plugin already provides `{plugin.name}`")
                    continue
                value = self._guarded(plugin, lambda plugin=plugin, point=point: _checked(plugin, point.load()))
                if value is not None:
                    loaded[plugin.name] = value
                    if group == "toolspeak.upstreams" and Capabilities().provider(plugin.name) is not None:
                        self._note("plugin_replaces", f"{plugin} replaces the built-in provider")  # and gets its keys
        return self._groups[group]

    def search(self) -> list[tuple[Plugin, EntryPoint]]:
        """Find all installed plugins, allowed or not, without loading them."""
        if self._entries is None:
            self._entries = sorted(self._entry_points(), key=lambda entry: (entry[0].group, entry[0].name))
        return self._entries

    def _entry_points(self) -> Iterator[tuple[Plugin, EntryPoint]]:
        if not any_installed(sys.path if self._path is None else self._path):
            return
        from importlib.metadata import distributions

        candidates = distributions() if self._path is None else distributions(path=self._path)
        names: set[str] = set()
        for distribution in candidates:
            try:
                name = distribution.metadata["Name"] or ""
                points = list(distribution.entry_points)
                version = distribution.version or ""
            except Exception as error:
                detail = f"a distribution was skipped: its metadata cannot be read ({_one_line(error)})"
                self._note("plugin_left_out", detail)
                continue
            if not name or _normalized(name) in names:  # the first one on the path wins, as with imports
                continue
            names.add(_normalized(name))
            for point in points:
                if point.group in GROUPS:
                    yield Plugin(point.group, point.name, name, version, point.value, self._allows(name)), point

    def _allows(self, distribution: str) -> bool:
        return self._allow == "all" or (self._allow != "none" and _normalized(distribution) in self._names)

    def _allowed(self, group: Group) -> list[tuple[Plugin, EntryPoint]]:
        return [(plugin, point) for plugin, point in self.search() if plugin.group == group and plugin.allowed]

    def _guarded(self, plugin: Plugin, work: Callable[[], Any]) -> Any:
        """Run a plugin's code. If it fails in any way, skip the plugin and return None."""
        try:
            return work()
        except (Exception, SystemExit) as error:
            self._skip(plugin, _one_line(error))
            return None

    def _skip(self, plugin: Plugin, why: str) -> None:
        self._note("plugin_left_out", f"{plugin} was skipped: {why}")

    def _note(self, code: str, detail: str) -> None:
        self.notes.append(Note(code, detail))
        _log.warning("%s", detail)


#: The plugins that a configuration allows. Cached, because what is installed does not change while a program runs.
plugins_for = cache(Plugins)


def installed() -> Plugins:
    """Return the plugins that the configuration of this process allows: its environment and files."""
    if not any_installed(sys.path):
        return plugins_for("none")
    try:
        return plugins_for(load().load_plugins)
    except ToolspeakError as error:
        _log.warning("no plugins are loaded, because the configuration cannot be read: %s", _one_line(error))
        return plugins_for("none")


def load_installed() -> None:
    """Add the dialects, protocols and profiles that the configuration of this process allows."""
    with _LOCK:
        if not _loading:
            installed().extend()


def _called(value: Any) -> Any:
    return value() if callable(value) else value


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(cast("Iterable[Any]", value))
    return [] if value is None else [value]


def _new_dialect(row: Any) -> Dialect:
    from .dialects.new_dialects import add_checked
    from .dialects.registry import Dialect

    if not isinstance(row, Dialect):
        raise ConfigError(f"`{type(row).__name__}` is not a dialect")
    add_checked(row)
    return row


def _checked(plugin: Plugin, value: Any) -> Any:
    needed = {"toolspeak.upstreams": "an upstream factory", "toolspeak.commands": "a command"}.get(plugin.group)
    if needed and not callable(value):
        raise ConfigError(f"`{type(value).__name__}` is not {needed}")
    if plugin.group == "toolspeak.protocols":
        add_protocol(plugin.name, value)
    return value


def _table(value: Any, plugin: Plugin) -> Table:
    if not isinstance(value, str | Mapping):
        raise ConfigError(f"`{type(value).__name__}` is not a table of profiles")
    return read_table(cast("str | Mapping[str, Any]", value), f"the profiles of `{plugin.distribution}`")


def _one_line(error: BaseException) -> str:
    text = f"{error.args[0]}" if isinstance(error, ToolspeakError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:300]


def _normalized(name: str) -> str:
    """Normalize the name of a distribution (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()

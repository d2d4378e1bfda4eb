"""Plugins: dialects, upstreams and profiles from other installed packages.

A package declares its plugins as entry points. They are loaded on first use, if the configuration allows them. A broken
plugin is skipped with a warning and a note; it never breaks the program.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast
from weakref import WeakSet

import msgspec

from .core.types import Note, Tool, ToolCall
from .engine.planning.capabilities import Capabilities, Table, capabilities, read_table
from .errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from .dialects.registry import Dialect

Group: TypeAlias = Literal["toolspeak.dialects", "toolspeak.upstreams", "toolspeak.profiles"]
GROUPS: tuple[Group, ...] = ("toolspeak.dialects", "toolspeak.upstreams", "toolspeak.profiles")

_METADATA_SUFFIXES = (".dist-info", ".egg-info")  # suffixes of the folders that contain a distribution's metadata
_ENTRY_POINTS_FILE = "entry_points.txt"  # file in such a folder that declares entry points

_log = logging.getLogger("toolspeak.plugins")


class Plugin(msgspec.Struct, frozen=True):
    group: Group
    name: str
    distribution: str
    version: str
    value: str  # the object to load, as `module:attribute`
    allowed: bool


class Plugins:
    """Finds and loads installed plugins. `allow` is `Config.load_plugins`, `path` replaces `sys.path`."""

    def __init__(self, allow: str = "all", path: Iterable[str] | None = None) -> None:
        self._allow = allow.strip()
        self._names = {_normalized(name) for name in allow.split(",") if name.strip()}
        self._path = None if path is None else list(path)
        self._entries: list[tuple[Plugin, EntryPoint]] | None = None
        self._upstreams: dict[str, Callable[..., Any]] | None = None
        self._dialects: dict[str, Dialect] | None = None
        self._extended: WeakSet[Capabilities] = WeakSet()
        self.notes: list[Note] = []

    def dialects(self) -> Mapping[str, Dialect]:
        """Load the dialects of plugins and register them.

        An entry point of `toolspeak.dialects` is a `Dialect`, a list of them, or a function that returns either.
        """
        if self._dialects is None:
            self._dialects = {}
            for plugin, value in self._loaded("toolspeak.dialects"):
                for row in cast(list[Any], value) if isinstance(value, list | tuple) else [value]:
                    self._guarded(plugin, lambda row=row: self._add_dialect(row))
        return self._dialects

    def upstream(self, name: str) -> Callable[..., Any] | None:
        """Return the upstream factory of a plugin for this provider, if there is one.

        An entry point of `toolspeak.upstreams` is a callable that creates an upstream. Its name is the provider name.
        """
        if self._upstreams is None:
            self._upstreams = {}
            for plugin, value in self._loaded("toolspeak.upstreams", call=False):
                if not callable(value):
                    self._skip(plugin, f"a {type(value).__name__} is not an upstream factory")
                elif plugin.name in self._upstreams:
                    self._skip(plugin, f"another plugin already provides `{plugin.name}`")
                else:
                    self._upstreams[plugin.name] = value
                    if Capabilities().provider(plugin.name) is not None:  # the plugin receives the provider's keys
                        about = f"plugin `{plugin.name}` of `{plugin.distribution}`"
                        self._note("plugin_replaces", f"{about} replaces the built-in provider")
        return self._upstreams.get(name)

    def extend(self, target: Capabilities | None = None) -> None:
        """Add the profiles of plugins, which take precedence over the built-in ones.

        An entry point of `toolspeak.profiles` is a mapping or TOML text in the format of `profiles.toml`, or a function
        that returns either. Dialects are loaded first, because profiles refer to them.
        """
        target = target or capabilities()
        if target in self._extended:
            return
        self._extended.add(target)
        self.dialects()
        for plugin, value in self._loaded("toolspeak.profiles"):
            table = self._guarded(plugin, lambda value=value, plugin=plugin: _table(value, plugin))
            if table is not None:
                target.extend(table)

    def _search(self) -> list[tuple[Plugin, EntryPoint]]:
        if self._entries is None:
            self._entries = sorted(self._entry_points(), key=lambda entry: (entry[0].group, entry[0].name))
        return self._entries

    def _entry_points(self) -> Iterator[tuple[Plugin, EntryPoint]]:
        # Most distributions have no plugins. Reading all metadata takes a hundred times as long as this check.
        if not any(map(_may_have_plugins, sys.path if self._path is None else self._path)):
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
        if self._allow in ("all", "none"):
            return self._allow == "all"
        return _normalized(distribution) in self._names

    def _loaded(self, group: Group, *, call: bool = True) -> Iterator[tuple[Plugin, Any]]:
        """Load the entry points of a group. Functions are called, and their return value is used."""
        for plugin, point in self._search():
            if plugin.group != group or not plugin.allowed:
                continue

            def value(point: EntryPoint = point) -> Any:
                loaded = point.load()
                return loaded() if call and callable(loaded) else loaded

            result = self._guarded(plugin, value)
            if result is not None:
                yield plugin, result

    def _guarded(self, plugin: Plugin, work: Callable[[], Any]) -> Any:
        """Run a plugin's code. If it fails in any way, skip the plugin and return None."""
        try:
            return work()
        except (Exception, SystemExit) as error:
            self._skip(plugin, _one_line(error))
            return None

    def _add_dialect(self, row: Any) -> None:
        from .dialects.registry import DIALECTS, Dialect

        if not isinstance(row, Dialect):
            raise ConfigError(f"a {type(row).__name__} is not a dialect")
        if row.name in DIALECTS or row.name in ("", "auto"):
            raise ConfigError(f"a dialect named `{row.name}` already exists")
        DIALECTS[row.name] = row
        try:
            _check_round_trip(row.name)
        except Exception:
            del DIALECTS[row.name]
            raise
        cast("dict[str, Dialect]", self._dialects)[row.name] = row

    def _skip(self, plugin: Plugin, why: str) -> None:
        self._note("plugin_left_out", f"plugin `{plugin.name}` of `{plugin.distribution}` was skipped: {why}")

    def _note(self, code: str, detail: str) -> None:
        self.notes.append(Note(code, detail))
        _log.warning("%s", detail)


def _check_round_trip(dialect: str) -> None:
    """Check that a dialect can parse what it renders, so a broken one fails here rather than during a request."""
    from .dialects.registry import render_calls
    from .parsing import parse

    call = ToolCall("example", {"text": "a word"})
    text = render_calls(dialect, [call])
    tool = Tool("example", parameters={"type": "object", "properties": {"text": {"type": "string"}}})
    parsed = parse(text, [tool], dialect=dialect).calls
    if [(each.name, each.arguments) for each in parsed] != [(call.name, call.arguments)]:
        raise ConfigError(f"dialect `{dialect}` cannot parse what it renders")


def _may_have_plugins(place: str) -> bool:
    """Whether a distribution in this folder may declare plugins. Always true for archives, which are not searched."""
    try:
        with os.scandir(place or ".") as entries:
            names = [each.name for each in entries if each.name.endswith(_METADATA_SUFFIXES)]
    except FileNotFoundError:
        return False
    except OSError:  # an archive
        return True
    return any(_declares_plugins(os.path.join(place, name, _ENTRY_POINTS_FILE)) for name in names)


def _declares_plugins(path: str) -> bool:
    with suppress(FileNotFoundError, NotADirectoryError):
        try:
            with open(path, "rb") as file:
                data = file.read()
        except PermissionError:  # the error is reported when the metadata is read
            return True
        return any(group.encode() in data for group in GROUPS)
    return False


def _table(value: Any, plugin: Plugin) -> Table:
    if not isinstance(value, str | Mapping):
        raise ConfigError(f"a {type(value).__name__} is not a table of profiles")
    return read_table(cast("str | Mapping[str, Any]", value), f"the profiles of `{plugin.distribution}`")


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _normalized(name: str) -> str:
    """Normalize the name of a distribution (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()

"""Plugins: dialects, upstreams and profiles that other installed distributions bring.

A distribution announces them as entry points; they are loaded when they are first needed, and only those that
the configuration allows. A plugin that is broken costs a warning and a note, never the program.
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

#: How folders are called in which a distribution says what it is, and the file in them that announces.
_INSTALLED = (".dist-info", ".egg-info")
_ANNOUNCED = "entry_points.txt"

_log = logging.getLogger("toolspeak.plugins")


class Plugin(msgspec.Struct, frozen=True):
    """One thing that an installed distribution brings."""

    group: Group
    name: str
    distribution: str
    version: str
    #: Where it is, as `module:attribute`.
    value: str
    #: Whether the configuration lets it in.
    allowed: bool


class Plugins:
    """The plugins that are installed, as far as the configuration allows them.

    Args:
        allow: `all`, `none`, or names of distributions separated by commas; `Config.load_plugins`.
        path: where to look for distributions instead of `sys.path`.
    """

    def __init__(self, allow: str = "all", path: Iterable[str] | None = None) -> None:
        self._allow = allow.strip()
        self._names = {_normal(name) for name in allow.split(",") if name.strip()}
        self._path = None if path is None else list(path)
        self._found: list[tuple[Plugin, EntryPoint]] | None = None
        self._upstreams: dict[str, Callable[..., Any]] | None = None
        self._dialects: dict[str, Dialect] | None = None
        self._extended: WeakSet[Capabilities] = WeakSet()
        #: What was left out, and why.
        self.notes: list[Note] = []

    def installed(self) -> tuple[Plugin, ...]:
        """Everything that is there, allowed or not, without loading any of it."""
        return tuple(plugin for plugin, _ in self._search())

    def dialects(self) -> Mapping[str, Dialect]:
        """The dialects that plugins bring, by then in the table of dialects.

        An entry point of `toolspeak.dialects` is a `Dialect`, a list of them, or a function that returns either.
        """
        if self._dialects is None:
            self._dialects = {}
            for plugin, value in self._loaded("toolspeak.dialects"):
                for row in cast(list[Any], value) if isinstance(value, list | tuple) else [value]:
                    self._guarded(plugin, lambda row=row: self._add_dialect(row))
        return self._dialects

    def upstream(self, name: str) -> Callable[..., Any] | None:
        """The factory of the upstream that a plugin brings under this name.

        An entry point of `toolspeak.upstreams` is a callable that takes what an upstream is made from; its name is
        the provider that it serves.
        """
        if self._upstreams is None:
            self._upstreams = {}
            for plugin, value in self._loaded("toolspeak.upstreams", call=False):
                if not callable(value):
                    self._leave_out(plugin, f"a {type(value).__name__} is no factory of upstreams")
                elif plugin.name in self._upstreams:
                    self._leave_out(plugin, f"another plugin serves `{plugin.name}` already")
                else:
                    self._upstreams[plugin.name] = value
                    self._tell_replaced(plugin)
        return self._upstreams.get(name)

    def extend(self, known: Capabilities | None = None) -> None:
        """Put the profiles that plugins bring before the built-in ones.

        An entry point of `toolspeak.profiles` is a mapping in the shape of `profiles.toml`, the same as TOML text,
        or a function that returns either. The dialects come first, since profiles name them.
        """
        known = known or capabilities()
        if known in self._extended:
            return
        self._extended.add(known)
        self.dialects()
        for plugin, value in self._loaded("toolspeak.profiles"):
            table = self._guarded(plugin, lambda value=value, plugin=plugin: _table(value, plugin))
            if table is not None:
                known.extend(table)

    # ---- finding and loading

    def _search(self) -> list[tuple[Plugin, EntryPoint]]:
        if self._found is None:
            self._found = sorted(self._entry_points(), key=lambda found: (found[0].group, found[0].name))
        return self._found

    def _entry_points(self) -> Iterator[tuple[Plugin, EntryPoint]]:
        # Most have none, and what else is known of a distribution takes a hundred times longer to read; so does loading
        # what reads it.
        if not any(map(_may_have_plugins, sys.path if self._path is None else self._path)):
            return
        from importlib.metadata import distributions

        found = distributions() if self._path is None else distributions(path=self._path)
        seen: set[str] = set()
        for distribution in found:
            try:
                # The first on the path is the one that would be imported.
                name = distribution.metadata["Name"] or ""
                points = list(distribution.entry_points)
                version = distribution.version or ""
            except Exception as error:
                self._note("a distribution", f"its metadata cannot be read ({_said(error)})")
                continue
            if not name or _normal(name) in seen:
                continue
            seen.add(_normal(name))
            for point in points:
                if point.group in GROUPS:
                    allowed = self._allows(name)
                    yield Plugin(point.group, point.name, name, version, point.value, allowed), point

    def _allows(self, distribution: str) -> bool:
        if self._allow in ("all", "none"):
            return self._allow == "all"
        return _normal(distribution) in self._names

    def _loaded(self, group: Group, *, call: bool = True) -> Iterator[tuple[Plugin, Any]]:
        """The values of a group's entry points; a function is called for its value."""
        for plugin, point in self._search():
            if plugin.group != group or not plugin.allowed:
                continue

            def value(point: EntryPoint = point) -> Any:
                loaded = point.load()
                return loaded() if call and callable(loaded) else loaded

            found = self._guarded(plugin, value)
            if found is not None:
                yield plugin, found

    def _guarded(self, plugin: Plugin, work: Callable[[], Any]) -> Any:
        """What the work gives; None when it fails, in whatever way code of others fails."""
        try:
            return work()
        except (Exception, SystemExit) as error:
            self._leave_out(plugin, _said(error))
            return None

    def _add_dialect(self, row: Any) -> None:
        from .dialects.registry import DIALECTS, Dialect

        if not isinstance(row, Dialect):
            raise ConfigError(f"a {type(row).__name__} is no dialect")
        if row.name in DIALECTS or row.name in ("", "auto"):
            raise ConfigError(f"there is a dialect `{row.name}` already")
        DIALECTS[row.name] = row
        try:
            _try_out(row.name)
        except Exception:
            del DIALECTS[row.name]
            raise
        cast("dict[str, Dialect]", self._dialects)[row.name] = row

    def _tell_replaced(self, plugin: Plugin) -> None:
        """Keys of a provider go to whoever serves it: nobody takes that over without a word."""
        if Capabilities().provider(plugin.name) is not None:
            detail = f"plugin `{plugin.name}` of `{plugin.distribution}` takes the place of the built-in provider"
            self.notes.append(Note("plugin_replaces", detail))
            _log.warning("%s", detail)

    def _leave_out(self, plugin: Plugin, why: str) -> None:
        self._note(f"plugin `{plugin.name}` of `{plugin.distribution}`", why)

    def _note(self, what: str, why: str) -> None:
        detail = f"{what} is left out: {why}"
        self.notes.append(Note("plugin_left_out", detail))
        _log.warning("%s", detail)


def _try_out(dialect: str) -> None:
    """A dialect must read what it writes; better to find out here than in the middle of a request."""
    from .dialects.registry import render_calls
    from .parsing import parse

    call = ToolCall("example", {"text": "a word"})
    text = render_calls(dialect, [call])
    tool = Tool("example", parameters={"type": "object", "properties": {"text": {"type": "string"}}})
    read = parse(text, [tool], dialect=dialect).calls
    if [(each.name, each.arguments) for each in read] != [(call.name, call.arguments)]:
        raise ConfigError(f"dialect `{dialect}` does not read what it writes")


def _may_have_plugins(place: str) -> bool:
    """Whether a distribution that is installed there may announce something. What is no folder may hold anything."""
    try:
        with os.scandir(place or ".") as found:
            names = [each.name for each in found if each.name.endswith(_INSTALLED)]
    except FileNotFoundError:
        return False
    except OSError:  # an archive
        return True
    return any(_announces(os.path.join(place, name, _ANNOUNCED)) for name in names)


def _announces(path: str) -> bool:
    with suppress(FileNotFoundError, NotADirectoryError):
        try:
            with open(path, "rb") as file:
                told = file.read()
        except PermissionError:  # it is told when it is read
            return True
        return any(group.encode() in told for group in GROUPS)
    return False


def _table(value: Any, plugin: Plugin) -> Table:
    if not isinstance(value, str | Mapping):
        raise ConfigError(f"a {type(value).__name__} is no table of profiles")
    return read_table(cast("str | Mapping[str, Any]", value), f"the profiles of `{plugin.distribution}`")


def _said(error: BaseException) -> str:
    """An error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _normal(name: str) -> str:
    """A distribution's name in its normal spelling."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()

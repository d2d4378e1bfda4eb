"""Load settings from flags, environment and files. This is the only module that reads the environment."""

import hashlib
import os
import re
import stat
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, Self, get_origin

from ..core.text import suggestion, system_reason
from ..core.types import JSONObject, JSONValue, Note, is_object
from ..engine.planning.capabilities import check_fields, field_types, without_bounds
from ..engine.planning.strategy import Settings
from ..errors import ConfigError
from ..key_value import FileState, State
from .lookup import Config
from .values import COLUMNS, HARMLESS, PROJECT_FILE, SECRETS, GeneralSettings, Layer, Source, checked_row, row_key

_MAX_FILE_BYTES = 1024 * 1024
#: A table in an error of the TOML parser, such as ('upstreams', 'openai').
_KEY = r"'([^']*)'"
_KEYS = re.compile(rf"\((?:{_KEY},? ?)+\)")
_ALIASES = "aliases"
_TABLES = ("providers", "models", "upstreams", _ALIASES, "server_tools")
#: Tables that determine where requests go and what is executed. An untrusted file cannot define them.
_TRUSTED_TABLES = ("upstreams", "aliases", "server_tools")
#: Variables that are not settings: the path of the user's configuration file, and a client's key and server address.
_RESERVED_VARIABLES = ("TOOLSPEAK_CONFIG", "TOOLSPEAK_KEY", "TOOLSPEAK_URL")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def load(
    flags: Mapping[str, JSONValue] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    project: bool = True,
) -> Config:
    """Load the configuration. Flags that are None are ignored, and so is the working directory without `project`.

    Raises ConfigError if a setting is unknown or invalid; the message names its origin and the allowed values.
    """
    environment = os.environ if env is None else env  # noqa: TID251 - the one place
    notes: list[Note] = []
    flag_values = {name: value for name, value in (flags or {}).items() if value is not None}
    flag_layer = Layer("flag", "", checked_row("", flag_values, "the flags"), {})
    stronger = [flag_layer, _environment_layer(environment, notes)]
    user = _user_layer(environment, notes)
    files = [user]
    if project:
        files.insert(0, _project_layer(cwd or Path.cwd(), _state_file((*stronger, user), environment), notes))
    layers = (*stronger, *files)
    folders = (_folder(environment, "CACHE"), _folder(environment, "DATA"))
    return Config(layers, tuple(notes), environment, _state_file(layers, environment), *folders)


def _environment_layer(environment: Mapping[str, str], notes: list[Note]) -> Layer:
    types = {**field_types(GeneralSettings), **field_types(Settings)}
    values: JSONObject = {}
    tables: dict[str, dict[str, JSONObject]] = {}
    for variable, text in sorted(environment.items()):
        name = variable.removeprefix("TOOLSPEAK_").lower()
        # In containers, unset variables are often passed on as empty ones.
        if name == variable.lower() or not text or variable in _RESERVED_VARIABLES:
            continue
        if variable == "TOOLSPEAK_OVERRIDES":
            tables = _overrides_in(text)
        elif name in types:
            values |= checked_row("", {name: _from_text(text, types[name])}, f"the variable {variable}")
        elif not name.startswith("test_"):
            notes.append(Note("unknown_variable", f"unknown environment variable {variable}; it is ignored"))
    return Layer("env", "the environment", values, tables)


def _from_text(text: str, kind: JSONValue) -> JSONValue:
    """Convert a variable's text to a boolean or an integer if the setting has that type."""
    if kind is bool:
        lower = text.strip().lower()
        return lower in _TRUE if lower in _TRUE + _FALSE else text
    digits = text.strip()
    return int(digits) if without_bounds(kind) is int and digits.isdecimal() and len(digits) < 10 else text


class SettingKey(NamedTuple):
    """A setting in a file: its table and row, which are empty for a general setting, and its name."""

    table: str
    row: str
    name: str

    @classmethod
    def parse(cls, key: str) -> Self:
        """Parse `name`, `table.row.name` or `aliases.row`. A row may contain dots, and a table be in the singular.

        Raises ConfigError if there is no such table.
        """
        first, dot, rest = key.partition(".")
        if not dot:
            return cls("", "", key)
        table = next((table for table in _TABLES if first in (table, table.removesuffix("s"))), "")
        if not table:
            hint = suggestion(first, _TABLES)
            raise ConfigError(f"unknown table `{first:.80}`", hint=hint)
        row, dot, name = ("", "", rest) if table == _ALIASES else rest.rpartition(".")
        row, name = (name, "model") if table == _ALIASES else (row, name)
        if not row.strip("\"'") or not name:
            raise ConfigError(f"incomplete key `{key:.80}`", hint=f"use {first}.NAME.SETTING")
        return cls(table, row.strip("\"'"), name)

    def value(self, text: str) -> JSONValue:
        """Convert a text to the type of the setting, and validate it. Raises ConfigError if it is invalid."""
        where = f"[{self.table}.{self.row}]" if self.table else "the general settings"
        types = {name: struct for struct in reversed(COLUMNS[self.table]) for name in struct.__struct_fields__}
        if self.name not in types:
            raise ConfigError(f"unknown setting `{self.name:.80}` in {where}", hint=suggestion(self.name, types))
        kind = field_types(types[self.name])[self.name]
        parts = [part.strip() for part in text.split(",") if part.strip()]
        value = parts if get_origin(without_bounds(kind)) in (tuple, frozenset) else _from_text(text, kind)
        check_fields(types[self.name], {self.name: value}, where)
        return value


def check_file(path: Path, text: str) -> None:
    """Validate the content of a configuration file. Raises ConfigError if it is invalid."""
    _file_layer("user", path, text.encode(), None)


def _overrides_in(text: str) -> dict[str, dict[str, JSONObject]]:
    """Parse overrides such as `deepinfra=openai, ollama:qwen3:8b=none`."""
    tables: dict[str, dict[str, JSONObject]] = {"providers": {}, "models": {}}
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, capability = part.rpartition("=")
        if not equals or not name.strip():
            hint = "use PROVIDER=CAPABILITY or PROVIDER:MODEL=CAPABILITY, separated by commas"
            raise ConfigError(f"invalid entry `{part:.80}` in the variable TOOLSPEAK_OVERRIDES", hint=hint)
        fields = checked_row("models", {"capability": capability.strip()}, "the variable TOOLSPEAK_OVERRIDES")
        table = "models" if ":" in name else "providers"
        tables[table][row_key(table, name)] = fields
    return tables


def user_file(environment: Mapping[str, str] | None = None) -> Path:
    """Return the path of the user's configuration file, which need not exist."""
    environment = os.environ if environment is None else environment  # noqa: TID251 - as in `load`
    explicit_path = environment.get("TOOLSPEAK_CONFIG")
    return Path(explicit_path).expanduser() if explicit_path else _folder(environment, "CONFIG") / "config.toml"


def _user_layer(environment: Mapping[str, str], notes: list[Note]) -> Layer:
    explicit_path = environment.get("TOOLSPEAK_CONFIG")
    path = user_file(environment)
    data = _read(path)
    if data is None:
        if explicit_path:
            raise ConfigError(f"file not found: `{path}`", hint="set TOOLSPEAK_CONFIG to an existing file, or unset it")
        return Layer("user", str(path), {}, {})
    layer = _file_layer("user", path, data, None)
    rows = [layer.values, *layer.tables.get("upstreams", {}).values()]
    if any(row.get(name) for row in rows for name in SECRETS) and (
        sys.platform != "win32" and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH)
    ):
        detail = f"`{path}` contains a key and is readable by others; run: chmod 600 {path}"
        notes.append(Note("readable_key_file", detail))
    return layer


def _project_layer(folder: Path, state_file: Path, notes: list[Note]) -> Layer:
    path = folder / PROJECT_FILE
    data = _read(path)
    if data is None:
        return Layer("project", str(path), {}, {})
    ignored: list[str] = []
    layer = _file_layer("project", path, data, ignored)
    if not ignored:
        return layer
    try:
        if trusted(FileState(state_file), path, data):
            return _file_layer("project", path, data, None)
    except ConfigError as error:
        notes.append(Note("state_unusable", str(error)))
    detail = f"`{path}` cannot set {', '.join(ignored)} until you trust it: run `toolspeak trust`"
    notes.append(Note("untrusted_setting", detail))
    return layer


def _file_layer(source: Source, path: Path, data: bytes, ignored: list[str] | None) -> Layer:
    """Parse the settings in a file. If `ignored` is a list, skip sensitive settings and add their names to it."""
    try:
        document = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        why = _KEYS.sub(lambda match: f"[{'.'.join(re.findall(_KEY, match[0]))}]", system_reason(error))
        raise ConfigError(f"`{path}` is not valid TOML: {why}", hint="correct the file in an editor") from None
    where = f"`{path}`"
    tables: dict[str, dict[str, JSONObject]] = {}
    for table in _TABLES:
        rows = document.pop(table, {})
        if table == _ALIASES and is_object(rows):
            rows = {name: {"model": target} for name, target in rows.items()}
        if not is_object(rows) or not all(map(is_object, rows.values())):
            raise ConfigError(f"`{table}` in {where} must be a table of tables", hint=f"use [{table}.NAME]")
        if rows and table in _TRUSTED_TABLES and ignored is not None:
            ignored.append(f"`{table}`")
            continue
        for name, row in rows.items():
            fields = _harmless(row, ignored, f"{table}.{name}.")
            fields = checked_row(table, fields, f"{where}, [{table}.{name}]")
            tables.setdefault(table, {})[row_key(table, name)] = fields
    return Layer(source, where, checked_row("", _harmless(document, ignored, ""), where), tables)


def _harmless(fields: JSONObject, ignored: list[str] | None, prefix: str) -> JSONObject:
    if ignored is None:
        return fields
    field_names = {name for structs in COLUMNS.values() for struct in structs for name in struct.__struct_fields__}
    sensitive = (field_names & fields.keys()) - HARMLESS
    ignored.extend(f"`{prefix}{name}`" for name in sorted(sensitive))
    return {name: value for name, value in fields.items() if name not in sensitive}


def trusted(state: State, path: Path, data: bytes) -> bool:
    """Whether this content was approved. The state keeps its hash, so any change needs a new approval."""
    return state.get(_trust_key(path)) == hashlib.sha256(data).hexdigest()


def trust(state: State, path: Path) -> str:
    """Trust a file with its current content; return the hash of that content."""
    data = _read(path)
    if data is None:
        raise ConfigError(f"file not found: `{path}`", hint=f"pass the path of a {PROJECT_FILE} file")
    _file_layer("project", path, data, None)
    digest = hashlib.sha256(data).hexdigest()
    state.put(_trust_key(path), digest)
    return digest


def untrust(state: State, path: Path) -> None:
    state.delete(_trust_key(path))


def _trust_key(path: Path) -> str:
    return f"trust:{path.resolve()}"


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"cannot read `{path}`: {system_reason(error)}") from None
    if len(data) > _MAX_FILE_BYTES:
        raise ConfigError(f"`{path}` is too large for a configuration file (limit: 1 MiB)")
    return data


def _state_file(layers: tuple[Layer, ...], environment: Mapping[str, str]) -> Path:
    configured_path = next((layer.values["state_file"] for layer in layers if layer.values.get("state_file")), "")
    return Path(configured_path).expanduser() if configured_path else _folder(environment, "STATE") / "state.json"


#: Relative to the home directory, per the XDG base directory specification.
_DEFAULT_FOLDERS = {"CACHE": ".cache", "CONFIG": ".config", "DATA": ".local/share", "STATE": ".local/state"}


def _folder(environment: Mapping[str, str], kind: Literal["CACHE", "CONFIG", "DATA", "STATE"]) -> Path:
    """Return the user's toolspeak folder for files of this kind."""
    default = Path(environment.get("HOME") or Path.home()) / _DEFAULT_FOLDERS[kind]
    xdg_path = environment.get("APPDATA" if sys.platform == "win32" else f"XDG_{kind}_HOME", "")
    # The XDG base directory specification says that relative paths must be ignored.
    return (Path(xdg_path) if Path(xdg_path).is_absolute() else default) / "toolspeak"

"""`toolspeak config`: show settings and their origins, and write them to a file. Also loads them for other commands."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from ..config import PROJECT_FILE, Config, Setting, load
from ..config.sources import SettingKey, check_file, user_file
from ..config.values import SECRETS
from ..core.text import system_reason
from ..errors import ConfigError, UsageError
from ..plugins import plugins_for
from ._io import CliError, clean, echo, read_text, usage_errors, write_json

#: The first table, with the comment lines before it. The table may be a comment itself.
_FIRST_TABLE = re.compile(r"^(?:#[^\n]*\n)*#?\[", re.MULTILINE)


def show_command(origin: bool, model: str, as_json: bool) -> None:
    with usage_errors():
        config = load_config()
        config.settings_for(model)  # check dialect names, which is possible only after plugins have added theirs
        settings = (*config.effective_settings(model), *(config.overriding(model) if model else config.tables()))
    if as_json:
        write_json({each.name: _with_origin(each) if origin else each.value for each in settings}, indent=2)
    else:
        for each in settings:
            value = json.dumps(msgspec.to_builtins(each.value), ensure_ascii=False)
            click.echo(f"{each.name} = {value}" + (f"  # {each.origin}" if origin else ""))


def path_command() -> None:
    for file in (Path(PROJECT_FILE).absolute(), user_file()):
        echo(f"{file}{'' if file.exists() else '  (does not exist)'}")


def init_command(project: bool, dry_run: bool) -> None:
    text = Path(__file__).with_name("config_template.toml").read_text(encoding="utf-8")
    new_config(_file(project), text, "toolspeak config init", dry_run)


def new_config(path: Path, text: str, command: str, dry_run: bool) -> bool:
    """Write a new configuration file, or print it if `dry_run`. Return whether it was written."""
    if dry_run:
        click.echo(text, nl=False)
        return False
    if path.exists():
        raise CliError(f"`{path}` already exists", hint=f"`{command} --dry-run` prints what to add to it")
    write_config(path, text)
    echo(f"Wrote `{path}`")
    return True


def set_command(key: str, value: str, project: bool, as_json: bool) -> None:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    path = _file(project)
    with usage_errors():
        setting = SettingKey.parse(key)
        if setting.name in SECRETS and value != "-":
            raise UsageError("other users can see command lines", hint="use - to read the value from stdin")
        new = setting.value(read_text("-").strip() if value == "-" else value)
        try:
            before = path.read_text(encoding="utf-8") if path.exists() else ""
            document: Any = tomlkit.parse(before if setting.table else with_place(before, setting.name))
            fields = document
            if setting.table:
                fields = fields.setdefault(setting.table, tomlkit.table(is_super_table=setting.table != "aliases"))
            if setting.table not in ("", "aliases"):
                fields = fields.setdefault(setting.row, tomlkit.table())
            fields[setting.row if setting.table == "aliases" else setting.name] = new
            text = tomlkit.dumps(document)
        except (TOMLKitError, OSError, UnicodeDecodeError, AttributeError) as error:
            raise ConfigError(f"cannot change `{path}`: {error}") from None
        check_file(path, text)
    write_config(path, text)
    if as_json:
        write_json({"file": str(path), "key": key, "value": "<redacted>" if setting.name in SECRETS else new}, indent=2)
    else:
        echo(f"Set `{key}` in `{path}`")
    with usage_errors():
        config = load()
        overriding = [each.origin for each in config.effective_settings() if each.name == key]
        stronger = [f"{each} overrides it" for each in overriding if each.source == "env"]
        print_notes([*stronger, *(note.detail for note in config.notes)])


def with_place(text: str, name: str) -> str:
    """Return a file with a line for a general setting.

    A new line replaces the one that shows the setting as a comment; without one, it comes before the first table, even
    if that is a comment. Otherwise it would belong to the table as soon as somebody removes the `#`.
    """
    head = _FIRST_TABLE.split(text, 1)[0]
    if re.search(rf"^{name}\s*=", head, re.MULTILINE):
        return text
    new_head = re.sub(rf"^#{name}\s*=.*$", f'{name} = ""', head, count=1, flags=re.MULTILINE)
    if new_head == head:
        new_head = f'{head.rstrip()}\n{name} = ""\n\n'.lstrip() if len(head) < len(text) else f'{head}{name} = ""\n'
    return new_head + text[len(head) :]


def _file(project: bool) -> Path:
    """Return the path of the project's file or the user's, without links."""
    return (Path(PROJECT_FILE) if project else user_file()).resolve()


def write_config(path: Path, text: str) -> None:
    """Replace a configuration file at once. A new file can be read by its owner only."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise CliError(f"cannot write `{path}`: {system_reason(error)}") from None


def load_config(flags: Mapping[str, Any] | None = None) -> Config:
    """Load the configuration and its plugins. Print its notes on stderr; those of plugins are in the log."""
    config = load(flags)
    plugins_for(config.load_plugins).extend()
    print_notes(note.detail for note in config.notes)
    return config


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        echo(f"note: {clean(note)}", err=True, indent=6)


def _with_origin(setting: Setting) -> dict[str, Any]:
    return {"value": setting.value, "source": setting.origin.source, "where": setting.origin.where}

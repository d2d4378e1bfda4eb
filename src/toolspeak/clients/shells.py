"""How a shell is told a variable: one row a shell.

Values are quoted so that nothing in them means anything.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class Shell(msgspec.Struct, frozen=True):
    """What its commands look like, with `{name}` and `{value}`."""

    export: str
    unset: str
    #: The value of another variable.
    reference: str
    quote: Callable[[str], str]

    def exported(self, name: str, value: str) -> str:
        """The command that sets a variable to a text."""
        return self.export.replace("{name}", name).replace("{value}", self.quote(value))

    def copied(self, name: str, variable: str) -> str:
        """The command that sets a variable to the value of another."""
        return self.export.replace("{name}", name).replace("{value}", self.reference.replace("{name}", variable))

    def removed(self, name: str) -> str:
        """The command that forgets a variable."""
        return self.unset.replace("{name}", name)


def _sh(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _powershell(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


SHELLS = {
    "sh": Shell("export {name}={value}", "unset {name}", '"${name}"', _sh),
    "fish": Shell("set -gx {name} {value}", "set -e {name}", '"${name}"', _fish),
    "powershell": Shell(
        "$env:{name} = {value}",
        "Remove-Item Env:{name} -ErrorAction Ignore",
        "$env:{name}",
        _powershell,
    ),
}

"""Shell commands that set environment variables. Values are always quoted."""

import msgspec


class ShellSyntax(msgspec.Struct, frozen=True):
    """Command templates of a shell, with placeholders `{name}` and `{value}`."""

    export: str
    unset: str
    reference: str  # expression that expands to the value of another variable
    escapes: dict[str, str]  # replacements for characters with a special meaning inside single quotes

    def export_command(self, name: str, value: str) -> str:
        quoted = f"'{value.translate(str.maketrans(self.escapes))}'"
        return self.export.replace("{name}", name).replace("{value}", quoted)

    def copy_command(self, name: str, variable: str) -> str:
        return self.export.replace("{name}", name).replace("{value}", self.reference.replace("{name}", variable))

    def unset_command(self, name: str) -> str:
        return self.unset.replace("{name}", name)


SHELLS = {
    "sh": ShellSyntax("export {name}={value}", "unset {name}", '"${name}"', {"'": "'\\''"}),
    "fish": ShellSyntax("set -gx {name} {value}", "set -e {name}", '"${name}"', {"\\": "\\\\", "'": "\\'"}),
    "powershell": ShellSyntax(
        "$env:{name} = {value}", "Remove-Item Env:{name} -ErrorAction Ignore", "$env:{name}", {"'": "''"}
    ),
}

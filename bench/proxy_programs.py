"""The C programs of the proxy benchmark: compiled into a folder, and the upstream run there."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Self

__all__ = ["Upstream", "compile_program"]

_HERE = Path(__file__).parent
#: The upstream ends by itself after so many seconds.
_LONGEST = 1800


def compile_program(name: str, folder: Path, *options: str) -> Path:
    """Compile `proxy_NAME.c` into a folder."""
    program = folder / name
    command = ["cc", "-O2", "-Wall", "-Wextra", *options, "-o", program, _HERE / f"proxy_{name}.c"]
    subprocess.run(command, check=True)
    return program


class Upstream:
    """The model service, from its start to the end of a `with` block."""

    def __init__(self, folder: Path) -> None:
        command = [compile_program("upstream", folder), str(_LONGEST)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.wait()

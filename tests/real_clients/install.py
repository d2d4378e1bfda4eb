"""Installs clients, one at a time, each into a folder of its own below `.clients`; what is there already stays.

The ordinary `pip` and `npm` are used, as the machine has them set up; no index is named here. Clients that need node get
it from the Python index, so nothing but Python is needed. Above: `run`. Below: `tasks`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.real_clients.tasks import NODE, PACKAGES, Package

ROOT = Path(__file__).parent.parent.parent / ".clients"
#: Seconds that an installation may take.
PATIENCE = 900
_DONE = "installed.txt"


class CannotInstallError(Exception):
    """A client cannot be installed here; says why."""


def programs(package: Package) -> Path:
    """The folder of its programs."""
    below = "bin" if package.index == "pip" else "node_modules/.bin"
    return ROOT / package.name / below


def node() -> Path:
    """The folder that holds `node`."""
    return ROOT / "node" / "bin"


def install(name: str) -> None:
    """Install what a task needs.

    Raises:
        CannotInstallError: it could not be done.
    """
    package = PACKAGES[name]
    if sys.version_info < package.python:
        raise CannotInstallError(f"it needs Python {'.'.join(map(str, package.python))}")
    if package.index == "npm":
        _install(Package("node", "pip", (NODE,)))
    _install(package)


def place(package: Package) -> None:
    """Install one package that is not part of a task. Raises CannotInstallError."""
    _install(package)


def _install(package: Package) -> None:
    folder = ROOT / package.name
    wanted = "\n".join(package.pins) + "\n"
    done = folder / _DONE
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return
    print(f"installing {', '.join(package.pins)}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _INSTALLERS[package.index](folder, package.pins)
    done.write_text(wanted, encoding="utf-8")


def _pip(folder: Path, pins: tuple[str, ...]) -> None:
    _run([sys.executable, "-m", "venv", str(folder)])
    _run([str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *pins])


def _npm(folder: Path, pins: tuple[str, ...]) -> None:
    (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    # Its own npm first, since that is known to be there.
    command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *pins]
    _run(command, folder, {**os.environ, "PATH": f"{node()}{os.pathsep}{os.environ['PATH']}"})


_INSTALLERS = {"pip": _pip, "npm": _npm}


def _run(command: list[str], folder: Path | None = None, env: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotInstallError(f"`{command[0]}`: {error}") from None
    if done.returncode:
        lines = [
            line for line in (done.stderr or done.stdout).splitlines() if re.search("error:? (?!code)", line, re.I)
        ]
        raise CannotInstallError((lines or ["no reason was given"])[0].strip()[:200])

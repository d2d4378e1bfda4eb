"""A plugin as users install it: with pip, into a folder of its own, for programs in fresh interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["ROOT", "install", "run"]

ROOT = Path(__file__).parents[1]


def install(source: Path, target: Path) -> Path:
    """Install a package without a network: what it needs is installed already."""
    options = ["--quiet", "--no-build-isolation", "--no-deps", "--disable-pip-version-check", "--no-index"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(source)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return target


def run(site: Path, *command: str, home: Path | None = None, **environment: str) -> str:
    """What a program prints, with the packages of `site` installed. Its configuration is in `home`."""
    folder = home or site
    variables = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "PYTHONIOENCODING": "utf-8", **environment}
    variables |= {name: str(folder) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=300, cwd=folder, env=variables, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout

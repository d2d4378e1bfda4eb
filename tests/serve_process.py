"""`toolspeak serve` with its defaults (the embedded model) in a child process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["served_as_it_comes"]


@contextmanager
def served_as_it_comes(home: Path) -> Iterator[str]:
    """Where it listens, with its configuration and state in a folder of its own."""
    environment = {**os.environ, "XDG_STATE_HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    command = [sys.executable, "-m", "toolspeak", "serve", "--port", "0"]
    process = subprocess.Popen(command, env=environment, cwd=home, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        yield found.group()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)

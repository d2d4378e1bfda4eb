"""A PostgreSQL server of the tests' own: made in a temporary folder, run by a user without rights, thrown away.

The server refuses to run as root, so there another user runs it. It listens on a free port of the loopback.
"""

from __future__ import annotations

import functools
import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

#: Users that have no rights anywhere, whichever there is.
_NOBODIES = ("postgres", "nobody", "daemon")
#: A test that hangs fails after this.
_PATIENCE = 60.0


def _binaries() -> Path:
    found = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    # A link in another folder may not have the other programs beside it.
    return Path(found).resolve().parent if found else folders[-1]


def _nobody() -> pwd.struct_passwd | None:
    """Who runs the server; None: we do."""
    if os.geteuid() != 0:
        return None
    known = {each.pw_name: each for each in pwd.getpwall()}
    return next(known[name] for name in _NOBODIES if name in known)


class Postgres:
    """A server that can be stopped and started again; `url` names a fresh database in it each time it is called."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="toolspeak-pg-"))
        self._data = self.folder / "data"
        self._user = _nobody()
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._process: subprocess.Popen[Any] | None = None
        self._numbers = itertools.count(1)
        self._run(
            "initdb", "-D", str(self._data), "-U", "tester", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"
        )

    def _run(self, name: str, *arguments: str) -> None:
        subprocess.run([_binaries() / name, *arguments], check=True, capture_output=True, **self._as_nobody())

    def _as_nobody(self) -> dict[str, Any]:
        if self._user is None:
            return {"cwd": self.folder}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": (), "cwd": self.folder}

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": "60",
            "shared_buffers": "16MB",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        log = (self.folder / "log").open("ab")
        command = [_binaries() / "postgres", "-D", str(self._data), *options]
        self._process = subprocess.Popen(command, stdout=log, stderr=log, **self._as_nobody())
        log.close()
        _until(self._answers)

    def _answers(self) -> bool:
        command = [_binaries() / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode == 0

    def stop(self) -> None:
        """At once: who is connected hears nothing before."""
        if self._process is not None:
            self._process.send_signal(3)
            self._process.wait(_PATIENCE)
            self._process = None

    def url(self) -> str:
        name = f"store_{os.getpid()}_{next(self._numbers)}"
        place = f"postgresql://tester@127.0.0.1:{self.port}"
        with psycopg.connect(f"{place}/postgres", autocommit=True) as connection:
            connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        return f"{place}/{name}"

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "the PostgreSQL server does not start"
        time.sleep(0.05)


@functools.cache
def server() -> Postgres:
    """The one that the tests of a process share."""
    made = Postgres()
    made.start()
    return made

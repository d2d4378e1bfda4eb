"""What a sandboxed command can see and reach: bubblewrap's arguments, and whether it works here.

Inside: the system read-only, one writable folder, a fresh /tmp, its own processes, no network, no home, no secrets. The limits on what a command uses are `processes`'s.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..errors import UsageError
from .seccomp import filter_for

#: The system. Shown where it is; a link stays a link.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
#: Of /etc only what programs need to find their libraries, certificates (not the keys beside them), time zone and user
#: names.
_ETC = tuple(
    f"/etc/{name}"
    for name in (
        "alternatives ca-certificates ca-certificates.conf group hosts inputrc ld.so.cache ld.so.conf ld.so.conf.d "
        "localtime locale.alias magic mime.types nsswitch.conf os-release passwd pki/ca-trust pki/tls/certs "
        "protocols services shells ssl/certs ssl/openssl.cnf terminfo timezone"
    ).split()
)
#: Parts of the system that are settings, and may hold secrets.
_HIDDEN = ("/usr/local/etc",)
#: Only with a network.
_NETWORK = ("/etc/resolv.conf", "/etc/gai.conf", "/etc/host.conf")
_HOME = "/home/user"
#: Bytes of /tmp and of shared memory, which are memory.
_TMP_SIZE = 512 * 1024 * 1024
_SHM_SIZE = 64 * 1024 * 1024
#: Folders that must never be writable inside.
_NEVER = ("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys")
_NEVER_WITHIN = ("/boot", "/dev", "/etc", "/proc", "/sys", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/run")

#: What a command learns of the environment. Everything else stays outside, whatever it is called.
_PASSED = frozenset({"LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "LOGNAME", "USER"})
_PATHS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_PATIENCE = 20


class Inside(NamedTuple):
    """How a command is started inside a sandbox."""

    command: list[str]
    #: Open files that it needs.
    keep: tuple[int, ...]
    #: An open file that tells the number of the sandbox's first process, as JSON.
    first: int


class Sandbox(msgspec.Struct, frozen=True):
    """How far a command may reach."""

    #: The only folder that can be written.
    work: str
    network: bool = False
    #: More that can be read, such as an interpreter outside the system's folders.
    readable: tuple[str, ...] = ()

    def problem(self) -> str:
        """Why there can be no sandbox here; empty when there can."""
        if not _features():
            return "bubblewrap (`bwrap`) is not installed"
        if _is_within(_program() or "/", (self.work,)):
            return "the only bubblewrap (`bwrap`) lies in the work directory, where it could be replaced"
        return _tried(self)

    @contextmanager
    def around(self, command: Iterable[str]) -> Generator[Inside]:
        """The command inside, and the open files that it needs to get there."""
        first, told = os.pipe()
        files = [told]
        extra = ["--info-fd", str(told)]
        try:
            if program := filter_for(platform.machine()):
                files.append(os.memfd_create("toolspeak-seccomp"))
                os.write(files[-1], program)
                os.lseek(files[-1], 0, os.SEEK_SET)
                extra += ["--seccomp", str(files[-1])]
            yield Inside([*self._arguments(), *extra, *command], tuple(files), first)
        finally:
            for descriptor in (first, *files):
                os.close(descriptor)

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """What a command inside learns of the environment."""
        seen = (*_SYSTEM, *self.readable, self.work)
        given = [path for path in variables.get("PATH", "").split(os.pathsep) if _is_within(path, seen)]
        paths = os.pathsep.join(dict.fromkeys([*given, *_PATHS]))
        return {**environment(variables), "HOME": _HOME, "PATH": paths, "TMPDIR": "/tmp", "SHELL": "/bin/sh"}

    def _arguments(self) -> list[str]:
        features = _features()
        # By its whole name: the work directory may be among those that programs are looked for in.
        made = [_program() or "bwrap", "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
        made += ["--cap-drop", "ALL", "--hostname", "sandbox"]
        if "--disable-userns" in features:
            made.append("--disable-userns")
        if self.network:
            made.append("--share-net")
        for path in _SYSTEM:
            made += _shown(path)
        # First, so that what is to be read may lie in /tmp as well.
        made += [*_sized(features, _TMP_SIZE), "--tmpfs", "/tmp", *_sized(features, _TMP_SIZE), "--tmpfs", _HOME]
        for path in (*_ETC, *(_NETWORK if self.network else ()), *self.readable):
            made += ["--ro-bind-try", path, path]
        for path in filter(os.path.isdir, _HIDDEN):
            made += ["--tmpfs", path, "--remount-ro", path]
        made += ["--proc", "/proc", "--dev", "/dev"]
        made += [*_sized(features, _SHM_SIZE), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
        made += ["--bind", self.work, self.work, "--chdir", self.work]
        for option, path in _held(self.work):
            made += [option, path, path]
        # Bubblewrap covers only parts of /proc, and none where the caller is root: the kernel's own settings
        # (`core_pattern` names a program that the kernel starts as root) could then be written from inside.
        return [*made, "--remount-ro", "/proc", "--remount-ro", "/"]


def counts_apart() -> bool:
    """Whether the kernel counts the processes of a sandbox apart from the user's others (Linux 5.14 and later)."""
    major, _, rest = platform.release().partition(".")
    minor = rest.partition(".")[0].partition("-")[0]
    return major.isdigit() and minor.isdigit() and (int(major), int(minor)) >= (5, 14)


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The harmless part of an environment; no name that is not known to be harmless."""
    return {name: text for name, text in variables.items() if name in _PASSED or name.startswith("LC_")}


def work_folder(path: str | os.PathLike[str]) -> str:
    """The folder that a model may work in, as it is called without links.

    The user's home directory is found here, so that nobody can forget it: its keys would be readable.

    Raises:
        UsageError: there is none, or it would show what must stay hidden.
    """
    folder = Path(path)
    try:
        real = str(folder.resolve(strict=True))
    except (OSError, RuntimeError, ValueError):
        raise UsageError(f"there is no work directory `{path}`", hint="make it first") from None
    if not Path(real).is_dir():
        raise UsageError(f"the work directory `{path}` is no directory")
    if real in _NEVER or _is_within(real, _NEVER_WITHIN):
        raise UsageError(
            f"`{real}` belongs to the system and cannot be a work directory", hint="use a project's folder"
        )
    # Stays as it is where there is no home.
    home = os.path.expanduser("~")
    if home != "~" and _is_within(os.path.realpath(home), (real,)):
        raise UsageError(f"`{real}` holds the home directory", hint="use a folder inside it")
    return real


def _is_within(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _shown(path: str) -> list[str]:
    """One folder of the system, read-only; where it is a link, the same link."""
    if os.path.islink(path):
        return ["--symlink", os.readlink(path), path]
    return ["--ro-bind-try", path, path]


def own_folders(work: str) -> tuple[str, ...]:
    """The folders inside a work directory that hold this very program: what is changed there would run outside."""
    package = Path(__file__).resolve().parent.parent
    own = {os.path.realpath(path) for path in (sys.prefix, sys.exec_prefix, sys.base_prefix, package)}
    return tuple(sorted(path for path in own if path != work and _is_within(path, (work,))))


def _held(work: str) -> list[tuple[str, str]]:
    """How the program's own folders are kept where they are, outermost first.

    They are bound read-only. The folders above them, up to the work directory, are bound onto themselves: a mount point
    cannot be renamed, and so nobody can put another folder under the name that is run outside.
    """
    own = own_folders(work)
    above = {str(folder) for path in own for folder in Path(path).parents if _is_within(str(folder), (work,))}
    binds = {path: "--bind" for path in above if path != work and not _is_within(path, own)}
    binds |= dict.fromkeys(own, "--ro-bind")
    return [(option, path) for path, option in sorted(binds.items())]


def _sized(features: frozenset[str], size: int) -> list[str]:
    return ["--size", str(size)] if "--size" in features else []


def _program() -> str | None:
    """Where bubblewrap is: among the system's programs, if it can be found there."""
    found = shutil.which("bwrap", path=os.pathsep.join(_PATHS)) or shutil.which("bwrap")
    return os.path.realpath(found) if found else None


@lru_cache(maxsize=1)
def _features() -> frozenset[str]:
    """The options that bubblewrap knows here; none where it is missing."""
    program = _program()
    if program is None:
        return frozenset()
    try:
        done = subprocess.run(
            [program, "--help"], capture_output=True, text=True, timeout=_PATIENCE, check=False, encoding="utf-8"
        )
    except (OSError, subprocess.SubprocessError):
        return frozenset()
    return frozenset(word for line in done.stdout.splitlines() for word in line.split()[:1] if word.startswith("--"))


@lru_cache(maxsize=64)
def _tried(sandbox: Sandbox) -> str:
    """Why bubblewrap, which is installed, cannot make this sandbox; empty when it can."""
    try:
        with sandbox.around(["/bin/sh", "-c", "exit 0"]) as inside:
            done = subprocess.run(
                inside.command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PATIENCE,
                check=False,
                env=sandbox.environment({}),
                stdin=subprocess.DEVNULL,
                pass_fds=inside.keep,
            )
    except (OSError, subprocess.SubprocessError) as error:
        return f"bubblewrap cannot be started: {error}"
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines() or ["no reason was given"]
    return f"bubblewrap may not make a sandbox here: {lines[-1][:200]}"

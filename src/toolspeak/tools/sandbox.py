"""The bubblewrap sandbox: what a sandboxed command can access, and whether sandboxing works on this machine.

A command sees the system read-only, one writable folder, an empty /tmp and its own processes. By default it has no
network. It does not see the home directory or secrets.
"""

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

#: System folders, visible read-only. A folder that is a symbolic link becomes the same link in the sandbox.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
#: The parts of /etc that programs need: libraries, certificates (not their keys), time zone, user names.
_ETC = tuple(
    f"/etc/{name}"
    for name in (
        "alternatives ca-certificates ca-certificates.conf group hosts inputrc ld.so.cache ld.so.conf ld.so.conf.d "
        "localtime locale.alias magic mime.types nsswitch.conf os-release passwd pki/ca-trust pki/tls/certs "
        "protocols services shells ssl/certs ssl/openssl.cnf terminfo timezone"
    ).split()
)
_HIDDEN = ("/usr/local/etc",)  # folders with settings that may contain secrets; empty in the sandbox
#: Files that are visible only with network access.
_NETWORK = ("/etc/resolv.conf", "/etc/gai.conf", "/etc/host.conf")
_HOME = "/home/user"
#: Maximum bytes in /tmp (also in the home directory) and in shared memory. All are kept in memory.
_TMP_SIZE = 512 * 1024 * 1024
_SHM_SIZE = 64 * 1024 * 1024
#: Folders that must never be a work directory, and folders that must not contain one.
_NEVER = ("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys")
_NEVER_WITHIN = ("/boot", "/dev", "/etc", "/proc", "/sys", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/run")

#: Allow list of environment variables that are passed on to a command.
_PASSED_VARIABLES = frozenset({"LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "LOGNAME", "USER"})
_PATHS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_PROBE_TIMEOUT = 20


class SandboxedCommand(NamedTuple):
    command: list[str]
    pass_fds: tuple[int, ...]
    info_fd: int  # a file descriptor that reports the pid of the sandbox's first process, as JSON


class Sandbox(msgspec.Struct, frozen=True):
    """The files and the network access of a sandboxed command."""

    work: str
    network: bool = False
    readable: tuple[str, ...] = ()  # additional readable paths, such as an interpreter outside the system folders

    def problem(self) -> str:
        """Return why this sandbox cannot be used on this machine, or an empty string."""
        if not _features():
            return "bubblewrap (`bwrap`) is not installed"
        if _is_within(_program() or "/", (self.work,)):
            return "the only bubblewrap (`bwrap`) is in the work directory, where it could be replaced"
        return _trial_error(self)

    @contextmanager
    def wrap(self, command: Iterable[str]) -> Generator[SandboxedCommand]:
        """Wrap a command in the sandbox. The file descriptors that it needs stay open inside the `with` block."""
        info_reader, info_writer = os.pipe()
        files = [info_writer]
        extra = ["--info-fd", str(info_writer)]
        try:
            if program := filter_for(platform.machine()):
                files.append(os.memfd_create("toolspeak-seccomp"))
                os.write(files[-1], program)
                os.lseek(files[-1], 0, os.SEEK_SET)
                extra += ["--seccomp", str(files[-1])]
            yield SandboxedCommand([*self._arguments(), *extra, *command], tuple(files), info_reader)
        finally:
            for descriptor in (info_reader, *files):
                os.close(descriptor)

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        visible = (*_SYSTEM, *self.readable, self.work)
        search_path = [path for path in variables.get("PATH", "").split(os.pathsep) if _is_within(path, visible)]
        paths = os.pathsep.join(dict.fromkeys([*search_path, *_PATHS]))
        return {**harmless_environment(variables), "HOME": _HOME, "PATH": paths, "TMPDIR": "/tmp", "SHELL": "/bin/sh"}

    def _arguments(self) -> list[str]:
        features = _features()
        # Use an absolute path, because PATH may contain the work directory.
        arguments = [_program() or "bwrap", "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
        arguments += ["--cap-drop", "ALL", "--hostname", "sandbox"]
        if "--disable-userns" in features:
            arguments.append("--disable-userns")
        if self.network:
            arguments.append("--share-net")
        for path in _SYSTEM:
            link = ["--symlink", os.readlink(path), path] if os.path.islink(path) else []
            arguments += link or ["--ro-bind-try", path, path]
        # Mounted before the readable paths, because those may be in /tmp.
        for path in ("/tmp", _HOME):
            arguments += [*_size_option(features, _TMP_SIZE), "--tmpfs", path]
        for path in (*_ETC, *(_NETWORK if self.network else ()), *self.readable):
            arguments += ["--ro-bind-try", path, path]
        for path in filter(os.path.isdir, _HIDDEN):
            arguments += ["--tmpfs", path, "--remount-ro", path]
        arguments += ["--proc", "/proc", "--dev", "/dev"]
        arguments += [*_size_option(features, _SHM_SIZE), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
        arguments += ["--bind", self.work, self.work, "--chdir", self.work]
        for option, path in _own_folder_binds(self.work):
            arguments += [option, path, path]
        # Bubblewrap protects only parts of /proc, and nothing if the caller is root. A command could then change kernel
        # settings, such as `core_pattern`, which names a program that the kernel starts as root.
        return [*arguments, "--remount-ro", "/proc", "--remount-ro", "/"]


def counts_processes_apart() -> bool:
    """Return whether the kernel counts a sandbox's processes separately from the user's other ones (Linux 5.14+)."""
    major, _, rest = platform.release().partition(".")
    minor = rest.partition(".")[0].partition("-")[0]
    return major.isdigit() and minor.isdigit() and (int(major), int(minor)) >= (5, 14)


def harmless_environment(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in variables.items() if name in _PASSED_VARIABLES or name.startswith("LC_")}


def work_folder(path: str | os.PathLike[str]) -> str:
    """Check a work directory and return its real path.

    A folder that contains the home directory is rejected, because the user's keys would be readable.
    Raises UsageError if the folder does not exist, or must not be exposed.
    """
    folder = Path(path)
    try:
        real = str(folder.resolve(strict=True))
    except (OSError, RuntimeError, ValueError):
        raise UsageError(f"the work directory `{path}` does not exist", hint="create it first") from None
    if not Path(real).is_dir():
        raise UsageError(f"the work directory `{path}` is not a directory")
    if real in _NEVER or _is_within(real, _NEVER_WITHIN):
        raise UsageError(f"`{real}` is a system folder and cannot be a work directory", hint="use a project folder")
    # `expanduser` returns `~` if there is no home directory.
    home = os.path.expanduser("~")
    if home != "~" and _is_within(os.path.realpath(home), (real,)):
        raise UsageError(f"`{real}` contains the home directory", hint="use a folder inside it")
    return real


def _is_within(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def own_folders(work: str) -> tuple[str, ...]:
    """Return the folders in a work directory that contain this program, whose code runs outside the sandbox."""
    package = Path(__file__).resolve().parent.parent
    own = {os.path.realpath(path) for path in (sys.prefix, sys.exec_prefix, sys.base_prefix, package)}
    return tuple(sorted(path for path in own if path != work and _is_within(path, (work,))))


def _own_folder_binds(work: str) -> list[tuple[str, str]]:
    """Return the mounts that protect this program's own folders, outermost first.

    These folders are mounted read-only. The folders above them, up to the work directory, are mounted onto themselves.
    A mount point cannot be renamed, so a command cannot put another folder in the program's place.
    """
    own = own_folders(work)
    above = {str(folder) for path in own for folder in Path(path).parents if _is_within(str(folder), (work,))}
    binds = {path: "--bind" for path in above if path != work and not _is_within(path, own)}
    binds |= dict.fromkeys(own, "--ro-bind")
    return [(option, path) for path, option in sorted(binds.items())]


def _size_option(features: frozenset[str], size: int) -> list[str]:
    return ["--size", str(size)] if "--size" in features else []


def _program() -> str | None:
    """Find the bubblewrap program. System folders take precedence over PATH."""
    path = shutil.which("bwrap", path=os.pathsep.join(_PATHS)) or shutil.which("bwrap")
    return os.path.realpath(path) if path else None


@lru_cache(maxsize=1)
def _features() -> frozenset[str]:
    """Return the options that the installed bubblewrap supports; none if it is not installed."""
    program = _program()
    if program is None:
        return frozenset()
    try:
        done = subprocess.run(
            [program, "--help"], capture_output=True, text=True, timeout=_PROBE_TIMEOUT, check=False, encoding="utf-8"
        )
    except (OSError, subprocess.SubprocessError):
        return frozenset()
    return frozenset(word for line in done.stdout.splitlines() for word in line.split()[:1] if word.startswith("--"))


@lru_cache(maxsize=64)
def _trial_error(sandbox: Sandbox) -> str:
    """Try to run a command in the sandbox. Returns the reason if that fails, or an empty string."""
    try:
        with sandbox.wrap(["/bin/sh", "-c", "exit 0"]) as inside:
            done = subprocess.run(
                inside.command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PROBE_TIMEOUT,
                check=False,
                env=sandbox.environment({}),
                stdin=subprocess.DEVNULL,
                pass_fds=inside.pass_fds,
            )
    except (OSError, subprocess.SubprocessError) as error:
        return f"bubblewrap cannot be started: {error}"
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines() or ["no reason was given"]
    return f"bubblewrap cannot create a sandbox here: {lines[-1][:200]}"

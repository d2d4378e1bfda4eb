"""The inference engine (llama.cpp, in the package xllamacpp): features of the installed one, and building one here.

The prebuilt wheel runs on any processor of its kind. An engine built on this machine can use byte dot-product
instructions and is then faster, most of all with 8-bit weights. With AVX2, which the wheel for x86 uses, such weights
are also faster, but less so. Run with `python -m`, this module prints the engine's features; with a model file, only if
the engine can run that model on this processor.
"""

import functools
import hashlib
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ...core.text import system_reason
from ...errors import ToolspeakError
from ...file_locks import file_lock, is_locked

#: Byte dot-product instructions, as llama.cpp names them.
_BYTE_PRODUCTS = frozenset({"DOTPROD", "MATMUL_INT8", "AVX_VNNI", "AVX512_VNNI", "AMX_INT8"})
#: Instructions with which 8-bit weights are faster than 4-bit ones.
_WIDE = _BYTE_PRODUCTS | {"AVX2"}
#: Byte dot-product instructions, as /proc/cpuinfo names them.
_CPU_FLAGS = frozenset({"asimddp", "i8mm", "avx_vnni", "avx512_vnni", "amx_int8"})
_CPUINFO = Path("/proc/cpuinfo")
#: Time limit in seconds for querying the engine. Loading it from a slow disk takes a while.
_MAX_SECONDS = 60

#: Folder of the requirements files, which have hashes.
_OWN = Path(__file__).parent


def has_byte_products(system_info: str) -> bool:
    """Whether the engine has byte dot products, by its info (`CPU : NEON = 1 | DOTPROD = 1 | `)."""
    return not _BYTE_PRODUCTS.isdisjoint(features(system_info))


def prefers_8_bits(system_info: str) -> bool:
    """Whether the engine is faster with 8-bit weights."""
    return not _WIDE.isdisjoint(features(system_info))


def features(system_info: str) -> set[str]:
    """Return the features of an engine that uses only the CPU. With a GPU, other weights may be faster."""
    kind, _, rest = system_info.partition(" : ")
    if kind != "CPU" or " : " in rest:
        return set()
    return {name for name, _, value in (part.strip().partition(" = ") for part in rest.split("|")) if value == "1"}


@functools.cache
def installed_info(path: str = "", model: str = "") -> str:
    """Return the info of the installed engine, or of one unpacked at `path`.

    Returns an empty text if it cannot be queried, or cannot run the model file.
    """
    command = (sys.executable, "-P", "-m", __name__, path, model)
    with suppress(OSError, subprocess.SubprocessError):
        info = subprocess.check_output(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_MAX_SECONDS)
        return info.decode("utf-8", "replace").strip()
    return ""


def could_have_byte_products(cpuinfo: Path = _CPUINFO) -> bool:
    """Whether an engine built on this machine would have byte dot products. False if the processor is unknown."""
    with suppress(OSError):
        return not _CPU_FLAGS.isdisjoint(cpuinfo.read_text("utf-8", "replace").split())
    return False


def would_help() -> bool:
    """Whether an engine built on this machine would be faster than the installed one."""
    return not has_byte_products(installed_info()) and could_have_byte_products()


def missing(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what is missing to build an engine, and the Debian package of each."""
    which = functools.partial(shutil.which, path=environment.get("PATH"))
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    present = {
        ("a C++ compiler (c++)", "g++"): which(environment.get("CXX", "c++").split()[0]),
        ("the headers of Python (Python.h)", "python3-dev"): header.exists(),
        ("pip or uv", "python3-pip"): importlib.util.find_spec("pip") or which("uv"),
    }
    return dict(need for need, is_present in present.items() if not is_present)


class EngineBuildError(ToolspeakError):
    """The engine cannot be built or installed; the hint says what to do."""

    status = 503


class EngineBuilder:
    """Builds the engine for this processor and installs it into the running environment.

    It works in a folder below `cache`, where an interrupted build goes on. `environment` contains the settings of pip,
    uv and the compiler, and `report` receives the progress.
    """

    def __init__(
        self, cache: Path, environment: Mapping[str, str], report: Callable[[str], None] | None = None
    ) -> None:
        self._cache, self._environment, self._report = cache, environment, report
        self.version = (_OWN / "engine-source.txt").read_text("utf-8").partition("==")[2].split()[0]
        cpu = re.findall(r"(?m)^(?:flags|Features).*", _CPUINFO.read_text() if _CPUINFO.exists() else "")[:1]
        # A build is for one version, one Python, one processor and one recipe.
        self._table = tomllib.loads((_OWN / "engine.toml").read_text("utf-8"))
        digest = hashlib.sha256(repr((cpu, self._table)).encode()).hexdigest()[:12]
        build = f"{self.version}-{sys.implementation.cache_tag}-{digest}"
        self.folder = folder = cache / "engine" / build
        self._new, self._tools, self._built = folder / "new", folder / "tools", folder / "built"
        self.sources, self.log = folder / "sources", folder / "log"

    @property
    def wheel(self) -> Path | None:
        """The wheel that was built, if there is one."""
        return next(self._built.glob("*.whl"), None)

    @property
    def state(self) -> str:
        """What has become of the build; empty if none was begun."""
        if self.wheel is not None:
            return "built"
        if is_locked(self.folder / "lock"):
            return "running"
        return ("failed" if (self.folder / "failed").exists() else "interrupted") if self.folder.exists() else ""

    def commands(self) -> tuple[dict[str, str], dict[str, list[str]]]:
        """Return the environment variables and the steps of a build, as `engine.toml` describes them."""
        own, tools, python, table = self._environment, self._tools, sys.executable, self._table
        pip, uv = [python, "-m", "pip", "install"], ["uv", "pip", "install", "--python", python]
        values = {"python": python, "folder": self.folder, "new": self._new, "requirements": _OWN}
        values |= {"version": self.version, "wheel": self.wheel or "WHEEL"}
        words = {name: shlex.quote(str(value)) for name, value in values.items()}
        words["install"] = shlex.join(uv if importlib.util.find_spec("pip") is None else pip)
        flags = {name: f"{table['compiler_flags']} {own.get(name, '')}".strip() for name in ("CFLAGS", "CXXFLAGS")}
        return {
            **flags,
            "CMAKE_ARGS": f"{table['cmake_args']} {own.get('CMAKE_ARGS', '')}".strip(),
            "CMAKE_GENERATOR": own.get("CMAKE_GENERATOR", "Ninja"),
            "PATH": os.pathsep.join((f"{tools}/bin", str(Path(python).parent), own.get("PATH", ""))),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(tools), own.get("PYTHONPATH")))),
            "TMPDIR": str(self._new),
        }, {name: shlex.split(command.format_map(words)) for name, command in table["steps"].items()}

    def build(self, on_wait: Callable[[], None]) -> None:
        """Build the engine. `on_wait` is called repeatedly while another process is building it."""
        from .weights import merge_in_background  # not at the top, because the model's process imports this module

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with file_lock(self.folder / "lock", on_wait):
                if self.wheel is None:  # else the other process has built it
                    self._build()
        except OSError as error:
            hint = "check its owner and the free space, or set XDG_CACHE_HOME to another folder"
            raise EngineBuildError(f"cannot build in {self.folder}: {system_reason(error)}", hint=hint) from error
        merge_in_background(self._cache)

    def _build(self) -> None:
        from .weights import DEFAULT, cached_file

        self.log.unlink(missing_ok=True)
        needs_cmake = not all(shutil.which(name, path=self._environment.get("PATH")) for name in ("cmake", "ninja"))
        if not self._tools.is_dir():
            self._make(self._tools, self._new, "tools", *["cmake"] * needs_cmake)
        if not self.sources.is_dir():
            self._make(self.sources, self._new / f"xllamacpp-{self.version}", "download", "unpack")
        self._make(self._built, self._new, "compile")
        shutil.unpack_archive(str(self.wheel), self._new, "zip")
        model = cached_file(DEFAULT, self._cache)  # to try the engine with, if it has been downloaded
        info = installed_info(str(self._new), str(model or ""))
        if not info or (could_have_byte_products() and not has_byte_products(info)):
            shutil.rmtree(self._built)
            fault = "is no faster than the one from the package index" if info else "does not run on this processor"
            raise EngineBuildError(f"the engine that was built {fault}", hint=f"see {self.log}")
        outdated = [each for each in self.folder.parent.iterdir() if not each.name.startswith(f"{self.version}-")]
        for folder in (self._tools, self.sources, self._new, *outdated):
            shutil.rmtree(folder, ignore_errors=True)

    def _make(self, target: Path, output: Path, *steps: str) -> None:
        """Run steps that write into a new folder. `output` becomes `target` only if all of them succeed."""
        shutil.rmtree(self._new, ignore_errors=True)
        self._new.mkdir()
        for step in steps:
            self._run(step)
        output.replace(target)

    def install(self) -> None:
        """Install the engine that was built."""
        self._run("install")
        installed_info.cache_clear()

    def _run(self, step: str) -> None:
        from .package_index import failure_reason, run_logged

        variables, commands = self.commands()
        begin = time.monotonic()

        def watch() -> None:
            if self._report is not None:
                self._report(f"{step} ({time.monotonic() - begin:.0f} s)  {failure_reason(self.log):.60}")

        if run_logged(commands[step], {**self._environment, **variables}, self.log, watch):
            hint = f"see {self.log} and try again; to start over, delete {self.folder}"
            raise EngineBuildError(f"step `{step}` failed: {failure_reason(self.log)}", hint=hint)


def main(path: str = "", model: str = "") -> None:
    if path:
        sys.path.insert(0, path)
    info = importlib.import_module("xllamacpp").get_system_info()
    if model:
        from .model_process import try_model

        try_model(model)
    sys.stdout.write(info)


if __name__ == "__main__":
    main(*sys.argv[1:])

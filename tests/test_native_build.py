"""An engine for this processor: `toolspeak engine build`, `scripts/native.py`, `scripts/run` and `scripts/beside.py`.

pip builds a tiny distribution that stands for the engine, from a folder, in an environment of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import shutil
import signal
import site
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cases import check_each, only_at_full_size

ROOT = Path(__file__).parent.parent
#: Builds what `$INFO` says. `$BREAKS`: whether it fails.
BACKEND = """
import os, zipfile
from pathlib import Path
METADATA = "Metadata-Version: 2.1\\nName: xllamacpp\\nVersion: 2\\n"
WHEEL = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    Path(folder, "xllamacpp-2.dist-info").mkdir()
    Path(folder, "xllamacpp-2.dist-info", "METADATA").write_text(METADATA)
    return "xllamacpp-2.dist-info"

def build_wheel(folder, config_settings=None, metadata_directory=None):
    Path(os.environ["PLACE"], "cmake").write_text(os.environ["CMAKE_ARGS"])
    if os.environ.get("BREAKS"):
        raise SystemExit("the compiler broke")
    with zipfile.ZipFile(Path(folder, "xllamacpp-2-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("xllamacpp.py", f"def get_system_info(): return {os.environ['INFO']!r}")
        for name, text in (("METADATA", METADATA), ("WHEEL", WHEEL), ("RECORD", "")):
            wheel.writestr(f"xllamacpp-2.dist-info/{name}", text)
    return "xllamacpp-2-py3-none-any.whl"
"""
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
FAST = "CPU : AVX512_VNNI = 1 |"


class Place(NamedTuple):
    """A folder with a checkout, an environment, a package index and a cache."""

    folder: Path
    variables: dict[str, str]

    @property
    def build(self) -> Path:
        """The folder of the build."""
        (found,) = (self.folder / "cache" / "toolspeak" / "engine").iterdir()
        return found

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**self.variables, **variables}
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=120
        )

    def engine(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("venv/bin/python", "-m", "toolspeak", "engine", *arguments, **variables)

    def native(self, step: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("venv/bin/python", "scripts/native.py", step, **variables)

    def start(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("sh", "scripts/run", "venv", *arguments, **variables)

    def installed(self) -> bool:
        return self.run("venv/bin/python", "-c", "import xllamacpp").returncode == 0


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pip, and everything that toolspeak needs except the engine."""
    pytest.importorskip("ensurepip")
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    (folder / "packages").mkdir()
    for package in Path(site.getsitepackages()[0]).iterdir():
        if "xllamacpp" not in package.name and not package.name.startswith("pip"):
            (folder / "packages" / package.name).symlink_to(package)
    return folder


@pytest.fixture
def place(tmp_path: Path, environment: Path) -> Place:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(environment / "venv", tmp_path / "venv", symlinks=True)
    program = tmp_path / "venv" / "bin" / "toolspeak"
    program.write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "tools").mkdir()
    for tool in (program, *((tmp_path / "tools" / name) for name in ("c++", "cmake", "ninja"))):
        tool.write_text('#!/bin/sh\necho "$@"\n')
        tool.chmod(0o755)
    variables = {
        "PATH": f"{tmp_path / 'tools'}:/usr/bin:/bin",
        "PYTHONPATH": f"{tmp_path / 'src'}:{environment / 'packages'}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HOME": str(tmp_path),
        "PLACE": str(tmp_path),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "index"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "INFO": FAST,
    }
    embedded = tmp_path / "src" / "toolspeak" / "upstreams" / "embedded"
    (tmp_path / "cpuinfo").write_text("flags : avx512_vnni\n")
    module = embedded / "engine_build.py"
    text = module.read_text()
    assert '"/proc/cpuinfo"' in text
    module.write_text(text.replace('"/proc/cpuinfo"', repr(str(tmp_path / "cpuinfo"))))
    _write_index(tmp_path / "index", embedded)
    return Place(tmp_path, variables)


def _write_index(index: Path, requirements: Path) -> None:
    """Write a build tool and the engine into the folder, and their hashes into the requirements."""
    index.mkdir()
    with zipfile.ZipFile(index / "tool-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tool.py", "")
        for name, text in (
            ("METADATA", "Metadata-Version: 2.1\nName: tool\nVersion: 1\n"),
            ("WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
            ("RECORD", ""),
        ):
            wheel.writestr(f"tool-1.dist-info/{name}", text)
    with tarfile.open(index / "xllamacpp-2.tar.gz", "w:gz") as archive:
        for name, text in (("pyproject.toml", PYPROJECT), ("backend.py", BACKEND), ("PKG-INFO", "")):
            entry = tarfile.TarInfo(f"xllamacpp-2/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    for name, file in (("tools", "tool-1-py3-none-any.whl"), ("source", "xllamacpp-2.tar.gz")):
        digest = hashlib.sha256((index / file).read_bytes()).hexdigest()
        requirement = f"{'tool==1' if name == 'tools' else 'xllamacpp==2'} --hash=sha256:{digest}\n"
        (requirements / f"engine-{name}.txt").write_text(requirement)


def test_one_command_builds_the_engine_and_installs_it(place: Place):
    run = place.engine("build")
    assert run.returncode == 0, run.stderr
    assert f"installed: {FAST}" in run.stdout
    assert "-DGGML_NATIVE=ON" in (place.folder / "cmake").read_text()
    assert sorted(each.name for each in place.build.iterdir()) == ["built", "lock", "log"]
    again = place.engine("build")
    assert (again.returncode, again.stderr) == (0, "")
    assert "nothing to build" in again.stdout


def test_sources_with_another_hash_are_refused(place: Place):
    requirement = place.folder / "src/toolspeak/upstreams/embedded/engine-source.txt"
    requirement.write_text(f"xllamacpp==2 --hash=sha256:{'0' * 64}\n")
    run = place.engine("build")
    assert run.returncode == 2
    assert "step `download` failed" in run.stderr and str(place.build / "log") in run.stderr
    assert "Traceback" not in run.stderr and not place.installed()


@only_at_full_size
def test_a_failed_build_leaves_the_installed_engine_and_goes_on_with_its_sources(place: Place):
    run = place.engine("build", BREAKS="yes")
    assert run.returncode == 2
    assert "step `compile` failed" in run.stderr and "Traceback" not in run.stderr
    shutil.rmtree(place.folder / "index")
    assert place.engine("build").returncode == 0
    assert place.installed()


@only_at_full_size
@pytest.mark.parametrize(("info", "fault"), [("CPU : AVX = 1 |", "no faster"), ("", "does not run on this processor")])
def test_an_engine_that_does_not_help_is_not_installed(place: Place, info: str, fault: str):
    run = place.engine("build", INFO=info)
    assert run.returncode == 2
    assert fault in run.stderr
    assert not place.installed()


def test_what_is_built_beside_the_proxy_is_installed_at_the_next_start(place: Place):
    run = place.native("build")
    assert (run.returncode, run.stderr) == (0, "")
    assert "from the next start" in run.stdout
    assert not place.installed()
    assert place.start("yes", "--port", "1").stdout == "serve --port 1\n"
    assert place.installed()


def test_a_start_builds_beside_the_proxy(place: Place):
    # The proxy runs until there is something to install.
    built = "until ls cache/toolspeak/engine/*/built >/dev/null 2>&1; do :; done"
    (place.folder / "venv" / "bin" / "toolspeak").write_text(f'#!/bin/sh\n{built}\necho "$@"\n')
    said = place.start("yes", "--port", "1").stdout
    assert said.startswith("in the background, an engine for this processor is built")
    assert "\nserve --port 1\n" in said


@pytest.mark.parametrize("reason", ["processor", "compiler"])
def test_nothing_is_built_beside_the_proxy_where_it_would_not_help_or_cannot_be_done(place: Place, reason: str):
    if reason == "processor":
        (place.folder / "cpuinfo").write_text("flags : avx\n")
    run = place.native("build", CXX="no-such-compiler" if reason == "compiler" else "c++")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert not (place.folder / "cache").exists()


@only_at_full_size
def test_a_build_that_failed_beside_the_proxy_is_not_repeated_until_somebody_asks(place: Place):
    run = place.native("build", BREAKS="yes")
    assert "make native" in run.stderr and str(place.build / "log") in run.stderr
    assert place.native("build").stdout == ""
    assert place.engine("build").returncode == 0


@only_at_full_size
def test_sources_that_could_not_be_fetched_are_fetched_at_the_next_start(place: Place):
    run = place.native("build", PIP_FIND_LINKS="")
    assert run.stderr and "make native" not in run.stderr
    assert "from the next start" in place.native("build").stdout


@only_at_full_size
def test_a_wheel_that_cannot_be_installed_is_not_tried_at_every_start(place: Place):
    place.native("build")
    (wheel,) = (place.build / "built").iterdir()
    wheel.write_bytes(b"no wheel")
    run = place.start("yes", "--port", "1")
    assert run.stdout == "serve --port 1\n"
    assert "the engine stays as it is" in run.stderr
    assert [(place.native(step).stdout, place.installed()) for step in ("install", "build")] == [("", False)] * 2


@only_at_full_size
def test_two_do_not_build_at_a_time(place: Place):
    assert place.native("build", BREAKS="yes").returncode == 0
    (place.build / "failed").unlink()
    with (place.build / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = place.native("build")
        assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert "from the next start" in place.native("build").stdout


@pytest.mark.parametrize(
    "arguments", [("no", "--port", "1"), ("", "--port", "1"), ("yes", "--upstream", "http://h/v1")]
)
def test_a_start_builds_nothing_where_it_may_not_or_the_model_is_elsewhere(place: Place, arguments: tuple[str, ...]):
    run = place.start(*arguments)
    assert (run.stdout, run.stderr) == (f"serve {' '.join(arguments[1:])}\n", "")
    assert not (place.folder / "cache").exists()


BESIDE = f"{sys.executable} {ROOT / 'scripts' / 'beside.py'}"


def test_a_command_beside_a_program_tells_how_it_ended():
    run = subprocess.run(["sh", "-c", f"{BESIDE} $$ sh -c 'exit 7'; exit $?"], check=False)
    assert run.returncode == 7


def test_a_command_is_not_begun_beside_a_program_that_is_gone():
    run = subprocess.run(["sh", "-c", f"{BESIDE} 1 echo begun; true"], check=False, capture_output=True)
    assert run.stdout == b""


@check_each(
    ("whom", "number"),
    [
        (os.kill, signal.SIGHUP),
        (os.kill, signal.SIGINT),
        (os.kill, signal.SIGTERM),
        (os.kill, signal.SIGKILL),
        (os.killpg, signal.SIGHUP),
        (os.killpg, signal.SIGINT),
        (os.killpg, signal.SIGTERM),
    ],
)
def test_a_command_and_all_that_it_started_end_with_the_program_however_that_ends(
    whom: Callable[[int, int], None], number: signal.Signals
):
    # The command tells its priority and then waits for ever in a process of its own; its end closes the pipe.
    command = f"{BESIDE} $$ sh -c 'nice; tail -f /dev/null; true' & exec cat"
    program = subprocess.Popen(
        ["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert program.stdin is not None and program.stdout is not None
    assert program.stdout.readline().strip() == b"19"
    whom(program.pid, number)
    said, _ = program.communicate(timeout=60)
    assert said == b""


def test_a_command_that_takes_no_notice_is_ended_all_the_same():
    command = f"{BESIDE} $$ sh -c 'trap : TERM; echo on; while :; do tail -f /dev/null; done' & exec cat"
    program = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdout is not None and program.stdout.readline() == b"on\n"
    program.terminate()
    assert program.communicate(timeout=60) == (b"", None)


@check_each(
    ("script", "arguments"),
    [("native.py", ()), ("native.py", ("stay",)), ("beside.py", ("1",)), ("beside.py", ("x", "true"))],
)
def test_a_script_that_is_called_wrongly_says_how_it_is_called(script: str, arguments: tuple[str, ...]):
    path = ROOT / "scripts" / script
    run = subprocess.run([sys.executable, path, *arguments], check=False, capture_output=True, text=True)
    assert run.returncode == 1 and f"python scripts/{script} " in run.stderr and "Traceback" not in run.stderr

"""`scripts/native`, `scripts/run`, `scripts/beside.py` and `scripts/alone.py`: an engine for this processor, built beside the proxy.

The Python of the environment is a script that keeps what it is asked; no engine is built here.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cases import check_each

ROOT = Path(__file__).parent.parent
LOCK = "first==1 \\\n    --hash=sha256:aa\nxllamacpp==2 \\\n    --hash=sha256:bb\nlast==3 \\\n    --hash=sha256:dd\n"
#: $HELPS: 0 where an engine built here would be quicker, until one is put in. $BREAKS: the step that fails.
PYTHON = """#!/bin/sh
case "$*" in
*could_have_byte_products*) if [ -e "$PLACE/quick" ]; then exit 1; else exit "$HELPS"; fi ;;
*cache_tag*) echo tag; exit ;;
*scripts/beside.py* | *scripts/alone.py*) exec "$REAL" "$@" ;;
*--version*) exit 0 ;;
*Python.h*) exit "$HEADERS" ;;
esac
step= to=
for each; do
    case $each in download | wheel | install) step=$each ;; esac
    case $to in --dest | --wheel-dir) folder=$each ;; esac
    to=$each
done
[ -z "$step" ] || echo "$*" >>"$PLACE/asked"
[ "$step" != "$BREAKS" ] || exit 1
case $step in
download) mkdir "$folder/xllamacpp-2"; tar -czf "$folder/xllamacpp-2.tar.gz" -C "$folder" xllamacpp-2 ;;
wheel) mkdir -p "$folder"; touch "$folder/xllamacpp-2-any.whl"; env | grep CMAKE_ARGS >"$PLACE/cmake" ;;
install) touch "$PLACE/quick" ;;
esac
"""
STEPS = ("download", "wheel", "install")


class Place(NamedTuple):
    """A checkout with an environment, and what is asked of its Python."""

    folder: Path
    told: dict[str, str]

    @property
    def engine(self) -> Path:
        """Where it is built."""
        (found,) = (self.folder / ".engine").glob("2-tag-*")
        return found

    def asked(self) -> list[str]:
        """What its Python was asked to do since the last time: the steps."""
        kept = self.folder / "asked"
        lines = kept.read_text().splitlines() if kept.exists() else []
        kept.unlink(missing_ok=True)
        return [next(step for step in STEPS if step in line.split()) for line in lines]

    def run(self, *command: str, **told: str) -> subprocess.CompletedProcess[str]:
        told = {**self.told, **told}
        return subprocess.run(command, cwd=self.folder, env=told, capture_output=True, text=True, check=False)

    def native(self, *part: str, **told: str) -> subprocess.CompletedProcess[str]:
        return self.run("sh", "scripts/native", "venv", "lock", *part, **told)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    tools = tmp_path / "venv" / "bin"
    tools.mkdir(parents=True)
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "lock").write_text(LOCK)
    for name, does in (
        ("python", PYTHON),
        ("toolspeak", '#!/bin/sh\necho "$@"\n'),
        *((name, "#!/bin/sh\n") for name in ("c++", "cmake", "ninja")),
    ):
        (tools / name).write_text(does)
        (tools / name).chmod(0o755)
    told = {
        "PATH": "/usr/bin:/bin",
        "PLACE": str(tmp_path),
        "REAL": sys.executable,
        "HELPS": "0",
        "HEADERS": "0",
        "BREAKS": "nothing",
    }
    return Place(tmp_path, told)


def test_one_command_builds_the_engine_and_puts_it_in(place: Place):
    assert place.native().returncode == 0
    download, wheel, install = (place.folder / "asked").read_text().splitlines()
    assert "--require-hashes" in download and "--no-binary xllamacpp" in download
    assert " wheel " in wheel
    assert "xllamacpp-2-any.whl" in install
    assert (place.engine / "wanted").read_text() == "xllamacpp==2 \\\n    --hash=sha256:bb\n"
    assert "-DGGML_NATIVE=ON" in (place.folder / "cmake").read_text()
    assert sorted(each.name for each in place.engine.iterdir()) == ["built", "lock", "wanted"]
    place.asked()
    assert place.native().returncode == 0
    assert place.asked() == ["install"]


def test_what_is_built_beside_the_proxy_is_put_in_at_the_next_start(place: Place):
    run = place.native("beside")
    assert (run.returncode, place.asked()) == (0, ["download", "wheel"])
    assert "from the next start" in run.stderr
    assert (place.native("put-in").returncode, place.asked()) == (0, ["install"])
    assert (place.native("put-in").returncode, place.asked()) == (0, [])


def test_a_start_builds_beside_the_proxy_and_the_next_one_takes_it(place: Place):
    # The proxy runs until there is something to take.
    built = "until ls .engine/*/built >/dev/null 2>&1; do :; done"
    (place.folder / "venv" / "bin" / "toolspeak").write_text(f'#!/bin/sh\n{built}\necho "$@"\n')
    first = place.run("timeout", "60", "sh", "scripts/run", "venv", "lock", "yes", "--port", "1")
    assert (first.stdout, place.asked()) == ("serve --port 1\n", ["download", "wheel"])
    second = place.run("timeout", "60", "sh", "scripts/run", "venv", "lock", "yes", "--port", "1")
    assert (second.stdout, place.asked()) == ("serve --port 1\n", ["install"])


@pytest.mark.parametrize("told", [{"HELPS": "1"}, {"HEADERS": "1"}, {"PATH": ""}], ids=["help", "headers", "compiler"])
def test_nothing_is_built_beside_the_proxy_where_it_would_not_help_or_cannot_be_done(
    place: Place, told: dict[str, str]
):
    if "PATH" in told:
        (place.folder / "venv" / "bin" / "c++").unlink()
        told = {"PATH": str(_without_compiler(place.folder / "few"))}
    run = place.native("beside", **told)
    assert (run.returncode, run.stderr, place.asked()) == (0, "", [])


def _without_compiler(folder: Path) -> Path:
    folder.mkdir()
    for name in ("sh", "awk", "grep", "cksum", "cut"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


def test_a_build_that_failed_is_tried_again_only_when_somebody_asks_and_then_from_the_beginning(place: Place):
    run = place.native("beside", BREAKS="wheel")
    assert (run.returncode, place.asked()) == (0, ["download", "wheel"])
    assert "make native" in run.stderr
    assert str(place.engine / "log") in run.stderr
    assert (place.native("beside").stderr, place.asked()) == ("", [])
    assert (place.native("put-in").returncode, place.asked()) == (0, [])
    assert (place.native().returncode, place.asked()) == (0, ["download", "wheel", "install"])
    assert not (place.engine / "failed").exists()


def test_sources_that_could_not_be_fetched_are_fetched_at_the_next_start(place: Place):
    run = place.native("beside", BREAKS="download")
    assert "could not be fetched" in run.stderr
    assert (place.native("beside").returncode, place.asked()) == (0, ["download", "download", "wheel"])


def test_a_build_that_was_broken_off_goes_on_with_the_sources_that_it_has(place: Place):
    assert place.native("build", BREAKS="wheel").returncode == 1
    assert place.asked() == ["download", "wheel"]
    assert place.native("build").returncode == 0
    assert place.asked() == ["wheel"]


def test_what_cannot_be_put_in_or_does_not_help_is_not_tried_again_at_every_start(place: Place):
    place.native("build")
    place.asked()
    run = place.run("sh", "scripts/run", "venv", "lock", "yes", "--port", "1", BREAKS="install")
    assert run.stdout == "serve --port 1\n"
    assert "the wheel stays" in run.stderr
    assert place.asked() == ["install"]
    assert (place.native("put-in").returncode, place.native("beside").returncode, place.asked()) == (0, 0, [])


def test_two_do_not_build_at_a_time(place: Place):
    place.native("build", BREAKS="wheel")
    place.asked()
    with (place.engine / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = place.native("beside")
        assert (run.returncode, run.stderr, place.asked()) == (0, "", [])
    assert (place.native("beside").returncode, place.asked()) == (0, ["wheel"])


@pytest.mark.parametrize(
    "arguments", [("no", "--port", "1"), ("", "--port", "1"), ("yes", "--upstream", "http://h/v1")]
)
def test_a_start_builds_nothing_where_it_may_not_or_the_model_is_elsewhere(place: Place, arguments: tuple[str, ...]):
    run = place.run("sh", "scripts/run", "venv", "lock", *arguments)
    assert (run.stdout, run.stderr, place.asked()) == (f"serve {' '.join(arguments[1:])}\n", "", [])


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
    [("alone.py", ()), ("alone.py", ("stay", "lock", "true")), ("beside.py", ("1",)), ("beside.py", ("x", "true"))],
)
def test_a_script_that_is_called_wrongly_says_how_it_is_called(script: str, arguments: tuple[str, ...]):
    path = ROOT / "scripts" / script
    run = subprocess.run([sys.executable, path, *arguments], check=False, capture_output=True, text=True)
    assert run.returncode == 1 and f"python scripts/{script} " in run.stderr and "Traceback" not in run.stderr

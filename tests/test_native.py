"""`scripts/native`, `scripts/run` and `scripts/beside.py`: an engine for this processor, built beside the proxy.

The Python of the environment is a script that keeps what it is asked; no engine is built here.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
LOCK = "first==1 \\\n    --hash=sha256:aa\nxllamacpp==2 \\\n    --hash=sha256:bb\nlast==3 \\\n    --hash=sha256:dd\n"
#: $HELPS: 0 where an engine built here would be quicker. $BREAKS: the step that fails.
PYTHON = """#!/bin/sh
step=
for each; do case $each in download | wheel | install) step=$each ;; esac; done
case "$*" in
*could_be_quick*) exit "$HELPS" ;;
*beside.py*) shift; exec "$REAL" "$BESIDE" "$@" ;;
*--version* | *Python.h*) exit 0 ;;
esac
[ -z "$step" ] || echo "$step" >>"$ASKED"
[ "$step" != "$BREAKS" ] || exit 1
case $step in
download) mkdir -p "$ENGINE/coming/xllamacpp-2"; tar -czf "$ENGINE/coming/xllamacpp-2.tar.gz" -C "$ENGINE/coming" xllamacpp-2 ;;
wheel) mkdir -p "$ENGINE/coming"; touch "$ENGINE/coming/xllamacpp-2-any.whl" ;;
esac
"""


class Place(NamedTuple):
    """A checkout with an environment, and what is asked of its Python."""

    folder: Path
    told: dict[str, str]

    @property
    def engine(self) -> Path:
        return self.folder / ".engine" / "2"

    def asked(self) -> list[str]:
        """What its Python was asked to do since the last time."""
        kept = self.folder / "asked"
        found = kept.read_text().split() if kept.exists() else []
        kept.unlink(missing_ok=True)
        return found

    def run(self, *command: str, helps: bool = True, breaks: str = "nothing") -> subprocess.CompletedProcess[str]:
        told = {**self.told, "HELPS": "0" if helps else "1", "BREAKS": breaks}
        return subprocess.run(command, cwd=self.folder, env=told, capture_output=True, text=True, check=False)

    def native(self, *part: str, helps: bool = True, breaks: str = "nothing") -> subprocess.CompletedProcess[str]:
        return self.run("sh", "scripts/native", "venv", "lock", *part, helps=helps, breaks=breaks)


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
        "ASKED": str(tmp_path / "asked"),
        "ENGINE": str(tmp_path / ".engine" / "2"),
        "REAL": sys.executable,
        "BESIDE": str(ROOT / "scripts" / "beside.py"),
    }
    return Place(tmp_path, told)


def test_one_command_builds_the_engine_and_puts_it_in(place: Place):
    assert place.native().returncode == 0
    assert place.asked() == ["download", "wheel", "install"]
    assert (place.engine / "wanted").read_text() == "xllamacpp==2 \\\n    --hash=sha256:bb\n"
    assert place.native().returncode == 0
    assert place.asked() == ["install"]


def test_what_is_built_beside_the_proxy_is_put_in_at_the_next_start(place: Place):
    run = place.native("beside")
    assert (run.returncode, place.asked()) == (0, ["download", "wheel"])
    assert "from the next start" in run.stderr
    assert (place.native("put-in").returncode, place.asked()) == (0, ["install"])
    assert (place.native("put-in", helps=False).returncode, place.asked()) == (0, [])


@pytest.mark.parametrize("lacks", ["help", "c++"])
def test_nothing_is_built_beside_the_proxy_where_it_would_not_help_or_cannot_be_done(place: Place, lacks: str):
    if lacks == "c++":
        (place.folder / "venv" / "bin" / "c++").unlink()
        place.told["PATH"] = str(_without_compiler(place.folder / "few"))
    run = place.native("beside", helps=lacks != "help")
    assert (run.returncode, run.stderr, place.asked()) == (0, "", [])


def _without_compiler(folder: Path) -> Path:
    folder.mkdir()
    for name in ("sh", "awk", "mkdir", "rm", "mv", "tar", "touch"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


@pytest.mark.parametrize("step", ["download", "wheel"])
def test_a_build_that_failed_is_not_tried_again_until_somebody_asks_for_it(place: Place, step: str):
    run = place.native("beside", breaks=step)
    assert run.returncode == 0
    assert "make native" in run.stderr
    assert str(place.engine / "log") in run.stderr
    assert step in place.asked()
    assert (place.native("beside").stderr, place.asked()) == ("", [])
    assert place.native("put-in").returncode == 0
    assert place.native().returncode == 0
    assert place.asked()[-1] == "install"


def test_a_build_that_was_broken_off_goes_on_with_the_sources_that_it_has(place: Place):
    assert place.native("build", breaks="wheel").returncode == 1
    assert place.asked() == ["download", "wheel"]
    assert place.native("build").returncode == 0
    assert place.asked() == ["wheel"]


def test_a_start_serves_what_it_is_told_and_builds_nothing_where_it_may_not(place: Place):
    run = place.run("sh", "scripts/run", "venv", "lock", "no", "--port", "1")
    assert (run.stdout, run.stderr, place.asked()) == ("serve --port 1\n", "", [])


def test_a_start_serves_although_what_was_built_cannot_be_put_in(place: Place):
    place.native("build")
    run = place.run("sh", "scripts/run", "venv", "lock", "yes", "--port", "1", breaks="install")
    assert run.stdout == "serve --port 1\n"
    assert "the wheel stays" in run.stderr


def test_a_command_beside_a_program_tells_how_it_ended():
    run = subprocess.run([sys.executable, ROOT / "scripts" / "beside.py", "sh", "-c", "exit 7"], check=False)
    assert run.returncode == 7


def test_a_command_beside_a_program_ends_with_it_however_that_ends():
    # The command tells its priority and then waits for ever; its end closes the pipe.
    beside = f"{sys.executable} {ROOT / 'scripts' / 'beside.py'} sh -c 'nice; cat /dev/zero >/dev/null' &"
    program = subprocess.Popen(["sh", "-c", f"{beside} exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdin is not None and program.stdout is not None
    assert program.stdout.readline().strip() == b"19"
    os.kill(program.pid, signal.SIGKILL)
    assert program.stdout.read() == b""
    program.wait()
    program.stdin.close()
    program.stdout.close()

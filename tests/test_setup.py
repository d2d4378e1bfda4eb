"""`scripts/setup` where something cannot be installed. The Python that it finds is a script that keeps what it is asked."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FIRST, ENGINE, LAST = (
    "first==1 \\\n    --hash=sha256:aa\n",
    "xllamacpp==2 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n",
    "last==3 \\\n    --hash=sha256:dd\n",
)
LOCK, REST = FIRST + ENGINE + LAST, FIRST + LAST
#: Makes environments of itself; `pip install -r FILE` fails where the file has a line that begins with $MISSING.
PYTHON = """#!/bin/sh
case "$*" in
*sys.executable*) echo "$0" ;;
*"-m venv"*) for last; do :; done; mkdir -p "$last/bin"; cp "$0" "$last/bin/python" ;;
*" -r "*) for last; do :; done; for package in 1 2 3 4 5; do printf 'Collecting %s\n' a b c d; done; cat "$last" >>"$ASKED"; ! grep -q "^$MISSING" "$last" ;;
esac
"""


@pytest.mark.parametrize(
    ("missing", "asked", "status", "said"),
    [
        ("nothing", LOCK, 0, ()),
        ("xllamacpp", LOCK + REST, 0, ("make native", "--upstream")),
        ("last", LOCK + REST, 1, ("trying without",)),
    ],
)
def test_all_but_the_engine_is_installed_where_it_has_no_wheel(
    tmp_path: Path, missing: str, asked: str, status: int, said: tuple[str, ...]
):
    python = tmp_path / "python3"
    for script, does in ((python, PYTHON), (tmp_path / "uv", "#!/bin/sh\nexit 1\n")):
        script.write_text(does)
        script.chmod(0o755)
    (tmp_path / "lock").write_text(LOCK)
    told = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "PYTHON": str(python),
        "ASKED": str(tmp_path / "asked"),
        "MISSING": missing,
    }
    run = subprocess.run(
        ["sh", ROOT / "scripts" / "setup", tmp_path / "venv", tmp_path / "lock"],
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == status, run.stderr
    assert (tmp_path / "asked").read_text() == asked
    assert all(each in run.stderr for each in said)
    assert bool(run.stderr) == bool(said)
    assert "2 of 3: 3 packages\n          20 downloaded\n" in run.stdout

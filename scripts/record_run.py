"""Record `toolspeak run` as a picture for the documentation: a real run in a terminal, against a scripted model.

    python scripts/record_run.py docs/agent-run.svg

The picture shows what the command leaves on the screen, with its own colours. Only the model is scripted, so the
picture is the same each time except for the seconds in it.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.cli_agent_helpers import Played, served

TASK = "Which of the tests fails, and why?"
CHECK = "python3 -c 'import sums; assert sums.add(2, 2) == 4, sums.add(2, 2)'"
TURNS = (
    ("I look at what is there.", [("list_files", {}), ("read_file", {"path": "sums.py"})]),
    ("Now I run the check.", [("shell", {"command": CHECK})]),
    "`add` multiplies by one more than it should: `a + b * 2` gives 6 for 2 and 2. Remove `* 2` in line 2 of sums.py.",
)
WIDTH = 100
#: Control sequences that rich uses to redraw a line: erase it, go up, hide and show the cursor.
CONTROL = re.compile(r"\x1b\[(\?25[lh]|2K|\d*A)|\r|\n")


def recorded() -> str:
    """Return what the command leaves on the screen of a terminal, with the sequences for colours."""
    with tempfile.TemporaryDirectory() as home, served(Played(*TURNS)) as url:
        work = Path(home) / "work"
        work.mkdir()
        (work / "sums.py").write_text("def add(a, b):\n    return a + b * 2\n")
        command = [sys.executable, "-m", "toolspeak", "run", TASK, "--upstream", url, "--yes", "--no-store"]
        environment = {**os.environ, "HOME": home, "TOOLSPEAK_PROBE": "off", "TERM": "xterm-256color"}
        environment.pop("NO_COLOR", None)
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, WIDTH, 0, 0))
        with subprocess.Popen(command, cwd=work, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as run:
            os.close(theirs)
            output = b""
            with suppress(OSError):  # the end of the output
                while data := os.read(ours, 65536):
                    output += data
        os.close(ours)
        assert run.returncode == 0, output.decode()
    return screen(output.decode())


def screen(output: str) -> str:
    """Apply the redrawing of lines, and return the lines that remain."""
    lines, row, at = [""], 0, 0
    for control in CONTROL.finditer(output):
        lines[row] += output[at : control.start()]
        at = control.end()
        if control[0] == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif control[0].endswith("2K"):
            lines[row] = ""
        elif control[0].endswith("A"):
            row -= int(control[1][:-1] or 1)
    return "\n".join(line.rstrip() for line in lines).rstrip()


def main() -> None:
    from rich.console import Console
    from rich.text import Text

    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere)
        console.print(Text(f'$ toolspeak run "{TASK}" --yes', style="bold"))
        console.print(Text.from_ansi(recorded()))
        picture = console.export_svg(title="toolspeak run")
    # The picture must not load fonts from elsewhere.
    Path(sys.argv[1]).write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Record `toolspeak run` as a picture for the documentation: a real run, against a model that plays its part.

    python scripts/record_run.py docs/agent-run.svg

The command, the tools and the sandbox are the real ones; only the model is prepared, so that the picture is the same
each time but for the seconds in it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
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
STYLES = {"▸": "dim", "✓": "green", "✗": "red", "→": "cyan", "$": "bold"}


def recorded() -> list[str]:
    """What the command prints, line by line."""
    with tempfile.TemporaryDirectory() as home, served(Played(*TURNS)) as url:
        work = Path(home) / "work"
        work.mkdir()
        (work / "sums.py").write_text("def add(a, b):\n    return a + b * 2\n")
        command = [sys.executable, "-m", "toolspeak", "run", TASK, "--upstream", url, "--yes", "--no-store"]
        environment = {**os.environ, "HOME": home, "TOOLSPEAK_PROBE": "off", "PYTHONUNBUFFERED": "1"}
        done = subprocess.run(
            command, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
        )
    return [f'$ toolspeak run "{TASK}" --yes', *done.stdout.splitlines()]


def main() -> None:
    from rich.console import Console
    from rich.text import Text

    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=100, file=nowhere)
        for line in recorded():
            console.print(Text(line, style=STYLES.get(line[:1], "")))
        picture = console.export_svg(title="toolspeak run")
    # Whoever looks at it fetches nothing: no fonts from elsewhere.
    Path(sys.argv[1]).write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Runs the client scenarios of the MCP conformance suite, and says which of them changed.

    python -m tests.mcp_conformance.run [SCENARIO ...]

The suite is an npm package; node comes from the Python index, as for the clients of `tests/real_clients`. Scenarios that
do not apply are listed with their reasons in `expected_failures.yaml`; one that passes all the same is told too. The
exit status is 0 when everything went as expected.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.real_clients import install
from tests.real_clients.tasks import NODE, Package

HERE = Path(__file__).parent
SUITE = Package("mcp-conformance", "npm", ("@modelcontextprotocol/conformance@0.1.16",))
#: Seconds for one scenario.
PATIENCE = 120


def main() -> int:
    try:
        install.place(Package("node", "pip", (NODE,)))
        install.place(SUITE)
    except install.CannotInstallError as error:
        sys.stdout.write(f"not run: the conformance suite cannot be installed: {error}\n")
        return 0
    known = scenarios()
    wrong = 0
    for name in sys.argv[1:] or known:
        passed = run(name)
        expected = name not in failures()
        word = "passed" if passed else "failed"
        note = "" if passed == expected else "   <- not as expected"
        wrong += passed != expected
        sys.stdout.write(f"{word:7} {name}{note}\n")
        sys.stdout.flush()
    return 1 if wrong else 0


def failures() -> frozenset[str]:
    """The scenarios that are listed as not applying."""
    lines = (HERE / "expected_failures.yaml").read_text(encoding="utf-8").splitlines()
    return frozenset(line.strip().removeprefix("- ") for line in lines if line.strip().startswith("- "))


def scenarios() -> list[str]:
    """All client scenarios, as the suite lists them: `  - name [versions]`."""
    lines = suite("list", "--client").stdout.splitlines()
    return [line.split()[1] for line in lines if line.strip().startswith("- ")]


def run(name: str) -> bool:
    client = f"{sys.executable} -m tests.mcp_conformance.client"
    try:
        done = suite("client", "--command", client, "--scenario", name, "--timeout", "90000")
    except subprocess.TimeoutExpired:
        return False
    if done.returncode and name not in failures():
        sys.stdout.write(done.stdout[-3000:] + done.stderr[-3000:])
    return done.returncode == 0


def suite(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = install.programs(SUITE) / "conformance"
    env = {**os.environ, "PATH": f"{install.node()}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        [str(program), *arguments],
        env=env,
        cwd=HERE.parent.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())

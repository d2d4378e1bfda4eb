"""`import toolspeak` is light: nothing heavy comes along."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = (
    "alembic",
    "asyncio",
    "click",
    "httpx",
    "httpx2",
    "mcp",
    "prompt_toolkit",
    "pydantic",
    "rich",
    "sqlalchemy",
    "starlette",
    "typer",
    "uvicorn",
)


def loaded_by(statement: str) -> set[str]:
    """The modules in memory after `statement` ran in a fresh interpreter."""
    code = f"{statement}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stdout))


def test_importing_toolspeak_loads_nothing_heavy():
    assert not loaded_by("import toolspeak") & set(HEAVY)


def test_the_command_line_loads_only_what_a_command_needs():
    loaded = loaded_by("import toolspeak.cli, toolspeak.cli.parse")
    assert not loaded & (set(HEAVY) - {"click"})


def test_a_server_starts_without_what_only_tools_need():
    loaded = loaded_by(
        "import toolspeak.server.app, toolspeak.server.process.from_config, toolspeak.protocols.openai_chat"
    )
    assert "toolspeak.server.proxy.exchange" in loaded
    assert not [name for name in loaded if name.startswith("toolspeak.dialects")]
    assert not loaded & {
        "toolspeak.engine.turn.engine",
        "toolspeak.core.parsing.scanner",
        "toolspeak.engine.refusals.classifier",
        "starlette",
    }


def test_importing_toolspeak_takes_little_time():
    # Three tries, the best counts: the limit is on the work, not on a busy machine. The goal is 100 ms.
    code = "import time; a = time.process_time(); import toolspeak; print(time.process_time() - a)"
    command = [sys.executable, "-I", "-c", code]
    tries = [
        float(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout) for _ in range(3)
    ]
    assert min(tries) < 0.1

"""The integrations with libraries that are not in the development environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import only_at_full_size

ROOT = Path(__file__).parent.parent


@only_at_full_size
@pytest.mark.requirement("K2")
def test_the_integrations_work_with_their_libraries():
    command = ["sh", "scripts/test-integrations", sys.executable]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False)
    assert run.returncode == 0, run.stdout + run.stderr

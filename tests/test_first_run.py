"""What the README tells a newcomer to type first, typed: the real server, the real model, the real SDK."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import msgspec
import pytest

from tests.serve_process import served_as_it_comes

pytestmark = pytest.mark.requirement("H1")

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
TOLD = "http://127.0.0.1:8788"
#: Seconds for a small model on a slow machine.
PATIENCE = 300


@pytest.fixture(scope="module")
def url(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where `toolspeak serve` listens, as it comes; `make run` starts it with the same weights."""
    home = tmp_path_factory.mktemp("home")
    with served_as_it_comes(home) as where:
        yield where.rstrip("/")


def test_the_first_command_gets_a_call(url: str):
    typed = re.search(r"^\$ (curl .*?)^\{\.\.\.", README, re.DOTALL | re.MULTILINE)
    assert typed is not None
    _, where, _, header, _, body = shlex.split(typed.group(1))
    name, _, value = header.partition(": ")
    request = Request(where.replace(TOLD, url), body.encode(), {name: value})
    with urlopen(request, timeout=PATIENCE) as answer:
        (call,) = msgspec.json.decode(answer.read())["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "get_weather", "arguments": '{"city":"Paris"}'}


def test_the_example_with_the_sdk_prints_calls(url: str):
    (sample,) = re.findall(r"^```py\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    command = [sys.executable, "-c", sample.replace(TOLD, url)]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert printed.stdout.splitlines() == ['get_weather {"city":"Oslo"}', 'get_weather {"city":"Rome"}'], printed.stderr

"""The benchmark of the proxy: what it sends, what its C programs do, and what it makes of the figures."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.proxy import (
    AGENT_MEMORY,
    PROBES,
    Facts,
    Figures,
    Run,
    Upstream,
    compile_program,
    request,
    text,
    write_section,
)

pytestmark = pytest.mark.no_cover
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
needs_compiler = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)
AGENTS = [probe for probe in (*PROBES, AGENT_MEMORY) if probe.agent]


def sent_body(probe: Any) -> tuple[int, dict[str, Any]]:
    """The size of a probe's body, and what it says."""
    _, _, data = request(probe, 80, "key").partition(b"\r\n\r\n")
    return len(data), json.loads(data)


# ------------------------------------------------------------------------------------------------ requests


@pytest.mark.parametrize("probe", AGENTS, ids=lambda probe: probe.name)
def test_an_agent_sends_60_messages_and_20_tools_in_about_88_kb(probe: Any):
    size, body = sent_body(probe)
    assert 86_000 < size < 90_000
    assert len(body["messages"]) == 60
    assert len({tool["function"]["name"] for tool in body["tools"]}) == 20


@pytest.mark.parametrize("probe", AGENTS, ids=lambda probe: probe.name)
def test_only_the_last_call_of_an_agent_and_its_result_are_new_in_each_request(probe: Any):
    *old, call, result = sent_body(probe)[1]["messages"]
    assert [message["role"] for message in (call, result)] == ["assistant", "tool"]
    assert all("#n00000000" in json.dumps(message) for message in (call, result))
    assert not any("#n" in json.dumps(message) for message in old)


@pytest.mark.parametrize("probe", [probe for probe in PROBES if not probe.agent], ids=lambda probe: probe.name)
def test_every_small_request_has_a_number_in_its_question(probe: Any):
    body = sent_body(probe)[1]
    (message,) = body.get("messages") or body["input"]
    assert "#n00000000" in message["content"]


# ---------------------------------------------------------------------------------------------- C programs


@needs_compiler
@pytest.mark.parametrize("name", ["upstream", "load"])
def test_the_programs_compile_without_a_warning(name: str, tmp_path: Path):
    assert compile_program(name, tmp_path, "-Werror").exists()


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[Upstream]:
    with Upstream(tmp_path) as running:
        yield running


def ask(port: int, body: dict[str, Any]) -> dict[str, Any]:
    """The message that the upstream answers with."""
    data = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data))
        answer = b""
        while not answer.endswith(b"}}"):
            answer += connection.recv(65536)
    return json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["message"]


@needs_compiler
def test_the_upstream_calls_natively_if_the_request_has_tools(upstream: Upstream):
    (call,) = ask(upstream.port, {"content": "@call@", "tools": []})["tool_calls"]
    assert call["function"]["name"] == "get_weather"


@needs_compiler
def test_the_upstream_calls_as_text_in_the_fence_that_is_asked_for(upstream: Upstream):
    message = ask(upstream.port, {"content": "@call@ write ```json action k7q2 first"})
    assert message["content"].startswith("```json action k7q2\n")


@needs_compiler
def test_no_two_answers_of_the_upstream_are_the_same(upstream: Upstream):
    first, second = (ask(upstream.port, {"content": "@call@"}) for _ in range(2))
    assert first != second


def serve(server: socket.socket, most: int, bodies: list[bytes]) -> None:
    """Answer requests of one client, and then no more."""
    connection, _ = server.accept()
    with connection, connection.makefile("rb") as incoming:
        for _ in range(most):
            while incoming.readline().strip():
                pass
            bodies.append(incoming.read(21))
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    server.close()


@needs_compiler
def test_the_load_generator_numbers_requests_and_conversations(tmp_path: Path):
    load, file, bodies = compile_program("load", tmp_path), tmp_path / "request", list[bytes]()
    file.write_bytes(b"POST / HTTP/1.1\r\ncontent-length: 21\r\n\r\n#n00000000 #c00000000")
    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = threading.Thread(target=serve, args=(server, 7, bodies), daemon=True)
        answering.start()
        command = [load, str(server.getsockname()[1]), "1", "1", file, "3"]
        told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        answering.join(10)
    assert told["whole"] == 7
    numbers, conversations = zip(*(body.split(b" ") for body in bodies), strict=True)
    assert len(set(numbers)) == 7
    assert [int(each[2:]) for each in conversations] == [0, 0, 0, 1, 1, 1, 2]


# ------------------------------------------------------------------------------------------------- reports


def figures(cpu: float, rate: float = 100.0, p50: float = 50.0) -> Figures:
    return Figures(cpu, 0.0, rate, p50, 2 * p50, 0.0, 0.0)


def made_run() -> Run:
    """A run in which toolspeak takes a 120th of LiteLLM's CPU time, in the better of two rounds."""
    return Run(
        date(2026, 11, 18),
        "3.11.7",
        2,
        0.1,
        {
            "toolspeak": Facts("toolspeak", "0.1.0", 0.2, 0.2, 36.0, 60.0, 90.0),
            "litellm": Facts("LiteLLM", "1.106.2", 9.0, 8.0, 340.0, 400.0, 450.0),
        },
        {
            "tools, 1 client": {
                "direct": [figures(0.0, p50=20.0)],
                "toolspeak": [figures(250.0, p50=400.0), figures(200.0, p50=190.0)],
                "litellm": [figures(24_000.0)],
            }
        },
        {"ccr": "npm is not installed"},
        {"litellm": ["1,000 streams"]},
    )


@pytest.mark.parametrize(
    ("goal", "cells"),
    [
        ("CPU per request, tools emulated, against LiteLLM", ["≥ 100 times less", "120 times less", "reached"]),
        ("added latency with tools, one client, p50", ["≤ 0.2 ms", "0.17 ms", "reached"]),
        ("memory, loaded", ["≤ 65 MB", "60 MB", "reached"]),
        ("memory, in 60 s of agent traffic", ["≤ 80 MB", "90 MB", "missed"]),
        ("failed requests in all probes", ["≤ 0", "0", "reached"]),
    ],
)
def test_a_goal_shows_what_was_asked_and_reached(goal: str, cells: list[str]):
    (line,) = (line for line in text(made_run()).splitlines() if line.startswith(goal))
    assert [cell.strip() for cell in line.removeprefix(goal).split("  ") if cell.strip()] == cells


def test_a_goal_that_was_not_measured_is_left_out():
    assert "vllm-router" not in text(made_run())


def test_a_run_survives_json():
    run = made_run()
    assert msgspec.json.decode(msgspec.json.encode(run), type=Run) == run


def test_the_figures_replace_what_stands_between_the_marks_of_the_page(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- figures -->\nold\n<!-- /figures -->\nafter\n", encoding="utf-8")
    write_section(page, made_run())
    written = page.read_text(encoding="utf-8")
    assert written.startswith("before\n<!-- figures -->\n\n18 November 2026, Python 3.11.7, 2 cores")
    assert written.endswith("<!-- /figures -->\nafter\n")
    assert "old" not in written
    for told in (
        "LiteLLM 1.106.2",
        "ccr was left out: npm is not installed.",
        "| a request with tools, emulated, 1 client | 200 µs |  |",
        "| memory, loaded | ≤ 65 MB | 60 MB | reached |",
    ):
        assert told in written
    write_section(page, made_run())
    assert page.read_text(encoding="utf-8") == written


def test_a_page_without_marks_is_not_written(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("nothing", encoding="utf-8")
    with pytest.raises(ValueError, match="no place for figures"):
        write_section(page, made_run())


def test_the_page_has_a_place_for_figures():
    page = PAGE.read_text(encoding="utf-8")
    assert page.count("<!-- figures -->") == page.count("<!-- /figures -->") == 1

"""`toolspeak eval` against a server on the loopback: results, going on, and what its exit status says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cases import check_each
from tests.evaluation.leaderboard import made_in
from tests.evaluation.perfect_model import knows
from tests.server.live_proxy import service
from tests.upstreams.loopback_server import Answer, Heard, Server, head, serving_in_a_thread
from toolspeak import Event, Request, TextDelta, ToolCall
from toolspeak.cli import main
from toolspeak.core.events import Finish
from toolspeak.engine.planning.capabilities import capabilities
from toolspeak.evaluation import bfcl
from toolspeak.upstreams.scripted import calls


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TOOLSPEAK_LOAD_PLUGINS", "none")
    yield tmp_path
    capabilities().configure()


def run(*arguments: str) -> Result:
    return CliRunner(catch_exceptions=False).invoke(main, ("eval", *arguments), prog_name="toolspeak")


def here(server: Server, *more: str) -> tuple[str, ...]:
    return ("--model", "openai:m", "--base-url", server.url, *more)


KNOWS = service("openai_chat", knows)


def test_settings_are_measured_shown_and_kept(home: Path):
    with serving_in_a_thread(KNOWS) as server:
        result = run(*here(server, "--mode", "off", "--mode", "force", "--plan", "inline", "--plan", "inline"))
    assert result.exit_code == 0
    assert "| off | all | 30 of 30 (100.0%) | 88.6% to 100.0% | 0 | 35 | 0 | 700 / 350 |" in result.stdout
    assert "| force inline | all | 30 of 30 (100.0%) |" in result.stdout
    assert "60 cases to run\n" in result.stderr
    assert "60 of 60 done, 60 correct\n" in result.stderr
    out = home / "toolspeak-eval"
    assert (out / "results.md").read_text() == result.stdout
    said = json.loads((out / "results.json").read_text())
    assert (said["model"], said["complete"], len(said["rows"])) == ("openai:m", True, 2)
    assert len((out / "cases.jsonl").read_bytes().splitlines()) == 60


def test_a_second_start_goes_on_and_a_finished_run_asks_nothing():
    with serving_in_a_thread(KNOWS) as server:
        few = here(server, "--mode", "off", "--category", "single", "--limit", "3", "--json")
        first = run(*few)
        count = len(server.heard)
        more = run(*few[:-2], "5", "--json")
        assert len(server.heard) == count + 2
        assert "2 cases to run, 3 already finished\n" in more.stderr
        again = run(*few[:-2], "5", "--json")
        assert len(server.heard) == count + 2
    assert count == 3
    assert json.loads(first.stdout)["rows"][0]["scores"]["all"]["cases"] == 3
    assert json.loads(again.stdout)["rows"] == json.loads(more.stdout)["rows"]
    assert json.loads(again.stdout)["rows"][0]["scores"]["single"]["correct"] == 5


def test_parts_of_a_run_share_its_cases_and_their_journals_make_one_report(home: Path):
    with serving_in_a_thread(KNOWS) as server:
        few = here(server, "--mode", "off", "--json", "--limit", "7")
        parts = [json.loads(run(*few, "--part", f"{at}/3", "--out", f"p{at}").stdout) for at in (1, 2, 3)]
        assert len(server.heard) >= 7
        (home / "whole").mkdir()
        journals = [(home / f"p{at}" / "cases.jsonl").read_bytes() for at in (1, 2, 3)]
        (home / "whole" / "cases.jsonl").write_bytes(b"".join(journals))
        count = len(server.heard)
        whole = json.loads(run(*few, "--out", "whole").stdout)
        assert len(server.heard) == count
    assert [each["rows"][0]["scores"]["all"]["cases"] for each in parts] == [3, 2, 2]
    assert whole["rows"][0]["scores"]["all"]["cases"] == 7


def test_with_mode_off_other_choices_make_no_difference():
    with serving_in_a_thread(KNOWS) as server:
        choices = ("--dialect", "hermes", "--dialect", "action", "--marks", "nonce", "--marks", "fixed", "--json")
        said = json.loads(run(*here(server, "--mode", "off", "--limit", "1", *choices)).stdout)
        assert [row["label"] for row in said["rows"]] == ["off"]
        said = json.loads(run(*here(server, "--mode", "force", "--limit", "1", "--retries", "0", *choices)).stdout)
    labels = [row["label"] for row in said["rows"]]
    assert labels == [
        "force hermes nonce marks",
        "force hermes fixed marks",
        "force action nonce marks",
        "force action fixed marks",
    ]


def test_ways_are_named_and_one_table_shows_what_several_commands_have_measured(home: Path):
    with serving_in_a_thread(KNOWS) as server:
        first = run(*here(server, "--settings", "native,inline@2", "--each", "1", "--report", "t.md", "--json"))
        rows = json.loads(first.stdout)["rows"]
        assert [(row["label"], row["chosen"]) for row in rows] == [("off", 5), ("force inline unconstrained", 10)]
        second = run(
            *here(server, "--settings", "decision+grammar", "--each", "1", "--category", "none", "--report", "t.md")
        )
    assert (first.exit_code, second.exit_code) == (0, 0)
    lines = (home / "t.md").read_text().splitlines()
    assert lines[0] == "| way | none | output tokens per case | median s |"
    assert [line.split(" | ")[:2] for line in lines[2:]] == [
        ["| decision+grammar", "1 of 1: 100% (21 to 100)"],
        ["| native", "1 of 1: 100% (21 to 100)"],
        ["| inline", "2 of 2: 100% (34 to 100)"],
    ]
    wrong = run("--model", "openai:m", "--settings", "quick")
    assert (wrong.exit_code, "unknown setting `quick`" in wrong.stderr) == (2, True)


@pytest.mark.parametrize("model", ["embedded", "hf:owner/name/none.gguf", "none.gguf", "embedded:none.gguf"])
def test_a_model_that_can_only_run_here_needs_no_provider(model: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9/")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = run("--model", model, "--limit", "1")
    assert (result.exit_code, "xllamacpp" in result.stderr) == (2, True)


def test_the_leaderboard_is_asked_from_the_cache(home: Path, monkeypatch: pytest.MonkeyPatch):
    folder = home / ".cache" / "toolspeak" / f"bfcl-eval-{bfcl.VERSION}"
    made_in(folder)
    for member in bfcl._MEMBERS:  # pyright: ignore[reportPrivateUsage]
        if not (folder / "bfcl_eval" / member).exists():
            (folder / "bfcl_eval" / member).parent.mkdir(parents=True, exist_ok=True)
            (folder / "bfcl_eval" / member).touch()
    monkeypatch.setattr(bfcl, "_SHA256", bfcl._digest(folder))  # pyright: ignore[reportPrivateUsage]

    def orders(request: Request) -> list[Event]:
        assert [tool.name for tool in request.tools] == ["shop_order"]
        return calls(ToolCall("shop_order", {"item": "tea"}))

    with serving_in_a_thread(service("openai_chat", orders)) as server:
        result = run(*here(server, "--suite", "bfcl", "--mode", "off"))
    assert result.exit_code == 0
    assert "| off | all | 12 of 14 (85.7%) |" in result.stdout
    assert "|  | irrelevance | 0 of 2 (0.0%) |" in result.stdout
    assert "|  | live_multiple | 2 of 2 (100.0%) |" in result.stdout
    wrong = run("--model", "openai:m", "--suite", "bfcl", "--category", "single")
    assert (wrong.exit_code, "unknown category `single` in bfcl" in wrong.stderr) == (2, True)


def refusing(after: int) -> Answer:
    """Answers so many requests, then says that it cannot."""
    count = 0

    async def answer(heard: Heard) -> None:
        nonlocal count
        count += 1
        if count <= after:
            await KNOWS(heard)
        else:
            body = b'{"error": {"message": "no more\\u001b[2J of this"}}'
            await heard.send(head(f"content-length: {len(body)}", status="400 Bad Request"), body)

    return answer


@check_each(("after", "status"), [(2, 3), (0, 1)])
def test_errors_are_told_by_the_exit_status(after: int, status: int):
    with serving_in_a_thread(refusing(after)) as server:
        few = here(server, "--mode", "off", "--category", "single", "--limit", "4", "--parallel", "1")
        result = run(*few)
    assert result.exit_code == status
    assert f"error: {4 - after} cases failed; the first was " in result.stderr
    assert "no more" in result.stderr
    assert "\x1b" not in result.stderr
    assert "hint: run the same command to retry them\n" in result.stderr
    assert ("Not finished: off" in result.stdout) is (after > 0)


def test_wrong_answers_are_listed_with_what_was_expected_and_what_came():
    def answers(request: Request) -> list[Event]:
        return [TextDelta("It is \x1b[31mwarm."), Finish("stop")]

    with serving_in_a_thread(service("openai_chat", answers)) as server:
        result = run(*here(server, "--mode", "off", "--category", "single", "--limit", "25"))
    first, second = result.stderr.partition("✗ ")[2].splitlines()[:2]
    assert re.fullmatch(r"[\w-]+: no call: expected [a-z_]+", first)
    assert second == "  got: It is warm."


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "missing model"),
        (("--model", "openai:m", "--dialect", "klingon"), "unknown dialect `klingon`"),
        (("--model", "openai:m", "--category", "simple_python"), "unknown category `simple_python` in builtin"),
        (("--model", "openai:m", "--base-url", "ftp://x"), "http://"),
        (("--model", "openai:m", "--limit", "0"), "--limit"),
        (("--model", "openai:m", "--part", "3/2"), "`3/2` is not of the form K/N"),
        (
            ("--model", "openai:m", "--adapter", "file"),
            "--adapter needs an embedded model, but `openai:m` is not one",
        ),
        (("--model", "embedded:m", "--base-url", "http://127.0.0.1:9", "--adapter", "none"), "omit --adapter, or pass"),
        (("--model", "openai:m", "--settings", "inline", "--mode", "off"), "cannot be combined with --mode\n"),
        (("--model", "openai:m", "--settings", "inline", "--plan", "auto"), "hint: omit --plan or --settings"),
        (("--model", "openai:m", "--settings", "auto", "--mode", "off", "--plan", "auto"), "with --mode and --plan\n"),
        (
            ("--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1", "--out", "file"),
            "cannot store results in `file/cases.jsonl`",
        ),
    ],
)
def test_a_wrong_command_line_is_told_before_anything_is_asked(home: Path, arguments: tuple[str, ...], told: str):
    (home / "file").touch()
    result = run(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_journal_that_is_none_is_refused(home: Path):
    (home / "out").mkdir()
    (home / "out" / "cases.jsonl").write_text("hello\n")
    result = run("--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1", "--out", "out")
    assert (result.exit_code, "is not a valid result" in result.stderr) == (2, True)


def test_an_interrupt_keeps_what_is_done_and_says_how_to_go_on(home: Path):
    child: list[subprocess.Popen[str]] = []
    count = 0

    async def answer(heard: Heard) -> None:
        nonlocal count
        count += 1
        if count <= 2:
            await KNOWS(heard)
            return
        os.kill(child[0].pid, signal.SIGINT)
        await heard.gone.wait()

    with serving_in_a_thread(answer) as server:
        few = here(server, "--mode", "off", "--category", "single", "--parallel", "1")
        command = [sys.executable, "-m", "toolspeak", "eval", *few]
        child.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        stdout, stderr = child[0].communicate(timeout=60)
    assert child[0].returncode == 130
    assert "interrupted: 2 of 8 cases saved; run the same command to resume\n" in stderr
    assert "Traceback" not in stderr
    assert "| off | all | 2 of 2 (100.0%) |" in stdout
    assert len((home / "toolspeak-eval" / "cases.jsonl").read_bytes().splitlines()) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_on_a_terminal_there_is_a_bar():
    terminal, end = os.openpty()
    with serving_in_a_thread(KNOWS) as server:
        few = here(server, "--mode", "off", "--limit", "3")
        command = [sys.executable, "-m", "toolspeak", "eval", *few]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=end, env={**os.environ, "TERM": "xterm"})
        os.close(end)
        seen = b""
        with suppress(OSError):  # what Linux says at the end of a terminal
            while piece := os.read(terminal, 65536):
                seen += piece
        child.communicate(timeout=60)
    os.close(terminal)
    assert child.returncode == 0
    assert "3 of 3 done, 3 correct\r\n" in seen.decode()
    assert "3 correct" in seen.decode()


def test_help_has_examples_and_the_exit_statuses():
    said = run("--help").stdout
    assert "toolspeak eval --model ollama:qwen3:8b\n" in said
    assert "130 interrupted" in said

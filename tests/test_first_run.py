"""What the texts tell a newcomer to type, and what the page suggests: the real server, model and SDK.

`test_examples.py` runs all other commands that the texts show, against a scripted model.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import msgspec
import pytest

from tests.cases import every, only_at_full_size
from tests.cli_agent_helpers import Terminal, alone
from tests.serve_process import served_as_it_comes
from tests.test_examples import DOCUMENTED, HELP, MENTIONED
from training.product_tools import CALCULATOR, CLOCK, DICE, calculate, clock_text

pytestmark = pytest.mark.requirement("H1")

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SUGGESTIONS = ROOT / "src/toolspeak/server/web/static/suggestions.js"
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


#: Each question that the page suggests, with the tools that it takes and what a right answer contains.
ANSWERS = {
    "What is 17 times 23?": (["calculator"], ["391"]),
    "What time is it in Oslo and in Tokyo?": (["clock", "clock"], ["10:30", "18:30"]),
    "Roll two dice and tell me the time in Paris.": (["dice", "clock"], ["4", "2", "10:30"]),
    "What is 12 * 12 and 13 * 13?": (["calculator", "calculator"], ["144", "169"]),
    "Calculate (12 + 30) * 7.": (["calculator"], ["294"]),
    "What time is it in Tokyo, in London and in New York?": (["clock"] * 3, ["18:30", "09:30", "04:30"]),
    "What is the capital of France?": ([], ["Paris"]),
}
TOOLS = [
    {
        "type": "function",
        "function": {"name": each.name, "description": each.description, "parameters": each.parameters},
    }
    for each in (CLOCK, CALCULATOR, DICE)
]


def ask(url: str, messages: list[Any]) -> Any:
    body = msgspec.json.encode({"model": "smollm2-135m", "messages": messages, "tools": TOOLS})
    request = Request(f"{url}/v1/chat/completions", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=PATIENCE) as answer:
        return msgspec.json.decode(answer.read())["choices"][0]["message"]


def result_of(name: str, arguments: dict[str, Any]) -> str:
    """What the tool of the page returns on a morning in January, with dice that show 4 and 2."""
    match name:
        case "calculator":
            return calculate(arguments["expression"])
        case "clock":
            return clock_text(datetime(2026, 1, 15, 9, 30, tzinfo=UTC), arguments["zone"])
        case _:
            assert arguments == {"count": 2}
            return "4, 2 (total 6)"


def test_the_answers_are_those_of_all_questions_that_the_page_suggests():
    assert re.findall(r'^  "(.*)",$', SUGGESTIONS.read_text(encoding="utf-8"), re.MULTILINE) == list(ANSWERS)
    assert sum(len(tools) > 1 for tools, _ in ANSWERS.values()) >= 3


@pytest.mark.parametrize("question", every(3, ANSWERS))
def test_each_question_that_the_page_suggests_gets_a_right_answer_at_once(url: str, question: str):
    tools, parts = ANSWERS[question]
    messages: list[Any] = [{"role": "user", "content": question}]
    called: list[str] = []
    while (message := ask(url, messages)).get("tool_calls"):
        messages.append(message)
        for call in message["tool_calls"]:
            name, arguments = call["function"]["name"], msgspec.json.decode(call["function"]["arguments"])
            called.append(name)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result_of(name, arguments)})
        assert len(called) <= len(tools)
    assert called == tools
    assert all(part in message["content"] for part in parts), message["content"]


# ---- on the command line

#: Each question that the texts ask the shipped model, with the answer in the folder below.
FOLDER_ANSWERS = {"How many lines are in README.md?": "4", "How many tests are in this folder?": "3"}
#: Commands that ask a model or use a server of the reader's own.
OTHER_MODEL = re.compile("--upstream|--base-url|--model|-m |--mcp-config")


def asked_of_the_shipped_model(command: str) -> list[str]:
    lines = [line for line in [*HELP, *DOCUMENTED, *MENTIONED] if command in line and not OTHER_MODEL.search(line)]
    return list(dict.fromkeys(question for line in lines for question in re.findall(r'"([^"]{9,})"', line)))


@pytest.fixture
def folder(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a README of four lines and three tests, in a home of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(weights.parent.parent))
    work = alone(tmp_path, monkeypatch)
    (work / "README.md").write_text("# A project\n\nIt has\nfour lines.\n")
    (work / "test_all.py").write_text("".join(f"def test_{name}():\n    pass\n\n\n" for name in ("a", "b", "c")))
    return work


def test_the_answers_are_those_of_all_questions_that_the_texts_ask_an_agent():
    assert set(asked_of_the_shipped_model("toolspeak run ")) == set(FOLDER_ANSWERS)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
@pytest.mark.parametrize("question", every(2, FOLDER_ANSWERS))
def test_an_agent_with_the_shipped_model_answers_each_question_of_the_texts(folder: Path, question: str):
    terminal = Terminal("run", question)
    try:
        terminal.wait_for("Allow?")
        terminal.type("y\n")
        assert terminal.process.wait(PATIENCE) == 0
        terminal.wait_for(f" {FOLDER_ANSWERS[question]} ")
    finally:
        terminal.close()


def printed_by(*words: str, text: str = "") -> str:
    """What a command prints on stdout if it succeeds."""
    command = [sys.executable, "-m", "toolspeak", *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout


@pytest.mark.usefixtures("folder")
def test_a_chat_with_the_shipped_model_greets_and_says_what_it_can_do():
    hello, able = printed_by("chat", text="Hello!\nWhat can you do?\n").strip().splitlines()
    assert "demo model" in hello
    assert "read files" in able and "run shell commands" in able


@pytest.mark.usefixtures("folder")
@pytest.mark.system("bubblewrap")
def test_an_agent_with_the_shipped_model_answers_a_question_from_a_pipe():
    line = next(each for each in HELP if "| toolspeak run -" in each)
    _, question, _, _, *words = shlex.split(line)
    assert f" {FOLDER_ANSWERS[question]} " in printed_by(*words, text=question)


#: The commands of the texts that measure the shipped model in seconds. Others of them take hours.
MEASURED = [line for line in HELP if re.search(r"eval --model embedded: .*--limit", line)]


@only_at_full_size
@pytest.mark.usefixtures("folder")
def test_every_measurement_of_the_shipped_model_in_the_help_ends_with_an_answer_to_each_case():
    assert len(MEASURED) == 1
    for line in MEASURED:
        rows = msgspec.json.decode(printed_by(*shlex.split(line)[1:], "--json"))["rows"]
        assert [row["setting"]["plan"] for row in rows] == ["inline", "envelope"]
        assert [(row["scores"]["all"]["cases"], row["scores"]["all"]["errors"]) for row in rows] == [(5, 0)] * 2


@only_at_full_size
@pytest.mark.usefixtures("folder")
def test_the_shipped_model_calls_in_every_comparison_of_the_texts():
    (question,) = asked_of_the_shipped_model("toolspeak compare ")
    for arguments, expected in [
        (("--settings", "inline,decision,envelope"), ["Oslo"]),
        ((question, "--settings", "auto"), ["Oslo", "Rome"]),
    ]:
        for column in msgspec.json.decode(printed_by("compare", *arguments, "--json"))["columns"]:
            assert [call["arguments"]["city"] for call in column["calls"]] == expected

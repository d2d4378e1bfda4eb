"""The programs of examples/ run as a user runs them, and the gateway configuration is served.

Those that use an SDK ask the real proxy, those that use the library ask the model itself. The model only writes text: it
reads in the prompt how to call a tool, as a model without tool calling does.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import pytest
from openai import OpenAI

from tests.cases import check_each
from tests.integrations.plain_model import PlainModel, PlainService

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
#: Seconds after which a test that hangs fails.
PATIENCE = 120
PROGRAMS = sorted(EXAMPLES.glob("*.py"))
CALLED = re.compile(r"get_weather.*Oslo.* -> rain, 12 degrees\n.*get_weather.*Rome.* -> sun, 21 degrees\n")


class TextModel(PlainModel):
    """Answers the questions of the examples from the text of the conversation alone."""

    def __init__(self) -> None:
        super().__init__()
        #: The shipments to look up, for each request. None: set `waits`, and answer when `gate` is set.
        self.shipments: list[str | None] = []
        self.waits, self.gate = threading.Event(), threading.Event()
        self.is_poor = lambda: False

    def __call__(self, messages: list[dict[str, Any]]) -> Iterator[str]:
        # The openai SDK sends back `refusal: null`, which the proxy passes on.
        return super().__call__([{k: v for k, v in each.items() if (k, v) != ("refusal", None)} for each in messages])

    def _text(self, messages: list[dict[str, Any]]) -> str:
        last, write = str(messages[-1]["content"]), writer("\n".join(str(each["content"]) for each in messages))
        if self.shipments:
            return self._next_shipments(write)
        if write is None:
            return "Hello there."
        if payment := re.search(r"Pay (\d+) crowns to (\w+)", last):
            return write("pay", name=payment[2], crowns=int(payment[1]))
        if timer := re.search(r"timer for (\d+) minutes", last):
            return write("set_timer", minutes=int(timer[1]))
        if results := re.findall(r"paid \d+ crowns|not allowed|\w+, \d+ degrees", last):
            return f"The result is: {'; '.join(results)}."
        cities = [city for city in ("Oslo", "Rome", "Lima", "Paris") if city in last]
        return "\n".join(write("get_weather", city=city) for city in cities[: 1 if self.is_poor() else None]) or "Fine."

    def _next_shipments(self, write: Write | None) -> str:
        numbers = self.shipments.pop(0)
        if numbers is None:
            self.waits.set()
            self.gate.wait(PATIENCE)
            return "Too late."
        assert write is not None
        return "\n".join(write("find_shipment", number=number) for number in numbers.split()) or "These are all."


class Write(Protocol):
    """Writes a call as the prompt has shown it."""

    def __call__(self, name: str, /, **arguments: Any) -> str: ...


def writer(prompt: str) -> Write | None:
    """How to write calls, in the two formats that the prompts of these tests show; None without tools."""
    if marks := re.findall(r"```json action (\w+)", prompt):
        return lambda name, /, **given: (
            f"```json action {marks[-1]}\n{json.dumps({'tool': name, 'parameters': given})}\n```"
        )
    if marks := re.findall(r"<tool_call (\w+)>", prompt):
        return lambda name, /, **given: (
            f"<tool_call {marks[-1]}>\n{json.dumps({'name': name, 'arguments': given})}\n</tool_call>"
        )
    return None


def environment(home: Path, **variables: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "TOOLSPEAK_"))}
    own |= {"HOME": str(home), "TOOLSPEAK_PROBE": "off", "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    return {**own, **variables}


def toolspeak(home: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "toolspeak", *arguments]
    env = environment(home)
    done = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return done.stdout.strip()


@contextmanager
def listening(command: list[str], env: dict[str, str], cwd: Path) -> Iterator[str]:
    """Start a server and yield the address that it prints."""
    process = subprocess.Popen(command, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://[^\s/]+", process.stdout.readline())
        assert found is not None
        yield found.group()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
        process.stdout.close()  # pyright: ignore[reportOptionalMemberAccess]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def text_model() -> TextModel:
    return TextModel()


@pytest.fixture(scope="module")
def service(text_model: TextModel) -> Iterator[PlainService]:
    with PlainService(text_model) as running:
        text_model.is_poor = lambda: running.requests[-1][2]["model"] == "poor"
        yield running


@pytest.fixture(scope="module")
def proxy(service: PlainService, home: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "toolspeak", "serve", "--upstream", service.url, "--port", "0"]
    with listening(command, environment(home), home) as url:
        yield url


def run(name: str, *arguments: str, env: dict[str, str], cwd: Path, answers: str = "") -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(
        command, env=env, cwd=cwd, input=answers, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def library(service: PlainService, home: Path) -> dict[str, str]:
    """The settings with which a program of the library uses the model."""
    return environment(home, TOOLSPEAK_MODEL="openai:plain", TOOLSPEAK_BASE_URL=service.url)


@check_each("path", PROGRAMS, ids=lambda path: path.name)
def test_every_program_is_small_says_how_to_run_it_and_is_listed(path: Path):
    text = path.read_text(encoding="utf-8")
    assert 20 <= len(text.splitlines()) <= 80
    assert f"    python examples/{path.name}" in text.split('"""')[1]
    assert f"({path.name})" in (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert f"/examples/{path.name})" in (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert f'"{path.name}"' in Path(__file__).read_text(encoding="utf-8"), "test it below"


def test_there_are_at_least_ten_programs():
    assert len(PROGRAMS) >= 10


@pytest.mark.parametrize(
    "name",
    ["openai_chat.py", "openai_responses.py", "anthropic_messages.py", "google_genai.py", "ollama_chat.py"],
)
def test_an_sdk_gets_calls_from_a_model_that_only_writes_text(
    name: str, proxy: str, service: PlainService, home: Path, tmp_path: Path
):
    before = len(service.requests)
    printed = run(name, env=environment(home, TOOLSPEAK_URL=proxy, TOOLSPEAK_MODEL="plain"), cwd=tmp_path)
    assert CALLED.match(printed), printed
    assert printed.endswith("The result is: rain, 12 degrees; sun, 21 degrees.\n")
    assert len(service.requests) == before + 2


def test_the_terminal_shows_calls_and_results_and_keeps_the_conversation(
    service: PlainService, home: Path, tmp_path: Path
):
    questions = "What is the weather in Lima?\n\nAnd in Rome?\n"
    printed = run("streaming_terminal.py", env=library(service, home), cwd=tmp_path, answers=questions)
    assert "✓ get_weather({'city': 'Lima'}) -> fog, 17 degrees" in printed
    assert "The result is: fog, 17 degrees." in printed
    assert "✓ get_weather({'city': 'Rome'}) -> sun, 21 degrees" in printed
    assert "Lima" in json.dumps(service.requests[-1][2]["messages"]), "the second question belongs to the same session"


@pytest.mark.parametrize(
    ("answer", "result", "text", "left"),
    [
        ("y\n", "paid 15 crowns to Berta", "The result is: paid 15 crowns.", 85),
        ("n\n", "the call was not allowed: the user said no", "The result is: not allowed.", 100),
    ],
)
def test_the_agent_pays_only_if_the_person_allows_it(
    answer: str, result: str, text: str, left: int, service: PlainService, home: Path, tmp_path: Path
):
    task = "Pay 15 crowns to Berta."
    printed = run("agent_approval.py", task, env=library(service, home), cwd=tmp_path, answers=answer)
    assert "The model wants to call pay with {'name': 'Berta', 'crowns': 15}" in printed
    assert f"-> {result}\n{text}\nThere are {left} crowns left.\n" in printed


def test_the_server_with_the_parser_gives_an_sdk_its_calls_whole_and_streamed(home: Path):
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
    text = 'Let me look.\n[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo", }'
    question: Any = {"model": "mine", "messages": [{"role": "user", "content": text}], "tools": [tool]}
    command = [sys.executable, str(EXAMPLES / "parser_server.py"), "0"]
    with listening(command, environment(home), home) as url, OpenAI(base_url=f"{url}/v1", api_key="any") as client:
        choice = client.chat.completions.create(**question).choices[0]
        (made,) = choice.message.tool_calls or [None]
        assert made is not None and made.type == "function"
        assert (made.function.name, json.loads(made.function.arguments)) == ("get_weather", {"city": "Oslo"})
        assert (choice.finish_reason, (choice.message.content or "").strip()) == ("tool_calls", "Let me look.")
        with client.chat.completions.stream(**question) as stream:
            streamed = stream.get_final_completion().choices[0]
        (again,) = streamed.message.tool_calls or [None]
        assert again is not None
        assert (again.function.name, json.loads(again.function.arguments)) == ("get_weather", {"city": "Oslo"})
        assert (streamed.finish_reason, (streamed.message.content or "").strip()) == ("tool_calls", "Let me look.")
        plain: Any = {**question, "messages": [{"role": "user", "content": "Hello."}]}
        assert client.chat.completions.create(**plain).choices[0].message.content == "Hello."


def test_the_better_of_two_models_and_the_baseline_are_told_apart(service: PlainService, home: Path, tmp_path: Path):
    names = ("openai:good", "openai:poor", "baseline")
    printed = run("compare_models.py", *names, env=library(service, home), cwd=tmp_path)
    scores = re.findall(r"^(\S+): (\d of 6) right \(95% interval (.+)\), \d+ requests", printed, re.MULTILINE)
    assert scores == [
        ("openai:good", "6 of 6", "61% to 100%"),
        ("openai:poor", "5 of 6", "44% to 97%"),
        ("baseline", "4 of 6", "30% to 90%"),
    ]
    (wrong, *others) = re.findall(r"^  (.+) expected .+, got (.+)$", printed, re.MULTILINE)
    assert wrong == ("What is the weather in Oslo and in Rome?", "[('get_weather', {'city': 'Oslo'})]")
    assert others == [wrong, ("Set a timer for 5 minutes.", "Hello!")]


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_run_that_is_killed_twice_goes_on_and_repeats_no_finished_call(
    text_model: TextModel, service: PlainService, home: Path, tmp_path: Path
):
    # Killed between two rounds, then in the middle of a call; a call that only reads may run again.
    text_model.shipments = ["A1 B2", None]
    env = library(service, home) | {"SECONDS_PER_CALL": "0"}
    first = killed(lambda printed: text_model.waits.wait(PATIENCE), env, tmp_path)
    text_model.gate.set()
    text_model.shipments = ["C3 D4"]
    env = library(service, home) | {"SECONDS_PER_CALL": "60"}
    second = killed(lambda printed: any("looking up C3" in line for line in printed), env, tmp_path)
    text_model.shipments = ["C3 D4", "E5", ""]
    third = run("durable_run.py", env=library(service, home) | {"SECONDS_PER_CALL": "0"}, cwd=tmp_path)
    assert looked_up(first) == ["A1", "B2"]
    assert second == "", "it was killed in the middle of its first call"
    assert looked_up(third) == ["C3", "D4", "E5"]
    places = "A1: Oslo\nB2: Rome\nC3: Lima\nD4: Cairo\nE5: Paris\n"
    assert third.endswith(places)
    again = run("durable_run.py", env=library(service, home), cwd=tmp_path)
    assert looked_up(again) == []
    assert again.endswith(places)


def looked_up(printed: str) -> list[str]:
    return re.findall(r"looking up (\w+)", printed)


def killed(wait: Callable[[IO[str]], object], env: dict[str, str], cwd: Path) -> str:
    """What a run printed until it was killed, as soon as `wait` had returned. `wait` may read what is printed."""
    command = [sys.executable, str(EXAMPLES / "durable_run.py")]
    process = subprocess.Popen(command, env=env, cwd=cwd, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as printed:
        assert wait(printed)
        process.kill()
        assert process.wait(PATIENCE) == -signal.SIGKILL
        return printed.read()


# ---- the gateway


class Gateway(NamedTuple):
    url: str
    keys: dict[str, str]
    local: PlainService
    vendor: PlainService


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A server with the configuration of the example, which is changed in nothing but the addresses."""
    folder = tmp_path_factory.mktemp("gateway")
    text = (EXAMPLES / "gateway" / "toolspeak.toml").read_text(encoding="utf-8")
    with PlainService(TextModel()) as local, PlainService(TextModel()) as vendor:
        for address, running in (("http://127.0.0.1:8000/v1", local), ("https://api.openai.com/v1", vendor)):
            assert text.count(f'"{address}"') == 1
            text = text.replace(address, running.url)
        (folder / "toolspeak.toml").write_text(text, encoding="utf-8")
        assert toolspeak(folder, "trust").startswith("Trusted")
        keys = {name: toolspeak(folder, "keys", "new", name, *options) for name, options in gateway_keys().items()}
        assert set(keys) == {"anna", "ci"}
        command = [sys.executable, "-m", "toolspeak", "serve", "--require-key", "--port", "0"]
        with listening(command, environment(folder, TEAM_OPENAI_KEY="sk-of-the-team"), folder) as url:
            yield Gateway(url, keys, local, vendor)


def gateway_keys() -> dict[str, list[str]]:
    """The options of each key that the README of the gateway makes."""
    readme = (EXAMPLES / "gateway" / "README.md").read_text(encoding="utf-8")
    return {
        name: shlex.split(options) for name, options in re.findall(r"^toolspeak keys new (\w+) (.*)$", readme, re.M)
    }


def asked(url: str, key: str, model: str) -> tuple[int, Any]:
    """The status and the body of an answer."""
    messages = [{"role": "user", "content": "Hello"}]
    body = json.dumps({"model": model, "messages": messages}).encode()
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/chat/completions", body, headers)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_the_gateway_refuses_wrong_keys_and_lets_each_key_use_its_models(gateway: Gateway):
    url, (anna, ci), local = gateway.url, gateway.keys.values(), gateway.local
    before = len(local.requests)
    assert [asked(url, key, "fast")[0] for key in ("", "any", "tsk-wrong")] == [401, 401, 401]
    assert [asked(url, anna, name)[0] for name in ("strong", "gpt-5-mini", "nothing")] == [404, 404, 404]
    assert asked(url, ci, "fast")[0] == 404
    assert len(local.requests) == before
    for name in ("fast", "local:qwen3:8b", "llama-3"):
        status, body = asked(url, anna, name)
        assert (status, body["choices"][0]["message"]["content"]) == (200, "Hello there.")
    assert [body["model"] for _, _, body in local.requests[before:]] == ["qwen3:8b", "qwen3:8b", "llama-3"]
    assert all(anna not in str(headers) for _, headers, _ in local.requests)


def test_the_gateway_gives_the_vendor_its_own_key_and_limits_each_key(gateway: Gateway):
    statuses = [asked(gateway.url, gateway.keys["ci"], "strong")[0] for _ in range(11)]
    assert set(statuses) == {200, 429}
    assert statuses[-1] == 429
    assert {headers["authorization"] for _, headers, _ in gateway.vendor.requests} == {"Bearer sk-of-the-team"}
    assert {body["model"] for _, _, body in gateway.vendor.requests} == {"gpt-5-mini"}


def test_the_gateway_asks_the_vendor_when_its_own_server_is_full_of_errors(gateway: Gateway):
    before = len(gateway.vendor.requests)
    gateway.local.status = 503
    try:
        status, body = asked(gateway.url, gateway.keys["anna"], "fast")
    finally:
        gateway.local.status = 200
    assert (status, body["choices"][0]["message"]["content"]) == (200, "Hello there.")
    assert len(gateway.vendor.requests) == before + 1


def test_a_program_of_the_examples_works_through_the_gateway(gateway: Gateway, tmp_path: Path):
    env = environment(tmp_path, TOOLSPEAK_URL=gateway.url, TOOLSPEAK_MODEL="fast", TOOLSPEAK_KEY=gateway.keys["anna"])
    assert CALLED.match(run("openai_chat.py", env=env, cwd=tmp_path))


def test_every_line_of_the_gateway_configuration_is_explained():
    text = (EXAMPLES / "gateway" / "toolspeak.toml").read_text(encoding="utf-8")
    explained = (EXAMPLES / "gateway" / "README.md").read_text(encoding="utf-8")
    names = re.findall(r"^(?:(\w+) = |(\[.+\])$)", text, re.MULTILINE)
    settings = {name for name, _ in names if name not in ("fast", "strong")}
    assert {"retries", "base_url", "fallbacks", "compact"} <= settings
    assert [name for name in settings if not re.search(rf"^\| `{name}\b", explained, re.MULTILINE)] == []
    assert [table for _, table in names if table and f"| `{table}` |" not in explained] == []


# ---- the notebooks


def notebooks(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "notebooks.py"), *arguments]
    env = environment(home)
    return subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_the_outputs_of_the_notebooks_are_those_of_a_run(tmp_path: Path):
    assert len(list((EXAMPLES / "notebooks").glob("*.ipynb"))) == 2
    checked = notebooks("--check", home=tmp_path)
    assert checked.returncode == 0, f"run scripts/notebooks.py: {checked.stdout}{checked.stderr}"


def test_an_output_that_is_not_of_a_run_is_found_and_written_anew(tmp_path: Path):
    good = (EXAMPLES / "notebooks" / "parse_what_models_write.ipynb").read_text(encoding="utf-8")
    notebook = tmp_path / "changed.ipynb"
    notebook.write_text(good.replace("0 calls: unknown_tool", "1 calls: accepted"), encoding="utf-8")
    checked = notebooks("--check", str(notebook), home=tmp_path)
    assert checked.returncode == 1
    assert checked.stdout.startswith("changed.ipynb: cell 4 has other outputs")
    assert notebooks(str(notebook), home=tmp_path).returncode == 0
    assert notebook.read_text(encoding="utf-8") == good

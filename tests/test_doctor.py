"""`toolspeak doctor` against services on the loopback: what it finds, what it tells to change, what it never shows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cases import check_each
from tests.server.live_proxy import PATIENCE, cut_text, service
from tests.upstreams.loopback_server import Answer, Heard, Server, always, chunked, head, serving
from toolspeak.cli import main
from toolspeak.config import load
from toolspeak.core.events import CallArgs, CallEnd, CallStart, Event, Failure, Finish, TextDelta
from toolspeak.core.types import Request
from toolspeak.doctor import CheckResult, doctor_targets, examine, failed

pytestmark = pytest.mark.requirement("H5")

KEY = "sk-very-secret-0123456789"
CHECKS = ("configuration", "reachable", "key", "model", "answer", "streaming", "native tools", "tool calls")
GOOD = dict.fromkeys(CHECKS, "ok")
#: What is found when nothing after this check can be looked at.
UP_TO = {
    check: {**GOOD, check: "fail", **dict.fromkeys(CHECKS[at + 1 :], "skipped")} for at, check in enumerate(CHECKS)
}


# ---- services


def said(text: str) -> list[Event]:
    return [*(TextDelta(piece) for piece in cut_text(text)), Finish("stop")]


def native(request: Request) -> Sequence[Event]:
    """A model that calls natively."""
    if not request.tools:
        return obedient(request)
    return [CallStart(0, "get_weather", "c"), CallArgs(0, '{"city":"Oslo"}'), CallEnd(0), Finish("tool_calls")]


def obedient(request: Request) -> Sequence[Event]:
    """A model that knows nothing of native tools, and does as the text of a request says."""
    prompt = "\n".join(message.text for message in request.messages)
    mark = next((line for line in prompt.splitlines() if line.startswith("```json action")), "")
    if mark:
        return said(f'{mark}\n{{"tool": "get_weather", "parameters": {{"city": "Oslo"}}}}\n```')
    return said("Oslo is the capital of Norway.")


def stubborn(request: Request) -> Sequence[Event]:
    """A model that calls nothing."""
    return said("Oslo is the capital of Norway.")


def error(status: str, message: str) -> Answer:
    return document({"error": {"message": message}}, status)


def document(value: Any, status: str = "200 OK") -> Answer:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return always(head("content-type: application/json", f"content-length: {len(body)}", status=status), body)


def listing(*names: str) -> Answer:
    return document({"data": [{"id": name} for name in names]})


def routed(posts: Answer | Callable[[Request], Sequence[Event]], lists: Answer | None = None) -> Answer:
    """A service: how it answers models, and what it lists."""
    answers = posts if asyncio.iscoroutinefunction(posts) else service("openai_chat", posts)  # type: ignore[arg-type]
    listed = lists or listing("m", "other")

    async def answer(heard: Heard) -> None:
        await (listed if heard.line.startswith("GET") else answers)(heard)  # type: ignore[operator]

    return answer


def by_tools(with_tools: Answer, without: Answer) -> Answer:
    async def answer(heard: Heard) -> None:
        await (with_tools if heard.json.get("tools") else without)(heard)

    return answer


async def at_once(heard: Heard) -> None:
    """A service that holds a stream back until it is complete."""
    chunk = {"id": "1", "choices": [{"index": 0, "delta": {"content": "One, two."}, "finish_reason": "stop"}]}
    if not heard.json.get("stream"):
        await service("openai_chat", obedient)(heard)
        return
    frames = [b"data: " + json.dumps(chunk).encode() + b"\n\n", b"data: [DONE]\n\n"]
    await heard.send(head("content-type: text/event-stream", "transfer-encoding: chunked") + chunked(frames))


async def checked(heard: Heard) -> None:
    """A service that wants a key."""
    shown = [value for name, value in heard.headers if name.lower() == "authorization"]
    good = shown == ["Bearer right"]
    await (routed(native) if good else error("401 No", f"wrong key {''.join(shown)}"))(heard)


@contextmanager
def running(answer: Answer) -> Iterator[Server]:
    """A service in a thread of its own."""
    ready, found, failures = threading.Event(), list[Server](), list[BaseException]()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        end = asyncio.Event()
        async with serving(answer) as server:
            found.append(server)
            loops.append((asyncio.get_running_loop(), end))
            ready.set()
            await end.wait()

    def play() -> None:
        try:
            asyncio.run(serve())
        except BaseException as failure:
            failures.append(failure)
            ready.set()

    thread = threading.Thread(target=play)
    thread.start()
    assert ready.wait(PATIENCE)
    try:
        yield found[0]
    finally:
        loop, end = loops[0]
        loop.call_soon_threadsafe(end.set)
        thread.join(PATIENCE)
    assert not failures and not thread.is_alive(), failures


# ---- the command


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "TOOLSPEAK_CONFIG", "OPENAI_API_KEY", "TOOLSPEAK_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *arguments])


def examined(answer: Answer, model: str = "m") -> tuple[bool, dict[str, CheckResult]]:
    """What is found at a service in the same event loop: each of its pieces is read before the next one comes."""

    async def scenario() -> list[CheckResult]:
        async with asyncio.timeout(PATIENCE), serving(answer) as server:
            (patient,) = doctor_targets(load(), server.url, model)
            return [finding async for finding in examine(patient)]

    findings = asyncio.run(scenario())
    assert KEY not in repr(findings)
    return failed(findings), {each.check: each for each in findings}


def statuses(found: dict[str, CheckResult]) -> dict[str, str]:
    return {name: each.status for name, each in found.items()}


def told(result: Result) -> dict[str, dict[str, dict[str, str]]]:
    """The checks of each upstream in the JSON that was printed."""
    upstreams = json.loads(result.stdout)["upstreams"]
    return {each["name"]: {check["check"]: check for check in each["checks"]} for each in upstreams}


def test_a_good_service_passes_every_check():
    broken, found = examined(routed(native))
    assert (broken, statuses(found)) == (False, GOOD)
    assert "capability" in found["native tools"].fix  # they work, and are not used at a foreign host
    assert found["tool calls"].says.startswith('get_weather({"city":"Oslo"})')


def test_nobody_listens():
    result = invoke("--upstream", "http://127.0.0.1:1/v1", "--model", "m", "--json")
    (found,) = told(result).values()
    assert (result.exit_code, json.loads(result.stdout)["ok"]) == (1, False)
    assert {name: each["status"] for name, each in found.items()} == UP_TO["reachable"]
    assert "connection refused" in found["reachable"]["says"]


@pytest.mark.parametrize(("key", "word"), [(KEY, "set a valid key"), ("", "set a key"), ("right", "")])
def test_a_key_is_refused_demanded_or_accepted_and_never_shown(key: str, word: str, monkeypatch: pytest.MonkeyPatch):
    if key:
        monkeypatch.setenv("TOOLSPEAK_API_KEY", key)
    _, found = examined(checked)
    assert statuses(found) == (UP_TO["key"] if word else GOOD)
    assert word in found["key"].fix


def test_a_key_is_refused_where_models_are_listed_for_all():
    _, found = examined(routed(error("401 No", "who are you?")))
    assert statuses(found) == UP_TO["key"]


def test_an_unknown_model_is_told_with_names_that_are_near():
    _, found = examined(routed(error("404 No", "no such model"), listing("llama3.1", "qwen3:8b")), model="qwen3:80b")
    assert statuses(found) == UP_TO["model"]
    assert "qwen3:8b" in found["model"].fix


def test_without_a_name_the_first_that_is_listed_is_asked():
    _, found = examined(routed(native, listing("first", "second")), model="")
    assert statuses(found) == GOOD
    assert "`first` is one of 2" in found["model"].says


def test_without_a_name_and_a_list_there_is_nobody_to_ask():
    _, found = examined(routed(native, listing()), model="")
    assert (found["model"].status, "--model" in found["model"].fix) == ("fail", True)


def test_a_service_that_lists_nothing_can_be_all_right():
    _, found = examined(routed(native, error("404 No", "no list")))
    assert statuses(found) == GOOD


def test_a_stream_that_comes_at_once_is_noted():
    broken, found = examined(routed(at_once))
    assert (found["streaming"].status, broken) == ("note", False)
    assert "buffering" in found["streaming"].fix


def test_tools_that_are_ignored_are_asked_for_by_text():
    broken, found = examined(routed(obedient))
    assert statuses(found) == {**GOOD, "native tools": "note"}
    assert "ignored" in found["native tools"].says
    assert not broken


def test_tools_that_are_refused_are_asked_for_by_text():
    refused = by_tools(error("400 Bad Request", "does not support tools"), service("openai_chat", obedient))
    _, found = examined(routed(refused))
    assert statuses(found) == {**GOOD, "native tools": "note"}
    assert "does not support tools" in found["native tools"].says


def test_tools_that_are_counted_on_and_ignored_are_a_failure(home: Path):
    (home / ".config" / "toolspeak").mkdir(parents=True)
    (home / ".config" / "toolspeak" / "config.toml").write_text('[models."openai:m"]\ncapability = "openai"\n')
    broken, found = examined(routed(obedient))
    assert (found["native tools"].status, broken) == ("fail", True)
    assert 'capability = "none"' in found["native tools"].fix


def test_a_model_that_never_calls_is_noted():
    broken, found = examined(routed(stubborn))
    assert (found["tool calls"].status, broken) == ("note", False)
    assert "decision" in found["tool calls"].fix


@check_each("body", [b"<html>Welcome</html>", b"\xff\xfe garbage", b"", b'{"hello": 1}', b"[]"])
def test_garbage_is_told_from_an_answer(body: bytes):
    _, found = examined(document(body))
    assert statuses(found) == UP_TO["answer"]
    assert "/v1" in found["answer"].fix


def test_what_is_no_http_at_all_is_told():
    broken, found = examined(always(b"SSH-2.0-OpenSSH_9.6\r\n"))
    assert (statuses(found), broken) == (UP_TO["reachable"], True)


def test_a_service_that_breaks_later_is_found():
    async def broken(heard: Heard) -> None:
        answer = error("500 No", "it broke") if heard.json.get("stream") else service("openai_chat", native)
        await answer(heard)

    _, found = examined(routed(broken))
    assert statuses(found) == {**GOOD, "streaming": "fail"}


def test_an_answer_that_breaks_off_is_a_failure():
    _, found = examined(routed(lambda request: [TextDelta("Os"), Failure("it broke")]))
    assert (found["answer"].status, found["tool calls"].status) == ("fail", "skipped")


def test_a_model_that_says_nothing_is_noted():
    _, found = examined(routed(lambda request: [Finish("stop")]))
    assert found["answer"].status == "note"


def test_a_service_that_is_full_when_tools_come_is_a_failure():
    full = by_tools(error("429 Slow", "too many requests"), service("openai_chat", stubborn))
    broken, found = examined(routed(full))
    assert (broken, found["native tools"].status) == (True, "fail")


def test_a_call_that_cannot_be_asked_for_is_a_failure():
    async def answer(heard: Heard) -> None:
        asked = json.dumps(heard.json["messages"])
        emulated = "get_weather" in asked and not heard.json.get("tools")
        await (error("500 No", "it broke") if emulated else service("openai_chat", native))(heard)

    broken, found = examined(routed(answer))
    assert (broken, statuses(found)) == (True, {**GOOD, "tool calls": "fail"})


def test_a_model_that_is_not_listed_and_does_not_answer_is_noted_with_names():
    _, found = examined(routed(error("500 No", "it broke"), listing("llama3.1")), model="lama3.1")
    assert (found["model"].status, found["answer"].status) == ("note", "fail")
    assert "llama3.1" in found["model"].fix


@check_each("status", ["429 Slow", "500 No", "402 Pay"])
def test_an_error_of_the_service_is_told_with_advice(status: str):
    _, found = examined(routed(error(status, "it is said why")))
    assert statuses(found) == UP_TO["answer"]
    assert "it is said why" in found["answer"].says
    assert found["answer"].fix


# ---- the configuration


def test_every_configured_upstream_is_looked_at(home: Path):
    with running(routed(native)) as first, running(routed(stubborn)) as second:
        (home / ".config" / "toolspeak").mkdir(parents=True)
        (home / ".config" / "toolspeak" / "config.toml").write_text(
            f'[upstreams.near]\nbase_url = "{first.url}"\nmodels = ["x*", "m"]\napi_key = "{KEY}"\n'
            f'[upstreams.far]\nbase_url = "{second.url}"\nauth = "forward"\n'
        )
        result = invoke("--json")
        one = invoke("--upstream", "near", "--json")
        wrong = invoke("--upstream", "nowhere")
    found = told(result)
    assert list(found) == ["near", "far"]
    assert "`m` is one of 2" in found["near"]["model"]["says"]
    assert "clients send their own key" in found["far"]["configuration"]["says"]
    assert list(told(one)) == ["near"]
    assert (wrong.exit_code, "near" in wrong.stderr) == (2, True)
    assert KEY not in result.output + one.output


def test_a_key_of_the_clients_cannot_be_tried(home: Path):
    with running(checked) as server:
        (home / "c.toml").write_text(f'[upstreams.far]\nbase_url = "{server.url}"\nmodels = ["m"]\nauth = "forward"\n')
        result = CliRunner(env={"TOOLSPEAK_CONFIG": str(home / "c.toml")}).invoke(main, ["doctor", "--json"])
    found = told(result)["far"]
    assert (found["key"]["status"], found["answer"]["status"], result.exit_code) == ("note", "fail", 1)


@pytest.mark.parametrize("text", ["mode = 5", "not toml at all ["])
def test_a_configuration_that_cannot_be_is_exit_status_2(home: Path, text: str):
    (home / "c.toml").write_text(text)
    result = CliRunner(env={"TOOLSPEAK_CONFIG": str(home / "c.toml")}).invoke(main, ["doctor"])
    assert (result.exit_code, result.stderr.startswith("error: ")) == (2, True)


def test_without_any_upstream_nothing_is_fetched_to_look_at():
    result = invoke()
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        2,
        "error: no upstream is configured, and the embedded model is not downloaded",
    )
    assert "--upstream URL" in result.stderr


# ---- what a person sees


def test_findings_are_lines_with_advice_and_without_colour_in_a_pipe():
    with running(routed(obedient)) as server:
        result = invoke("--upstream", server.url, "--model", "m")
    lines = result.stdout.splitlines()
    assert lines[0] == f"openai at {server.url}, model m"
    rows = [line for line in lines[1:-1] if not line.lstrip().startswith("->")]
    assert [row[10:25].strip() for row in rows] == list(CHECKS)
    assert {row[2:10].strip() for row in rows} == {"ok", "note"}
    assert lines[-1].startswith("All checks passed (")
    assert "\x1b" not in result.output


def test_a_failure_is_counted():
    result = invoke("--upstream", "http://127.0.0.1:1/v1", "--model", "m")
    assert result.stdout.splitlines()[-1] == "1 of 8 checks failed"
    assert any(line.lstrip().startswith("-> start the service") for line in result.stdout.splitlines())


@pytest.mark.requirement("R-T20")
def test_what_a_service_says_moves_no_cursor():
    with running(routed(error("500 No", "a\x1b[2Jb\x07"))) as server:
        result = invoke("--upstream", server.url, "--model", "m")
    assert "\x1b" not in result.stdout and "\x07" not in result.stdout
    assert "a\\x1b[2Jb" in result.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
@pytest.mark.parametrize("plain", [False, True])
def test_a_terminal_gets_colours_and_progress(plain: bool, home: Path):
    import pty

    ours, theirs = pty.openpty()
    environment = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "TERM": "xterm",
        **({"NO_COLOR": "1"} if plain else {}),
    }
    command = [sys.executable, "-m", "toolspeak", "doctor", "--upstream", "http://127.0.0.1:1/v1", "--model", "m"]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment, cwd=home) as process:
        os.close(theirs)
        pieces: list[bytes] = []
        with contextlib.suppress(OSError):  # the end of a terminal
            while piece := os.read(ours, 4096):
                pieces.append(piece)
        os.close(ours)
        assert process.wait(PATIENCE) == 1
    text = b"".join(pieces)
    assert b"\x1b[?25l" in text  # a spinner hides the cursor
    assert (b"\x1b[31m" in text) is not plain


def test_a_password_in_an_address_is_not_shown():
    result = invoke("--upstream", f"http://user:{KEY}@127.0.0.1:1/v1", "--model", "m")
    assert KEY not in result.output


def test_the_help_has_examples_and_the_exit_status():
    text = invoke("--help").stdout
    assert "toolspeak doctor --upstream http://127.0.0.1:9000/v1 --model qwen3:8b" in text
    assert "1  a check failed" in text


def test_a_tag_is_no_provider_where_an_address_is_given():
    url = "http://127.0.0.1:9/v1"
    config = load({}, env={})
    for model, expected in {"qwen3:8b": ("openai", "qwen3:8b"), "ollama:qwen3:8b": ("ollama", "qwen3:8b")}.items():
        (target,) = doctor_targets(config, url, model)
        assert (target.provider, target.model) == expected

"""Several processes at one address, as they really run."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.server.test_metrics import samples
from tests.upstreams.loopback_server import Heard, Server, chunked, head, serving
from toolspeak.errors import UsageError
from toolspeak.key_value import FileState
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.server.observe.counters import Counters, WorkerCounters
from toolspeak.server.process.workers import Workers

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system tells nothing of processes")
CHAT = b'{"model":"m","stream":%b,"messages":[{"role":"user","content":"Hello?"}]}'


class Fleet:
    """A server with workers that runs as a user starts it."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, key: str) -> None:
        self.process = process
        self.port = port
        self.key = key

    def workers(self) -> list[int]:
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        return [int(each) for each in listed.split()]

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        reader, writer = await self.open(method, path, body)
        try:
            return await reader.read()
        finally:
            writer.close()

    async def open(
        self, method: str, path: str, body: bytes = b""
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"authorization: Bearer {self.key}"]
        lines += ["connection: close", f"content-length: {len(body)}", "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        return reader, writer

    async def numbers(self) -> dict[tuple[str, ...], float]:
        return samples((await self.ask("GET", "/metrics")).partition(b"\r\n\r\n")[2])

    async def answered(self) -> float:
        found = await self.numbers()
        return sum(value for labels, value in found.items() if labels[0] == "toolspeak_requests_total")

    async def end(self) -> None:
        if self.process.returncode is None:
            children = self.workers()
            for each in (self.process.pid, *children):
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
        await self.process.wait()


@asynccontextmanager
async def fleet(home: Path, upstream: Server, *flags: str) -> AsyncIterator[Fleet]:
    """Two workers in front of a service, configured by a file in `home`."""
    configure(home, upstream, "m")
    key = ApiKeys(FileState(home / "state.json")).new("root", admin=True)[1]
    environment = {"HOME": str(home), "TOOLSPEAK_CONFIG": str(home / "config.toml"), "PATH": os.environ["PATH"]}
    environment["TMPDIR"] = str(home)
    environment["TOOLSPEAK_STATE_FILE"] = str(home / "state.json")
    command = [sys.executable, "-m", "toolspeak", "serve", "--port", "0", "--workers", "2", *flags]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL, env=environment, cwd=home
    )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    running = Fleet(process, int(line.partition("127.0.0.1:")[2].split()[0]), key)
    try:
        yield running
    finally:
        await running.end()


def configure(home: Path, upstream: Server, model: str) -> None:
    file = home / "config.toml"
    file.write_text(f'[upstreams.u]\nbase_url = "{upstream.url}"\nmodels = ["{model}"]\n', encoding="utf-8")
    file.chmod(0o600)


class Story:
    """A service that tells half of a story, then waits to be told to go on."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, heard: Heard) -> None:
        if not heard.json.get("stream"):
            body = b'{"choices":[{"message":{"content":"Hello."},"finish_reason":"stop"}]}'
            await heard.send(head("content-type: application/json", f"content-length: {len(body)}"), body)
            return
        first = b'data: {"choices":[{"index":0,"delta":{"content":"Once upon a time"}}]}\n\n'
        last = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
        opening = head("content-type: text/event-stream", "transfer-encoding: chunked")
        await heard.send(opening, chunked([first], last=False))
        await self.go.wait()
        await heard.send(chunked([last]))


def pauses() -> Iterator[float]:
    """So many looks, so long between them: a minute in all, for a machine that is busy."""
    return iter([0.05] * 1200)


def run(work: Coroutine[None, None, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(90):
            await work

    asyncio.run(bounded())


def is_over(process: int) -> bool:
    """It has ended, whether or not somebody has asked how."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def left_behind(folder: Path) -> list[Path]:
    """What the workers told each other, and nobody took away."""
    return list(folder.glob("toolspeak-*"))


def told(folder: Path) -> int:
    """How many requests the workers have told each other of."""
    boards = [WorkerCounters(path, -1) for path in left_behind(folder)]
    return sum(sum(numbers.requests.values()) for board in boards for numbers in board.others())


async def ended(process: int) -> None:
    for pause in pauses():
        if is_over(process):
            return
        await asyncio.sleep(pause)
    raise AssertionError("it does not end")


@pytest.mark.requirement("R-F31", "H4")
def test_a_worker_that_dies_is_replaced_and_nothing_that_was_counted_is_lost(tmp_path: Path):
    async def scenario() -> None:
        async with serving(Story()) as upstream, fleet(tmp_path, upstream) as server:
            for _ in range(8):
                assert b" 200 " in (await server.ask("POST", "/v1/chat/completions", CHAT % b"false"))[:20]
            for pause in pauses():  # each tells once a second; what it has not told dies with it
                if told(tmp_path) == 8:
                    break
                await asyncio.sleep(pause)
            before = set(server.workers())
            assert len(before) == 2
            os.kill(min(before), signal.SIGKILL)
            for pause in pauses():
                if len(set(server.workers()) - {min(before)}) == 2:
                    break
                await asyncio.sleep(pause)
            for pause in pauses():  # whoever is asked may not have heard of the others yet
                found = await server.numbers()
                if found["toolspeak_workers",] == 2 and await server.answered() == 8:
                    break
                await asyncio.sleep(pause)
            else:
                raise AssertionError("something that was counted is lost")
            assert max(before) in server.workers()

    run(scenario())


@pytest.mark.requirement("R-F29")
def test_signals_reach_every_worker_and_a_stream_is_told_to_its_end(tmp_path: Path):
    async def scenario() -> None:
        story = Story()
        async with serving(story) as upstream, fleet(tmp_path, upstream) as server:
            configure(tmp_path, upstream, "other")
            server.process.send_signal(signal.SIGHUP)
            for pause in pauses():  # whoever of them answers
                listed = [await server.ask("GET", "/v1/models") for _ in range(6)]
                if all(b'"other"' in each for each in listed):
                    break
                await asyncio.sleep(pause)
            body = (CHAT % b"true").replace(b'"m"', b'"other"')
            reader, writer = await server.open("POST", "/v1/chat/completions", body)
            await reader.readuntil(b"time")
            server.process.send_signal(signal.SIGTERM)
            for pause in pauses():
                try:
                    _, other = await asyncio.open_connection("127.0.0.1", server.port)
                except ConnectionError:
                    break
                other.transport.abort()
                await asyncio.sleep(pause)
            assert server.process.returncode is None
            story.go.set()
            assert b"[DONE]" in await reader.read()
            assert await server.process.wait() == 0
            assert left_behind(tmp_path) == []
            writer.close()

    run(scenario())


@pytest.mark.requirement("R-F30")
def test_a_second_signal_ends_all_of_them_at_once(tmp_path: Path):
    async def scenario() -> None:
        story = Story()
        async with serving(story) as upstream, fleet(tmp_path, upstream, "--drain", "3600") as server:
            reader, writer = await server.open("POST", "/v1/chat/completions", CHAT % b"true")
            await reader.readuntil(b"time")
            workers = server.workers()
            server.process.send_signal(signal.SIGTERM)
            for pause in pauses():  # one of them answers, the other has nothing to do
                if len(server.workers()) == 1:
                    break
                await asyncio.sleep(pause)
            server.process.send_signal(signal.SIGTERM)
            assert await server.process.wait() == 0
            for each in workers:
                await ended(each)
            story.go.set()
            writer.close()

    run(scenario())


@pytest.mark.requirement("R-F31")
def test_workers_whose_parent_was_killed_end_too(tmp_path: Path):
    async def scenario() -> None:
        async with serving(Story()) as upstream, fleet(tmp_path, upstream) as server:
            await server.numbers()  # somebody answers, so that both have been made
            workers = server.workers()
            assert len(workers) == 2
            server.process.kill()
            await server.process.wait()
            for each in workers:
                await ended(each)
            assert left_behind(tmp_path) == []

    run(scenario())


@pytest.mark.parametrize("count", [0, -1, 257])
def test_there_are_some_workers_and_not_too_many(count: int):
    with pytest.raises(UsageError, match="1 to 256"):
        Workers(count, lambda worker: None, [])


# ---- the board


def test_a_board_shows_the_others_and_goes_on_from_the_one_before(tmp_path: Path):
    first, second = WorkerCounters(tmp_path, 0), WorkerCounters(tmp_path, 1)
    assert first.load_previous() == Counters()
    numbers = Counters(responses={("health", "200"): 3}, gauges={"toolspeak_workers": 1.0})
    first.publish(numbers)
    assert first.others() == ()
    assert second.others() == (numbers,)
    assert WorkerCounters(tmp_path, 0).load_previous() == Counters(responses={("health", "200"): 3})
    (tmp_path / "7.numbers").write_bytes(b"nonsense")
    assert second.others() == (numbers,)


def test_counters_that_cannot_be_published_stop_no_request(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    WorkerCounters(tmp_path / "gone", 0).publish(Counters())
    assert "cannot publish the counters" in caplog.text

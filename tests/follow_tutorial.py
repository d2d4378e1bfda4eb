"""Follow a tutorial: write its files, run its commands as printed, and compare what they print.

Runs in a network namespace of its own, so that the addresses on the page are free: `unshare -rn python -m
tests.follow_tutorial PAGE FOLDER`. Servers with scripted models stand where the page expects vLLM and Ollama. Installing
and starting these is all that is skipped. Prints what was run; exits with 1 at the first difference.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.plain_chat_servers import OllamaServer, PlainModel, PlainServer, VllmServer

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
#: Commands that install something, or start a server whose place a scripted model takes.
SKIPPED = ("pip ", "npm ", "vllm ", "ollama ", "OLLAMA_CONTEXT_LENGTH=", "python3 -m venv")
QWEN, GEMMA = "Qwen/Qwen2.5-7B-Instruct", "gemma3:12b"


@dataclass(frozen=True)
class Tutorial:
    """The servers of a page, and commands before which one of them is stopped."""

    servers: tuple[Callable[[], PlainServer], ...]
    stops: dict[str, int] = field(default_factory=dict[str, int])


def _vllm(*calls: tuple[str, dict[str, object]], answer: str) -> Callable[[], PlainServer]:
    return lambda: VllmServer(PlainModel(calls, answer, r"\b33\b"), QWEN, 8000)


def _ollama(*calls: tuple[str, dict[str, object]], answer: str, looks_for: str = r"$^") -> Callable[[], PlainServer]:
    return lambda: OllamaServer(PlainModel(calls, answer, looks_for), GEMMA, 11434)


def _librarian() -> PlainServer:
    """A model that lends a book only if it is asked to."""

    class Librarian(PlainModel):
        def __call__(self, messages: list[tuple[str, str]]) -> str:
            lend = any("lend it to" in text for role, text in messages if role == "user")
            loan = ("library__lend_book", {"title": "Dune", "reader": "Anna"})
            self.calls = [("library__find_book", {"title": "Dune"}), *([loan] if lend else [])]
            return super().__call__(messages)

    return OllamaServer(Librarian((), "Dune is {found}.", r"Dune: (on shelf 4|lent to Anna)"), GEMMA, 11434)


_WEATHER: tuple[str, dict[str, object]] = ("get_weather", {"city": "Oslo"})
TUTORIALS = {
    "vllm-and-langchain": Tutorial(
        (
            _vllm(
                ("temperature", {"city": "Oslo"}),
                ("temperature", {"city": "Paris"}),
                ("add", {"first": 12, "second": 21}),
                answer="Together it is {found} degrees.",
            ),
        )
    ),
    "ollama-and-claude-code": Tutorial(
        (
            _ollama(
                ("Read", {"file_path": "{folder}/lamps/README.md"}),
                ("Write", {"file_path": "{folder}/lamps/title.txt", "content": "{found}\n"}),
                answer="The title is: {found}",
                looks_for=r"# (A [\w ]+)",
            ),
        )
    ),
    "local-agent-with-mcp": Tutorial((_librarian,)),
    "company-gateway": Tutorial(
        (_vllm(_WEATHER, answer="Sunny."), _ollama(_WEATHER, answer="Sunny.")), {"| grep x-toolspeak:": 0}
    ),
}


class DifferenceError(Exception):
    """A command did not do what the page says."""


def follow(page: Path, folder: Path) -> None:
    """Follow the page in an empty folder.

    Raises:
        DifferenceError: a command failed or printed something else.
    """
    tutorial = TUTORIALS[page.stem]
    home = folder / "home"
    home.mkdir()
    paths = [str(Path(sys.executable).parent), str(ROOT / ".clients/claude-code/node_modules/.bin")]
    paths.append(str(ROOT / ".clients/node/bin"))
    env = {
        "HOME": str(home),
        "PATH": os.pathsep.join([*paths, os.environ["PATH"]]),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "LANG": "C.UTF-8",
        "CI": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    with ExitStack() as stack:
        servers = [stack.enter_context(make()) for make in tutorial.servers]
        for server in servers:
            server.model.calls = [(name, _placed(arguments, folder)) for name, arguments in server.model.calls]
        shell = stack.enter_context(_shell(folder, env))
        for kind, title, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            if title:
                file = Path(title.replace("~", str(home))) if title.startswith("~") else folder / title
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            elif kind == "console":
                for command, expected in _commands(text):
                    for sign, index in tutorial.stops.items():
                        if sign in command:
                            servers[index].__exit__()
                    if command.startswith(SKIPPED):
                        _say(f"(skipped) $ {command}")
                    elif re.match(r"(\w+=\S+ )*toolspeak serve", command):
                        _say(f"$ {command} &")
                        stack.enter_context(_serving(command, folder, env))
                    else:
                        _compare(command, expected, shell(command))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _placed(arguments: dict[str, object], folder: Path) -> dict[str, object]:
    return {
        name: value.replace("{folder}", str(folder)) if isinstance(value, str) else value
        for name, value in arguments.items()
    }


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a block with the lines that it prints."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *expected = part.rstrip("\n").split("\n")
        yield command, expected


def _compare(command: str, expected: list[str], printed: str) -> None:
    """Compare the lines; a line `...` stands for any lines, and `...` in a line for anything."""
    _say(f"$ {command}\n{printed.rstrip()}")
    if not expected:
        return
    parts = (r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n" for line in expected)
    if re.fullmatch("".join(parts), printed) is None:
        raise DifferenceError(f"`{command}` did not print this:\n" + "\n".join(expected))


@contextmanager
def _shell(folder: Path, env: dict[str, str]) -> Iterator[Callable[[str], str]]:
    """Give a function that runs a command in one shell, which keeps variables and its folder."""
    process = subprocess.Popen(
        ["bash", "--norc"], cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def run(command: str) -> str:
        stdin.write(f"{{ {command}\n}} < /dev/null\nstatus=$?; echo; echo @@$status\n")
        stdin.flush()
        lines: list[str] = []
        for line in stdout:
            if line.startswith("@@"):
                text = "".join(lines)[:-1]  # without the line break before the sign
                text += "\n" * (text[-1:] not in ("", "\n"))
                if line != "@@0\n":
                    raise DifferenceError(f"`{command}` failed with {line.strip('@')}{text}")
                return text
            lines.append(line)
        raise DifferenceError(f"`{command}` ended the shell")

    try:
        yield run
    finally:
        process.kill()
        process.wait()


@contextmanager
def _serving(command: str, folder: Path, env: dict[str, str]) -> Iterator[None]:
    """Run `toolspeak serve` in a terminal of its own."""
    run = ["bash", "-c", f"exec env {command}"]
    process = subprocess.Popen(run, cwd=folder, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if "Listening" not in process.stdout.readline():
            raise DifferenceError(f"`{command}` does not listen")
        yield
    finally:
        process.terminate()
        process.wait()


def _loopback_up() -> None:
    """Set the loopback of a new network namespace up (SIOCGIFFLAGS and SIOCSIFFLAGS)."""
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, 0x8913, request))[1]
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", flags | 1))


def main() -> int:
    """Follow the page that the command line names."""
    page, folder = Path(sys.argv[1]), Path(sys.argv[2])
    _loopback_up()
    try:
        follow(page, folder)
    except DifferenceError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

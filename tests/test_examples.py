"""Every command that the help, the README, the documentation and the hints show is valid, and those of the help run.

The commands are collected from these texts, so a new one is tested without being listed here. They run in a shell, in a
home of their own, against the real server with a scripted model. Each expected failure has its reason beside it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.cases import check_each, every
from tests.page import page_server
from tests.page.http_requests import asked
from tests.page.page_server import Served, served
from toolspeak import cli
from toolspeak.cli import main
from toolspeak.server.process.control_file import ControlFile, write_control_file

pytestmark = pytest.mark.requirement("H1")

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = [path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".toml", ".js")]
SECTIONS: dict[str, Any] = tomllib.loads((Path(cli.__file__).with_name("commands.toml")).read_text(encoding="utf-8"))
BLOCK = re.compile(r"^(`{3,})([^\n]*)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
#: Languages of blocks with commands; others have code, settings or output.
LANGUAGES = ("", "console", "bash", "sh")
#: Commands in a sentence, and those that the command line prints.
INLINE = re.compile(r"`(toolspeak [^`]+)`|[\"'](toolspeak [a-z]+(?: [^\"'`(]*)?)")
OPERATORS = "|&;<>()"
URL = "http://127.0.0.1:9000/v1"


def help_examples() -> Iterator[str]:
    for section in SECTIONS.values():
        for command in filter(lambda row: isinstance(row, dict), section.values()):
            _, _, examples = command.get("epilog", "").partition("Examples:\n")
            yield from map(str.strip, examples.partition("\n\n")[0].splitlines())


def documented() -> Iterator[str]:
    for page in PAGES:
        for _, language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
            lines = block.replace("\\\n", " ").splitlines() if language in LANGUAGES else []
            typed = [line for line in lines if line.startswith("$ ")]
            for line in typed or lines:
                if "toolspeak" in line:
                    yield re.sub(r"\s+#.*", "", line.removeprefix("$ "))


def mentioned() -> Iterator[str]:
    for path in [*PAGES, *SOURCES]:
        for sentence, printed in INLINE.findall(path.read_text(encoding="utf-8")):
            # A value that the code fills in, or a number.
            words = re.sub(r"\$?\{[^}]*\}?|\bN$", "1", sentence or printed).strip()
            # Elsewhere, a sentence about toolspeak may stand between two backticks.
            if words.split()[1] in {*COMMANDS, "--help"}:
                yield words
    yield from cli._FIRST_STEPS  # pyright: ignore[reportPrivateUsage]


COMMANDS = {name for title, section in SECTIONS.items() if title not in ("first_steps", "shared") for name in section}
HELP = list(dict.fromkeys(help_examples()))
DOCUMENTED = list(dict.fromkeys(documented()))
MENTIONED = list(dict.fromkeys(mentioned()))


def toolspeak_commands(line: str) -> Iterator[list[str]]:
    """The arguments of each toolspeak command in a line of a shell."""
    for inner in re.findall(r"\$\(([^()]*)\)", line):
        yield from toolspeak_commands(inner)
    reader = shlex.shlex(line, posix=True, punctuation_chars=OPERATORS)
    reader.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in reader:
        if set(word) <= set(OPERATORS):
            commands.append([])
        else:
            commands[-1].append(word)
    for words in commands:
        # A command may follow another that starts it, such as `docker exec`.
        starts = [at for at, word in enumerate(words[:-1]) if Path(word).name == "toolspeak"]
        if starts and (starts == [0] or words[starts[-1] + 1] in COMMANDS):
            yield words[starts[-1] + 1 :]


def test_commands_are_found_in_lines_of_a_shell():
    assert list(toolspeak_commands('eval "$(toolspeak env --client x)" # toolspeak y')) == [["env", "--client", "x"]]
    assert list(toolspeak_commands("A=1 x | toolspeak parse < a > b && toolspeak page")) == [["parse"], ["page"]]
    assert list(toolspeak_commands("docker exec box toolspeak page")) == [["page"]]
    assert len(HELP) > 80 and len(DOCUMENTED) > 60 and len(MENTIONED) > 60
    covered = {words[0] for line in HELP for words in toolspeak_commands(line)}
    assert covered == COMMANDS, "the help of every command has an example"


@check_each("line", [*HELP, *DOCUMENTED, *MENTIONED], ids=str)
def test_every_command_that_is_shown_is_valid(line: str):
    calls: list[str] = []

    def record(module: str, function: str) -> Callable[..., None]:
        return lambda **values: calls.append(module)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "_callback", record)
        for words in toolspeak_commands(line):
            words = [URL if word in ("URL", "...") and "--upstream" in words else word for word in words]
            result = CliRunner().invoke(main, words, prog_name="toolspeak")
            # In a sentence, a command is often named without its arguments.
            named = line in MENTIONED and re.search(
                "missing argument|requires an argument|^Usage: |unknown command `1`", result.output, re.IGNORECASE
            )
            assert result.exit_code == 0 or named, result.output
            assert calls or named or "--help" in words


# ---- run

#: What cannot run here, and why.
NOT_RUN = {
    r"docker |systemd-run|opentelemetry-instrument": "it needs another program",
    r"engine build($| [^-])": "it takes twenty minutes",
    r"--suite bfcl": "it takes hours",
    r"mcp login": "it waits for a person in a browser",
    r"sessions export 3f2a -o one|TOOLSPEAK_STORE=postgres|--upstream \.\.\.": "it shows the place of something else",
    r"my-model\.gguf|owner/name|toolspeak\[|eval --model embedded": "it needs other weights, or is run with the shipped ones",
}
#: The exit status of commands that find something wrong: no model server on its usual port, or a model that does not call.
STATUS = {r"^toolspeak init": 2, r"^toolspeak probe [a-z]\S+( --base-url \S+)?( --refresh)?$": 3}
#: What commands take for granted that others must not find.
BEFORE = {
    "toolspeak keys revoke": "toolspeak keys new anna && toolspeak keys new ci",
    "toolspeak config init": "rm ~/.config/toolspeak/config.toml",
    "toolspeak serve --host 0.0.0.0": "toolspeak keys new me",
    "toolspeak serve --require-key": "toolspeak keys new me",
}
#: How the words in examples that stand for something are written here.
PLACES = {
    r"https?://(127\.0\.0\.1:\d+|models\.example\.com)": "{url}",
    r"\b3f2a9c\b": "last",
    r"\b(3f2a|4f0c2a)\b": "{session}",
}
MODEL = '#!/bin/sh\necho \'<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>\'\n'
CONFIG = """
model = "near:small-model"
[upstreams.near]
base_url = "{url}/v1"
[upstreams.local]
base_url = "{url}/v1"
[upstreams.openai]
base_url = "{url}/v1"
[upstreams.work]
base_url = "{url}/v1"
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_server, "MODELS", (*page_server.MODELS, "*"))
        with served() as running:
            running.script.calls["get_weather"] = ("get_weather", {"city": "Oslo"})
            asked(running, "Show an example of a call")
            yield running


@pytest.fixture(scope="module")
def template(server: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with all that the examples take for granted: models, files, keys, clients, a session and a request."""
    home = tmp_path_factory.mktemp("home")
    for folder in (
        ".config/toolspeak",
        ".zfunc",
        ".config/fish/completions",
        "bin",
        "project",
        "work/path/to",
        "work/page",
    ):
        (home / folder).mkdir(parents=True)
    (home / ".config/toolspeak/config.toml").write_text(CONFIG.replace("{url}", server.url))
    write_control_file(home / ".local/state/toolspeak/servers", 1, ControlFile(server.url, server.session()))
    shim = f'#!/bin/sh\nexec "{sys.executable}" -m toolspeak "$@"\n'
    programs = {"toolspeak": shim, "some-model": MODEL, **dict.fromkeys(("codex", "claude", "opencode"), "#!/bin/sh\n")}
    for name, text in programs.items():
        (home / "bin" / name).write_text(text)
        (home / "bin" / name).chmod(0o755)
    raw = {"command": sys.executable, "args": ["-I", str(ROOT / "tests/tools/mcp_raw_server.py"), str(home)]}
    (home / "tools.json").write_text('[{"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}}]')
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    files = {
        "README.md": "# A project\n",
        "answer.txt": MODEL,
        "page.html": "<p>Hello</p>",
        "tools.json": json.dumps([{"type": "function", "function": {"name": "get_weather", "parameters": parameters}}]),
        "servers.json": json.dumps({"mcpServers": {"files": raw}}),
        "toolspeak.toml": "retries = 1\n",
        "path/to/toolspeak.toml": "retries = 1\n",
        "my_program.py": "",
    }
    for name, text in files.items():
        (home / "work" / name).write_text(text)
    shutil.copy(home / "work/README.md", home / "project")
    start = "git init -q && toolspeak run 'Hello' --tools none && toolspeak sessions export > sessions.jsonl"
    for line in (start, "toolspeak mcp approve files --mcp-config servers.json --yes"):
        assert shell(line, home, server).returncode == 0
    return home


def environment(home: Path, server: Served) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "TOOLSPEAK_"))}
    urls = {"OLLAMA_HOST": server.url, "ANTHROPIC_BASE_URL": server.url, "OPENAI_BASE_URL": f"{server.url}/v1"}
    keys = {"ANTHROPIC_API_KEY": "any", "TEAM_KEY": "any", "TOOLSPEAK_LOAD_PLUGINS": "none", "TOOLSPEAK_PROBE": "off"}
    path = os.pathsep.join([str(home / "bin"), own["PATH"]])
    return {**own, **urls, **keys, "HOME": str(home), "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)}


def shell(line: str, home: Path, server: Served) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", f"set -o pipefail\n{line}"]
    variables, folder = environment(home, server), home / "work"
    return subprocess.run(
        command,
        env=variables,
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )


def here(line: str, home: Path, server: Served) -> str:
    """The line with real addresses and ids."""
    exported = (home / "work" / "sessions.jsonl").read_text(encoding="utf-8")
    session = re.search(r'"id": ?"([0-9a-f]{32})"', exported)
    assert session is not None
    for pattern, text in PLACES.items():
        line = re.sub(pattern, text.format(url=server.url, session=session[1]), line)
    line = re.sub(r"toolspeak launch \S+(?=\s|$)(?! --url)", rf"\g<0> --url {server.url}", line)
    for command, before in BEFORE.items():
        line = line.replace(command, f"{before} && {command}")
    return re.sub(r"toolspeak mcp approve .*", r"\g<0> --yes", line)


SHOWN = [line for line in dict.fromkeys([*HELP, *DOCUMENTED]) if any(toolspeak_commands(line))]
RUN = [line for line in SHOWN if not any(re.search(each, line) for each in NOT_RUN)]
SERVED = [line for line in RUN if "toolspeak serve" in line]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell of POSIX")
@pytest.mark.parametrize("line", every(16, [line for line in RUN if line not in SERVED]))
def test_the_commands_of_the_help_and_the_documentation_run(line: str, template: Path, server: Served, tmp_path: Path):
    home = tmp_path / "home"
    shutil.copytree(template, home)
    result = shell(here(line, home, server), home, server)
    assert "Traceback" not in result.stderr
    assert "\x1b" not in result.stdout
    expected = next((status for pattern, status in STATUS.items() if re.search(pattern, line)), 0)
    assert result.returncode == expected, result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell of POSIX")
@pytest.mark.parametrize("line", every(6, SERVED))
def test_the_servers_of_the_help_and_the_documentation_start(line: str, template: Path, server: Served, tmp_path: Path):
    home = tmp_path / "home"
    shutil.copytree(template, home)
    line = re.sub("toolspeak serve", r"exec \g<0> --port 0", here(line, home, server))
    process = subprocess.Popen(
        ["bash", "-c", line], env=environment(home, server), cwd=home / "work", stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        first = next((text for text in process.stdout if "http://" in text), "")
        assert first.startswith("Listening on http://")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)

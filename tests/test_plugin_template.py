"""The template in `examples/plugin`, installed with pip: everything it brings works wherever toolspeak is used."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cases import check_each, only_at_full_size
from tests.plugin_helpers import ROOT, install, run

pytestmark = pytest.mark.no_cover

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(ROOT / "examples" / "plugin", tmp_path_factory.mktemp("site"))


def test_the_template_says_that_it_works_with_this_version():
    import toolspeak

    text = (ROOT / "examples" / "plugin" / "pyproject.toml").read_text(encoding="utf-8")
    assert f'"toolspeak>={toolspeak.__version__.rpartition(".")[0]}"' in text


# ---- the dialect

#: Ways in which a program may use toolspeak first.
FIRST_USES = {
    "parse": "ts.parse('x')",
    "Scanner": "ts.Scanner().close()",
    "parse with the dialect": "ts.parse('x', dialect='acme')",
    "render": "ts.render_calls('acme', [])",
    "strategy": "ts.strategy('acme:acme-chat-7b')",
    "override": "ts.override_model('x:y', {'capability': 'none', 'dialect': 'acme'})",
    "Client": "ts.Client(lambda messages: 'x').close()",
    "settings": "import toolspeak.config; toolspeak.config.load({'dialect': 'acme'}).settings",
}
#: What must be true after each of them.
KNOWN = """
import toolspeak as ts
{first}
call = ts.ToolCall("get_weather", {{"city": "Paris", "days": 3}})
text = ts.render_calls("acme", [call])
assert text.startswith("<acme_call>"), text
for dialect in ("auto", "acme"):
    assert ts.parse(text, dialect=dialect).calls == (call,)
assert ts.parse(text, dialect="hermes").calls == ()
found = ts.strategy("acme:acme-chat-7b", settings=None)
assert (found.plan, found.rule) == ("inline", "table.provider"), found
from toolspeak.engine.planning.capabilities import capabilities
assert capabilities().find("vllm", "Acme-Chat-7B").profile.dialect == "acme"
print("known")
"""


@check_each("first", FIRST_USES)
def test_it_is_known_whatever_a_program_uses_first(site: Path, first: str):
    assert run(site, sys.executable, "-c", KNOWN.format(first=FIRST_USES[first])) == "known\n"


def test_threads_that_begin_together_all_know_it(site: Path):
    program = """
import threading
import toolspeak as ts
found = []
text = "<acme_call>\\nping\\n</acme_call>"
work = lambda: found.append(ts.parse(text, [ts.Tool("ping")], dialect="acme").calls)
threads = [threading.Thread(target=work) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
print(found == [(ts.ToolCall("ping", {}),)] * 8)
"""
    assert run(site, sys.executable, "-c", program) == "True\n"


SPLITS = """
import toolspeak as ts
from toolspeak.dialects.registry import dialects
from toolspeak.engine.prompting.escaping import neutralise

tools = [{tools}]
texts = [*dialects()["acme"].examples, "a\\n" + "\\n".join(dialects()["acme"].examples) + "\\nb"]
texts.append("<acme_call k7q2xm>\\nget_weather\\ncity = \\"<b>\\"\\n</acme_call> and so on")


def read(pieces, nonce):
    scanner = ts.Scanner(tools, nonce=nonce)
    events = [event for piece in pieces for event in scanner.feed(piece)]
    return ts.fold(events + scanner.close())


for text in texts:
    for nonce in (None, "k7q2xm"):
        whole = ts.parse(text, tools, nonce=nonce)
        assert bool(whole.calls) == (nonce is None or nonce in text), (whole, nonce)
        assert read(text, nonce) == whole
        for first in range(len(text)):
            for second in range(first, len(text), 7):
                assert read((text[:first], text[first:second], text[second:]), nonce) == whole
example = dialects()["acme"].examples[0]
assert ts.parse(example, tools, untrusted=(example,)).calls == ()
assert ts.parse(example[:-1], tools).calls == (), "a call that is cut off does not count"
for level in ("foreign", "own"):
    assert "<acme_call" not in neutralise(example, level)
for text in ("<acme_call>", "<acme_call></acme_call>", "<acme_call>\\nwhat = \\n</acme_call>", "<acme_call>\\nx\\ny</acme_call>",
             "Write <acme_call> before a call.", "<acme_calls>get_weather</acme_calls>"):
    reply = ts.parse(text, tools)
    assert (reply.calls, reply.text) == ((), text), reply
print("ok")
"""


def test_calls_are_read_in_every_chunk_split_and_cannot_be_forged(site: Path):
    assert run(site, sys.executable, "-c", SPLITS.format(tools=repr(WEATHER))) == "ok\n"


#: Runs tests of this suite with the plugin installed; with `only`, tests of every dialect are tests of its dialect.
WITH_PLUGIN = """
import sys, pytest
from toolspeak.core.plugin_hook import load_plugins
from toolspeak.dialects import registry
load_plugins()
if sys.argv[2] == "only":
    registry.DIALECTS = {"acme": registry.DIALECTS["acme"]}
options = ["--rootdir", sys.argv[1], "-c", sys.argv[1] + "/pyproject.toml", "-p", "no:cacheprovider", "--no-cov"]
sys.exit(pytest.main([*options, "-n", "0", "-q", "-k", *sys.argv[3:]]))
"""


@only_at_full_size
@check_each(
    ("file", "dialects", "chosen"),
    [
        ("dialects/test_registry.py", "only", "not bare and not auto_means and not asked_for"),  # these name others
        ("engine/test_history.py", "all", "acme"),
        ("test_text_corpus.py", "all", "not every_dialect_has_a_case"),
    ],
)
def test_the_properties_of_dialects_and_the_corpus_hold(site: Path, file: str, dialects: str, chosen: str):
    told = run(site, sys.executable, "-c", WITH_PLUGIN, str(ROOT), dialects, chosen, str(ROOT / "tests" / file))
    assert "[100%]" in told


def test_hostile_text_takes_linear_time(site: Path):
    program = """
from time import process_time
import toolspeak as ts

def seconds(text):
    best = 9.0
    for _ in range(3):
        scanner, began = ts.Scanner([ts.Tool("ping")]), process_time()
        for at in range(0, len(text), 64):
            scanner.feed(text[at : at + 64])
        assert not ts.fold(scanner.close(cut=True)).calls
        best = min(best, process_time() - began)
    return best

for unit in ("<acme_call>", "<acme_call>x", "<acme_call>\\nping\\na", "</acme_call><acme_call>", "<acme_call>\\na b\\n</acme_call>"):
    small, large = seconds(unit * 2000), seconds(unit * 16000)
    assert large < 8 * 2.5 * max(small, 0.002), (unit, small, large)
print("linear")
"""
    assert run(site, sys.executable, "-c", program) == "linear\n"


def test_a_probe_finds_it(site: Path):
    program = """
import toolspeak as ts
from toolspeak.core.events import Finish, TextDelta
from toolspeak.engine.planning.capabilities import capabilities
from toolspeak.engine.planning.probe_questions import TOOL, ProbeRoute
from toolspeak.engine.planning.probes import ProbeRun

ts.strategy("acme:acme-chat")
probe = ProbeRun(ProbeRoute("acme-chat", "openai_chat"), capabilities().find("acme", "acme-chat").profile, "k7q2xm")
(parameter,) = TOOL.parameters["properties"]
while probe.pending is not None:
    question = probe.pending
    shown = any("<acme_call k7q2xm>" in str(message) for message in question.request.messages)
    calls = [ts.ToolCall(TOOL.name, {parameter: item}) for item in question.items]
    text = ts.render_calls("acme", calls, "k7q2xm") if shown else "I do not know that, sorry."
    probe.submit([TextDelta(text), Finish("stop")])
print(probe.result().fields["dialect"])
"""
    assert run(site, sys.executable, "-c", program) == "acme\n"


# ---- the other plugins


def test_the_client_uses_the_upstream_and_the_prompt_shows_the_dialect(site: Path):
    program = f"""
import toolspeak as ts
with ts.Client("acme-demo:chat") as client:
    reply = client.chat("What is the weather?", tools=[{WEATHER!r}])
    print(reply.tool_calls[0].arguments, reply.text)
    stream = client.stream("What is the weather?", tools=[{WEATHER!r}])
    print([type(event).__name__ for event in stream][:3])

def model(messages):
    seen.append(str(messages))
    return "Hello."

seen = []
with ts.Client(model, dialect="acme") as client:
    client.chat("Hi", tools=[{WEATHER!r}])
print("<acme_call" in seen[0])
"""
    told = run(site, sys.executable, "-c", program).splitlines()
    assert told == ["{'city': 'Paris'} ", "['CallStart', 'CallArgs', 'CallEnd']", "True"]


@contextmanager
def served(site: Path, *options: str) -> Iterator[str]:
    import os

    environment = {**os.environ, "PYTHONPATH": str(site), "XDG_STATE_HOME": str(site), "XDG_CONFIG_HOME": str(site)}
    command = [sys.executable, "-m", "toolspeak", "serve", "--port", "0", *options]
    with subprocess.Popen(command, env=environment, cwd=site, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://[\d.:]+", process.stdout.readline())
            assert found is not None
            yield found.group()
        finally:
            process.terminate()


def post(url: str, body: dict[str, Any]) -> str:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def test_the_server_uses_them(site: Path):
    messages: list[dict[str, Any]] = [{"role": "user", "content": "What is the weather?"}]
    body = {"model": "chat", "messages": messages, "tools": [WEATHER]}
    with served(site, "--model", "acme-demo:chat") as url:
        message = json.loads(post(f"{url}/v1/chat/completions", body))["choices"][0]["message"]
        streamed = post(f"{url}/v1/chat/completions", {**body, "stream": True})
        messages += [message, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "sunny"}]
        answer = json.loads(post(f"{url}/v1/chat/completions", body))["choices"][0]
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"city": "Paris"}
    assert '"tool_calls"' in streamed and "acme_call" not in streamed
    assert (answer["message"]["content"], answer["finish_reason"]) == ("It is sunny.", "stop")


def test_the_command_line_has_the_command_and_the_dialect(site: Path):
    toolspeak = (sys.executable, "-m", "toolspeak")
    assert run(site, *toolspeak, "acme-units") == "foot\nkilometre\nmetre\nmile\n"
    assert "acme-units  List the units" in run(site, *toolspeak, "--help")
    assert "usage" in run(site, *toolspeak, "acme-units", "--help").lower()
    program = f"import subprocess, sys; sys.exit(subprocess.run({[*toolspeak, 'parse']!r}, text=True, input='<acme_call>\\nping\\n</acme_call>').returncode)"
    assert json.loads(run(site, sys.executable, "-c", program))["calls"] == [{"name": "ping", "arguments": {}}]


def test_agents_and_the_server_offer_the_tool(site: Path):
    program = """
import asyncio
from toolspeak.config import load
from toolspeak.config.values import ServerToolsRow
from toolspeak.key_value import MemoryState
from toolspeak.server.proxy.tool_loop.tools import loops_from
from toolspeak.tools.base import CallContext
from toolspeak.tools.other_forms import plugin_tools

(tool,) = plugin_tools(["files", "plugin:acme"], load().load_plugins)
output = asyncio.run(tool.run({"value": 2, "unit": "mile", "into": "metre"}, CallContext()))
print(tool.tool.name, output.content)
print(list(loops_from({"a": ServerToolsRow(keys=("k",), tools=("plugin:acme",))}, MemoryState(), {}, None, "all")))
"""
    assert run(site, sys.executable, "-c", program) == "convert_length 3218.688\n['k']\n"


# ---- permission


@check_each("allowed", ["all", "Toolspeak.Acme", "none", "another"])
def test_the_setting_decides_whether_any_of_its_code_runs(site: Path, allowed: str):
    program = """
import sys
import toolspeak as ts
ts.parse("x"); ts.strategy("acme:m"); ts.Client(lambda messages: "x").close()
print("toolspeak_acme.dialect" in sys.modules)
"""
    told = run(site, sys.executable, "-c", program, TOOLSPEAK_LOAD_PLUGINS=allowed)
    assert told == f"{allowed in ('all', 'Toolspeak.Acme')}\n"


def test_a_project_that_is_not_trusted_cannot_allow_it(site: Path, tmp_path: Path):
    (tmp_path / "toolspeak.toml").write_text('load_plugins = "toolspeak-acme"\n', encoding="utf-8")
    (tmp_path / "toolspeak").mkdir()
    (tmp_path / "toolspeak" / "config.toml").write_text('load_plugins = "none"\n', encoding="utf-8")
    program = "import sys, toolspeak as ts; ts.parse('x'); print('toolspeak_acme' in sys.modules)"
    assert run(site, sys.executable, "-c", program, home=tmp_path) == "False\n"


def test_a_client_with_a_configuration_of_its_own_loads_nothing_that_this_forbids(site: Path):
    program = """
import sys
import toolspeak as ts
from toolspeak.config import load
with ts.Client(lambda messages: "x", config=load({"load_plugins": "none"})) as client:
    client.chat("Hi", tools=[ts.Tool("f")])
print("toolspeak_acme" in sys.modules)
"""
    assert run(site, sys.executable, "-c", program) == "False\n"


def test_a_broken_configuration_loads_no_plugin_and_breaks_nothing(site: Path, tmp_path: Path):
    (tmp_path / "toolspeak").mkdir()
    (tmp_path / "toolspeak" / "config.toml").write_text("load_plugins = 3\n", encoding="utf-8")
    program = "import sys, toolspeak as ts; print(ts.parse('x').text, 'toolspeak_acme' in sys.modules)"
    assert run(site, sys.executable, "-c", program, home=tmp_path) == "x False\n"

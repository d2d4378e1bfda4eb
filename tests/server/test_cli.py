"""`toolspeak keys` and the start of `toolspeak serve`."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tests.cases import check_each
from tests.cli_agent_helpers import Terminal
from tests.server.asgi_client import HELLO, ask, bearer, run
from toolspeak.cli import main
from toolspeak.errors import UsageError
from toolspeak.key_value import FileState
from toolspeak.runtime.learning import TenantUse, UseStore
from toolspeak.runtime.probe_cache import ProbeTarget
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.server.process.server import ServerOptions


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "TOOLSPEAK_CONFIG", "TOOLSPEAK_STATE_FILE", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def keys_in(home: Path) -> ApiKeys:
    return ApiKeys(FileState(home / ".local" / "state" / "toolspeak" / "state.json"))


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.mark.requirement("R-T19")
def test_a_key_is_printed_once_and_holds(home: Path):
    made = invoke("keys", "new", "anna", "--models", "qwen*, fast,", "--rate", "60", "--concurrency", "4")
    assert made.exit_code == 0
    key = keys_in(home).find(made.stdout.strip())
    assert key is not None
    assert (key.name, key.models, key.rate, key.concurrency, key.admin) == ("anna", ("qwen*", "fast"), 60, 4, False)
    listed = invoke("keys", "list")
    assert "anna  (qwen*, fast; 60 per minute; 4 at a time)" in listed.stdout
    assert made.stdout.strip() not in listed.output
    assert made.stdout.strip() not in made.stderr


@pytest.mark.requirement("R-T19")
def test_no_option_takes_a_secret_since_others_can_read_command_lines():
    def options(command: click.Command, path: str) -> Iterator[tuple[str, click.Parameter]]:
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                yield f"{path} {parameter.name}", parameter
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                following = command.get_command(context, name)
                assert following is not None
                yield from options(following, f"{path} {name}")

    words = ("key", "secret", "token", "password", "auth")
    named = {name: option for name, option in options(main, "") if any(word in name.split()[-1] for word in words)}
    # An option that ends in `_env` takes the name of a variable; tokens are also what models write.
    named = {name: option for name, option in named.items() if not name.endswith(("_env", "max_tokens"))}
    assert set(named) == {" serve require_key", " serve auth"}
    assert isinstance(named[" serve auth"].type, click.Choice)
    assert isinstance(named[" serve require_key"].type, click.types.BoolParamType)


def test_keys_are_listed_as_json_and_revoked(home: Path):
    invoke("keys", "new", "anna")
    text = invoke("keys", "new", "root", "--admin").stdout.strip()
    assert [key["name"] for key in json.loads(invoke("keys", "list", "--json").stdout)] == ["anna", "root"]
    assert "root  (all models; admin)" in invoke("keys", "list").stdout
    assert invoke("keys", "revoke", "root").exit_code == 0
    assert keys_in(home).find(text) is None
    wrong = invoke("keys", "revoke", "root")
    assert (wrong.exit_code, wrong.stderr.splitlines()[0]) == (2, "error: unknown key `root`")


@pytest.mark.parametrize("arguments", [("list",), ("list", "--json"), ("new", "bert"), ("revoke", "anna")])
def test_keys_that_cannot_be_read_are_an_error_and_stay(home: Path, arguments: tuple[str, ...]):
    invoke("keys", "new", "anna")
    file = home / ".local" / "state" / "toolspeak" / "state.json"
    broken = file.read_bytes()[:-1]
    file.write_bytes(broken)
    refused = invoke("keys", *arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"error: the state file `{file}`")
    assert file.read_bytes() == broken


@pytest.mark.parametrize("models", ["", ",", " ", " , ,"])
def test_a_list_of_models_without_a_model_does_not_stand_for_all(home: Path, models: str):
    refused = invoke("keys", "new", "anna", "--models", models)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--models is empty" in refused.stderr
    assert keys_in(home).all() == ()


def test_a_name_that_is_taken_is_an_error_with_a_hint(home: Path):
    invoke("keys", "new", "anna")
    assert "hint: revoke it first" in invoke("keys", "new", "anna").stderr


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []

    def serve(*arguments: Any) -> int:
        calls.append(arguments)
        return 0

    monkeypatch.setattr("toolspeak.server.process.server.serve", serve)
    monkeypatch.setattr(
        "toolspeak.server.observe.logs.configure_logging", lambda secrets, *more, **access: calls.append(secrets)
    )
    return calls


@pytest.mark.requirement("R-T9")
@pytest.mark.parametrize("flags", [("--host", "0.0.0.0"), ("--host", "::"), ("--require-key",)])
def test_a_server_for_others_does_not_start_while_nobody_has_a_key(home: Path, started: list[Any], flags: tuple[str]):
    refused = invoke("serve", "--upstream", "http://127.0.0.1:9/v1", *flags)
    assert refused.exit_code == 2
    assert "toolspeak keys new" in refused.stderr
    assert len(started) == 1  # the log, but no server
    key = invoke("keys", "new", "anna").stdout.strip()
    assert invoke("serve", "--upstream", "http://127.0.0.1:9/v1", *flags).exit_code == 0
    app = started[-1][0]
    assert run(ask(app, "GET", "/v1/models")).status == 401
    assert run(ask(app, "GET", "/v1/models", bearer(key))).status == 200


def test_the_configuration_is_read_again_for_each_new_gateway(home: Path, started: list[Any]):
    file = home / ".config" / "toolspeak" / "config.toml"
    file.parent.mkdir(parents=True)

    def write(model: str) -> None:
        text = f'[upstreams.u]\nbase_url = "http://127.0.0.1:9/v1"\nmodels = ["{model}"]\napi_key = "sk-of-{model}-000"'
        file.write_text(text, encoding="utf-8")
        file.chmod(0o600)

    write("one")
    assert invoke("serve").exit_code == 0
    secrets, (app, host, port, remake, manner, _) = started
    assert (host, port, manner) == ("127.0.0.1", 8788, ServerOptions(1, 30.0, 0.0))
    assert [each["id"] for each in run(ask(app, "GET", "/v1/models")).json["data"]] == ["one"]
    assert "sk-of-one-000" in [secret.reveal() for secret in secrets()]
    write("two")
    assert list(remake().models()) == ["two"]
    assert "sk-of-two-000" in [secret.reveal() for secret in secrets()]


def test_what_an_untrusted_file_wanted_is_said_at_the_start(home: Path, started: list[Any]):
    (home / "toolspeak.toml").write_text('[upstreams.x]\nbase_url = "http://evil.test/v1"', encoding="utf-8")
    result = invoke("serve", "--upstream", "http://127.0.0.1:9/v1")
    assert result.exit_code == 0
    assert "cannot set `upstreams` until you trust it" in result.stderr


def _said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], listening: Any, terminal: bool) -> str:
    """What is said on stderr once clients can come."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    listening(8788)
    return capsys.readouterr().err


@pytest.mark.requirement("R-T7")
@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]")])
def test_the_printed_link_opens_a_session_once(
    home: Path,
    started: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    host: str,
    shown: str,
):
    invoke("keys", "new", "anna")
    invoke("serve", "--upstream", "http://127.0.0.1:9/v1", "--host", host)
    app, *_, listening = started[-1]
    said = _said(monkeypatch, capsys, listening, True)
    (code,) = re.findall(rf"http://{re.escape(shown)}:8788/toolspeak/session#(\S+)", said)
    begun = run(ask(app, "POST", "/toolspeak/session", {}, {"code": code}))
    assert begun.status == 200
    cookie = {"Cookie": begun.header("set-cookie").partition(";")[0]}
    assert run(ask(app, "GET", "/toolspeak/requests", cookie)).status == 200
    assert run(ask(app, "POST", "/toolspeak/session", {}, {"code": code})).status == 401


@pytest.mark.parametrize("options", [(), ("--open",)])
def test_the_banner_is_short_and_the_page_opens_on_demand(
    options: tuple[str, ...],
    home: Path,
    started: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    invoke("serve", "--upstream", "http://127.0.0.1:9/v1", *options)
    said = _said(monkeypatch, capsys, started[-1][-1], True)
    link = next(line for line in said.splitlines() if line.startswith("Page "))
    assert len(link) <= 90
    assert "toolspeak launch codex --url http://127.0.0.1:8788" in said
    assert len(said.splitlines()) <= 5
    assert [address.partition("#")[0] for address in opened] == ["http://127.0.0.1:8788/toolspeak/session"] * len(
        options
    )
    assert not [address for address in opened if address in said]  # each link works once


@pytest.mark.requirement("R-T7")
def test_no_link_is_printed_into_a_log_and_several_workers_have_one_too(
    home: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    invoke("serve", "--upstream", "http://127.0.0.1:9/v1")
    assert _said(monkeypatch, capsys, started[-1][-1], False) == ""
    invoke("serve", "--upstream", "http://127.0.0.1:9/v1", "--workers", "2")
    said = _said(monkeypatch, capsys, started[-1][-1], True)
    assert "/toolspeak/session#" in said


#: Nobody listens at the addresses of these tests.
SILENT = "warning: nothing listens at http://127.0.0.1:9/v1 yet: start the service, or correct the URL"


def _lines(capsys: pytest.CaptureFixture[str], listening: Any) -> list[str]:
    """What is printed about the upstreams once clients can come."""
    capsys.readouterr()
    listening(8788)
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("Listening on ")
    return others


@pytest.mark.requirement("D3")
def test_the_plan_of_one_upstream_is_printed_with_its_reason_and_how_to_change_it(
    home: Path, started: list[Any], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    invoke("serve", "--upstream", "http://127.0.0.1:9/v1")
    assert _lines(capsys, started[-1][-1]) == [
        "Upstream 127.0.0.1:9: a new model starts with plan inline: the model writes calls in its answer (no native tool "
        "calls: nothing is known about the server at this base URL; tools are also sent natively, to find out whether "
        "the upstream supports them). Change it with --mode or --plan.",
        SILENT,
    ]
    invoke("serve", "--upstream", "http://127.0.0.1:9/v1", "--model", "m", "--mode", "off")
    assert _lines(capsys, started[-1][-1]) == [
        "Upstream 127.0.0.1:9 (m): starts with plan pass: requests go to the model unchanged (mode is off: the request "
        "is passed through unchanged). Change it with --mode or --plan.",
        "m answers every request, whatever model the client names.",
        SILENT,
    ]
    assert caplog.messages == []
    invoke("serve", "--upstream", "http://127.0.0.1:9/v1", "--plan", "envelope", "--log-format", "json")
    assert _lines(capsys, started[-1][-1]) == []
    (warning,) = caplog.messages
    assert warning.startswith("upstream 127.0.0.1:9: the plan is inline instead of envelope")


@pytest.mark.requirement("D3")
def test_the_plans_of_configured_upstreams_are_printed_with_their_models(
    home: Path, started: list[Any], capsys: pytest.CaptureFixture[str]
):
    file = home / ".config" / "toolspeak" / "config.toml"
    file.parent.mkdir(parents=True)
    models = [f"m{number}" for number in range(5)]
    far = '[upstreams.far]\nbase_url = "https://api.openai.com/v1"\napi_key = "sk-0"\nmodels = ["gpt-5"]'
    file.write_text(f'[upstreams.near]\nbase_url = "http://127.0.0.1:9/v1"\nmodels = {models}\n{far}', encoding="utf-8")
    file.chmod(0o600)
    invoke("serve")
    near, warning, vendor = _lines(capsys, started[-1][-1])
    assert "tools are also sent natively" in near
    assert near.startswith("Upstream near (m0, m1, m2, ...): starts with plan inline: the model writes calls ")
    assert warning == SILENT
    assert near.endswith(" Change it with `mode` or `plan` in [upstreams.near].")
    assert vendor.startswith("Upstream far (gpt-5): starts with plan native: the model's own tool calling ")


@pytest.mark.requirement("D3", "D8")
def test_the_plan_of_a_model_that_is_known_from_use_is_printed(
    home: Path, started: list[Any], capsys: pytest.CaptureFixture[str]
):
    fields = {"capability": "openai"}
    target = ProbeTarget("openai", "m", "http://127.0.0.1:9/v1")
    use = TenantUse(fields, "calls came natively", seen_at=time.time())
    UseStore(FileState(home / ".local" / "state" / "toolspeak" / "state.json"), time.time).put(target, "", use)
    invoke("serve", "--upstream", "http://127.0.0.1:9/v1", "--model", "m")
    assert _lines(capsys, started[-1][-1]) == [
        "Upstream 127.0.0.1:9 (m): starts with plan native: the model's own tool calling is used (native tool calls: "
        "in earlier requests, calls came natively). Change it with --mode or --plan.",
        "m answers every request, whatever model the client names.",
        SILENT,
    ]


WRONG = [("--port", text) for text in ("99999", "-1")] + [
    (option, text) for option in ("--drain", "--linger") for text in ("nan", "-5", "inf", "-0.1", "1e9")
]


@check_each(
    ("flags", "named"),
    [
        (["--adapter", "a.gguf"], "--adapter"),
        (["--context", "512"], "--context"),
        (["--adapter", "none", "--context", "512"], "--adapter and --context"),
    ],
)
def test_what_is_for_the_model_here_is_no_setting_of_one_elsewhere(flags: list[str], named: str):
    refused = invoke("serve", "--upstream", "http://127.0.0.1:9/v1", *flags)
    assert refused.exit_code == 2
    assert f"{named} can be used only with the embedded model" in refused.stderr
    assert "omit either these options or --upstream" in refused.stderr


@pytest.mark.parametrize(("option", "text"), WRONG)
def test_a_port_or_a_time_that_cannot_be_is_an_error_of_the_command_line(
    home: Path, started: list[Any], option: str, text: str
):
    refused = invoke("serve", "--upstream", "http://127.0.0.1:9/v1", option, text)
    assert refused.exit_code == 2
    assert f"invalid value for `{option}`" in refused.stderr
    assert started == []


@pytest.mark.requirement("R-T5")
def test_an_untrusted_file_that_names_upstreams_leads_to_no_other_model(home: Path, started: list[Any]):
    (home / "toolspeak.toml").write_text('[upstreams.x]\nbase_url = "http://127.0.0.1:9/v1"', encoding="utf-8")
    refused = invoke("serve")
    assert refused.exit_code == 2
    assert "`toolspeak trust`, or use --upstream" in refused.stderr
    assert len(started) == 1  # the log, but no server
    assert invoke("trust").exit_code == 0
    assert invoke("serve").exit_code == 0


@pytest.mark.requirement("R-T5")
def test_a_file_that_is_edited_or_gone_keeps_gateway_and_secrets(home: Path, started: list[Any]):
    file = home / "toolspeak.toml"
    text = '[upstreams.x]\nbase_url = "http://127.0.0.1:9/v1"\nmodels = ["one"]\napi_key = "sk-of-one-000"'
    file.write_text(text, encoding="utf-8")
    invoke("trust")
    assert invoke("serve").exit_code == 0
    secrets, (_, _, _, remake, *_) = started
    file.write_text(text.replace("one", "two"), encoding="utf-8")
    with pytest.raises(UsageError, match="until you trust it"):
        remake()
    file.unlink()
    with pytest.raises(UsageError, match="requests would go to the embedded model"):
        remake()
    assert "sk-of-one-000" in [secret.reveal() for secret in secrets()]
    file.write_text(text.replace("one", "two"), encoding="utf-8")
    invoke("trust")
    assert list(remake().models()) == ["two"]


def test_a_configuration_that_cannot_be_is_an_error(home: Path, started: list[Any]):
    assert "unknown model" in invoke("serve", "--model", "unknown:m").stderr
    assert run(ask(_app(started), "POST", "/v1/chat/completions", {}, {**HELLO, "model": ""})).status == 404


def _app(started: list[Any]) -> Any:
    invoke("serve", "--upstream", "http://127.0.0.1:9/v1")
    return started[-1][0]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_ctrl_c_on_a_terminal_stops_the_server_and_says_so(home: Path):
    terminal = Terminal("serve", "--upstream", "http://127.0.0.1:9/v1", "--port", "0")
    try:
        terminal.wait_for("Ctrl-C")
        terminal.type("\x03")
        terminal.wait_for("The server has stopped.")
        assert terminal.process.wait(30) == 0
    finally:
        terminal.close()

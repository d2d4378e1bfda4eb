"""Which model `toolspeak run` asks: upstreams of the configuration by name, as the proxy finds them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli_agent_helpers import READ, Played, alone
from tests.server.live_proxy import service
from tests.upstreams.loopback_server import Server, head, serving_in_a_thread
from toolspeak.cli import main
from toolspeak.engine.planning.capabilities import capabilities

pytest.importorskip("sqlalchemy")

ANSWER = "Three crowns."


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield alone(tmp_path, monkeypatch)
    capabilities().configure()


def told(*arguments: str) -> Result:
    return CliRunner(catch_exceptions=False).invoke(main, arguments, prog_name="toolspeak")


def run(*arguments: str) -> Result:
    return told("run", "What does bread cost?", "--no-store", *arguments)


def configured(folder: Path, text: str) -> None:
    (folder / "toolspeak.toml").write_text(text, encoding="utf-8")
    assert told("trust").exit_code == 0


@pytest.fixture
def model() -> Played:
    return Played(READ, ANSWER)


@pytest.fixture
def server(model: Played) -> Iterator[Server]:
    with serving_in_a_thread(service("openai_chat", model)) as server:
        yield server


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("how", ["environment", "file"])
def test_an_upstream_of_the_configuration_is_asked_by_its_name_with_its_own_key(
    folder: Path, server: Server, model: Played, monkeypatch: pytest.MonkeyPatch, how: str
):
    monkeypatch.setenv("TOOLSPEAK_API_KEY", "key-for-elsewhere")
    monkeypatch.setenv("LOCAL_KEY", "key-of-mine")
    (folder / "key").write_text("key-of-mine\n", encoding="utf-8")
    key = 'api_key_env = "LOCAL_KEY"' if how == "environment" else 'api_key_file = "key"'
    configured(folder, f'[upstreams.local]\nbase_url = "{server.url}"\n{key}\nmode = "force"\n')
    result = run("-m", "local:small")
    assert (result.exit_code, result.stdout) == (0, f"{ANSWER}\n")
    assert {heard.header("authorization") for heard in server.heard} == {"Bearer key-of-mine"}
    assert [(request.model, request.tools) for request in model.asked] == [("small", ())] * 2


def test_what_is_set_for_an_upstream_counts_and_a_flag_counts_more(folder: Path, server: Server, model: Played):
    configured(folder, f'[upstreams.local]\nbase_url = "{server.url}"\nmode = "off"\n')
    run("-m", "local:small")
    run("-m", "local:small", "--mode", "force")
    assert [bool(request.tools) for request in model.asked[:2]] == [True, False]


def test_an_alias_and_a_name_that_is_listed_lead_to_it(folder: Path, server: Server, model: Played):
    text = (
        f'[upstreams.local]\nbase_url = "{server.url}"\nmodels = ["small"]\nmode = "force"\n[aliases]\nfast = "small"\n'
    )
    configured(folder, text)
    run("--model", "fast")
    run("--model", "small")
    assert {request.model for request in model.asked} == {"small"}
    result = run("--model", "smal")
    assert result.exit_code == 2
    assert "did you mean `small`?" in result.stderr


def test_the_one_model_that_is_listed_need_not_be_named(folder: Path, server: Server, model: Played):
    configured(folder, f'[upstreams.local]\nbase_url = "{server.url}"\nmodels = ["small"]\nmode = "force"\n')
    assert run().stdout == f"{ANSWER}\n"
    configured(folder, f'[upstreams.local]\nbase_url = "{server.url}"\nmodels = ["small", "the large"]\n')
    assert "add --model one of small, 'the large'" in run().stderr
    configured(folder, f'[upstreams.local]\nbase_url = "{server.url}"\n')
    assert "add --model NAME:MODEL" in run().stderr


def test_another_upstream_without_its_key_is_in_nobodys_way(folder: Path, server: Server):
    other = '[upstreams.far]\nbase_url = "https://far.example/v1"\napi_key_env = "NOT_SET"\n'
    configured(folder, f'{other}[upstreams.local]\nbase_url = "{server.url}"\nmode = "force"\n')
    assert run("-m", "local:small").stdout == f"{ANSWER}\n"
    result = run("-m", "far:large")
    assert (result.exit_code, "the environment variable NOT_SET" in result.stderr) == (2, True)


def test_who_is_named_as_a_fallback_is_asked_where_the_first_fails(folder: Path, server: Server, model: Played):
    async def broken(heard: object) -> None:
        await heard.send(head("content-length: 0", status="503 Service Unavailable"))  # type: ignore[attr-defined]

    with serving_in_a_thread(broken) as first:
        text = f'[upstreams.first]\nbase_url = "{first.url}"\nmode = "force"\nfallbacks = ["second:small"]\n'
        second = f'[upstreams.second]\nbase_url = "{server.url}"\nfallbacks = ["third"]\n'
        configured(folder, f'{text}{second}[upstreams.third]\nbase_url = "{first.url}"\n')
        assert run("-m", "first:large").stdout == f"{ANSWER}\n"
    assert {request.model for request in model.asked} == {"small"}


def test_a_file_that_nobody_trusts_sends_nothing_anywhere(folder: Path, server: Server):
    (folder / "toolspeak.toml").write_text(f'[upstreams.local]\nbase_url = "{server.url}"\n', encoding="utf-8")
    result = run()
    assert (result.exit_code, "toolspeak trust" in result.stderr) == (2, True)
    result = run("-m", "local:small")
    assert (result.exit_code, "unknown model `local:small`" in result.stderr) == (2, True)
    assert server.heard == []


def test_a_url_given_beats_the_upstreams_of_the_configuration(folder: Path, server: Server):
    configured(folder, '[upstreams.far]\nbase_url = "https://far.example/v1"\n')
    assert run("--upstream", server.url, "--mode", "force").stdout == f"{ANSWER}\n"


def test_a_provider_is_meant_where_no_upstream_has_its_name(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    configured(folder, '[upstreams.far]\nbase_url = "https://far.example/v1"\n')
    assert run("--model", "openai:small", "--mode", "force").stdout == f"{ANSWER}\n"


@pytest.mark.parametrize(
    ("row", "flags", "message"),
    [
        ('auth = "forward"', (), "requires your own key"),
        ("", ("--protocol", "anthropic"), "--protocol has no effect"),
    ],
)
def test_what_cannot_be_is_said(folder: Path, server: Server, row: str, flags: tuple[str, ...], message: str):
    configured(folder, f'[upstreams.local]\nbase_url = "{server.url}"\n{row}\n')
    result = run("-m", "local:small", *flags)
    assert (result.exit_code, message in result.stderr) == (2, True)


def test_an_upstream_for_holders_of_keys_is_open_to_who_has_its_key_anyway(folder: Path, server: Server):
    configured(folder, f'[upstreams.local]\nbase_url = "{server.url}"\nmode = "force"\nauth = "check"\n')
    assert run("-m", "local:small").stdout == f"{ANSWER}\n"


@pytest.mark.requirement("F8")
def test_a_chat_knows_them_too(folder: Path, server: Server):
    configured(folder, f'[upstreams.local]\nbase_url = "{server.url}"\nmode = "force"\n')
    result = CliRunner(catch_exceptions=False).invoke(
        main, ("chat", "-m", "local:small", "--no-store"), input="What does bread cost?\n", prog_name="toolspeak"
    )
    assert result.exit_code == 0
    assert ANSWER in result.stdout

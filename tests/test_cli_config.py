"""The commands about settings: `config`, `strategy`, `trust`."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cases import check_each
from toolspeak.cli import main
from toolspeak.engine.planning.capabilities import capabilities

CANARY = "sk-canary-1234567890"


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home and an empty working directory."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TOOLSPEAK_LOAD_PLUGINS", "none")
    yield tmp_path / "work"
    capabilities().configure()


def run(*arguments: str, **env: str) -> Result:
    return CliRunner(catch_exceptions=False).invoke(main, arguments, env=env, prog_name="toolspeak")


def done(*arguments: str, **env: str) -> str:
    result = run(*arguments, **env)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def failed(*arguments: str, **env: str) -> str:
    result = run(*arguments, **env)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr


# ---- config show


@pytest.mark.requirement("D4")
def test_show_prints_every_setting_and_with_origin_where_it_came_from(work: Path):
    (work / "toolspeak.toml").write_text('plan = "decision"\n[models."a:b"]\nmode = "off"\n')
    assert 'mode = "force"\n' in done("config", "show", TOOLSPEAK_MODE="force")
    lines = done("config", "show", "--origin", TOOLSPEAK_MODE="force").splitlines()
    assert 'mode = "force"  # TOOLSPEAK_MODE' in lines
    assert f'plan = "decision"  # `{work / "toolspeak.toml"}`' in lines
    assert "retries = 2  # default" in lines
    assert f'models.a:b.mode = "off"  # `{work / "toolspeak.toml"}`, [models.a:b]' in lines


def test_show_for_a_model_tells_what_overrides_its_profile(work: Path):
    (work / "toolspeak.toml").write_text(
        '[models."cerebras:old"]\ncapability = "none"\nretries = 1\n[models.other]\ncapability = "openai"\n'
        '[providers.cerebras]\ncapability = "openai"\nstreams = false\n'
    )
    lines = done("config", "show", "--origin", "--model", "cerebras:old").splitlines()
    where = f"`{work / 'toolspeak.toml'}`"
    assert [line for line in lines if line.startswith(("models.", "providers."))] == [
        f'models.cerebras:old.capability = "none"  # {where}, [models.cerebras:old]',
        f"providers.cerebras.streams = false  # {where}, [providers.cerebras]",
    ]
    assert f"retries = 1  # {where}, [models.cerebras:old]" in lines
    stronger = done("config", "show", "--model", "cerebras:old", TOOLSPEAK_OVERRIDES="cerebras:old=advanced")
    assert 'models.cerebras:old.capability = "advanced"\n' in stronger
    assert 'capability = "none"' not in stronger


def test_show_for_a_model_is_what_is_in_force_for_it(work: Path):
    (work / "toolspeak.toml").write_text('[models."a:b"]\nmode = "off"\n')
    shown = json.loads(done("config", "show", "--origin", "--json", "--model", "a:b"))
    where = f"`{work / 'toolspeak.toml'}`, [models.a:b]"
    assert shown["mode"] == {"value": "off", "source": "project", "where": where}
    assert json.loads(done("config", "show", "--json"))["mode"] == "auto"


@pytest.mark.requirement("R-T2")
def test_show_prints_no_key():
    output = done("config", "show", "--origin", TOOLSPEAK_API_KEY=CANARY, TOOLSPEAK_SECRET=CANARY)
    assert CANARY not in output
    assert 'api_key = "<redacted>"  # TOOLSPEAK_API_KEY' in output


def test_a_bad_setting_is_an_error_with_a_hint():
    message = failed("config", "show", TOOLSPEAK_MODE="maybe")
    assert message == (
        "error: `mode` in the variable TOOLSPEAK_MODE cannot be `maybe`\nhint: use one of off, fallback, force, auto\n"
    )
    assert "klingon" in failed("config", "show", TOOLSPEAK_DIALECT="klingon")


def test_what_does_not_count_is_said_on_stderr(work: Path):
    (work / "toolspeak.toml").write_text('base_url = "http://evil.example"')
    result = run("config", "show", TOOLSPEAK_MODUS="x")
    assert (result.exit_code, "evil" in result.stdout) == (0, False)
    assert result.stderr.splitlines() == [
        "note: unknown environment variable TOOLSPEAK_MODUS; it is ignored",
        f"note: `{work / 'toolspeak.toml'}` cannot set `base_url` until you trust it: run `toolspeak trust`",
    ]


# ---- config init, config set

COMMENTED = """\
# mine

plan = "inline" # for now
[upstreams.near]   # at home
base_url = "http://127.0.0.1:9000/v1"

[models."a:b"]
retries = 1 # enough
"""


@pytest.fixture
def file(work: Path) -> Path:
    """The user's file."""
    path = work.parent / "home" / ".config" / "toolspeak" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(COMMENTED)
    return path


def test_init_writes_a_file_whose_comments_are_valid_settings(work: Path):
    text = done("config", "init", "--dry-run")
    assert not (work / "toolspeak.toml").exists()
    assert done("config", "init", "--project") == f"Wrote `{work / 'toolspeak.toml'}`\n"
    assert (work / "toolspeak.toml").read_text() == text
    assert done("config", "show") == run("config", "show", TOOLSPEAK_CONFIG="").stdout
    user = work.parent / "home" / ".config" / "toolspeak" / "config.toml"
    assert done("config", "init") == f"Wrote `{user}`\n"
    assert user.stat().st_mode & 0o777 == 0o600
    assert f"error: `{user}` already exists" in failed("config", "init")
    user.write_text(re.sub(r"^#(?=\S)", "", text, flags=re.MULTILINE))
    assert tomllib.loads(user.read_text())["aliases"] == {"fast": "local:qwen3:8b"}
    assert 'upstreams.local.base_url = "http://127.0.0.1:9000/v1"\n' in done("config", "show")


@pytest.mark.parametrize(
    ("key", "value", "before", "after"),
    [
        ("plan", "decision", '"inline" # for now', '"decision" # for now'),
        ("upstreams.near.plan", "envelope", ':9000/v1"\n', ':9000/v1"\nplan = "envelope"\n'),
        ("upstream.near.models", "a, b*", ':9000/v1"\n', ':9000/v1"\nmodels = ["a", "b*"]\n'),
        ("models.a:b.retries", "3", "retries = 1 # enough", "retries = 3 # enough"),
        ('models."a:b".parallel', "no", "# enough\n", "# enough\nparallel = false\n"),
        ("models.llama3.1.plan", "inline", "# enough\n", '# enough\n\n[models."llama3.1"]\nplan = "inline"\n'),
        ("aliases.fast", "near:a", "# enough\n", '# enough\n\n[aliases]\nfast = "near:a"\n'),
        ("retries", "0", "# for now\n", "# for now\nretries = 0\n\n"),
    ],
)
def test_set_changes_one_value_and_keeps_the_rest(file: Path, key: str, value: str, before: str, after: str):
    assert done("config", "set", key, value) == f"Set `{key}` in `{file}`\n"
    assert before in COMMENTED
    assert file.read_text() == COMMENTED.replace(before, after)
    assert list(file.parent.iterdir()) == [file]


@check_each(
    ("key", "value", "error", "hint"),
    [
        ("pln", "inline", "unknown setting `pln` in the general settings", "did you mean `plan`?"),
        ("plan", "decisoin", "`plan` in the general settings cannot be `decisoin`", "did you mean `decision`?"),
        ("retries", "many", "`retries` in the general settings cannot be `many`", "use a whole number from 0 to 10"),
        ("upsteams.near.plan", "inline", "unknown table `upsteams`", "did you mean `upstreams`?"),
        ("upstreams.near", "inline", "incomplete key `upstreams.near`", "use upstreams.NAME.SETTING"),
        ("upstreams.near.pln", "inline", "unknown setting `pln` in [upstreams.near]", "did you mean `plan`?"),
        ("upstreams.far.plan", "inline", "`base_url` is missing in ", ""),
        ("dialect", "klingon", "`dialect` in the general settings cannot be `klingon`", "use one of"),
        ("api_key", CANARY, "other users can see command lines", "use - to read the value from stdin"),
    ],
)
def test_a_wrong_key_or_value_changes_nothing(file: Path, key: str, value: str, error: str, hint: str):
    stderr = failed("config", "set", key, value)
    assert stderr.startswith(f"error: {error}")
    assert hint in stderr
    assert CANARY not in stderr
    assert file.read_text() == COMMENTED


def test_set_makes_the_file_that_it_changes_and_prints_json(work: Path):
    written = json.loads(done("config", "set", "retries", "1", "--project", "--json"))
    assert written == {"file": str(work / "toolspeak.toml"), "key": "retries", "value": 1}
    assert (work / "toolspeak.toml").read_text() == "retries = 1\n"
    result = run("config", "set", "upstreams.near.base_url", "http://127.0.0.1:9000/v1", "--project")
    assert "until you trust it: run `toolspeak trust`" in result.stderr
    over = run("config", "set", "plan", "inline", TOOLSPEAK_PLAN="decision")
    assert over.stderr == f"note: TOOLSPEAK_PLAN overrides it\nnote: {result.stderr.removeprefix('note: ')}"


def test_a_key_is_read_from_stdin_and_not_printed(file: Path):
    file.chmod(0o640)
    result = CliRunner().invoke(main, ["config", "set", "api_key", "-", "--json"], input=f"{CANARY}\n")
    assert json.loads(result.stdout)["value"] == "<redacted>"
    assert "readable by others" in result.stderr
    assert tomllib.loads(file.read_text())["api_key"] == CANARY
    assert CANARY not in result.output
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_file_that_cannot_be_read_or_written_stays_as_it_is(file: Path, monkeypatch: pytest.MonkeyPatch):
    file.write_text("plan = ")
    assert f"error: cannot change `{file}`: " in failed("config", "set", "plan", "inline")
    file.write_text(COMMENTED)

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fails)
    assert f"error: cannot write `{file}`: no space left on device" in failed("config", "set", "plan", "decision")
    assert file.read_text() == COMMENTED
    assert list(file.parent.iterdir()) == [file]


# ---- strategy


@pytest.mark.requirement("D3")
def test_strategy_says_what_will_be_done_and_why():
    assert done("strategy", "deepinfra:deepseek-ai/DeepSeek-V3-0324").splitlines() == [
        "model      deepinfra:deepseek-ai/DeepSeek-V3-0324",
        "base_url   https://api.deepinfra.com/v1/openai",
        "plan       native: the model's own tool calling is used",
        "why        native tool calls: known for provider `deepinfra`",
        "tools      sent to the upstream",
        "capability openai",
        "dialect    action",
        "rule       table.provider",
    ]


def test_strategy_tells_how_well_the_model_that_comes_along_was_measured_to_call():
    *_, last = done("strategy", "embedded:").splitlines()
    assert re.fullmatch(r"measured   (BFCL \w+ \d\d(\.\d)?%(, |$)){7}", last)
    assert "measured" not in done("strategy", "embedded:other.gguf")


@pytest.mark.requirement("A7", "D3")
def test_strategy_warns_of_a_plan_that_cannot_be_carried_out():
    flags = ("openai:m", "--base-url", "http://127.0.0.1:9000/v1", "--plan", "envelope")
    *_, last = done("strategy", *flags).splitlines()
    assert last.startswith("warning    the plan is inline instead of envelope")
    assert strategy(*flags)["warning"] == last.removeprefix("warning").strip()
    assert strategy("openai:m")["warning"] == ""


def strategy(*arguments: str, **env: str) -> dict[str, Any]:
    return json.loads(done("strategy", *arguments, "--json", **env))


@pytest.mark.requirement("D3")
def test_strategy_at_another_host_is_emulation():
    said = strategy("openai:gpt-4", "--base-url", "http://127.0.0.1:9000/v1")
    assert (said["native"], said["plan"], said["rule"]) == (False, "inline", "foreign_host")
    said = strategy("openai:gpt-4", OPENAI_BASE_URL="http://127.0.0.1:9000/v1")
    assert (said["rule"], said["base_url"]) == ("foreign_host", "http://127.0.0.1:9000/v1")
    said = strategy("openai:gpt-4")
    assert (said["native"], said["rule"], said["profile"]["capability"]) == (True, "table.provider", "openai")


@pytest.mark.requirement("D4")
def test_strategy_obeys_flags_files_and_the_environment(work: Path):
    assert strategy("openai:gpt-4", "--mode", "force", "--plan", "decision")["plan"] == "decision"
    assert strategy("openai:gpt-4", "--chat-only")["rule"] == "chat_only"
    assert strategy("groq:m", TOOLSPEAK_OVERRIDES="groq=none")["rule"] == "env.provider"
    (work / "toolspeak.toml").write_text('[models."groq:old*"]\ncapability = "none"\n')
    assert strategy("groq:older")["rule"] == "config.model"
    assert strategy("groq:new")["rule"] == "table.provider"


@pytest.mark.requirement("D6")
@check_each("model", ["nobody:m", "m", ":", "a/b:c", "openai:"])
def test_strategy_of_an_unknown_model_is_not_an_error(model: str):
    assert strategy(model, "--base-url", "http://127.0.0.1:9/v1")["plan"] == "inline"


def test_strategy_refuses_what_it_does_not_know():
    assert "`mode` in the flags cannot be `x`" in failed("strategy", "a:b", "--mode", "x")


# ---- trust


@pytest.mark.requirement("R-T5")
def test_trust_is_given_listed_ended_by_a_change_and_taken_back(work: Path):
    file = work / "toolspeak.toml"
    file.write_text('base_url = "http://127.0.0.1:9000/v1"\nstate_file = "elsewhere.json"')

    def base_url() -> str:
        return json.loads(run("config", "show", "--json").stdout)["base_url"]

    assert base_url() == ""
    assert done("trust").startswith("Trusted `toolspeak.toml` (sha256 ")
    assert base_url() == "http://127.0.0.1:9000/v1"
    assert done("trust", "--list") == f"{file}\n"
    assert json.loads(done("trust", "--list", "--json")) == {"trusted": [str(file)]}
    file.write_text('base_url = "http://evil.example"')
    assert base_url() == ""
    done("trust", str(file))
    assert base_url() == "http://evil.example"
    assert done("trust", "--revoke") == "`toolspeak.toml` is no longer trusted\n"
    assert (base_url(), run("trust", "--list").stdout) == ("", "")


def test_a_file_that_is_not_there_cannot_be_trusted():
    assert "file not found: `toolspeak.toml`" in failed("trust")


@check_each("command", [["config"], ["strategy"], ["trust"]])
def test_help_has_examples(command: list[str]):
    assert f"  toolspeak {' '.join(command)}" in done(*command, "--help")


def test_the_paths_of_the_files_are_printed(work: Path):
    (work / "toolspeak.toml").write_text('mode = "force"\n')
    first, second = done("config", "path").splitlines()
    assert first == str(work / "toolspeak.toml")
    assert second.endswith("config.toml  (does not exist)")


def test_empty_lists_say_what_fills_them():
    assert "toolspeak trust FILE" in run("trust", "--list").stderr
    assert "toolspeak keys new NAME" in run("keys", "list").stderr


# ---- where a new line goes


@pytest.mark.parametrize("key", ["model", "mode", "retries"])
def test_a_setting_replaces_the_comment_that_shows_it(key: str):
    done("config", "init")
    values = {"model": "openai:m", "mode": "force", "retries": "1"}
    file = Path(done("config", "path").splitlines()[1])
    before = file.read_text().splitlines()
    done("config", "set", key, values[key])
    after = file.read_text().splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert [(old.split(" =")[0], new.split(" =")[0]) for old, new in changed] == [(f"#{key}", key)]


def test_a_setting_without_such_a_comment_comes_before_the_first_table():
    done("config", "init")
    done("config", "set", "contract", "schema")
    file = Path(done("config", "path").splitlines()[1])
    text = file.read_text()
    assert text.index('contract = "schema"') < text.index("# An upstream:") < text.index("#[upstreams.local]")
    file.write_text(text.replace("#[upstreams.local]\n#base_url", "[upstreams.local]\nbase_url"))
    assert 'contract = "schema"' in done("config", "show")


def test_the_examples_of_the_help_work():
    for line in done("config", "--help").partition("Examples:")[2].split("\n"):
        if words := line.split()[1:]:
            done(*words)
    assert done("config", "show").count("http://127.0.0.1:9000/v1") == 1


def test_a_table_that_lacks_a_field_says_what_to_set_first():
    assert "hint: set it first: toolspeak config set upstreams.NAME.base_url VALUE" in failed(
        "config", "set", "upstreams.other.plan", "decision"
    )

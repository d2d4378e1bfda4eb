"""The configuration: who wins, where each value came from, what an untrusted file may say, and no key in sight."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolspeak.config import Config, load, trust, trusted, untrust
from toolspeak.engine.planning.capabilities import Capabilities, Overrides
from toolspeak.engine.planning.strategy import Settings
from toolspeak.errors import ConfigError
from toolspeak.key_value import FileState, MemoryState

CANARY = "sk-canary-1234567890"


class Place:
    """A home and a working directory of their own."""

    def __init__(self, root: Path) -> None:
        self.home, self.cwd = root / "home", root / "work"
        self.user_file = self.home / ".config" / "toolspeak" / "config.toml"
        self.project_file = self.cwd / "toolspeak.toml"
        self.user_file.parent.mkdir(parents=True)
        self.cwd.mkdir()

    def user(self, text: str) -> None:
        self.user_file.write_text(text, encoding="utf-8")
        self.user_file.chmod(0o600)

    def project(self, text: str) -> None:
        self.project_file.write_text(text, encoding="utf-8")

    def trust(self) -> None:
        trust(self.state, self.project_file)

    @property
    def state(self) -> FileState:
        return FileState(self.home / ".local" / "state" / "toolspeak" / "state.json")

    def load(self, _flags: dict[str, Any] | None = None, /, **env: str) -> Config:
        return load(_flags, env={"HOME": str(self.home), **env}, cwd=self.cwd)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def origin(loaded: Config, name: str, *scope: str) -> tuple[Any, str]:
    found = next(setting for setting in loaded.effective_settings(*scope) if setting.name == name)
    return found.value, found.origin.source


# ---- precedence


def test_without_any_source_everything_is_the_default(place: Place):
    loaded = place.load()
    assert {setting.origin.source for setting in loaded.effective_settings()} == {"default"}
    assert loaded.settings == Settings()
    assert (loaded.model, loaded.base_url, loaded.load_plugins, loaded.notes) == ("", "", "all", ())
    assert not list(place.home.rglob("*.json")), "reading makes no files"


@pytest.mark.requirement("A1", "D4")
def test_flag_beats_environment_beats_project_beats_user_beats_default(place: Place):
    sources: list[tuple[str, str, Callable[[], Any]]] = [
        ("user", "off", lambda: place.user('mode = "off"')),
        ("project", "fallback", lambda: place.project('mode = "fallback"')),
    ]
    assert origin(place.load(), "mode") == ("auto", "default")
    for source, value, say in sources:
        say()
        assert origin(place.load(), "mode") == (value, source)
    assert origin(place.load(TOOLSPEAK_MODE="force"), "mode") == ("force", "env")
    loaded = place.load({"mode": "auto"}, TOOLSPEAK_MODE="force")
    assert origin(loaded, "mode") == ("auto", "flag")
    assert loaded.settings.mode == "auto"


def test_each_value_names_the_very_place_it_came_from(place: Place):
    place.user('policy = "strict"\n[models."a:b"]\nretries = 1')
    place.project('plan = "decision"')
    loaded = place.load({"chat_only": True, "dialect": None}, TOOLSPEAK_RETRIES="3")
    origins = {setting.name: str(setting.origin) for setting in loaded.effective_settings()}
    assert origins["chat_only"] == "--chat-only"
    assert origins["retries"] == "TOOLSPEAK_RETRIES"
    assert origins["plan"] == f"`{place.project_file}`"
    assert origins["policy"] == f"`{place.user_file}`"
    assert origins["dialect"] == "default"
    assert [(s.name, s.value, str(s.origin)) for s in loaded.tables()] == [
        ("models.a:b.retries", 1, f"`{place.user_file}`, [models.a:b]")
    ]


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("TOOLSPEAK_CHAT_ONLY", "1", "chat_only", True),
        ("TOOLSPEAK_CHAT_ONLY", "Yes", "chat_only", True),
        ("TOOLSPEAK_RESCUE", "off", "rescue", False),
        ("TOOLSPEAK_RETRIES", " 4 ", "retries", 4),
        ("TOOLSPEAK_CONTRACT_BUDGET", "100", "contract_budget", 100),
        ("TOOLSPEAK_PLAN", "decision", "plan", "decision"),
        ("TOOLSPEAK_MODEL", "ollama:llama3.1:latest", "model", "ollama:llama3.1:latest"),
        ("TOOLSPEAK_MODEL", "7", "model", "7"),
    ],
)
@pytest.mark.requirement("A1", "A6", "D4")
def test_variables_mirror_every_setting(place: Place, variable: str, text: str, name: str, value: Any):
    assert origin(place.load(**{variable: text}), name) == (value, "env")


def test_an_empty_variable_is_one_that_was_not_set(place: Place):
    assert origin(place.load(TOOLSPEAK_MODE="", TOOLSPEAK_CONFIG=""), "mode") == ("auto", "default")


def test_a_variable_that_is_no_setting_is_noted(place: Place):
    variables = {
        "TOOLSPEAK_TEST_SYSTEM": "x",
        "OTHER": "y",
        "TOOLSPEAK_KEY": "tsk-1",
        "TOOLSPEAK_URL": "http://127.0.0.1:1",
    }
    notes = place.load(TOOLSPEAK_MODUS="force", **variables).notes
    assert [(note.code, note.detail) for note in notes] == [
        ("unknown_variable", "unknown environment variable TOOLSPEAK_MODUS; it is ignored")
    ]


def test_the_real_environment_and_directory_are_read_by_default(place: Place, monkeypatch: pytest.MonkeyPatch):
    place.project('plan = "decision"')
    monkeypatch.setenv("HOME", str(place.home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("TOOLSPEAK_MODE", "force")
    monkeypatch.chdir(place.cwd)
    assert (load().settings.mode, load().settings.plan) == ("force", "decision")


@pytest.mark.skipif(sys.platform == "win32", reason="XDG is for POSIX")
def test_the_users_folders_can_be_moved_but_not_to_a_relative_place(place: Place, tmp_path: Path):
    there = tmp_path / "there" / "toolspeak"
    there.mkdir(parents=True)
    (there / "config.toml").write_text('mode = "off"')
    loaded = place.load(XDG_CONFIG_HOME=str(tmp_path / "there"), XDG_STATE_HOME=str(tmp_path / "there"))
    assert (loaded.settings.mode, loaded.state_file) == ("off", there / "state.json")
    loaded = place.load(XDG_CONFIG_HOME="there", XDG_STATE_HOME=".")
    assert (loaded.settings.mode, loaded.state_file) == ("auto", place.state.path)


def test_another_user_file_can_be_named(place: Place, tmp_path: Path):
    place.user('mode = "off"')
    other = tmp_path / "other.toml"
    other.write_text('mode = "force"\nbase_url = "http://h/"')
    loaded = place.load(TOOLSPEAK_CONFIG=str(other))
    assert (loaded.settings.mode, loaded.base_url) == ("force", "http://h/")
    with pytest.raises(ConfigError, match="TOOLSPEAK_CONFIG"):
        place.load(TOOLSPEAK_CONFIG=str(tmp_path / "missing.toml"))


def test_the_state_file_can_be_named(place: Place, tmp_path: Path):
    state = place.load(TOOLSPEAK_STATE_FILE=str(tmp_path / "s.json")).state()
    assert isinstance(state, FileState)
    assert state.path == tmp_path / "s.json"
    place.user(f"state_file = '{tmp_path / 'u.json'}'")
    assert place.load().state_file == tmp_path / "u.json"


# ---- scopes


SCOPED = """
mode = "off"
[providers.deepinfra]
mode = "fallback"
[models."deepinfra:special*"]
mode = "force"
[models."deepinfra:special-one"]
plan = "decision"
[upstreams.near]
base_url = "http://127.0.0.1:9000/v1"
mode = "auto"
"""


@pytest.mark.requirement("A1", "D4")
@pytest.mark.parametrize(
    ("model", "upstream", "mode"),
    [
        ("", "", "off"),
        ("groq:m", "", "off"),
        ("deepinfra:m", "", "fallback"),
        ("DeepInfra:m", "", "fallback"),
        ("deepinfra:special-2", "", "force"),
        ("deepinfra:m", "near", "auto"),
        ("", "near", "auto"),
        ("deepinfra:special-2", "near", "force"),
        ("deepinfra:special-one", "", "fallback"),
    ],
)
def test_the_narrower_scope_wins_within_one_source(place: Place, model: str, upstream: str, mode: str):
    place.user(SCOPED)
    assert place.load().settings_for(model, upstream).mode == mode


@pytest.mark.requirement("A1")
def test_a_stronger_source_wins_whatever_its_scope(place: Place):
    place.user(SCOPED)
    assert place.load(TOOLSPEAK_MODE="auto").settings_for("deepinfra:special-2").mode == "auto"
    place.project('[providers.deepinfra]\nmode = "off"')
    assert origin(place.load(), "mode", "deepinfra:special-2") == ("off", "project")


def test_aliases_of_providers_are_one_provider(place: Place):
    place.user('[providers.google]\nmode = "off"\n[models."google:x"]\nretries = 0')
    assert place.load().settings_for("gemini:m").mode == "off"
    assert place.load().settings_for("google:x").retries == 0


@pytest.mark.requirement("D4")
def test_overrides_of_capabilities_come_from_tables_and_the_environment(place: Place):
    place.user(
        '[providers.cerebras]\ncapability = "openai"\nmode = "force"\n'
        '[models."groq:old"]\ncapability = "none"\ndialect = "hermes"\n'
        '[upstreams.near]\nbase_url = "http://127.0.0.1:9000/v1"\nconstraint = "gbnf"\n'
    )
    place.project('[providers.lambda]\nmedia = []\n[models."x:y"]\nmode = "off"')
    loaded = place.load(TOOLSPEAK_OVERRIDES="cerebras=advanced, ollama:qwen3:8b=openai,")
    assert loaded.overrides() == (
        (
            "config",
            Overrides(
                {"cerebras": {"capability": "openai"}},
                {"http://127.0.0.1:9000/v1": {"constraint": "gbnf"}},
                {"groq:old": {"capability": "none"}},
            ),
        ),
        ("config", Overrides({"lambda": {"media": ()}})),
        ("env", Overrides({"cerebras": {"capability": "advanced"}}, {}, {"ollama:qwen3:8b": {"capability": "openai"}})),
    )
    known = Capabilities()
    known.configure(*loaded.overrides())
    assert known.find("cerebras", "m").rule == "env.provider"
    assert known.find("groq", "old").rule == "config.model"
    assert known.find("ollama", "qwen3:8b").profile.capability == "openai"
    assert known.find("any", "m", "http://127.0.0.1:9000/v1/").profile.constraint == "gbnf"
    assert known.find("lambda", "m").profile.media == ()
    assert loaded.settings_for("groq:old").dialect == "hermes"


# ---- what cannot be


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('mode = "sometimes"', "`mode` in {file} cannot be `sometimes` (use one of off, fallback, force, auto)"),
        ("retries = 99", "`retries` in {file} cannot be `99`"),
        ('chat_only = "yes"', "`chat_only` in {file} cannot be `yes` (use true or false)"),
        ('modus = "force"', "unknown setting `modus` in {file} (did you mean `mode`"),
        ('protocol = "smtp"', "`protocol` in {file} cannot be `smtp`"),
        ("providers = 1", "`providers` in {file} must be a table of tables (use [providers.NAME])"),
        ("[models]\nx = 1", "`models` in {file} must be a table of tables (use [models.NAME])"),
        ('[providers.a]\nmode = "x"', "`mode` in {file}, [providers.a] cannot be `x`"),
        ("[providers.a]\nbase_url = 'x'", "unknown setting `base_url` in {file}, [providers.a]"),
        ('[models."a:b"]\ncapability = "x"', "`capability` in {file}, [models.a:b] cannot be `x`"),
        ("[upstreams.a]\nmode = 'off'", "`base_url` is missing in {file}, [upstreams.a]"),
        ("mode =", "{file} is not valid TOML"),
        ("a = " + "[" * 5000, "{file} is not valid TOML"),
        (f"# {'x' * 1_100_000}", "{file} is too large for a configuration"),
    ],
    ids=range(14),
)
def test_a_bad_file_is_refused_with_file_setting_and_what_is_allowed(place: Place, text: str, message: str):
    place.user(text)
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert str(caught.value).startswith(message.format(file=f"`{place.user_file}`"))


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("TOOLSPEAK_MODE", "on", "`mode` in the variable TOOLSPEAK_MODE cannot be `on` (use one of off, fallback"),
        ("TOOLSPEAK_RETRIES", "many", "`retries` in the variable TOOLSPEAK_RETRIES cannot be `many`"),
        ("TOOLSPEAK_RETRIES", "9" * 5000, "`retries` in the variable TOOLSPEAK_RETRIES cannot be `9999"),
        ("TOOLSPEAK_CHAT_ONLY", "maybe", "`chat_only` in the variable TOOLSPEAK_CHAT_ONLY cannot be `maybe`"),
        ("TOOLSPEAK_OVERRIDES", "groq", "invalid entry `groq` in the variable TOOLSPEAK_OVERRIDES"),
        ("TOOLSPEAK_OVERRIDES", "=none", "invalid entry `=none` in the variable TOOLSPEAK_OVERRIDES"),
        ("TOOLSPEAK_OVERRIDES", "groq=all", "`capability` in the variable TOOLSPEAK_OVERRIDES cannot be `all`"),
    ],
)
def test_a_bad_variable_is_refused_by_name(place: Place, variable: str, text: str, message: str):
    with pytest.raises(ConfigError) as caught:
        place.load(**{variable: text})
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 400


def test_bad_flags_are_refused(place: Place):
    with pytest.raises(ConfigError, match="`mode` in the flags cannot be `x`"):
        place.load({"mode": "x"})
    with pytest.raises(ConfigError, match="unknown setting `colour` in the flags"):
        place.load({"colour": "x"})


def test_a_dialect_is_looked_up_when_it_is_used_since_plugins_bring_their_own(place: Place):
    place.user('dialect = "klingon"')
    loaded = place.load()
    with pytest.raises(ConfigError, match=r"`dialect` in .*config\.toml` cannot be `klingon`"):
        loaded.settings_for("a:b")


def test_a_file_that_is_not_text_or_not_a_file_is_refused(place: Place):
    place.user_file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not valid TOML"):
        place.load()
    place.user_file.unlink()
    place.user_file.mkdir()
    with pytest.raises(ConfigError, match="cannot read"):
        place.load()


# ---- trust


@pytest.mark.requirement("R-T5")
def test_an_untrusted_file_sets_harmless_things_only(place: Place):
    place.project(
        'model = "openai:gpt-4"\nmode = "force"\nplan = "decision"\npolicy = "strict"\n'
        'base_url = "http://evil.example"\napi_key = "theirs"\nmarks = "fixed"\nload_plugins = "theirs"\n'
        'state_file = "/tmp/x"\nsecret = "known"\nprotocol = "ollama"\n'
        '[providers.openai]\ncapability = "none"\nmarks = "fixed"\n'
        '[upstreams.near]\nbase_url = "http://evil.example"\n'
    )
    loaded = place.load()
    settings = loaded.settings_for("openai:gpt-4")
    assert (loaded.model, settings.mode, settings.plan, settings.policy) == (
        "openai:gpt-4", "force", "decision", "strict",
    )  # fmt: skip
    assert (loaded.base_url, loaded.load_plugins, settings.marks) == ("", "all", "auto")
    assert loaded.state_file == place.state.path
    assert loaded.endpoint().base_url == "https://api.openai.com/v1"
    assert not loaded.endpoint().api_key
    assert loaded.overrides() == (("config", Overrides({"openai": {"capability": "none"}})),)
    with pytest.raises(ConfigError, match="unknown upstream"):
        loaded.upstream("near")
    assert [note.code for note in loaded.notes] == ["untrusted_setting"]
    for name in ("base_url", "api_key", "marks", "load_plugins", "secret", "upstreams", "providers.openai.marks"):
        assert f"`{name}`" in loaded.notes[0].detail
    assert "toolspeak trust" in loaded.notes[0].detail
    assert "theirs" not in loaded.notes[0].detail


@pytest.mark.requirement("R-T5")
def test_trust_holds_for_this_file_with_this_content_only(place: Place, tmp_path: Path):
    text = 'base_url = "http://127.0.0.1:9000/v1"\n[upstreams.near]\nbase_url = "http://127.0.0.1:9001/"\n'
    place.project(text)
    assert place.load().base_url == ""
    place.trust()
    loaded = place.load()
    assert (loaded.base_url, loaded.notes) == ("http://127.0.0.1:9000/v1", ())
    assert origin(loaded, "base_url")[1] == "project"
    assert loaded.upstream("near").row.base_url == "http://127.0.0.1:9001/"
    place.project(text + "# changed\n")
    assert place.load().base_url == ""
    place.project(text)
    assert place.load().base_url != ""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "toolspeak.toml").write_text(text)
    assert load(env={"HOME": str(place.home)}, cwd=elsewhere).base_url == ""
    untrust(place.state, place.project_file)
    assert place.load().base_url == ""


def test_trust_is_for_files_that_can_be_read(place: Place):
    state = MemoryState()
    with pytest.raises(ConfigError, match="file not found"):
        trust(state, place.project_file)
    place.project("mode = 1")
    with pytest.raises(ConfigError, match="`mode`"):
        trust(state, place.project_file)
    place.project("mode = 'off'")
    digest = trust(state, place.project_file)
    assert len(digest) == 64
    assert trusted(state, place.project_file, b"mode = 'off'")
    assert not trusted(state, place.project_file, b"mode = 'on'")


@pytest.mark.requirement("R-T5")
def test_without_a_usable_state_file_nothing_is_trusted(place: Place, tmp_path: Path):
    (tmp_path / "file").write_text("x")
    place.project('base_url = "http://evil.example"')
    loaded = place.load(TOOLSPEAK_STATE_FILE=str(tmp_path / "file" / "state.json"))
    assert loaded.base_url == ""
    assert [note.code for note in loaded.notes] == ["state_unusable", "untrusted_setting"]


def test_a_harmless_file_needs_no_trust_and_makes_no_note(place: Place):
    place.project('mode = "off"\n[models."a:b"]\nleaks = false')
    assert place.load(TOOLSPEAK_STATE_FILE="/nowhere/at/all").notes == ()

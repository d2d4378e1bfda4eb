"""The configuration: who wins, where each value came from, what an untrusted file may say, and no key in sight."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolspeak import config
from toolspeak.config import Config, Secret, load, trust, trusted, untrust
from toolspeak.core.capability import Capabilities, Overrides
from toolspeak.core.strategy import Settings
from toolspeak.errors import ConfigError
from toolspeak.state import FileState, MemoryState

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
    found = next(setting for setting in loaded.shown(*scope) if setting.name == name)
    return found.value, found.origin.source


# ---- precedence


def test_without_any_source_everything_is_the_default(place: Place):
    loaded = place.load()
    assert {setting.origin.source for setting in loaded.shown()} == {"default"}
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
    origins = {setting.name: str(setting.origin) for setting in loaded.shown()}
    assert origins["chat_only"] == "--chat-only"
    assert origins["retries"] == "TOOLSPEAK_RETRIES"
    assert origins["plan"] == f"`{place.project_file}`"
    assert origins["policy"] == f"`{place.user_file}`"
    assert origins["dialect"] == "default"
    assert [(s.name, s.value, str(s.origin)) for s in loaded.tables()] == [
        ("models.a:b.retries", 1, f"`{place.user_file}`, models.`a:b`")
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
    notes = place.load(TOOLSPEAK_MODUS="force", TOOLSPEAK_TEST_SYSTEM="x", OTHER="y").notes
    assert [(note.code, note.detail) for note in notes] == [
        ("unknown_variable", "TOOLSPEAK_MODUS is not a setting of toolspeak")
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
    assert place.load(TOOLSPEAK_STATE_FILE=str(tmp_path / "s.json")).state().path == tmp_path / "s.json"
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
        ('modus = "force"', "unknown setting `modus` in {file} (use one of adapter"),
        ('protocol = "smtp"', "`protocol` in {file} cannot be `smtp`"),
        ("providers = 1", "`providers` in {file} must be a table of tables (begin with [providers.NAME])"),
        ("[models]\nx = 1", "`models` in {file} must be a table of tables (begin with [models.NAME])"),
        ('[providers.a]\nmode = "x"', "`mode` in {file}, providers.`a` cannot be `x`"),
        ("[providers.a]\nbase_url = 'x'", "unknown setting `base_url` in {file}, providers.`a`"),
        ('[models."a:b"]\ncapability = "x"', "`capability` in {file}, models.`a:b` cannot be `x`"),
        ("[upstreams.a]\nmode = 'off'", "`base_url` is missing in {file}, upstreams.`a`"),
        ("mode =", "{file} is not TOML"),
        ("a = " + "[" * 5000, "{file} is not TOML"),
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
        ("TOOLSPEAK_OVERRIDES", "groq", "the variable TOOLSPEAK_OVERRIDES cannot hold `groq`"),
        ("TOOLSPEAK_OVERRIDES", "=none", "the variable TOOLSPEAK_OVERRIDES cannot hold `=none`"),
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
    with pytest.raises(ConfigError, match="is not TOML"):
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
        loaded.endpoint(upstream="near")
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
    assert loaded.endpoint("x:m", upstream="near").base_url == "http://127.0.0.1:9001/"
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
    with pytest.raises(ConfigError, match="there is no file"):
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


# ---- secrets


def test_a_secret_shows_itself_to_nobody():
    secret = Secret(CANARY)
    assert secret.reveal() == CANARY
    assert (repr(secret), str(secret), f"{secret}") == ("<redacted>",) * 3
    assert (repr(Secret()), bool(secret), bool(Secret())) == ("<none>", True, False)
    assert secret == Secret(CANARY)
    assert secret != Secret("other")
    assert secret != CANARY
    for write in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="not copied"):
            write(secret)
    with pytest.raises(TypeError):
        hash(secret)


@pytest.mark.requirement("R-T2")
def test_no_key_is_ever_shown(place: Place):
    place.user(
        f'api_key = "{CANARY}"\nsecret = "{CANARY}"\nbase_url = "http://me:{CANARY}@h:1/v1"\n'
        f'[upstreams.near]\nbase_url = "http://{CANARY}@n/"\napi_key = "{CANARY}"\n'
    )
    loaded = place.load(TOOLSPEAK_SECRET=CANARY, OPENAI_API_KEY=CANARY)
    said = [loaded, vars(loaded).get("notes"), loaded.shown(), loaded.tables(), loaded.endpoint("openai:m").api_key]
    assert CANARY not in repr(said)
    values = {setting.name: setting.value for setting in (*loaded.shown(), *loaded.tables())}
    assert values["api_key"] == values["secret"] == values["upstreams.near.api_key"] == "<redacted>"
    assert values["base_url"] == "http://<redacted>@h:1/v1"
    assert values["upstreams.near.base_url"] == "http://<redacted>@n/"


@pytest.mark.requirement("R-T2")
@pytest.mark.parametrize("text", [f'api_key = ["{CANARY}"]', f'secret = {{a = "{CANARY}"}}'])
def test_no_key_is_in_an_error(place: Place, text: str):
    place.user(text)
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert CANARY not in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_a_file_with_a_key_that_others_can_read_is_noted(place: Place):
    place.user('api_key = "k"')
    assert place.load().notes == ()
    place.user_file.chmod(0o644)
    assert [note.code for note in place.load().notes] == ["readable_key_file"]
    place.user('mode = "off"')
    place.user_file.chmod(0o644)
    assert place.load().notes == ()


def test_a_secret_may_stand_in_a_file(place: Place, tmp_path: Path):
    file = tmp_path / "key"
    file.write_text(f"{CANARY}\n")
    loaded = place.load(TOOLSPEAK_API_KEY_FILE=str(file), TOOLSPEAK_SECRET_FILE=str(file))
    assert loaded.endpoint("any:m").api_key.reveal() == CANARY
    assert loaded.secret(MemoryState()).reveal() == CANARY
    place.user(f"[upstreams.near]\nbase_url = 'http://h/'\napi_key_file = '{file}'")
    assert place.load().endpoint("any:m", upstream="near").api_key.reveal() == CANARY


def test_a_secret_file_beats_a_secret_from_a_weaker_source_only(place: Place, tmp_path: Path):
    file = tmp_path / "key"
    file.write_text("from file")
    place.user('api_key = "from user"')
    assert place.load(TOOLSPEAK_API_KEY_FILE=str(file)).endpoint("any:m").api_key.reveal() == "from file"
    place.user(f"api_key_file = '{file}'")
    assert place.load(TOOLSPEAK_API_KEY="from env").endpoint("any:m").api_key.reveal() == "from env"


def test_a_secret_file_that_is_missing_or_empty_is_refused(place: Place, tmp_path: Path):
    loaded = place.load(TOOLSPEAK_SECRET_FILE=str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="cannot read the secret file"):
        loaded.secret(MemoryState())
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ConfigError, match="an empty secret protects nothing"):
        place.load(TOOLSPEAK_SECRET_FILE=str(tmp_path / "empty")).secret(MemoryState())


def test_a_secret_that_nobody_set_is_made_once_and_shared(place: Place):
    first = place.load().secret(place.state)
    assert len(first.reveal()) == 64
    assert place.load().secret(place.state) == first
    assert place.load(TOOLSPEAK_SECRET="mine").secret(place.state).reveal() == "mine"


# ---- where a model is


def endpoint(loaded: Config, *arguments: str) -> tuple[str, str, str]:
    found = loaded.endpoint(*arguments)
    return found.base_url, found.protocol, found.api_key.reveal()


def test_a_provider_is_found_at_its_own_host_with_its_own_key(place: Place):
    loaded = place.load(OPENAI_API_KEY="k1", ANTHROPIC_AUTH_TOKEN="k2", GOOGLE_API_KEY="k3")
    assert endpoint(loaded, "openai:gpt-4") == ("https://api.openai.com/v1", "openai", "k1")
    assert endpoint(loaded, "anthropic:claude") == ("https://api.anthropic.com", "anthropic", "k2")
    assert endpoint(loaded, "google:g")[2] == "k3"
    assert endpoint(loaded, "ollama:m") == ("http://127.0.0.1:11434", "ollama", "")
    assert endpoint(loaded, "unheard-of:m") == ("", "openai", "")
    assert (loaded.endpoint("openai:a/b:c").provider, loaded.endpoint("openai:a/b:c").model) == ("openai", "a/b:c")


@pytest.mark.requirement("R-T1")
def test_a_providers_key_goes_nowhere_else(place: Place):
    loaded = place.load(OPENAI_API_KEY=CANARY)
    for url in ("http://127.0.0.1:9000/v1", "http://api.openai.com/v1", "https://api.openai.com.evil.example/v1"):
        assert endpoint(loaded, "openai:m", url) == (url, "openai", "")
    assert endpoint(loaded, "openai:m", "https://api.openai.com/v1")[2] == CANARY
    assert endpoint(loaded, "mine:m", "https://api.openai.com/v1")[2] == ""
    assert endpoint(place.load(OPENAI_API_KEY=CANARY, TOOLSPEAK_BASE_URL="http://h/"), "openai:m")[2] == ""


def test_a_providers_own_variable_moves_it_and_takes_its_key_along(place: Place):
    loaded = place.load(OPENAI_API_KEY="k", OPENAI_BASE_URL="http://127.0.0.1:9000/v1")
    assert endpoint(loaded, "openai:m") == ("http://127.0.0.1:9000/v1", "openai", "k")
    assert endpoint(loaded, "openai:m", "http://127.0.0.1:9000/v1")[2] == "k"
    assert endpoint(loaded, "openai:m", "http://127.0.0.1:9001/v1")[2] == ""


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("10.0.0.1", "http://10.0.0.1:11434"),
        ("10.0.0.1:80", "http://10.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("https://o.example", "https://o.example"),
    ],
)
def test_ollamas_variable_needs_neither_scheme_nor_port(place: Place, host: str, url: str):
    assert endpoint(place.load(OLLAMA_HOST=host), "ollama:m")[0] == url


def test_what_is_configured_beats_the_providers_own(place: Place):
    place.user(
        'model = "openai:m"\nbase_url = "http://c/"\nprotocol = "gemini"\napi_key = "kc"\n'
        '[upstreams.near]\nbase_url = "http://n/"\nprotocol = "anthropic"\napi_key = "kn"\n'
    )
    loaded = place.load(OPENAI_BASE_URL="http://v/", OPENAI_API_KEY="kv")
    assert endpoint(loaded) == ("http://c/", "gemini", "kc")
    assert endpoint(loaded, "openai:x", "http://asked/") == ("http://asked/", "gemini", "kc")
    assert endpoint(loaded, "openai:x", "", "near") == ("http://n/", "anthropic", "kn")
    with pytest.raises(ConfigError, match=r"unknown upstream `far` \(configured are: near\)"):
        loaded.endpoint("openai:x", upstream="far")


# ---- upstreams by name


@pytest.mark.requirement("G6")
def test_an_upstream_has_its_key_from_text_a_file_or_a_variable(place: Place, tmp_path: Path):
    (tmp_path / "key").write_text("kf\n", encoding="utf-8")
    place.user(
        f"""
        [upstreams.text]
        base_url = "http://a/"
        api_key = "kt"
        [upstreams.file]
        base_url = "http://b/"
        api_key_file = "{tmp_path / "key"}"
        [upstreams.variable]
        base_url = "http://c/"
        api_key_env = "MY_KEY"
        [upstreams.openai]
        base_url = "https://api.openai.com/v1"
        [upstreams.bare]
        base_url = "http://d/"
        [upstreams.forward]
        base_url = "http://e/"
        api_key = "unused"
        auth = "forward"
        """
    )
    loaded = place.load(MY_KEY="kv", OPENAI_API_KEY="ko", TOOLSPEAK_API_KEY="general")
    assert loaded.upstream_names() == ("text", "file", "variable", "openai", "bare", "forward")
    assert [loaded.upstream(name).api_key.reveal() for name in loaded.upstream_names()] == [
        "kt",
        "kf",
        "kv",
        "ko",
        "",
        "",
    ]
    with pytest.raises(ConfigError, match="no key in the variable MY_KEY"):
        place.load().upstream("variable")


@pytest.mark.requirement("R-T1")
def test_the_general_key_is_for_the_general_base_url_only(place: Place):
    place.user('base_url = "http://general/"\napi_key = "kg"\n[upstreams.near]\nbase_url = "http://near/"')
    loaded = place.load(OPENAI_API_KEY="ko")
    assert endpoint(loaded, "openai:m") == ("http://general/", "openai", "kg")
    assert endpoint(loaded, "openai:m", "", "near") == ("http://near/", "openai", "")


@pytest.mark.parametrize(
    ("name", "row", "provider", "protocol"),
    [
        ("near", 'base_url = "http://127.0.0.1:9/v1"', "near", "openai"),
        ("work", 'base_url = "https://api.anthropic.com"', "anthropic", "anthropic"),
        ("ollama", 'base_url = "http://127.0.0.1:11434"', "ollama", "ollama"),
        ("anthropic", 'base_url = "http://127.0.0.1:9"', "anthropic", "openai"),
        ("near", 'base_url = "http://127.0.0.1:9"\nprovider = "vllm"', "vllm", "openai"),
        ("near", 'base_url = "http://127.0.0.1:9"\nprotocol = "openai_responses"', "near", "openai_responses"),
    ],
)
def test_an_upstream_is_who_its_name_or_its_host_says(place: Place, name: str, row: str, provider: str, protocol: str):
    place.user(f"[upstreams.{name}]\n{row}")
    found = place.load().upstream(name)
    assert (found.provider, found.protocol) == (provider, protocol)


def test_models_limits_and_timeouts_of_an_upstream_are_read(place: Place):
    place.user(
        """
        [upstreams.near]
        base_url = "http://near/"
        models = ["a", "b*"]
        fallbacks = ["far"]
        idle_timeout = 5
        max_concurrent = 3
        max_per_minute = 60
        mode = "force"
        """
    )
    row = place.load().upstream("near").row
    assert (row.models, row.fallbacks, row.auth) == (("a", "b*"), ("far",), "replace")
    assert (row.connect_timeout, row.idle_timeout, row.max_concurrent, row.max_per_minute) == (10, 5, 3, 60)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("auth = 'maybe'", "`auth` in {file}, upstreams.`u` cannot be `maybe` (use one of replace, forward, check)"),
        ("models = 'a'", "`models` in {file}, upstreams.`u` cannot be `a` (use a list; each item: a text)"),
        ("idle_timeout = 0", "`idle_timeout` in {file}, upstreams.`u` cannot be `0`"),
        ("max_concurrent = -1", "`max_concurrent` in {file}, upstreams.`u` cannot be `-1`"),
        ("protocol = 'smtp'", "`protocol` in {file}, upstreams.`u` cannot be `smtp`"),
    ],
)
def test_what_an_upstream_cannot_be_is_refused(place: Place, text: str, message: str):
    place.user(f"[upstreams.u]\nbase_url = 'http://u/'\n{text}")
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert str(caught.value).startswith(message.format(file=f"`{place.user_file}`"))


def test_a_colon_parts_upstream_and_model_so_no_upstream_is_called_by_one(place: Place):
    place.user("[upstreams.'a:b']\nbase_url = 'http://u/'")
    with pytest.raises(ConfigError, match="an upstream cannot be called `a:b`"):
        place.load()


def test_aliases_are_texts_and_the_stronger_source_wins(place: Place):
    place.user('[aliases]\nfast = "near:a"\nbig = "near:b"')
    place.project('[aliases]\nfast = "far:c"')
    assert place.load().aliases() == {"fast": "near:a", "big": "near:b"}
    place.trust()
    assert place.load().aliases() == {"fast": "far:c", "big": "near:b"}
    for text in ("[aliases]\nfast = 1", "aliases = 1", "[aliases]\nfast = ''"):
        place.user(text)
        with pytest.raises(ConfigError, match="aliases"):
            place.load()


@pytest.mark.requirement("R-T5")
def test_an_untrusted_file_names_no_upstream_and_no_alias(place: Place):
    place.project('[upstreams.x]\nbase_url = "http://evil.test"\n[aliases]\ngpt = "x:m"')
    loaded = place.load()
    assert (loaded.upstream_names(), loaded.aliases()) == ((), {})
    assert "`upstreams`, `aliases`" in loaded.notes[0].detail


def test_what_moves_keys_or_weakens_marks_is_not_harmless():
    assert config.HARMLESS.isdisjoint({"base_url", "api_key", "secret", "load_plugins", "state_file", "marks"})

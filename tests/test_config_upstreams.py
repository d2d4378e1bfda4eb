"""The configuration: secrets, where a model is, upstreams by name."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path

import pytest

from tests.test_config import CANARY, Place
from toolspeak import config
from toolspeak.config import Config, Secret
from toolspeak.errors import ConfigError
from toolspeak.key_value import MemoryState


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


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
        with pytest.raises(TypeError, match="cannot be copied"):
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
    said = [
        loaded,
        vars(loaded).get("notes"),
        loaded.effective_settings(),
        loaded.tables(),
        loaded.endpoint("openai:m").api_key,
    ]
    assert CANARY not in repr(said)
    values = {setting.name: setting.value for setting in (*loaded.effective_settings(), *loaded.tables())}
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
    assert place.load().upstream("near").api_key.reveal() == CANARY


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
    with pytest.raises(ConfigError, match="write the secret to this file"):
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
    near = loaded.upstream("near")
    assert (near.row.base_url, near.protocol, near.api_key.reveal()) == ("http://n/", "anthropic", "kn")
    with pytest.raises(ConfigError, match=r"unknown upstream `far` \(configured upstreams: near\)"):
        loaded.upstream("far")


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
    with pytest.raises(ConfigError, match="the environment variable MY_KEY is not set"):
        place.load().upstream("variable")


@pytest.mark.requirement("R-T1")
def test_the_general_key_is_for_the_general_base_url_only(place: Place):
    place.user('base_url = "http://general/"\napi_key = "kg"\n[upstreams.near]\nbase_url = "http://near/"')
    loaded = place.load(OPENAI_API_KEY="ko")
    assert endpoint(loaded, "openai:m") == ("http://general/", "openai", "kg")
    near = loaded.upstream("near")
    assert (near.row.base_url, near.protocol, near.api_key.reveal()) == ("http://near/", "openai", "")


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
        ("auth = 'maybe'", "`auth` in {file}, [upstreams.u] cannot be `maybe` (use one of replace, forward, check)"),
        ("models = 'a'", "`models` in {file}, [upstreams.u] cannot be `a` (use a list; each item must be a string)"),
        ("idle_timeout = 0", "`idle_timeout` in {file}, [upstreams.u] cannot be `0`"),
        ("max_concurrent = -1", "`max_concurrent` in {file}, [upstreams.u] cannot be `-1`"),
        ("protocol = 'smtp'", "`protocol` in {file}, [upstreams.u] cannot be `smtp`"),
    ],
)
def test_what_an_upstream_cannot_be_is_refused(place: Place, text: str, message: str):
    place.user(f"[upstreams.u]\nbase_url = 'http://u/'\n{text}")
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert str(caught.value).startswith(message.format(file=f"`{place.user_file}`"))


def test_a_colon_parts_upstream_and_model_so_no_upstream_is_called_by_one(place: Place):
    place.user("[upstreams.'a:b']\nbase_url = 'http://u/'")
    with pytest.raises(ConfigError, match="invalid upstream name `a:b`"):
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

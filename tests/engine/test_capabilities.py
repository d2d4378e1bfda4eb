"""What is known of a model: the table, its hosts and families, overrides, and which rule decided."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.dialects.registry import DIALECTS
from toolspeak.engine.planning import capabilities as capability
from toolspeak.engine.planning.capabilities import (
    Capabilities,
    Learned,
    Overrides,
    Profile,
    ProfileMatch,
    best_pattern,
    builtin_table,
    capabilities,
    check_fields,
    describe_type,
    field_types,
    override_model,
    override_provider,
    read_table,
    split_model,
)
from toolspeak.engine.planning.strategy import Settings
from toolspeak.errors import ConfigError


@pytest.fixture
def known() -> Capabilities:
    return Capabilities()


def brief(found: ProfileMatch) -> tuple[str, str]:
    return found.profile.capability, found.rule


# ---- names


@pytest.mark.requirement("D3")
@check_each(
    ("name", "parts"),
    [
        ("openai:gpt-4", ("openai", "gpt-4")),
        ("deepinfra:deepseek-ai/DeepSeek-V3-0324", ("deepinfra", "deepseek-ai/DeepSeek-V3-0324")),
        ("ollama:llama3.1:latest", ("ollama", "llama3.1:latest")),
        ("openrouter:qwen/qwen3-8b:free", ("openrouter", "qwen/qwen3-8b:free")),
        ("OpenAI:GPT-4", ("openai", "GPT-4")),
        ("gpt-4", ("", "gpt-4")),
        ("meta-llama/Llama-3.1-8B", ("", "meta-llama/Llama-3.1-8B")),
        ("qwen/qwen3-8b:free", ("", "qwen/qwen3-8b:free")),
        ("llama3.1:latest", ("", "llama3.1:latest")),
        (":m", ("", "m")),
        ("vllm:", ("vllm", "")),
        ("", ("", "")),
    ],
)
def test_names_may_hold_colons_and_slashes(name: str, parts: tuple[str, str]):
    assert split_model(name) == parts


# ---- the table


@pytest.mark.requirement("D1", "D2")
@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        *((name, "openai") for name in ("openai", "groq", "deepseek", "deepinfra", "mistral", "xai", "openrouter")),
        *((name, "advanced") for name in ("gemini", "anthropic", "google")),
        *((name, "none") for name in ("ollama", "cerebras", "lambda", "embedded", "vllm")),
    ],
)
def test_the_table_knows_providers(known: Capabilities, provider: str, expected: str):
    assert brief(known.find(provider, "some-model")) == (expected, "table.provider")


@pytest.mark.requirement("D2")
def test_an_entry_for_a_model_overrides_its_provider(known: Capabilities):
    assert brief(known.find("ollama", "llama3.1:latest")) == ("openai", "table.model")
    assert brief(known.find("ollama", "llama3.2:latest")) == ("none", "table.provider")


@pytest.mark.requirement("D6")
@pytest.mark.parametrize("provider", ["", "opneai", "my server", "ünïcode", "openai/"])
def test_what_is_unknown_has_no_native_calling(known: Capabilities, provider: str):
    found = known.find(provider, "gpt-4")
    assert brief(found) == ("none", "unknown")
    assert found.profile == Profile()
    assert found.why.startswith("nothing is known about ")


def test_the_default_profile_takes_nothing_for_granted():
    assert Profile() == Profile(
        capability="none",
        leaks=True,
        dialect="action",
        system_role=True,
        media=("image", "audio", "video", "file"),
        constraint="",
        parallel=True,
        max_stop=4,
        marks="auto",
        transform="",
        repeats=True,
        measured={},
    )


def test_spaces_and_case_of_a_provider_do_not_matter(known: Capabilities):
    assert brief(known.find(" OpenAI ", "gpt-4")) == ("openai", "table.provider")


def test_a_pattern_of_models_adds_to_its_provider(known: Capabilities):
    profile = known.find("openai", "o3-mini").profile
    assert (profile.capability, profile.max_stop) == ("openai", 0)
    assert known.find("openai", "o3-mini").rule == "table.provider"
    assert known.find("openai", "gpt-4.1").profile.max_stop == 4


def test_every_dialect_and_host_of_the_table_makes_sense():
    table = builtin_table()
    for row in table.providers.values():
        assert row.protocol in ("openai", "anthropic", "gemini", "ollama")
        assert row.url == "" or row.owns(row.url)
        assert not set(row.aliases) & set(table.providers)
    for name in table.models:
        assert split_model(name)[0] in table.providers
    for fields in [row.fields for row in table.providers.values()] + [row.fields for row in table.families]:
        assert fields.get("dialect", "action") in DIALECTS


def test_no_family_hides_a_later_one():
    families = builtin_table().families
    for index, family in enumerate(families):
        for word in family.words:
            first = next(each for each in families if any(capability._has_word(word, known) for known in each.words))
            assert first is family, f"`{word}` of {family.name} is taken by {first.name} before it ({index})"


# ---- hosts


@pytest.mark.requirement("D3")
@pytest.mark.parametrize(
    ("provider", "base_url"),
    [
        ("openai", "https://api.openai.com/v1"),
        ("openai", "https://API.OpenAI.com"),
        ("openai", "https://api.openai.com:443/v1/"),
        ("openai", "https://api.openai.com./v1"),
        ("openai", " https://api.openai.com/v1 "),
        ("openai", "https://me:secret@api.openai.com/v1"),
        ("moonshot", "https://api.moonshot.cn/v1"),
        ("azure", "https://mine.openai.azure.com/openai/v1"),
        ("azure", "https://a.b.openai.azure.com/"),
    ],
)
def test_a_provider_stands_for_its_own_hosts(known: Capabilities, provider: str, base_url: str):
    assert brief(known.find(provider, "m", base_url)) == ("openai", "table.provider")


@pytest.mark.requirement("D3", "D6")
@pytest.mark.parametrize(
    "base_url",
    [
        "http://127.0.0.1:9000/v1",
        "http://localhost",
        "http://[::1]",
        "http://api.openai.com/v1",
        "https://api.openai.com:8443/v1",
        "https://api.openai.com.evil.example/v1",
        "https://evil.example/api.openai.com",
        "https://evilapi.openai.com/v1",
        "https://api.openai.com@evil.example/v1",
        "https://api.openai.com\\@evil.example/v1",
        "https://evil.example?api.openai.com",
        "https://a@b@api.openai.com/",
        "https://api.openai.com:99999999/v1",
        "https://api.openai.com :443/",
        "api.openai.com/v1",
        "ftp://api.openai.com",
        "https://",
        "\x00",
        "not a url",
    ],
)
def test_at_any_other_host_the_capability_is_unknown(known: Capabilities, base_url: str):
    assert brief(known.find("openai", "gpt-4", base_url)) == ("none", "foreign_host")


@pytest.mark.parametrize("host", ["127.0.0.1:11434", "localhost:11434", "[::1]:11434"])
def test_ollama_is_at_home_on_its_usual_port(known: Capabilities, host: str):
    assert brief(known.find("ollama", "llama3.1:latest", f"http://{host}/")) == ("openai", "table.model")
    assert brief(known.find("ollama", "llama3.1:latest", f"http://{host}0/")) == ("none", "foreign_host")


def test_a_parent_domain_is_not_covered_by_its_pattern(known: Capabilities):
    assert known.find("azure", "m", "https://openai.azure.com/").rule == "foreign_host"


def test_server_software_is_at_home_everywhere(known: Capabilities):
    found = known.find("llamacpp", "m", "http://10.0.0.7:8080")
    assert (*brief(found), found.profile.constraint) == ("none", "table.provider", "gbnf")


def test_on_a_foreign_host_only_the_family_is_known(known: Capabilities):
    profile = known.find("openai", "Qwen/Qwen3-8B", "http://127.0.0.1:8000/v1").profile
    assert profile == Profile(dialect="hermes")


# ---- families


@pytest.mark.parametrize(
    ("model", "dialect"),
    [
        ("Qwen/Qwen3-8B", "hermes"),
        ("qwen2.5:7b", "hermes"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen_xml"),
        ("zai-org/GLM-4.6", "glm"),
        ("NousResearch/Hermes-3-Llama-3.1-8B", "hermes"),
        ("meta-llama/Llama-3.2-3B-Instruct", "pythonic"),
        ("meta-llama/Llama-4-Scout", "pythonic"),
        ("ibm-granite/granite-4.0-h-tiny", "hermes"),
        ("microsoft/Phi-4-mini-instruct", "phi"),
        ("google/gemma-3-4b-it", "pythonic"),
        ("google/functiongemma-270m-it", "functiongemma"),
        ("MiniMaxAI/MiniMax-M2", "minimax"),
        ("allenai/Olmo-3-7B", "olmo"),
        ("anthropic/claude-opus", "invoke"),
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", "nemotron"),
        ("Salesforce/xLAM-2-8b", "xlam"),
        # Their own marks are special tokens, which servers drop or take for themselves.
        ("meta-llama/Llama-3.1-8B-Instruct", "action"),
        ("mistralai/Mistral-Small-3.2", "action"),
        ("deepseek-ai/DeepSeek-V3-0324", "action"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "action"),
        ("moonshotai/Kimi-K2-Instruct", "action"),
        ("ibm-granite/granite-3.3-8b-instruct", "action"),
        ("openai/gpt-oss-20b", "action"),
        ("google/gemma-4-31B-it", "action"),
        # Not a word of a family at the start of a word.
        ("allenai/Molmo-3-7B", "action"),
        ("someone/new", "action"),
    ],
)
def test_a_family_says_which_dialect_its_models_speak_best(known: Capabilities, model: str, dialect: str):
    assert known.find("vllm", model).profile.dialect == dialect


def test_a_word_counts_wherever_a_word_begins(known: Capabilities):
    assert known.find("x", "xqwen-and-qwen3").profile.dialect == "hermes"
    assert known.find("x", "xqwen").profile.dialect == "action"


def test_the_family_is_also_told_by_what_looks_like_a_provider(known: Capabilities):
    found = known.find(*split_model("qwen3:8b"))
    assert (found.rule, found.profile.dialect) == ("unknown", "hermes")


@pytest.mark.requirement("C4")
def test_text_only_families_take_no_media(known: Capabilities):
    assert known.find("vllm", "Llama-3.1-8B").profile.media == ()
    assert known.find("vllm", "Llama-3.2-11B-Vision").profile.media == ("image",)
    assert known.find("vllm", "anything-else").profile.media == ("image", "audio", "video", "file")


def test_gemma_has_no_system_role(known: Capabilities):
    assert not known.find("vllm", "gemma-2-9b-it").profile.system_role


# ---- overrides


@pytest.mark.requirement("D4")
def test_an_override_of_a_provider_counts_at_every_host(known: Capabilities):
    known.override_provider("cerebras", "openai")
    assert brief(known.find("cerebras", "m")) == ("openai", "override.provider")
    assert brief(known.find("cerebras", "m", "http://127.0.0.1:1/")) == ("openai", "override.provider")
    assert known.find("cerebras", "m").why == "set by an override for provider `cerebras`"


@pytest.mark.requirement("D4")
def test_an_override_of_a_model_beats_one_of_its_provider(known: Capabilities):
    known.override_model("deepinfra:new-model", "none")
    known.override_provider("deepinfra", "advanced")
    assert brief(known.find("deepinfra", "new-model")) == ("none", "override.model")
    assert brief(known.find("deepinfra", "other")) == ("advanced", "override.provider")


@pytest.mark.requirement("D4")
def test_a_users_word_beats_the_table_even_where_the_table_is_narrower(known: Capabilities):
    known.override_provider("ollama", "none")
    assert brief(known.find("ollama", "llama3.1:latest")) == ("none", "override.provider")


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("ollama:qwen*", "ollama", "qwen3:8b"),
        ("ollama:*:8b", "ollama", "qwen3:8b"),
        ("OLLAMA:Qwen3:8B", "ollama", "qwen3:8b"),
        ("qwen/qwen3:8b", "whoever", "qwen/qwen3:8b"),
        ("google:x", "gemini", "x"),
        ("gemini:x", "google", "x"),
    ],
)
def test_models_are_overridden_by_name_or_pattern(known: Capabilities, name: str, provider: str, model: str):
    known.override_model(name, "advanced")
    assert brief(known.find(provider, model)) == ("advanced", "override.model")


def test_aliases_are_the_provider_they_stand_for(known: Capabilities):
    known.override_provider("google", "none")
    assert brief(known.find("gemini", "m")) == brief(known.find("google", "m")) == ("none", "override.provider")


@pytest.mark.requirement("D4")
def test_an_upstream_is_overridden_by_its_base_url(known: Capabilities):
    known.configure(("config", Overrides(upstreams={"http://127.0.0.1:9000/v1/": {"capability": "openai"}})))
    assert brief(known.find("openai", "m", "http://127.0.0.1:9000/v1")) == ("openai", "config.upstream")
    assert brief(known.find("openai", "m", "http://127.0.0.1:9001/v1")) == ("none", "foreign_host")
    known.override_model("openai:m", "advanced")
    assert brief(known.find("openai", "m", "http://127.0.0.1:9000/v1")) == ("advanced", "override.model")


def test_an_override_may_be_a_profile_or_some_of_its_fields(known: Capabilities):
    known.override_model("groq:a", Profile("openai", parallel=False))
    assert known.find("groq", "a").profile == Profile("openai", parallel=False)
    known.override_model("groq:b", {"dialect": "hermes"})
    found = known.find("groq", "b")
    assert (*brief(found), found.profile.dialect) == ("openai", "table.provider", "hermes")


@pytest.mark.requirement("D4")
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("some", "`capability` in the override of `a:b` cannot be `some` (use one of none, openai, advanced)"),
        ({"leaks": "no"}, "`leaks` in the override of `a:b` cannot be `no` (use true or false)"),
        ({"max_stop": -1}, "`max_stop` in the override of `a:b` cannot be `-1`"),
        ({"media": ["smell"]}, "(use a list; each item must be one of image, audio, video, file)"),
        ({"constraint": 1}, '(use one of "", openai_strict, json_schema, gbnf, lark)'),
        ({"dialect": "klingon"}, "`dialect` in the override of `a:b` cannot be `klingon`"),
        ({"dialect": "auto"}, "`dialect` in the override of `a:b` cannot be `auto`"),
        ({"transform": 1}, "(use a string)"),
        ({"colour": "red"}, "unknown setting `colour` in the override of `a:b` (use one of "),
    ],
)
def test_an_override_that_cannot_be_is_refused(known: Capabilities, what: Any, message: str):
    with pytest.raises(ConfigError) as caught:
        known.override_model("a:b", what)
    assert message in str(caught.value)
    assert brief(known.find("a", "b")) == ("none", "unknown")


@pytest.mark.requirement("D4")
def test_sources_beat_each_other_in_order_whatever_their_scope(known: Capabilities):
    user = Overrides(models={"groq:m": {"capability": "none"}})
    environment = Overrides(providers={"GROQ": {"capability": "advanced"}})
    known.configure(("config", user))
    assert brief(known.find("groq", "m")) == ("none", "config.model")
    known.configure(("config", user), ("env", environment))
    found = known.find("groq", "m")
    assert (*brief(found), found.why) == ("advanced", "env.provider", "set in the environment for provider `groq`")
    known.override_provider("groq", "openai")
    assert brief(known.find("groq", "m")) == ("openai", "override.provider")


def test_configured_upstreams_are_told_by_their_url(known: Capabilities):
    known.configure(("config", Overrides(upstreams={"http://h:1/v1/": {"capability": "openai"}})))
    found = known.find("any", "m", "http://h:1/v1")
    assert (*brief(found), found.why) == ("openai", "config.upstream", "set in the configuration for this base URL")


def test_the_shared_overrides_are_those_of_the_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(capabilities(), "_api", Overrides())
    monkeypatch.setattr(capabilities(), "_cache", {}, raising=False)
    override_provider("cerebras", "openai")
    override_model("cerebras:old", "none")
    assert brief(capabilities().find("cerebras", "new")) == ("openai", "override.provider")
    assert brief(capabilities().find("cerebras", "old")) == ("none", "override.model")


# ---- what was learned


def test_what_was_observed_beats_the_table_and_yields_to_a_user(known: Capabilities):
    url = "http://127.0.0.1:9000/v1"
    known.set_measured("openai", "m", url, "openai", "a probe saw native calls")
    found = known.find("openai", "m", url + "/")
    assert (*brief(found), found.why) == ("openai", "probe", "a probe saw native calls")
    found = known.find("openai", "m", url, Learned({"capability": "none"}, "text calls came"))
    assert (*brief(found), found.why) == ("none", "learned", "text calls came")
    assert brief(known.find("openai", "other", url)) == ("none", "foreign_host")
    known.override_provider("openai", "none")
    assert brief(known.find("openai", "m", url)) == ("none", "override.provider")
    known.override_provider("openai", {})
    known.forget("openai", "m", url)
    known.forget("openai", "never measured", url)
    assert brief(known.find("openai", "m", url)) == ("none", "foreign_host")


def test_answers_are_remembered_but_not_for_ever(known: Capabilities):
    first = known.find("openai", "m")
    assert known.find("openai", "m") is first
    for index in range(1100):
        known.find("openai", f"m{index}")
    assert len(known._cache) <= 1024
    assert known.find("openai", "m") == first


# ---- tables of others


def test_a_table_is_put_before_the_one_there_is(known: Capabilities):
    table = read_table(
        {
            "providers": {
                "Acme": {"capability": "openai", "hosts": ["llm.acme.example"], "aliases": ["ac"]},
                "groq": {"capability": "none"},
            },
            "models": {"acme:Old": {"capability": "none"}},
            "families": [{"name": "mine", "words": ["qwen-acme"], "dialect": "react"}],
        },
        "a plugin",
    )
    known.extend(table)
    assert brief(known.find("ac", "new", "https://llm.acme.example/")) == ("openai", "table.provider")
    assert brief(known.find("acme", "old")) == ("none", "table.model")
    assert brief(known.find("groq", "m")) == ("none", "table.provider")
    assert known.find("acme", "qwen-acme").profile.dialect == "react"
    assert brief(known.find("openai", "gpt-4")) == ("openai", "table.provider")
    provider = known.provider("AC")
    assert provider is not None
    assert provider.name == "acme"
    assert known.provider("nobody") is None


@check_each(
    ("text", "message"),
    [
        ("a = ", "the file is not valid TOML"),
        ("[colours]", "unknown table `colours` in the file (use providers, models or families)"),
        ("providers = 1", "`providers` in the file must be a table of tables"),
        ("[models]\nx = 1", "`models` in the file must be a table of tables"),
        ("families = 1", "`families` in the file must be a list of tables"),
        ("families = [1]", "the file, families must be tables with a `name` and `words`"),
        ("[[families]]\nname = 'x'", "the file, families must be tables with a `name` and `words`"),
        ("[[families]]\nname = 'x'\nwords = 1", "`words` in the file, families cannot be `1`"),
        (
            "[[families]]\nname = 'x'\nwords = []\ncapability = 'none'",
            "`capability` is not allowed in the file, families",
        ),
        ("[providers.x]\ncapability = 'some'", "`capability` in the file, [providers.x] cannot be `some`"),
        (
            "[providers.x]\nhosts = 1",
            "`hosts` in the file, [providers.x] cannot be `1` (use a list; each item must be a string)",
        ),
        ("[models.'a:b']\ncolour = 1", "unknown setting `colour` in the file, [models.a:b]"),
    ],
)
def test_a_bad_table_is_refused_with_the_place(text: str, message: str):
    with pytest.raises(ConfigError) as caught:
        read_table(text, "the file")
    assert str(caught.value).startswith(message)


def test_the_table_that_comes_with_toolspeak_is_read_from_its_package():
    text = files("toolspeak.engine.planning").joinpath("profiles.toml").read_text(encoding="utf-8")
    assert set(builtin_table().providers) == set(tomllib.loads(text)["providers"])
    assert builtin_table() is builtin_table()


def test_words_for_what_is_allowed():
    assert describe_type(dict[str, int]) == "a table"
    assert describe_type(int) == "a whole number"
    assert describe_type(field_types(Profile)["max_stop"]) == "a whole number of at least 0"
    assert describe_type(field_types(Settings)["retries"]) == "a whole number from 0 to 10"
    assert describe_type(Annotated[int, msgspec.Meta(le=3)]) == "a whole number"


@check_each("retries", [99, -1])
def test_a_number_out_of_its_range_is_refused_with_the_range(retries: int):
    with pytest.raises(ConfigError, match="`retries` in here cannot be") as caught:
        check_fields(Settings, {"retries": retries}, "here")
    assert caught.value.hint == "use a whole number from 0 to 10"


def test_long_values_are_shortened_in_errors():
    with pytest.raises(ConfigError) as caught:
        check_fields(Profile, {"leaks": "x" * 10_000}, "here")
    assert len(str(caught.value)) < 200


# ---- patterns


@check_each(
    ("pattern", "name", "fits"),
    [
        ("a*", "a", True),
        ("a*", "abc", True),
        ("a*", "ba", False),
        ("*a", "ba", True),
        ("*a", "ab", False),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "a-c", False),
        ("ab*bc", "abc", False),
        ("*", "", True),
        ("a", "b", False),
        ("a.c", "abc", False),
    ],
)
def test_a_star_stands_for_any_text(pattern: str, name: str, fits: bool):
    assert (best_pattern([pattern], name) == pattern) is fits


def test_the_pattern_that_says_most_counts():
    assert best_pattern(["a*", "ab*", "*"], "abc") == "ab*"
    assert best_pattern(["abc*", "abc"], "abc") == "abc"
    assert best_pattern([], "abc") is None


TEXTS = st.text(max_size=20) | st.sampled_from(["https://api.openai.com/v1", "http://[", "https://a:b@c:1/x", "*", ":"])


@pytest.mark.requirement("D6")
@given(provider=TEXTS, model=TEXTS, base_url=TEXTS)
def test_looking_up_never_fails(provider: str, model: str, base_url: str):
    found = Capabilities().find(provider, model, base_url)
    assert found.rule in ("table.provider", "table.model", "foreign_host", "unknown")
    assert found.why


def test_no_more_is_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(capability, "_MAX_CACHED", 2)
    known = Capabilities()
    for name in ("a", "b", "c"):
        known.set_measured("x", name, "", "openai", "it called")
    assert [known.find("x", name).profile.capability for name in ("a", "b", "c")] == ["none", "openai", "openai"]


@pytest.mark.requirement("D8")
def test_what_was_learned_applies_only_where_it_is_passed_in():
    known = Capabilities()
    at = ("", "m", "http://x/v1")
    known.set_measured(*at, {"alternates": True, "dialect": "react"}, "measured")
    profiles = [known.find(*at, learned).profile for learned in (Learned({"dialect": "hermes"}, "seen"), None)]
    assert [(each.alternates, each.dialect) for each in profiles] == [(True, "hermes"), (True, "react")]


@check_each(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("http://127.0.0.1:11434", "ollama"),
        ("https://example.org/v1", None),
        ("http://127.0.0.1:8000/v1", None),
    ],
)
def test_the_provider_at_a_url_is_the_one_whose_host_it_is(url: str, name: str | None):
    row = Capabilities().provider_at(url)
    assert (row.name if row is not None else None) == name


def test_the_names_of_providers_include_their_other_names():
    names = Capabilities().provider_names
    assert {"openai", "embedded", "ollama"} <= {*names}
    assert all(Capabilities().provider(name) is not None for name in names)

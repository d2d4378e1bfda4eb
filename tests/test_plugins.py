"""Plugins come from distributions that are really installed, and a broken one costs a warning only."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolspeak import Tool, ToolCall, parse, render_calls
from toolspeak import plugins as plugins_module
from toolspeak.core.plugin_hook import set_loader
from toolspeak.dialects import registry
from toolspeak.dialects.registry import DIALECTS
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.strategy import Settings, strategy
from toolspeak.plugins import Plugin, Plugins
from toolspeak.protocols import plugin_protocols

pytestmark = pytest.mark.no_cover
DIALECT = """
from toolspeak.dialects.registry import Dialect
from toolspeak.dialects.rendering import between
ROW = Dialect("shouting", frozenset({"hermes"}), between("<tool_call>", "</tool_call>"), families="ours")
"""

Install = Callable[..., Path]


def found_by(plugins: Plugins) -> tuple[Plugin, ...]:
    """Every installed plugin, allowed or not."""
    return tuple(plugin for plugin, _ in plugins.search())


def forget_plugins() -> None:
    """Forget what has been found and loaded, as in a fresh process."""
    plugins_module._added.clear()  # pyright: ignore[reportPrivateUsage]
    plugin_protocols().clear()
    plugins_module.plugins_for.cache_clear()
    set_loader(None)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a tiny distribution: a module and its metadata, the way an installer leaves them."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    before = set(DIALECTS)
    forget_plugins()

    def install(name: str, code: str, points: dict[str, str], version: str = "1.0") -> Path:
        module = name.replace("-", "_").lower()
        (site / f"{module}.py").write_text(code, encoding="utf-8")
        info = site / f"{module}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
        groups: dict[str, list[str]] = {}
        for point, value in points.items():
            group, _, label = point.rpartition("/")
            groups.setdefault(f"toolspeak.{group}", []).append(f"{label} = {module}:{value}")
        text = "\n".join(f"[{group}]\n" + "\n".join(lines) for group, lines in groups.items())
        (info / "entry_points.txt").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, module, raising=False)
        return site

    yield install
    for name in set(DIALECTS) - before:
        registry.remove(name)
    forget_plugins()


def notes(plugins: Plugins) -> list[str]:
    assert {note.code for note in plugins.notes} <= {"plugin_left_out", "plugin_replaces"}
    return [note.detail for note in plugins.notes]


def test_a_plugin_brings_a_dialect(install: Install):
    install("toolspeak-shout", DIALECT, {"dialects/shouting": "ROW"})
    plugins = Plugins()
    assert "shouting" not in DIALECTS, "nothing is loaded before it is needed"
    assert set(plugins.dialects()) == {"shouting"}
    call = ToolCall("f", {"a": 1})
    text = render_calls("shouting", [call])
    assert parse(text, [Tool("f")], dialect="shouting").calls == (call,)
    assert Settings(dialect="shouting").dialect == "shouting"
    assert (notes(plugins), plugins.dialects()) == ([], plugins.dialects())


def test_an_entry_point_may_be_a_list_or_a_function(install: Install):
    code = DIALECT + "\nimport msgspec\ndef rows():\n    return [ROW, msgspec.structs.replace(ROW, name='louder')]\n"
    install("shout", code, {"dialects/all": "rows"})
    assert set(Plugins().dialects()) == {"shouting", "louder"}


@pytest.mark.requirement("D3")
def test_a_plugin_brings_profiles_that_name_its_dialect(install: Install):
    code = DIALECT + (
        "\ndef profiles():\n"
        "    return {'providers': {'acme': {'capability': 'openai', 'transform': 'acme', 'hosts': ['a.example']}},\n"
        "            'families': [{'name': 'acme', 'words': ['acme-chat'], 'dialect': 'shouting'}]}\n"
    )
    install("acme-models", code, {"dialects/shouting": "ROW", "profiles/acme": "profiles"})
    plugins, known = Plugins(), Capabilities()
    plugins.extend(known)
    plugins.extend(known)
    assert strategy("acme:m", "https://a.example/v1", known=known).plan == "native"
    assert known.find("acme", "m").profile.transform == "acme"
    assert known.find("vllm", "Acme-Chat-7B").profile.dialect == "shouting"
    assert notes(plugins) == []


def test_profiles_may_be_toml(install: Install):
    install("tomls", 'TABLE = \'[models."groq:m"]\\ncapability = "none"\'', {"profiles/x": "TABLE"})
    known = Capabilities()
    Plugins().extend(known)
    assert known.find("groq", "m").rule == "table.model"


def test_a_plugin_brings_an_upstream(install: Install):
    install("up", "class Mine:\n    pass\ndef make(**options):\n    return options\n", {"upstreams/mine": "make"})
    plugins = Plugins()
    factory = plugins.upstream("mine")
    assert factory is not None
    assert factory(base_url="x") == {"base_url": "x"}
    assert plugins.upstream("other") is None


BROKEN = {
    "missing attribute": "",
    "does not import": "import no_such_module_at_all",
    "raises": "raise RuntimeError('no\\nway')",
    "leaves": "raise SystemExit(3)",
    "not Python": "def (",
    "a number": "ROW = 3",
    "a function that raises": "def ROW():\n    raise ValueError('x')",
    "a list of numbers": "ROW = [1]",
    "taken name": DIALECT + "\nimport msgspec\nROW = msgspec.structs.replace(ROW, name='hermes')",
    "reserved name": DIALECT + "\nimport msgspec\nROW = msgspec.structs.replace(ROW, name='auto')",
    "cannot write": DIALECT + "\nimport msgspec\nROW = msgspec.structs.replace(ROW, style=lambda c, n: 1 / 0)",
    "cannot be read": DIALECT + "\nimport msgspec\nROW = msgspec.structs.replace(ROW, style=lambda c, n: 'hm')",
    "unknown openings": DIALECT + "\nimport msgspec\nROW = msgspec.structs.replace(ROW, accepts=frozenset({'x'}))",
}


@pytest.mark.parametrize("code", BROKEN.values(), ids=BROKEN)
def test_a_broken_plugin_is_a_warning_and_the_others_work(
    install: Install, code: str, caplog: pytest.LogCaptureFixture
):
    install("broken", code, {"dialects/bad": "ROW"})
    install("zz-good", DIALECT.replace("shouting", "whispering"), {"dialects/good": "ROW"})
    table = dict(DIALECTS)
    plugins = Plugins()
    with caplog.at_level(logging.WARNING, "toolspeak.plugins"):
        assert set(plugins.dialects()) == {"whispering"}
    assert {name: DIALECTS[name] for name in table} == table
    assert "shouting" not in DIALECTS
    assert len(notes(plugins)) == 1
    assert notes(plugins)[0].startswith("plugin `bad` of `broken` was skipped: ")
    assert "\n" not in notes(plugins)[0]
    assert [record.getMessage() for record in caplog.records] == notes(plugins)


@pytest.mark.parametrize("code", ["X = 3", "X = {'colours': {}}", "X = '[['", "def X():\n    raise KeyError"])
def test_broken_profiles_and_upstreams_are_warnings_too(install: Install, code: str):
    install("broken", code, {"profiles/bad": "X"})
    plugins, known = Plugins(), Capabilities()
    plugins.extend(known)
    assert len(notes(plugins)) == 1
    assert known.find("openai", "m").rule == "table.provider"


def test_a_plugin_that_takes_over_a_provider_or_comes_second_is_told(
    install: Install, caplog: pytest.LogCaptureFixture
):
    code = "def make(**options):\n    return options\n"
    install("aa-up", code, {"upstreams/openai": "make", "upstreams/mine": "make"})
    install("bb-up", code, {"upstreams/mine": "make"})
    plugins = Plugins()
    with caplog.at_level(logging.WARNING, "toolspeak.plugins"):
        assert plugins.upstream("openai") is not None
    replaced = "plugin `openai` of `aa-up` replaces the built-in provider"
    assert notes(plugins)[1] == replaced
    assert notes(plugins)[0].endswith("was skipped: another plugin already provides `mine`")
    assert [record.getMessage() for record in caplog.records] == notes(plugins)


def test_an_upstream_must_be_made_by_something(install: Install):
    install("broken", "X = 3", {"upstreams/bad": "X"})
    plugins = Plugins()
    assert plugins.upstream("bad") is None
    assert notes(plugins) == ["plugin `bad` of `broken` was skipped: `int` is not an upstream factory"]


@pytest.mark.parametrize(
    ("allow", "loaded"),
    [
        ("all", {"one", "two"}),
        ("none", set[str]()),
        ("Plugin_One", {"one"}),
        ("plugin.one , plugin-two", {"one", "two"}),
        ("another", set[str]()),
        ("", set[str]()),
    ],
)
def test_the_configuration_says_which_are_loaded(install: Install, tmp_path: Path, allow: str, loaded: set[str]):
    for name in ("one", "two"):
        code = DIALECT.replace("shouting", name) + f"\nopen({str(tmp_path / name)!r}, 'w').close()\n"
        install(f"plugin-{name}", code, {f"dialects/{name}": "ROW"})
    plugins = Plugins(allow)
    assert {plugin.name for plugin in found_by(plugins) if plugin.allowed} >= loaded
    assert set(plugins.dialects()) == loaded
    assert {name for name in ("one", "two") if (tmp_path / name).exists()} == loaded, "the others were not even run"


def test_what_is_installed_is_listed_without_loading(install: Install):
    site = install("Some-Thing", "raise RuntimeError", {"dialects/a": "X", "upstreams/b": "Y"}, version="2.5")
    listed = found_by(Plugins("none", path=[str(site)]))
    assert [(each.group, each.name, each.distribution, each.version, each.value, each.allowed) for each in listed] == [
        ("toolspeak.dialects", "a", "Some-Thing", "2.5", "some_thing:X", False),
        ("toolspeak.upstreams", "b", "Some-Thing", "2.5", "some_thing:Y", False),
    ]


def test_the_first_of_two_installations_counts(install: Install, tmp_path: Path):
    first = install("same", "A = 1", {"dialects/new": "A"})
    second = tmp_path / "second"
    info = second / "same-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Same\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[toolspeak.dialects]\nold = same:B\n")
    listed = found_by(Plugins(path=[str(first), str(second)]))
    assert [each.name for each in listed] == ["new"]


def test_a_distribution_without_readable_metadata_is_skipped(install: Install):
    site = install("good", DIALECT, {"dialects/good": "ROW"})
    bad = site / "bad-1.0.dist-info"
    bad.mkdir()
    (bad / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1\n")
    (bad / "entry_points.txt").write_text("this is = not [an ini file\n[[[\nx")
    (site / "worse-1.0.dist-info").mkdir()
    plugins = Plugins(path=[str(site)])
    assert [each.name for each in found_by(plugins)] == ["good"]


def test_what_else_is_installed_is_not_read_where_there_is_no_plugin(tmp_path: Path):
    unreadable = tmp_path / "other-1.0.dist-info"
    unreadable.mkdir()
    (unreadable / "METADATA").write_bytes(b"\xff\xfe\x00")
    (unreadable / "entry_points.txt").write_text("[console_scripts]\nother = other:main\n")
    plugins = Plugins(path=[str(tmp_path)])
    assert (found_by(plugins), plugins.notes) == ((), [])


def test_a_plugin_works_in_a_fresh_process(install: Install):
    site = install("toolspeak-shout", DIALECT, {"dialects/shouting": "ROW"})
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); from toolspeak.plugins import Plugin, Plugins; "
        "print(json.dumps(sorted(Plugins().dialects())))"
    )
    command = [sys.executable, "-c", code, str(site)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, json.loads(done.stdout)) == (0, ["shouting"]), done.stderr

"""The reference is complete and current: every public name, option, setting, note, metric, route and error is in it.

What must be there comes from the golden files of `tests/compatibility/`, which are collected in another way.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import toolspeak as ts
import toolspeak.errors
import toolspeak.plugin_api
import toolspeak.types
from tests.cases import check_each

pytestmark = pytest.mark.requirement("K4")

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "reference"
GOLDEN = ROOT / "tests" / "compatibility"
#: Codes that the source puts together from a prefix and a word.
PATTERNS = {"{}", "{}_dropped", "retry_{}"}


@cache
def _reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _page(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


@cache
def _golden(name: str) -> Any:
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


def _headings(page: str) -> list[str]:
    return re.findall(r"^#+ `([^`]+)`$", _page(page), re.MULTILINE)


def _first_cells(text: str) -> set[str]:
    """The names in the first column of the tables of a text."""
    cells = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def _section(page: str, heading: str) -> str:
    """The text below a heading, up to the next one of any level."""
    _, found, rest = _page(page).partition(f"\n{heading}\n")
    assert found, heading
    return re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]


def test_the_pages_are_current():
    assert _reference().stale() == [], "run `make docs`"
    assert sorted(path.stem for path in FOLDER.glob("*.md")) == sorted(_reference().PAGES)


# ---- Python


def test_every_name_of_the_package_is_described():
    golden = _golden("names.json")
    names = set(golden["all"]) | set(golden["unlisted"]) | set(ts.__all__)
    assert names <= set(_headings("python"))


def test_every_type_is_described():
    names = {name for name in dir(toolspeak.types) if not name.startswith("_")}
    links = set(re.findall(r"\[`(\w+)`\]\(python\.md", _page("types")))
    assert names == (set(_headings("types")) & names) | links
    assert links <= set(_headings("python"))


def test_every_integration_is_described():
    modules = {path.stem for path in (ROOT / "src/toolspeak/integrations").glob("*.py")} - {"__init__"}
    headings = _headings("integrations")
    assert {f"toolspeak.integrations.{name}" for name in modules} <= set(headings)
    assert {"ChatToolspeak", "register", "ToolspeakLLM", "wrap", "openai_client", "ToolspeakModel"} <= set(headings)


def test_every_name_for_plugins_is_described_with_its_fields():
    assert set(toolspeak.plugin_api.__all__) <= set(_headings("plugin_api"))
    for kind in (toolspeak.plugin_api.Dialect, toolspeak.plugin_api.Opening):
        assert set(kind.__struct_fields__) == _first_cells(_section("plugin_api", f"## `{kind.__name__}`"))


def test_every_method_and_attribute_of_the_golden_file_is_described():
    text = _page("python") + _page("types")
    golden = _golden("names.json")["definitions"]
    missing = {
        f"{name}.{method}"
        for name in ("Client", "Agent", "AsyncAgent", "Scanner", "Scripted")
        for method in golden[name]["methods"]
        if f"`{name}.{method}`" not in text
    }
    assert missing == set()


def test_parameters_are_those_of_the_signatures():
    shown = _section("python", "### `Scanner`")
    for name in ("tools", "dialect", "policy", "nonce", "untrusted"):
        assert f"| `{name}` |" in shown
    client = _section("python", "### `Client`")
    assert "base_url: str = ''," in client
    assert "**settings: Unpack[SettingOptions]" in client


def test_every_option_of_a_turn_is_listed():
    shown = _first_cells(_section("types", "## `TurnOptions`"))
    assert {"mode", "retries", "parallel", "temperature", "extra_body", "max_tokens", "store"} <= shown


@check_each("name", toolspeak.errors.__all__)
def test_every_error_is_described_with_its_status(name: str):
    kind = getattr(toolspeak.errors, name)
    text = _section("errors", f"### `{name}`")
    assert f"HTTP status {kind.status}." in text
    assert ("Final:" in text) is bool(kind.final)


# ---- the command line


def _commands(described: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, described
    for name, each in described.get("commands", {}).items():
        if not each["hidden"]:
            yield from _commands(each, f"{path} {name}")


COMMANDS = dict(_commands(_golden("cli.json"), "toolspeak"))


@check_each("path", COMMANDS)
def test_every_command_is_described_with_its_options(path: str):
    level = "##" if path.count(" ") < 2 else "###"
    shown = _first_cells(_section("cli", f"{level} `{path}`"))
    options = [each for each in COMMANDS[path]["options"].values() if not each.get("hidden")]
    assert {spelling for each in options for spelling in each["spellings"]} == shown


# ---- settings, notes, metrics and routes


@check_each(
    "table, heading",
    [
        ("(top)", "## General settings"),
        ("upstreams", "## `[upstreams]`"),
        ("aliases", "## `[aliases]`"),
        ("server_tools", "## `[server_tools]`"),
        ("models", "## Fields of a model's profile"),
    ],
)
def test_every_setting_is_described(table: str, heading: str):
    golden = _golden("configuration.json")
    names = set(golden["tables"][table])
    general = set(golden["tables"]["(top)"])
    profile = set(golden["profile_rows"]["profile"])
    if table == "upstreams":
        names -= (general | profile) - {"base_url", "protocol", "api_key", "api_key_file", "transport"}
    if table == "models":
        names = profile
    shown = _first_cells(_section("settings", heading))
    assert {name for name in shown if name.islower()} == names


def test_every_environment_variable_is_described():
    assert set(_golden("configuration.json")["variables"]) <= _first_cells(_page("settings"))


def test_trust_is_that_of_the_configuration():
    harmless = set(_golden("configuration.json")["harmless"])
    rows = re.findall(
        r"^\| `(\w+)`[^|]*\|(?:[^|]*\|){2} (yes|no) \|", _section("settings", "## General settings"), re.MULTILINE
    )
    assert len(rows) > 30
    assert {name for name, trust in rows if trust == "no"} == {name for name, _ in rows} & harmless
    assert "marks" not in harmless


def test_every_note_is_described():
    assert set(_golden("codes.json")["notes"]) - PATTERNS <= _first_cells(_page("notes"))


def test_every_fault_that_is_retried_has_a_note():
    assert {f"retry_{fault}" for fault in _golden("codes.json")["faults"]} <= _first_cells(_page("notes"))


@pytest.mark.no_cover
def test_notes_that_texts_of_models_lead_to_are_described():
    shown = _first_cells(_page("notes"))
    seen: set[str] = set()
    for path in sorted((ROOT / "tests" / "corpus").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            tools = [{"name": name, "parameters": schema} for name, schema in (case.get("tools") or {}).items()]
            parsed = ts.parse(case["text"], tools=tools or None)
            seen |= {note.code for note in parsed.notes}
            seen |= {note.code for each in (*parsed.calls, *parsed.candidates) for note in each.notes}
            seen |= set(case.get("codes") or ())
    assert len(seen) > 40
    assert seen - shown == set()


def test_every_described_note_exists_in_the_code():
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    faults = {f"retry_{fault}" for fault in _golden("codes.json")["faults"]}
    made = faults | {"seed_dropped", "n_dropped", "stop_dropped"}
    unknown = {code for code in _first_cells(_page("notes")) - made if f'"{code}"' not in source}
    assert unknown == set()


def test_every_metric_is_described_with_its_labels():
    exposition = _golden("http.json")["pages"]["/metrics"]
    families = set(re.findall(r"# TYPE (\w+)", json.dumps(exposition)))
    shown = _first_cells(_page("metrics").partition("## Labels")[0])
    assert families
    assert families <= shown
    labels = {label for each in _reference().metric_families() for label in each.labels}
    assert labels == _first_cells(_page("metrics").partition("## Labels")[2])


def test_every_route_is_described():
    shown: dict[str, set[str]] = {}
    for methods, path in re.findall(r"^\| ([A-Z, ]+) \| `([^`]+)` \|", _page("routes"), re.MULTILINE):
        shown.setdefault(path, set()).update(methods.split(", "))
    for route in _golden("http.json")["routes"]:
        method, _, path = route.partition(" ")
        assert method in shown[path.replace("NAME", "{name}")], route

"""The documentation tells the truth: its samples run and its tables are current."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import toolspeak as ts
from tests.cases import check_each
from toolspeak.engine.planning.capabilities import Overrides, capabilities

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: The samples of this page need other libraries; tests/integrations/test_samples.py runs them.
INTEGRATIONS = ROOT / "docs" / "integrations.md"
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")

TOOLS = [{"type": "function", "function": {"name": "get_weather"}}]
TEXT = '<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>'


def _names(shown: list[Any]) -> dict[str, Any]:
    """What a sample may take for granted."""
    return {
        "text": TEXT,
        "tools": TOOLS,
        "stream_of_text": [TEXT[at : at + 7] for at in range(0, len(TEXT), 7)],
        "show": shown.append,
    }


@pytest.fixture(autouse=True)
def _own_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples that override capabilities must not change them for other tests."""
    monkeypatch.setattr(capabilities(), "_api", Overrides())
    monkeypatch.setattr(capabilities(), "_cache", {})


@check_each("page", set(PAGES) - {INTEGRATIONS}, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_samples_run_in_order(page: Path):
    shown: list[Any] = []
    names = _names(shown)
    for sample in SAMPLE.findall(page.read_text(encoding="utf-8")):
        exec(compile(sample, str(page), "exec"), names)  # noqa: S102 - our own documentation
    if page.name == "README.md" and page.parent == ROOT:
        assert names["reply"] == ts.parse(TEXT, tools=TOOLS)
        assert shown


def test_the_first_samples_of_the_readme_give_what_their_comments_say():
    first, second, third, *_ = SAMPLE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    exec(compile(first, "README.md", "exec"), names)  # noqa: S102 - our own documentation
    reply = names["reply"]
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("get_weather", {"city": "Paris"})]
    assert [note.code for note in reply.notes] == ["trailing_comma"]
    assert reply.warnings == ("tool calls emulated",)
    exec(compile(second, "README.md", "exec"), names)  # noqa: S102 - our own documentation
    assert names["result"].content == "Bread costs 3 crowns."
    assert [record.call.name for record in names["result"].rounds[0].calls] == ["price"]
    exec(compile(third, "README.md", "exec"), names)  # noqa: S102 - our own documentation
    parsed = names["parsed"]
    assert [(call.name, call.arguments) for call in parsed.calls] == [("get_weather", {"city": "Paris", "days": 3})]
    assert parsed.text.strip() == "Let me look that up."
    assert [note.code for note in parsed.notes] == ["trailing_comma"]
    assert parsed.complete


@check_each("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path):
    missing = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert missing == []


def test_bounds_that_are_told_are_those_of_the_code():
    from toolspeak.server.recording import recorder
    from toolspeak.upstreams.embedded.model_process import Recipe

    serve, constraints = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("serve.md", "constraints.md"))
    node = recorder._VALUE_BYTES  # pyright: ignore[reportPrivateUsage]
    assert f"the last {recorder.MAX_ENTRIES}, {recorder.MAX_BYTES >> 20} MiB in all" in serve
    assert f"and {node} for each value in them" in serve
    assert f"at most {Recipe().longest:,} tokens" in constraints
    assert f"share {Recipe().context:,} (`context`)" in constraints


def test_the_tables_are_current():
    stale = [f"{place.path.name}: {place.mark}" for place in _script("tables").PLACES if place.stale()]
    assert stale == [], "run `make docs`"


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

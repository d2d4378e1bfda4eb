"""The documentation tells the truth: its samples run, its links lead somewhere and its tables are current."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.cases import check_each
from toolspeak.engine.planning.capabilities import Overrides, capabilities

pytestmark = pytest.mark.requirement("K4")

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
#: The pages of the site. docs/README.md is for readers of the folder on a forge.
SITE_PAGES = sorted(set(DOCS.rglob("*.md")) - {DOCS / "README.md"})
PAGES = [ROOT / "README.md", DOCS / "README.md", *SITE_PAGES]
#: Samples that run as they are printed. Those in blocks marked `py` need something that a test cannot give them.
SAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: The samples of this page need other libraries; tests/integrations/test_samples.py runs them.
INTEGRATIONS = DOCS / "integrations.md"
#: Written from the code: signatures in place of samples.
REFERENCE = set((DOCS / "reference").glob("*.md"))
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
FENCED = re.compile(r"^(`{3,})[^\n]*\n.*?^\1`*$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.+?)\s*$", re.MULTILINE)
#: Made by the build, beside the pages.
BUILT = {DOCS / "llms.txt", DOCS / "llms-full.txt"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _own_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples that override capabilities must not change them for other tests."""
    monkeypatch.setattr(capabilities(), "_api", Overrides())
    monkeypatch.setattr(capabilities(), "_cache", {})


@check_each("page", sorted({*PAGES} - {INTEGRATIONS} - REFERENCE), ids=_name)
def test_samples_run_in_order_as_they_are_printed(page: Path):
    names: dict[str, Any] = {"__name__": "__main__"}
    for sample in SAMPLE.findall(_text(page)):
        exec(compile(sample, _name(page), "exec"), names)  # noqa: S102 - our own documentation


def test_the_samples_of_the_readme_give_what_their_comments_say(capsys: pytest.CaptureFixture[str]):
    first, second, third = SAMPLE.findall(_text(ROOT / "README.md"))
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
    assert len(parsed.candidates) == 1
    assert "CallStart(index=0, name='get_weather'" in capsys.readouterr().out


def test_the_readme_is_short_and_begins_with_the_demo():
    text = _text(ROOT / "README.md")
    assert len(text.splitlines()) < 200
    assert "![" in text.partition("\n## ")[0]


# ---- links


def _anchors(page: Path) -> set[str]:
    """The anchors of the headings, as a forge and the site make them."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCED.sub("", _text(page))):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
        found.add(anchor if anchor not in found else f"{anchor}_1")
    return found


def _broken(page: Path) -> Iterator[str]:
    for path, anchor in LINK.findall(FENCED.sub("", _text(page))):
        target = (page.parent / path).resolve() if path else page
        if target in BUILT:
            continue
        if not target.exists():
            yield path
        elif anchor and target.suffix == ".md" and anchor not in _anchors(target):
            yield f"{path}#{anchor}"


@check_each("page", PAGES, ids=_name)
def test_links_and_anchors_lead_somewhere(page: Path):
    assert list(_broken(page)) == []


@check_each("page", PAGES, ids=_name)
def test_links_to_the_repository_name_a_file_of_it(page: Path):
    source = re.escape(PROJECT["urls"]["Source"])
    for path in re.findall(rf"{source}/(?:blob|raw|tree)/main/([^)#\s]+)", _text(page)):
        assert (ROOT / path).exists(), path


@check_each("page", SITE_PAGES, ids=_name)
def test_pages_of_the_site_link_only_to_files_of_the_site(page: Path):
    """Other files of the repository are not on the site: link to the repository."""
    outside = [path for path, _ in LINK.findall(_text(page)) if not (page.parent / path).resolve().is_relative_to(DOCS)]
    assert outside == []


def test_the_navigation_has_every_page_once():
    listed = [entry.path for entry in _script("finish_site").entries()]
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in SITE_PAGES)


def test_the_navigation_links_to_this_repository():
    config = _text(ROOT / "zensical.toml")
    links = re.findall(r"https://github\.com/[^\s\"]+", config)
    assert links
    for link in links:
        path = link.removeprefix(PROJECT["urls"]["Source"]).removeprefix("/blob/main/")
        assert (ROOT / path).exists(), link


def test_links_of_the_readme_work_on_a_package_index():
    path = ROOT / "packaging" / "readme.py"
    text = _load(path).absolute(_text(ROOT / "README.md"), PROJECT["urls"]["Source"])
    assert [path for path, _ in LINK.findall(FENCED.sub("", text)) if path] == []
    assert f"]({PROJECT['urls']['Source']}/blob/main/docs/serve.md)" in text
    assert f"]({PROJECT['urls']['Source']}/raw/main/docs/agent-run.svg)" in text


# ---- the site


@check_each(
    "html",
    [
        '<script src="https://example.com/a.js"></script>',
        "<script defer src=//example.com/a.js></script>",
        '<link rel="stylesheet" href="https://fonts.example.com/css?family=A">',
        '<link href="https://fonts.example.com" rel="preconnect">',
        '<img alt="" src="http://example.com/a.png">',
    ],
)
def test_resources_of_other_servers_are_found(html: str):
    assert len(_script("finish_site").remote_resources(html)) == 1


@check_each(
    "html",
    [
        '<a href="https://example.com">a page</a>',
        '<script src="../assets/a.js"></script><link rel="stylesheet" href="assets/a.css"><img src="a.png">',
        '<link rel="canonical" href="https://example.com/page">',
    ],
)
def test_what_loads_nothing_from_other_servers_is_fine(html: str):
    assert _script("finish_site").remote_resources(html) == []


def test_the_lists_for_language_models_hold_every_page():
    site = _script("finish_site")
    index, whole = site.index(), site.whole()
    for page in SITE_PAGES:
        assert f"]({page.relative_to(DOCS).as_posix()})\n" in index
        assert _text(page) in whole


# ---- what the pages say


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
    return _load(ROOT / "scripts" / f"{name}.py")


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

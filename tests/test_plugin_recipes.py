"""The recipes for plugins: their own code blocks, followed step by step, lead to a plugin that works."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.cases import check_each
from tests.plugin_helpers import ROOT, install, run

pytestmark = pytest.mark.no_cover

#: A file that the reader is told to write.
_FILE = re.compile(r'^```\w+ title="([\w.]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_STEP = re.compile(r"^## ", re.MULTILINE)


@check_each(
    ("page", "printed"),
    [
        ("add-a-dialect.md", ["the dialect works", "the dialect works", "the grammar works"]),
        ("add-a-provider.md", ["the provider works"]),
    ],
)
def test_a_recipe_leads_to_a_plugin_that_works(tmp_path_factory: pytest.TempPathFactory, page: str, printed: list[str]):
    package, told = tmp_path_factory.mktemp("package"), ""
    site = tmp_path_factory.mktemp("site")
    for step in _STEP.split((ROOT / "docs" / page).read_text(encoding="utf-8")):
        written = dict(_FILE.findall(step))
        for name, text in written.items():
            (package / name).write_text(text, encoding="utf-8")
        if any(name.startswith("check") for name in written):
            shutil.rmtree(site)
            install(package, site)
            for check in sorted(package.glob("check*.py")):
                told += run(site, sys.executable, str(check))
    assert told.splitlines() == printed


def test_the_recipes_name_the_files_that_they_need():
    for page, names in {
        "add-a-dialect.md": {"pyproject.toml", "toolspeak_nova.py", "check.py", "check_line.py"},
        "add-a-provider.md": {"pyproject.toml", "toolspeak_nova_provider.py", "check.py"},
    }.items():
        found = {name for name, _ in _FILE.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))}
        assert found == names


def test_the_page_lists_every_name_that_plugins_may_import():
    from toolspeak import plugin_api
    from toolspeak.plugins import GROUPS

    text = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in (*plugin_api.__all__, *GROUPS))
    assert all(getattr(plugin_api, name) for name in plugin_api.__all__)
    assert Path(plugin_api.__file__).stem in text

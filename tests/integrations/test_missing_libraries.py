"""Without the library of an integration, an error says what to install."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

import toolspeak as ts

ROOT = Path(__file__).parent.parent.parent
LIBRARIES = {
    "langchain": "langchain_core",
    "litellm": "litellm",
    "llama_index": "llama_index",
    "openai": "openai",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "smolagents": "smolagents",
}
FILES = (ROOT / "src" / "toolspeak" / "integrations").glob("[a-z]*.py")


def test_every_integration_has_an_extra_of_its_name():
    assert sorted(path.stem for path in FILES) == sorted(LIBRARIES)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {name.replace("_", "-") for name in LIBRARIES} <= project["optional-dependencies"].keys()


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_missing_library_is_an_error_that_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch):
    if name not in ("openai", "langchain") and importlib.util.find_spec("openai") is None:
        pytest.skip("`openai` is missing; runs in `make test-all`")
    module = f"toolspeak.integrations.{name}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    for loaded in [each for each in sys.modules if each.partition(".")[0] == LIBRARIES[name]]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, LIBRARIES[name], None)
    with pytest.raises(ts.ConfigError, match=rf"pip install 'toolspeak\[{name.replace('_', '-')}\]'"):
        importlib.import_module(module)

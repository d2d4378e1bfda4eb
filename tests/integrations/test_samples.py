"""The samples in docs/integrations.md run as they are printed."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "integrations.md"
FIRST, *SECTIONS = PAGE.read_text(encoding="utf-8").split("\n## ")
#: The heading of each section, and the module that its samples need.
MODULES = {
    "OpenAI": "openai",
    "LangChain": "langchain.agents",
    "pydantic-ai": "pydantic_ai",
    "LlamaIndex": "llama_index.llms.openai",
    "smolagents": "smolagents",
    "LiteLLM": "litellm",
    "OpenAI Agents SDK": "agents",
}


def samples(text: str) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


def test_every_section_has_a_sample_that_is_run():
    assert [text.partition("\n")[0] for text in SECTIONS if samples(text)] == list(MODULES)


@pytest.mark.filterwarnings("ignore")  # of the libraries
@pytest.mark.parametrize("section", SECTIONS, ids=list(MODULES))
def test_samples_run(section: str, tmp_path: Path):
    module = MODULES[section.partition("\n")[0]]
    pytest.importorskip(module, reason=f"`{module}` is missing; runs in `make test-all`")
    program = tmp_path / "sample.py"  # smolagents reads the source of its tools
    program.write_text("\n".join(map(samples, (FIRST, section))), encoding="utf-8")
    runpy.run_path(str(program))

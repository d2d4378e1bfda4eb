"""Each codec as a whole: its public names, and its losses as the documentation prints them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from tests.cases import check_each
from toolspeak.protocols import anthropic, gemini, ollama, openai_chat, openai_responses
from toolspeak.protocols.shared.fields import Loss

PAGE = Path(__file__).parents[2] / "docs" / "protocols.md"
#: The chapter about each; that of chat completions, the first, prints a table.
CHAPTERS = {
    anthropic: "## Anthropic's Messages API\n",
    gemini: "## Gemini's generateContent\n",
    ollama: "## Ollama's chat\n",
    openai_chat: "",
    openai_responses: "## OpenAI's Responses API\n",
}
each = check_each("module", CHAPTERS, ids=lambda module: module.PROTOCOL)


def losses(module: ModuleType) -> list[Loss]:
    return [loss for half in ("request", "reply") for loss in module.LOSSES if loss.half == half]


@each
def test_the_documentation_lists_every_loss_and_no_other(module: ModuleType):
    page = PAGE.read_text(encoding="utf-8")
    title = CHAPTERS[module]
    if not title:
        printed = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| what |")]
        assert printed == [f"| {loss.name} | {loss.becomes} |" for loss in losses(module)]
        return
    chapter = page.partition(title)[2].partition("\n## ")[0]
    printed = chapter.partition("What is lost of a request:\n")[2].splitlines()
    assert [line for line in printed if line.startswith("- ")] == [
        f"- {loss.name}: {loss.becomes}" for loss in losses(module)
    ]


@each
def test_every_public_name_is_there(module: ModuleType):
    assert all(hasattr(module, name) for name in module.__all__)


@each
def test_no_loss_is_listed_twice(module: ModuleType):
    assert len({(loss.half, loss.name) for loss in module.LOSSES}) == len(module.LOSSES)

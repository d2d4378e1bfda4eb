"""The losses of each protocol, as docs/protocols.md lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

_PAGE = Path(__file__).parents[2] / "docs" / "protocols.md"
#: The title of the chapter that lists the losses of each protocol.
CHAPTERS = {
    "anthropic": "Anthropic Messages API",
    "gemini": "Gemini generateContent",
    "ollama": "Ollama chat",
    "ollama_generate": "Ollama generate",
    "openai_chat": "OpenAI chat completions",
    "openai_responses": "OpenAI Responses API",
}


def documented_losses(protocol: str, half: Literal["request", "reply"]) -> list[str]:
    """The name of every loss of requests or of replies."""
    chapter = _PAGE.read_text(encoding="utf-8").partition(f"## {CHAPTERS[protocol]}\n")[2].partition("\n## ")[0]
    listed = chapter.partition(f"Lost in a {half}:\n\n")[2].partition("\n\n")[0]
    return [line.removeprefix("- ").partition(": ")[0] for line in listed.splitlines()]

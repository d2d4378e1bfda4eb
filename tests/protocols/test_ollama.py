"""The codec as a whole: its public names, and its losses as the documentation prints them."""

from __future__ import annotations

from pathlib import Path

from toolspeak.protocols import ollama

PAGE = Path(__file__).parents[2] / "docs" / "protocols.md"


def test_the_documentation_lists_every_loss_and_no_other():
    chapter = PAGE.read_text(encoding="utf-8").partition("## Ollama's chat\n")[2].partition("\n## ")[0]
    printed = chapter.partition("What is lost of a request:\n")[2].splitlines()
    assert [line for line in printed if line.startswith("- ")] == [
        f"- {loss.name}: {loss.becomes}" for half in ("request", "reply") for loss in ollama.LOSSES if loss.half == half
    ]


def test_every_public_name_is_there():
    assert all(hasattr(ollama, name) for name in ollama.__all__)


def test_no_loss_is_listed_twice():
    assert len({(loss.half, loss.name) for loss in ollama.LOSSES}) == len(ollama.LOSSES)

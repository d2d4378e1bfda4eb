"""The codec as a whole: its public names, and its losses as the documentation prints them."""

from __future__ import annotations

from pathlib import Path

from toolspeak.protocols import openai_responses
from toolspeak.protocols.openai_responses import LOSSES

PAGE = Path(__file__).parents[2] / "docs" / "protocols.md"


def test_the_documentation_lists_every_loss_and_no_other():
    chapter = PAGE.read_text(encoding="utf-8").partition("## OpenAI's Responses API\n")[2].partition("\n## ")[0]
    for half in ("request", "reply"):
        printed = chapter.partition(f"What is lost of a {half}:\n\n")[2].partition("\n\n")[0].splitlines()
        assert printed == [f"- {loss.name}: {loss.becomes}" for loss in LOSSES if loss.half == half]


def test_every_public_name_is_there():
    assert all(hasattr(openai_responses, name) for name in openai_responses.__all__)


def test_no_loss_is_listed_twice():
    assert len({(loss.half, loss.name) for loss in LOSSES}) == len(LOSSES)

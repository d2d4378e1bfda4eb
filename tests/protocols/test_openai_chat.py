"""The codec as a whole: its public names, and its losses as the documentation prints them."""

from __future__ import annotations

from pathlib import Path

from toolspeak.protocols import openai_chat
from toolspeak.protocols.openai_chat import LOSSES

PAGE = Path(__file__).parents[2] / "docs" / "protocols.md"


def test_the_documentation_lists_every_loss_and_no_other():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    printed = [line for line in lines if line.startswith("| ") and not line.startswith("| what |")]
    assert printed == [
        f"| {loss.name} | {loss.becomes} |" for half in ("request", "reply") for loss in LOSSES if loss.half == half
    ]


def test_every_public_name_is_there():
    assert all(hasattr(openai_chat, name) for name in openai_chat.__all__)


def test_no_loss_is_listed_twice():
    assert len({(loss.half, loss.name) for loss in LOSSES}) == len(LOSSES)

"""Writes src/toolspeak/core/refusals/triggers.json: what the tables of refusals demand of a text.

Run it after a change of the tables; a test fails until then.
"""

from __future__ import annotations

from pathlib import Path

from toolspeak.engine.refusals.answer_view import SPACELESS
from toolspeak.engine.refusals.classifier import LANGUAGES
from toolspeak.engine.refusals.triggers import stored

FILE = Path(__file__).parent.parent / "src" / "toolspeak" / "core" / "refusals" / "triggers.json"

if __name__ == "__main__":
    FILE.write_text(stored(LANGUAGES, SPACELESS), encoding="utf-8")

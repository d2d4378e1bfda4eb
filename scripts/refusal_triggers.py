"""Writes src/toolspeak/core/refusals/triggers.json: what the tables of refusals demand of a text.

Run it after a change of the tables; a test fails until then.
"""

from __future__ import annotations

from pathlib import Path

from toolspeak.core.refusals import LANGUAGES
from toolspeak.core.refusals.triggers import stored
from toolspeak.core.refusals.view import SPACELESS

FILE = Path(__file__).parent.parent / "src" / "toolspeak" / "core" / "refusals" / "triggers.json"

if __name__ == "__main__":
    FILE.write_text(stored(LANGUAGES, SPACELESS), encoding="utf-8")

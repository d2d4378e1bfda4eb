"""The words that the modules of `openai_chat` share."""

from __future__ import annotations

from typing import Final

PROTOCOL: Final = "openai_chat"

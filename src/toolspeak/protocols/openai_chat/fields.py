"""The words that the modules of `openai_chat` share.

Above: every other module of `openai_chat`. Below: nothing.
"""

from __future__ import annotations

from typing import Final

__all__ = ["PROTOCOL"]

PROTOCOL: Final = "openai_chat"

"""The words that the modules of `openai_chat` share.

Above: every other module of `openai_chat`. Below: nothing.
"""

from __future__ import annotations

from typing import Final

__all__ = ["BESIDE", "PROTOCOL"]

PROTOCOL: Final = "openai_chat"

#: Where `extra` keeps the fields that stood beside the object which holds the named ones.
BESIDE: Final = "beside"

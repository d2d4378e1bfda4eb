"""The nonce of a conversation: a short word that its marks carry and that no document can know.

Derived, not drawn: the same conversation gets the same word in every process that shares the secret, so that
prompts stay the same from turn to turn and prompt caches hold. Above: the client and the server. Below: `model`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable

from .model import Message

__all__ = ["nonces_of"]

#: Letters and digits that no reader confuses; no vowels, so that it never spells anything.
_ALPHABET = "bcdfghjkmnpqrstvwxz23456789"
_LETTERS = 19
#: About 33 bits: enough that nobody guesses it in one document, short enough that a small model copies it.
_LENGTH = 7


def nonces_of(secret: bytes, tenant: str, messages: tuple[Message, ...]) -> Callable[[int], str]:
    """The nonces of a conversation, by counter: the next one serves where the first stands in some text."""
    system = next((message.text for message in messages if message.role == "system"), "")
    user = next((message.text for message in messages if message.role == "user"), "")
    seed = b"".join(_field(part) for part in (tenant, system, user))

    def nonce(counter: int) -> str:
        digest = hmac.new(secret, seed + counter.to_bytes(4, "big"), hashlib.sha256).digest()
        letter = _ALPHABET[digest[0] % _LETTERS]  # a letter, so that it is a word in every dialect
        return letter + "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[1:_LENGTH])

    return nonce


def _field(text: str) -> bytes:
    """The text with its length before it, so that no two conversations look alike, whatever stands in them."""
    data = text.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(8, "big") + data

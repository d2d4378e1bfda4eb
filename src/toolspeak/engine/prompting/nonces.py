"""The nonce of a conversation: a short word that its marks carry and that no document can know.

Derived, not drawn: the same conversation gets the same word in every process that shares the secret, so that
prompts stay the same from turn to turn and prompt caches hold.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable

from ...core.types import Message, Role

#: Letters and digits that no reader confuses; no vowels, so that it never spells anything.
_ALPHABET = b"bcdfghjkmnpqrstvwxz23456789"
_LETTERS = 19
#: From any byte to one of these: to a letter, and to a letter or a digit.
_TO_LETTER = bytes(_ALPHABET[byte % _LETTERS] for byte in range(256))
_TO_EITHER = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))
#: About 33 bits: enough that nobody guesses it in one document, short enough that a small model copies it.
_LENGTH = 7


def nonces_of(secret: bytes, tenant: str, messages: tuple[Message, ...]) -> Callable[[int], str]:
    """The nonces of a conversation, by counter: the next one serves where the first stands in some text."""
    seed = _field(tenant) + _field(_first(messages, "system")) + _field(_first(messages, "user"))

    def nonce(counter: int) -> str:
        digest = hmac.digest(secret, seed + counter.to_bytes(4, "big"), "sha256")
        # A letter first, so that it is a word in every dialect.
        return (digest[:1].translate(_TO_LETTER) + digest[1:_LENGTH].translate(_TO_EITHER)).decode()

    return nonce


def _first(messages: tuple[Message, ...], role: Role) -> str:
    """What was said first in this role."""
    for message in messages:
        if message.role == role:
            return message.text
    return ""


def _field(text: str) -> bytes:
    """The text with its length before it, so that no two conversations look alike, whatever stands in them."""
    data = text.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(8, "big") + data

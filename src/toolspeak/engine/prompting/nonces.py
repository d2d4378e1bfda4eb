"""The nonce of a conversation: a short word in its call markers that no document can know.

Derived, not random: the same conversation gets the same nonce in every process that shares the secret, so prompts
stay the same from turn to turn and prompt caches work.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable

from ...core.types import Message, Role

#: Letters and digits that are not easily confused; no vowels, so a nonce never spells a word.
_ALPHABET = b"bcdfghjkmnpqrstvwxz23456789"
_LETTERS = 19
_TO_LETTER = bytes(_ALPHABET[byte % _LETTERS] for byte in range(256))
_TO_LETTER_OR_DIGIT = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))
#: About 33 bits: hard to guess in one document, but short enough for a small model to copy.
_LENGTH = 7


def nonces_of(secret: bytes, tenant: str, messages: tuple[Message, ...]) -> Callable[[int], str]:
    """The nonces of a conversation, by counter: the next one is used if an earlier one occurs in the text."""
    seed = _field(tenant) + _field(_first(messages, "system")) + _field(_first(messages, "user"))

    def nonce(counter: int) -> str:
        digest = hmac.digest(secret, seed + counter.to_bytes(4, "big"), "sha256")
        # It starts with a letter, so it is a word in every dialect.
        return (digest[:1].translate(_TO_LETTER) + digest[1:_LENGTH].translate(_TO_LETTER_OR_DIGIT)).decode()

    return nonce


def _first(messages: tuple[Message, ...], role: Role) -> str:
    """The text of the first message of this role."""
    for message in messages:
        if message.role == role:
            return message.text
    return ""


def _field(text: str) -> bytes:
    """Prefix the text with its length, so different conversations never give the same seed."""
    data = text.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(8, "big") + data

"""The nonce of a conversation: a short word in call markers that the author of a document cannot know.

The nonce is derived from a secret, not random. The same conversation gets the same nonce in every process that shares
the secret, so prompts stay identical between turns and prompt caches work. For a model on this machine, which takes
seconds to read a prompt, all conversations of a tenant with the same tools have the same nonce, so that the whole tool
prompt stays in the cache.
"""

import json
from collections.abc import Callable
from hashlib import blake2b

from ...core.types import Message, Role, Tool

#: Letters and digits that are not easily confused. There are no vowels, so a nonce never spells a word.
_ALPHABET = b"bcdfghjkmnpqrstvwxz23456789"
_LETTERS = 19
_TO_LETTER = bytes(_ALPHABET[byte % _LETTERS] for byte in range(256))
_TO_LETTER_OR_DIGIT = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))
#: About 33 bits: hard to guess in one document, but short enough for a small model to copy.
_LENGTH = 7


def nonces_of(
    secret: bytes, tenant: str, messages: tuple[Message, ...], tools: tuple[Tool, ...] = ()
) -> Callable[[int], str]:
    """Return a function that maps a counter to a nonce. Try the next counter if a nonce occurs in the conversation.

    `tools`: if given, the nonce depends on them and not on the messages.
    """
    key = secret if len(secret) <= blake2b.MAX_KEY_SIZE else blake2b(secret).digest()
    if tools:
        declared = [(tool.name, tool.description, tool.parameters) for tool in tools]
        seed = _field(tenant) + _field(json.dumps(declared))
    else:
        seed = _field(tenant) + _field(_first(messages, "system")) + _field(_first(messages, "user"))

    def nonce(counter: int) -> str:
        digest = blake2b(seed + counter.to_bytes(4, "big"), digest_size=_LENGTH, key=key).digest()
        # The first character is a letter, so every dialect parses the nonce as a word.
        return (digest[:1].translate(_TO_LETTER) + digest[1:_LENGTH].translate(_TO_LETTER_OR_DIGIT)).decode()

    return nonce


def _first(messages: tuple[Message, ...], role: Role) -> str:
    for message in messages:
        if message.role == role:
            return message.text
    return ""


def _field(text: str) -> bytes:
    """Prefix the text with its length, so that different conversations never have the same seed."""
    data = text.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(8, "big") + data

"""Who is asked for a model, in words that may be kept: enough to ask there again, without a key."""

from __future__ import annotations

import msgspec

from ...config import shown_url
from ...runtime.model_resolution import Reached


class Way(msgspec.Struct, frozen=True, gc=False):
    """Who was asked for a model. The first one, where others follow it."""

    provider: str
    base_url: str
    protocol: str
    model: str

    @classmethod
    def to(cls, reached: Reached) -> Way:
        """The way to a model within reach. Nothing of the URL is kept that may be a key."""
        return cls(reached.provider, bare_url(reached.base_url), reached.protocol, reached.model)


def bare_url(url: str) -> str:
    """A URL as it is compared and shown: no name and password, no query, no slash at the end."""
    return shown_url(url.partition("#")[0].partition("?")[0]).rstrip("/")

"""Calls that the server itself runs, told beside the answer to a client that asked for these tools by name.

Each is an event of the stream without choices, in a field that no client of the protocol reads: the call before it
runs, its result afterwards. Only the page asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from ....core.events import Event
from ....core.types import JSONObject, JSONValue
from ....protocols.shared.fields import to_line
from ....runtime.turn import AnyTurn
from ..client_protocols import Encoder

#: The protocol that the page speaks.
_SPOKEN = "openai_chat"


@runtime_checkable
class _Telling(Protocol):
    """A turn that has something to tell."""

    untold: list[JSONObject]


class _Beside:
    """Writes an answer, and between its pieces what the turn has to tell."""

    def __init__(self, encoder: Encoder, turn: _Telling) -> None:
        self._encoder = encoder
        self._turn = turn

    def encode(self, events: Sequence[Event], /) -> bytes:
        """The bytes that these events are, behind what is untold: that happened before."""
        return self._told() + self._encoder.encode(events)

    def close(self, extension: Mapping[str, JSONValue] | None = None) -> bytes:
        """The last bytes."""
        return self._encoder.close(extension)

    def _told(self) -> bytes:
        untold, self._turn.untold = self._turn.untold, []
        return b"".join(b"data: %s\n\n" % to_line({"choices": [], "toolspeak": each}) for each in untold)


def telling(encoder: Encoder, turn: AnyTurn, face: str) -> Encoder:
    """The encoder, made to tell what the turn does, if it is one that runs tools and the client speaks as the page."""
    return _Beside(encoder, turn) if face == _SPOKEN and isinstance(turn, _Telling) else encoder

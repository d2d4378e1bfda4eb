"""Base class of reply encoders: the state that all protocols need, and how a stream ends."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

from ...core.events import Event, Failure, Finish, FinishReason, UsageSeen
from ...core.types import JSONObject, Usage

#: What toolspeak adds to a reply, and the events of a reply in their order.
Extra: TypeAlias = JSONObject | None
Events: TypeAlias = Sequence[Event]
#: Failure of a reply whose finish reason is `error`, if the reply does not say more.
FAILED_TURN = Failure("the turn failed")


class BaseReplyEncoder(ABC):
    """Encodes the events of one reply as a stream."""

    def __init__(self) -> None:
        self._closed = False
        self._usage = Usage()
        self._reason: FinishReason = "unknown"

    def close(self, extension: JSONObject | None = None) -> bytes:
        """Return the bytes that end the stream, which contain the finish reason, the usage and `extension`."""
        if self._closed:
            return b""
        return self._fail(FAILED_TURN) if self._reason == "error" else self._finish(extension)

    def _track(self, event: Event) -> bytes:
        """Handle an event without content. Notes and candidates are sent in the extension."""
        if isinstance(event, UsageSeen):
            self._usage = event.usage
        elif isinstance(event, Finish):
            self._reason = event.reason
        return self._fail(event) if isinstance(event, Failure) else b""

    @abstractmethod
    def _finish(self, extension: JSONObject | None) -> bytes:
        """Return the bytes that end a successful reply."""

    @abstractmethod
    def _fail(self, failure: Failure) -> bytes:
        """Return the bytes that end a failed reply."""

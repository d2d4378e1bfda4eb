"""The same request again: who sends an `Idempotency-Key` twice gets the same answer twice, and asks a model once.

SDKs and gateways repeat a request whose answer got lost on the way; the model, and the tools that run here, would then
work twice. Answers that are whole and good are kept for a day, each for its tenant; an error is not, so that to ask
again means to try again. But where tools have run here before the error, or before the client left, only that is kept:
they never run twice for one key. A response that was deleted comes back by no key: whoever asks with it is told so.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from hashlib import sha256
from typing import Any

import msgspec

from ...errors import ToolspeakError, UsageError
from ...runtime.tool_memory import Conversation
from ..asgi import Headers, Scope, Send, header

_log = logging.getLogger("toolspeak.server")
_HEADER = b"idempotency-key"
#: Tells a client that nobody was asked this time.
_REPLAYED = (b"idempotent-replayed", b"true")
_LONGEST_KEY = 255
#: A longer answer is not kept; whoever asks for it again is answered anew.
_MOST_BYTES = 1024 * 1024
#: What of the head comes again.
_HEADERS = frozenset({b"content-type", b"x-toolspeak"})


class KeyInUse(ToolspeakError):
    """The first request with this key is still being answered."""

    status = 409
    retry_after = 1.0


class KeyOfAnother(UsageError):
    """The key belongs to another request."""

    status = 422


class KeySpent(ToolspeakError):
    """The request with this key is not carried out again, and there is no answer to show for it."""

    status = 409
    final = True


class _Answer(msgspec.Struct, frozen=True):
    """An answer as it is kept."""

    #: What was asked: a hash of the path and the body.
    asked: str
    headers: list[tuple[str, str]] = []
    body: str = ""
    #: There was none, but tools ran.
    lost: bool = False
    #: The response that it tells, where one can be deleted by its id.
    response: str = ""
    #: Somebody has.
    deleted: bool = False


class Repeats:
    """Which requests with a key this process is answering right now."""

    def __init__(self) -> None:
        self._underway: set[tuple[str, str]] = set()

    def of(self, scope: Scope, conversation: Conversation, tenant: str, body: bytes) -> Again | None:
        """What the key of a request stands for; None where it has none.

        Raises:
            UsageError: it is no key.
            KeyInUse: the first request with it is not answered yet.
        """
        key = header(scope, _HEADER)
        if not key:
            return None
        if len(key) > _LONGEST_KEY or not (key.isascii() and key.isprintable()):
            raise UsageError(f"an `Idempotency-Key` has at most {_LONGEST_KEY} characters, all of them printable ASCII")
        underway = (tenant, key)
        if underway in self._underway:
            raise KeyInUse("the request with this `Idempotency-Key` is still being answered", hint="ask again soon")
        asked = sha256(scope["path"].encode() + b"\0" + scope.get("query_string", b"") + b"\0" + body).hexdigest()
        self._underway.add(underway)
        return Again(conversation, tenant, f"again/{sha256(key.encode()).hexdigest()}", asked, self, underway)

    def over(self, underway: tuple[str, str]) -> None:
        """It is answered, or will not be."""
        self._underway.discard(underway)


class Again:
    """One request with a key: as a context, for as long as it is being answered."""

    def __init__(
        self,
        conversation: Conversation,
        tenant: str,
        name: str,
        asked: str,
        repeats: Repeats,
        underway: tuple[str, str],
    ) -> None:
        self._conversation = conversation
        self._tenant = tenant
        self._name = name
        self._asked = asked
        self._repeats = repeats
        self._underway = underway
        self._headers: list[tuple[str, str]] | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._whole = False

    def __enter__(self) -> Again:
        return self

    def __exit__(self, *_: object) -> None:
        self._repeats.over(self._underway)

    async def replayed(self, send: Send) -> bool:
        """Whether it was answered before, and so it is now.

        Raises:
            KeyOfAnother: something else was asked with this key.
            KeySpent: tools ran for it, and the answer was lost.
        """
        await self._conversation.warm(self._tenant, items=[self._name])
        found = self._conversation.item(self._tenant, self._name)
        if found is None:
            return False
        answer = msgspec.convert(found, _Answer)
        if answer.asked != self._asked:
            raise KeyOfAnother("this `Idempotency-Key` was sent with another request", hint="make a new one for each")
        if answer.deleted or await self._is_deleted(answer.response):
            hint = "a new key asks again"
            raise KeySpent("the answer to the request with this `Idempotency-Key` was deleted", hint=hint)
        if answer.lost:
            hint = "look at what they did; a new key runs them again"
            raise KeySpent("tools ran here for the request with this `Idempotency-Key`; its answer was lost", hint=hint)
        body = answer.body.encode()
        headers: Headers = [(name.encode(), value.encode()) for name, value in answer.headers]
        headers += [(b"content-length", str(len(body)).encode()), _REPLAYED]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return True

    async def _is_deleted(self, response: str) -> bool:
        """Also where another server did it, or before the answer was kept."""
        if not response:
            return False
        await self._conversation.renew(self._tenant, [_deleted(response)])
        return self._conversation.item(self._tenant, _deleted(response)) is not None

    def listening(self, send: Send) -> Send:
        """Sends on, and keeps a copy of a good answer."""

        async def listen(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                if message["status"] == 200:
                    kept = ((name, value) for name, value in message["headers"] if name in _HEADERS)
                    self._headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in kept]
            elif self._headers is not None and self._size <= _MOST_BYTES:
                piece: bytes = message.get("body", b"")
                self._size += len(piece)
                self._pieces.append(piece)
                self._whole = not message.get("more_body", False)
            await send(message)

        return listen

    def keep(self, *, good: bool, ran: bool, response: str = "") -> None:
        """It is over. `good`: it was answered well; `ran`: tools ran here for it; `response`: what may be deleted."""
        kept: _Answer | None = _Answer(self._asked, lost=True) if ran else None
        if good and self._whole and self._headers is not None and self._size <= _MOST_BYTES:
            body = b"".join(self._pieces).decode(errors="replace")
            kept = _Answer(self._asked, self._headers, body, response=response)
        if kept is None:
            return
        try:
            self._conversation.keep_item(self._tenant, self._name, msgspec.to_builtins(kept))
            if response:
                place = msgspec.to_builtins(_Place(self._name, self._asked))
                self._conversation.keep_item(self._tenant, _told_by(response), place)
        except UsageError as error:  # it is out all the same
            _log.warning("an answer is not kept for its `Idempotency-Key`: %s", error)


class _Place(msgspec.Struct, frozen=True):
    """Where the answer is kept that tells a response."""

    name: str
    asked: str


async def answer_deleted(conversation: Conversation, tenant: str, response: str) -> None:
    """A response is being deleted: no key brings it back, and what was kept for one is kept no more."""
    conversation.keep_item(tenant, _deleted(response), {"deleted": True})
    await conversation.renew(tenant, [_told_by(response)])
    found = conversation.item(tenant, _told_by(response))
    if found is not None:
        place = msgspec.convert(found, _Place)
        conversation.keep_item(tenant, place.name, msgspec.to_builtins(_Answer(place.asked, deleted=True)))
    await conversation.settle()


def _deleted(response: str) -> str:
    return f"deleted/{response}"


def _told_by(response: str) -> str:
    return f"told_by/{response}"

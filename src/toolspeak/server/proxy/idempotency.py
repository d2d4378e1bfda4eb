"""Idempotency keys: a request repeated with the same `Idempotency-Key` gets the stored answer without asking the model.

Complete, successful answers are stored for a day, per tenant. Errors are not stored, so a retry runs again. But if
tools of the server ran before an error or a disconnect, the key is marked as consumed: they must never run twice for
one key. An answer that belongs to a deleted response is never replayed.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from hashlib import sha256
from typing import Any

import msgspec

from ...errors import ToolspeakError, UsageError
from ...runtime.tool_memory import ToolMemory
from ..asgi import Headers, Scope, Send, header

_log = logging.getLogger("toolspeak.server")
_HEADER = b"idempotency-key"
#: Tells the client that the answer is a stored one.
_REPLAYED = (b"idempotent-replayed", b"true")
_MAX_KEY_CHARS = 255
#: Longer answers are not stored; a repeated request then runs again.
_MAX_BYTES = 1024 * 1024
#: Response headers that are replayed.
_HEADERS = frozenset({b"content-type", b"x-toolspeak"})


class IdempotencyKeyInUse(ToolspeakError):
    """The first request with this key is still being answered."""

    status = 409
    retry_after = 1.0


class IdempotencyKeyReused(UsageError):
    """The key was used before, with a different request."""

    status = 422


class IdempotencyKeyConsumed(ToolspeakError):
    """The request must not run again, and there is no stored answer to replay."""

    status = 409
    final = True


class _StoredAnswer(msgspec.Struct, frozen=True):
    """A stored answer."""

    #: Hash of the path, the query and the body.
    request_hash: str = msgspec.field(name="asked")
    headers: list[tuple[str, str]] = []
    body: str = ""
    #: There is no answer, but tools ran.
    lost: bool = False
    #: The response id, if the answer can be deleted by one.
    response: str = ""
    deleted: bool = False


class IdempotencyKeys:
    """The idempotency keys of requests that this process is answering."""

    def __init__(self) -> None:
        self._running: set[tuple[str, str]] = set()

    def of(self, scope: Scope, conversation: ToolMemory, tenant: str, body: bytes) -> IdempotentRequest | None:
        """The key of a request, claimed until the request is over; None if it has no key.

        Raises:
            UsageError: the key is malformed.
            IdempotencyKeyInUse: the first request with this key is still being answered.
        """
        key = header(scope, _HEADER)
        if not key:
            return None
        if len(key) > _MAX_KEY_CHARS or not (key.isascii() and key.isprintable()):
            raise UsageError(f"an `Idempotency-Key` must be at most {_MAX_KEY_CHARS} printable ASCII characters")
        running = (tenant, key)
        if running in self._running:
            raise IdempotencyKeyInUse(
                "the request with this `Idempotency-Key` is still being answered", hint="retry in a second"
            )
        request_hash = sha256(
            scope["path"].encode() + b"\0" + scope.get("query_string", b"") + b"\0" + body
        ).hexdigest()
        self._running.add(running)
        return IdempotentRequest(
            conversation, tenant, f"again/{sha256(key.encode()).hexdigest()}", request_hash, self, running
        )

    def release(self, running: tuple[str, str]) -> None:
        """Release a key: its request is over."""
        self._running.discard(running)


class IdempotentRequest:
    """A request with an idempotency key; a context manager that releases the key."""

    def __init__(
        self,
        conversation: ToolMemory,
        tenant: str,
        name: str,
        request_hash: str,
        keys: IdempotencyKeys,
        running: tuple[str, str],
    ) -> None:
        self._conversation = conversation
        self._tenant = tenant
        self._name = name
        self._request_hash = request_hash
        self._keys = keys
        self._running = running
        self._headers: list[tuple[str, str]] | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._complete = False

    def __enter__(self) -> IdempotentRequest:
        return self

    def __exit__(self, *_: object) -> None:
        self._keys.release(self._running)

    async def replay(self, send: Send) -> bool:
        """Send the stored answer, if there is one; return whether there was.

        Raises:
            IdempotencyKeyReused: the key was sent with a different request.
            IdempotencyKeyConsumed: the answer was deleted, or lost after tools ran.
        """
        await self._conversation.warm(self._tenant, items=[self._name])
        stored = self._conversation.item(self._tenant, self._name)
        if stored is None:
            return False
        answer = msgspec.convert(stored, _StoredAnswer)
        if answer.request_hash != self._request_hash:
            raise IdempotencyKeyReused(
                "this `Idempotency-Key` was used with a different request", hint="use a new key for each request"
            )
        if answer.deleted or await self._is_deleted(answer.response):
            hint = "use a new key to run the request again"
            raise IdempotencyKeyConsumed("the answer to the request with this `Idempotency-Key` was deleted", hint=hint)
        if answer.lost:
            hint = "check what they did; a new key runs them again"
            raise IdempotencyKeyConsumed(
                "the request with this `Idempotency-Key` ran tools on the server, but its answer was lost", hint=hint
            )
        body = answer.body.encode()
        headers: Headers = [(name.encode(), value.encode()) for name, value in answer.headers]
        headers += [(b"content-length", str(len(body)).encode()), _REPLAYED]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return True

    async def _is_deleted(self, response: str) -> bool:
        """Check the shared memory: another server may have deleted the response before its answer was stored."""
        if not response:
            return False
        await self._conversation.renew(self._tenant, [_deletion_mark(response)])
        return self._conversation.item(self._tenant, _deletion_mark(response)) is not None

    def recording(self, send: Send) -> Send:
        """Wrap `send` to copy a successful answer."""

        async def record(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                if message["status"] == 200:
                    headers = ((name, value) for name, value in message["headers"] if name in _HEADERS)
                    self._headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
            elif self._headers is not None and self._size <= _MAX_BYTES:
                piece: bytes = message.get("body", b"")
                self._size += len(piece)
                self._pieces.append(piece)
                self._complete = not message.get("more_body", False)
            await send(message)

        return record

    def store(self, *, succeeded: bool, tools_ran: bool, response: str = "") -> None:
        """Store the outcome of the request. `response`: the id by which the answer can be deleted."""
        answer: _StoredAnswer | None = _StoredAnswer(self._request_hash, lost=True) if tools_ran else None
        if succeeded and self._complete and self._headers is not None and self._size <= _MAX_BYTES:
            body = b"".join(self._pieces).decode(errors="replace")
            answer = _StoredAnswer(self._request_hash, self._headers, body, response=response)
        if answer is None:
            return
        try:
            self._conversation.keep_item(self._tenant, self._name, msgspec.to_builtins(answer))
            if response:
                location = msgspec.to_builtins(_AnswerLocation(self._name, self._request_hash))
                self._conversation.keep_item(self._tenant, _answer_of(response), location)
        except UsageError as error:  # the client has its answer all the same
            _log.warning("cannot store the answer of an `Idempotency-Key`: %s", error)


class _AnswerLocation(msgspec.Struct, frozen=True):
    """Where the answer to a response id is stored."""

    name: str
    request_hash: str = msgspec.field(name="asked")


async def delete_stored_answer(conversation: ToolMemory, tenant: str, response: str) -> None:
    """Forget the answer that belongs to a response which is being deleted, so no key replays it."""
    conversation.keep_item(tenant, _deletion_mark(response), {"deleted": True})
    await conversation.renew(tenant, [_answer_of(response)])
    stored = conversation.item(tenant, _answer_of(response))
    if stored is not None:
        location = msgspec.convert(stored, _AnswerLocation)
        conversation.keep_item(
            tenant, location.name, msgspec.to_builtins(_StoredAnswer(location.request_hash, deleted=True))
        )
    await conversation.settle()


def _deletion_mark(response: str) -> str:
    return f"deleted/{response}"


def _answer_of(response: str) -> str:
    return f"told_by/{response}"

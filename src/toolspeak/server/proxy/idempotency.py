"""Idempotency keys: a request repeated with the same `Idempotency-Key` gets the stored answer, without a model request.

Complete, successful answers are stored for a day, per tenant. Errors are not stored, so a retry runs the request again.
But if server tools ran before an error or a disconnect, the key is marked as consumed, because tools must never run
twice for one key. The answer of a deleted response is never replayed.
"""

import logging
from collections.abc import Callable, MutableMapping
from functools import partial
from hashlib import sha256
from typing import Any

import msgspec

from ...errors import ToolspeakError, UsageError
from ...runtime.tool_memory import ToolMemory
from ..asgi import Headers, Scope, Send, header

_log = logging.getLogger("toolspeak.server")
_HEADER = b"idempotency-key"
#: Response header that marks a replayed answer.
_REPLAYED = (b"idempotent-replayed", b"true")
_MAX_KEY_CHARS = 255
#: Maximum size of a stored answer. Larger answers are not stored, so a repeated request runs again.
_MAX_BYTES = 1024 * 1024
_HEADERS = frozenset({b"content-type", b"x-toolspeak"})  # response headers that are replayed


class IdempotencyKeyInUse(ToolspeakError):
    """The first request with this key is still running."""

    status = 409
    retry_after = 1.0


class IdempotencyKeyReused(UsageError):
    """The key was already used with a different request."""

    status = 422


class IdempotencyKeyConsumed(ToolspeakError):
    """The request must not run again, but there is no stored answer to replay."""

    status = 409
    final = True


class _StoredAnswer(msgspec.Struct, frozen=True):
    #: Hash of the path, the query and the body.
    request_hash: str = msgspec.field(name="asked")
    headers: list[tuple[str, str]] = []
    body: str = ""
    lost: bool = False  # whether tools ran but the answer was lost
    #: The response id with which the answer can be deleted; empty if it has none.
    response: str = ""
    deleted: bool = False


class IdempotencyKeys:
    """The idempotency keys of requests that are running in this process."""

    def __init__(self) -> None:
        self._running: set[tuple[str, str]] = set()

    def of(self, scope: Scope, conversation: ToolMemory, tenant: str, body: bytes) -> "IdempotentRequest | None":
        """Claim the idempotency key of a request until the request ends; return None if it has no key.

        Raises IdempotencyKeyInUse, or UsageError if the key is malformed.
        """
        key = header(scope, _HEADER)
        if not key:
            return None
        if len(key) > _MAX_KEY_CHARS or not (key.isascii() and key.isprintable()):
            raise UsageError(f"an `Idempotency-Key` must be at most {_MAX_KEY_CHARS} printable ASCII characters")
        running = (tenant, key)
        if running in self._running:
            message = "the request with this `Idempotency-Key` is still running"
            raise IdempotencyKeyInUse(message, hint="retry in a second")
        content = b"\0".join((scope["path"].encode(), scope.get("query_string", b""), body))
        name, request_hash = f"again/{sha256(key.encode()).hexdigest()}", sha256(content).hexdigest()
        self._running.add(running)
        return IdempotentRequest(conversation, tenant, name, request_hash, partial(self._running.discard, running))


class IdempotentRequest:
    """A request with an idempotency key. Use it as a context manager, which releases the key."""

    def __init__(
        self, conversation: ToolMemory, tenant: str, name: str, request_hash: str, release: Callable[[], None]
    ) -> None:
        self._conversation = conversation
        self._tenant = tenant
        self._name = name
        self._request_hash = request_hash
        self._release = release
        self._headers: list[tuple[str, str]] | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._complete = False

    def __enter__(self) -> "IdempotentRequest":
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    async def replay(self, send: Send) -> bool:
        """Send the stored answer and return whether there is one. Raises IdempotencyKeyReused or -Consumed."""
        await self._conversation.warm(self._tenant, items=[self._name])
        stored = self._conversation.item(self._tenant, self._name)
        if stored is None:
            return False
        answer = msgspec.convert(stored, _StoredAnswer)
        if answer.request_hash != self._request_hash:
            hint = "use a new key for each request"
            raise IdempotencyKeyReused("this `Idempotency-Key` was used with a different request", hint=hint)
        if answer.deleted or await self._is_deleted(answer.response):
            hint = "use a new key to run the request again"
            raise IdempotencyKeyConsumed("the answer to the request with this `Idempotency-Key` was deleted", hint=hint)
        if answer.lost:
            message = "the request with this `Idempotency-Key` ran tools on the server, but its answer was lost"
            raise IdempotencyKeyConsumed(message, hint="check what the tools did; a new key runs them again")
        body = answer.body.encode()
        headers: Headers = [(name.encode(), value.encode()) for name, value in answer.headers]
        headers += [(b"content-length", str(len(body)).encode()), _REPLAYED]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return True

    async def _is_deleted(self, response: str) -> bool:
        """Whether the response was deleted, possibly by another server before this answer was stored."""
        if not response:
            return False
        await self._conversation.renew(self._tenant, [_deletion_mark(response)])
        return self._conversation.item(self._tenant, _deletion_mark(response)) is not None

    def recording(self, send: Send) -> Send:
        """Wrap `send` to keep a copy of a successful answer."""

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
        """Store the outcome of the request; `response` is the id with which the answer can be deleted."""
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
        except UsageError as error:  # not fatal: the client already has its answer
            _log.warning("cannot store the answer for an `Idempotency-Key`: %s", error)


class _AnswerLocation(msgspec.Struct, frozen=True):
    """The place where the answer with a response id is stored."""

    name: str
    request_hash: str = msgspec.field(name="asked")


async def delete_stored_answer(conversation: ToolMemory, tenant: str, response: str) -> None:
    """Delete the stored answer of a response that is being deleted, so no idempotency key replays it."""
    conversation.keep_item(tenant, _deletion_mark(response), {"deleted": True})
    await conversation.renew(tenant, [_answer_of(response)])
    stored = conversation.item(tenant, _answer_of(response))
    if stored is not None:
        location = msgspec.convert(stored, _AnswerLocation)
        deleted = _StoredAnswer(location.request_hash, deleted=True)
        conversation.keep_item(tenant, location.name, msgspec.to_builtins(deleted))
    await conversation.settle()


def _deletion_mark(response: str) -> str:
    return f"deleted/{response}"


def _answer_of(response: str) -> str:
    return f"told_by/{response}"

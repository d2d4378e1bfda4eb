"""The exceptions of toolspeak::

    ToolspeakError
    ├── UsageError              invalid use by the caller (status 400)
    │   ├── SchemaError         a tool's parameters are not a usable JSON schema
    │   ├── UnknownDialectError unknown dialect name
    │   ├── NotKeptError        the request refers to an earlier answer that is not stored
    │   ├── NoSessionError      unknown session (status 404)
    │   └── ConfigError         invalid or unreadable setting
    │       └── NoStoreError    the store does not exist
    ├── ModelError              the model or its upstream failed (status 502)
    │   ├── ToolChoiceError     no answer that `tool_choice` allows, after all retries
    │   ├── FormatError         no answer in the requested `response_format`, after all retries
    │   └── UpstreamError       the upstream answered with an error or disconnected
    │       └── UpstreamTimeout the upstream took too long (status 504)
    ├── StoreError              the store is unavailable (status 503)
    │   ├── SessionBusyError    the session is locked by another writer (status 409)
    │   ├── StoreFullError      no space left (status 507)
    │   └── StoreDamagedError   the stored data is corrupt (status 500)
    ├── ToolError               a tool failed; the message is sent to the model
    │   ├── ToolTimeout         it took too long
    │   └── ToolDenied          it was not permitted
    └── ToolSignal              raised by a tool to control the agent loop

Any other exception that leaves toolspeak is a bug: please report it.
"""

from __future__ import annotations

from typing import Protocol

__all__ = [
    "ConfigError",
    "FormatError",
    "ModelError",
    "NoSessionError",
    "NoStoreError",
    "NotKeptError",
    "SchemaError",
    "SessionBusyError",
    "StoreDamagedError",
    "StoreError",
    "StoreFullError",
    "ToolChoiceError",
    "ToolDenied",
    "ToolError",
    "ToolSignal",
    "ToolTimeout",
    "ToolspeakError",
    "UnknownDialectError",
    "UpstreamError",
    "UpstreamTimeout",
    "UsageError",
]


class ToolspeakError(Exception):
    """Base class of all toolspeak errors.

    `hint` is one sentence on what to do next, `status` the HTTP status for a server response. `final` means that an
    automatic retry is pointless.
    """

    status = 500
    final = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} ({self.hint})" if self.hint else message


class UsageError(ToolspeakError):
    """Invalid use by the caller."""

    status = 400


class SchemaError(UsageError):
    """A tool's `parameters` are not a JSON schema that can be compiled safely."""


class UnknownDialectError(UsageError):
    """An unknown dialect name."""


class NotKeptError(UsageError):
    """The request refers to an earlier answer that is not stored."""


class NoSessionError(UsageError):
    """The session does not exist or belongs to another owner."""

    status = 404


class ConfigError(UsageError):
    """An invalid or unreadable setting."""


class NoStoreError(ConfigError):
    """The store to read does not exist. It was not created."""


class TraceLike(Protocol):
    """The interface of a turn's trace: requests, answers and decisions."""

    def lines(self) -> list[str]:
        """The trace as text lines for people."""
        ...


class FailedReply(Protocol):
    """The interface of the partial reply of a failed turn."""

    @property
    def text(self) -> str:
        """The model's text."""
        ...

    @property
    def requests(self) -> int:
        """The number of requests to the model."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about how the reply was obtained."""
        ...

    def trace(self) -> TraceLike:
        """The trace of the turn."""
        ...


class ModelError(ToolspeakError):
    """The model or its upstream failed.

    `reply` is the partial reply with its trace; None if the error did not end a turn.
    """

    status = 502
    reply: FailedReply | None = None


class ToolChoiceError(ModelError):
    """The model gave no answer that `tool_choice` allows, after all retries."""

    final = True


class FormatError(ModelError):
    """The model gave no answer in the requested `response_format`, after all retries."""

    final = True


class UpstreamError(ModelError):
    """The upstream answered with an error or disconnected.

    `upstream_status` is its HTTP status (0 if there was none), `body` its response, shortened. `retry_after` (seconds)
    and `should_retry` are its advice on retries, None if it gives none. `kind` is `upstream`, `timeout`, or
    `truncated` if it disconnected. `code`, `error_type` and `param` (the field) are the upstream's own, if it has them.
    """

    kind = "upstream"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        upstream_status: int = 0,
        body: str = "",
        kind: str = "",
        retry_after: float | None = None,
        should_retry: bool | None = None,
        code: str = "",
        error_type: str = "",
        param: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.upstream_status = upstream_status
        self.body = body
        self.retry_after = retry_after
        self.should_retry = should_retry
        self.code = code
        self.error_type = error_type
        self.param = param
        if kind:
            self.kind = kind


class UpstreamTimeout(UpstreamError):
    """The upstream took too long."""

    status = 504
    kind = "timeout"


class StoreError(ToolspeakError):
    """The store is unavailable: unreachable, busy, or its disk failed. The operation had no effect.

    `retry_after` is the number of seconds to wait before a retry; None if a retry would not help.
    """

    status = 503
    retry_after: float | None = None


class SessionBusyError(StoreError):
    """The session is locked by another writer: `holder`, `until` a time in seconds since the epoch."""

    status = 409

    def __init__(self, message: str, *, hint: str = "", holder: str = "", until: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.holder = holder
        self.until = until


class StoreFullError(StoreError):
    """No space left to write. Stored data can still be read."""

    status = 507


class StoreDamagedError(StoreError):
    """The stored data of a session, or the whole store, is corrupt."""

    status = 500


class ToolError(ToolspeakError):
    """A tool failed. The message is written for the model."""


class ToolTimeout(ToolError):
    """A tool took too long and was stopped."""


class ToolDenied(ToolError):
    """The call was not permitted and had no effect."""


class ToolSignal(ToolspeakError):
    """Raised inside a tool to control the agent loop instead of returning a result."""

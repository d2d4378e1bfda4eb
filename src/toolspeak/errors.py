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
    │   ├── StoreReadOnlyError  the store can be read but not written
    │   └── StoreDamagedError   the stored data is corrupt (status 500)
    ├── ToolError               a tool failed; the model receives the message
    │   ├── ToolTimeout         it took too long
    │   └── ToolDenied          it was not permitted
    └── ToolSignal              raised by a tool to control the agent loop

Any other exception that leaves toolspeak is a bug: please report it.
"""

from typing import Protocol


class ToolspeakError(Exception):
    """Base class of all toolspeak errors.

    `hint` says how to fix the problem, `status` is the HTTP status of a server response. `final` means that retrying
    the same request does not help.
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
    """The caller passed an invalid argument or used the library incorrectly."""

    status = 400


class SchemaError(UsageError):
    """A tool's `parameters` are not a usable JSON schema."""


class UnknownDialectError(UsageError):
    """The dialect name is unknown."""


class NotKeptError(UsageError):
    """The request refers to an earlier answer that is not stored."""


class NoSessionError(UsageError):
    """The session does not exist or belongs to another owner."""

    status = 404


class ConfigError(UsageError):
    """A setting is invalid or cannot be read."""


class NoStoreError(ConfigError):
    """The store does not exist, and reading does not create it."""


class TraceLike(Protocol):
    """Interface of the trace of a turn: its requests, answers and decisions."""

    def lines(self) -> list[str]:
        """Return the trace as human-readable lines."""
        ...


class FailedReply(Protocol):
    """Interface of the partial reply of a failed turn."""

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
        """Return the trace of the turn."""
        ...


class ModelError(ToolspeakError):
    """The model or its upstream failed.

    `reply` is the partial reply with its trace; None if the error did not end a turn.
    """

    status = 502
    reply: FailedReply | None = None


class ToolChoiceError(ModelError):
    """Even after all retries, the model gave no answer that `tool_choice` allows."""

    final = True


class FormatError(ModelError):
    """Even after all retries, the model gave no answer in the requested `response_format`."""

    final = True


class UpstreamError(ModelError):
    """The upstream answered with an error or disconnected.

    `upstream_status` is the HTTP status (0 if there was no response), `body` the shortened response. `retry_after` (in
    seconds) and `should_retry` are the upstream's advice on retries, or None. `kind` is `upstream`, `timeout`, or
    `truncated` after a disconnect. `code`, `error_type` and `param` are copied from the upstream's error.
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
    """The store is unreachable, busy, or has a disk failure. The operation had no effect.

    `retry_after` is the number of seconds to wait before a retry; None if a retry would not help.
    """

    status = 503
    retry_after: float | None = None


class SessionBusyError(StoreError):
    """Another writer, `holder`, has locked the session until the Unix time `until`."""

    status = 409

    def __init__(self, message: str, *, hint: str = "", holder: str = "", until: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.holder = holder
        self.until = until


class StoreFullError(StoreError):
    """The store has no space left. Stored data can still be read."""

    status = 507


class StoreReadOnlyError(StoreError):
    """The store can be read but not written."""


class StoreDamagedError(StoreError):
    """The stored data of a session, or the whole store, is corrupt."""

    status = 500


class ToolError(ToolspeakError):
    """A tool failed. The model receives the message."""


class ToolTimeout(ToolError):
    """A tool took too long and was stopped."""


class ToolDenied(ToolError):
    """The call was not permitted and had no effect."""


class ToolSignal(ToolspeakError):
    """Raised inside a tool to control the agent loop instead of returning a result."""


__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    name for name, value in sorted(globals().items()) if isinstance(value, type) and issubclass(value, Exception)
]

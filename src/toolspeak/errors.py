"""The exception tree of toolspeak.

Three audiences, one tree::

    ToolspeakError
    ├── UsageError              the caller made a mistake (status 400)
    │   ├── SchemaError         a tool's parameters are not a usable JSON schema
    │   ├── UnknownDialectError a dialect name that is not in the table
    │   ├── NotKeptError        an earlier answer is meant that nobody has kept
    │   ├── NoSessionError      a session is meant that the store does not hold (status 404)
    │   └── ConfigError         a setting that cannot be read or used
    │       └── NoStoreError    a store is meant that is not there
    ├── ModelError              the model or its upstream misbehaved (status 502)
    │   ├── ToolChoiceError     no answer that `tool_choice` allows, after all retries
    │   ├── FormatError         no answer in the `response_format` asked for, after all retries
    │   └── UpstreamError       the upstream answered with an error or broke off
    │       └── UpstreamTimeout the upstream took too long (status 504)
    ├── StoreError              the store cannot do it now (status 503)
    │   ├── SessionBusyError    another writer holds the session (status 409)
    │   ├── StoreFullError      there is no room left (status 507)
    │   └── StoreDamagedError   what is stored cannot be understood (status 500)
    ├── ToolError               a tool could not do what it was asked; the model is told why
    │   ├── ToolTimeout         it took too long
    │   └── ToolDenied          it was not allowed
    └── ToolSignal              raised by a tool to steer the agent loop

Nothing sits below this module; everything may import it. An exception of any other type that leaves
toolspeak is a bug: please report it.
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
    """Base of everything toolspeak raises on purpose.

    `hint` is one sentence that tells the reader what to do next; `status` is the HTTP status a server
    face would answer with, and `final` says that to ask again by oneself helps nobody.
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
    """The caller passed something that cannot work."""

    status = 400


class SchemaError(UsageError):
    """A tool's `parameters` are not a JSON schema that can be compiled safely."""


class UnknownDialectError(UsageError):
    """A dialect name that the dialect table does not hold."""


class NotKeptError(UsageError):
    """The request means an earlier answer that nobody has kept."""


class NoSessionError(UsageError):
    """The store holds no such session, or none of this owner's."""

    status = 404


class ConfigError(UsageError):
    """A setting that cannot be read or used."""


class NoStoreError(ConfigError):
    """Somebody wants to read a store, and there is none where it is said to be. Nothing was made there."""


class Told(Protocol):
    """What was sent, what came back and what was decided; see `core.trace.Trace`."""

    def lines(self) -> list[str]:
        """The turn as a person reads it."""
        ...


class FailedReply(Protocol):
    """As far as a turn that failed came; in truth a whole `core.trace.TracedReply`, which this module cannot name."""

    @property
    def text(self) -> str:
        """What the model said."""
        ...

    @property
    def requests(self) -> int:
        """How often it was asked."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader should know about how it came to be."""
        ...

    def trace(self) -> Told:
        """How it came to be."""
        ...


class ModelError(ToolspeakError):
    """The model, or the service in front of it, did something it must not do.

    `reply` is what had come of the turn, with its trace; None for an error that a turn did not end with.
    """

    status = 502
    reply: FailedReply | None = None


class ToolChoiceError(ModelError):
    """The model gave no answer that `tool_choice` allows, however often it was asked."""

    final = True


class FormatError(ModelError):
    """The model gave no answer in the `response_format` asked for, however often it was asked."""

    final = True


class UpstreamError(ModelError):
    """The service in front of the model answered with an error, or broke off.

    `upstream_status` is the HTTP status it gave (0 when there was none); `body` is what it said, shortened.
    `retry_after` is how many seconds it asks to wait, and `should_retry` whether it says that asking again helps;
    None where it says nothing. `kind` is `upstream`, `timeout`, or `truncated` where it broke off. `code`, `error_type`
    and `param` are its own words for what is wrong, of which sort, and in which field; empty where it has none.
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
    """The service in front of the model took too long."""

    status = 504
    kind = "timeout"


class StoreError(ToolspeakError):
    """The store cannot do it now: it is away, busy, or its disk fails. Nothing of what was asked has been done.

    `retry_after` is how many seconds to wait before it is worth asking again; None where that would not help.
    """

    status = 503
    retry_after: float | None = None


class SessionBusyError(StoreError):
    """Another writer holds the session. `holder` says who, `until` when that ends (seconds since the epoch)."""

    status = 409

    def __init__(self, message: str, *, hint: str = "", holder: str = "", until: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.holder = holder
        self.until = until


class StoreFullError(StoreError):
    """There is no room left for what was to be written. What is there can be read."""

    status = 507


class StoreDamagedError(StoreError):
    """What is stored cannot be understood: a session, or the whole file."""

    status = 500


class ToolError(ToolspeakError):
    """A tool could not do what it was asked. Its text is written for the model."""


class ToolTimeout(ToolError):
    """A tool took too long and was ended."""


class ToolDenied(ToolError):
    """A call that was not allowed; nothing was done."""


class ToolSignal(ToolspeakError):
    """Raised inside a tool to tell the agent loop something other than a result."""

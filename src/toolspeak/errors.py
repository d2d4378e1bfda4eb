"""The exception tree of toolspeak.

Three audiences, one tree::

    ToolspeakError
    ├── UsageError              the caller made a mistake (status 400)
    │   ├── SchemaError         a tool's parameters are not a usable JSON schema
    │   └── UnknownDialectError a dialect name that is not in the table
    ├── ModelError              the model or its upstream misbehaved (status 502)
    └── ToolSignal              raised by a tool to steer the agent loop

Nothing sits below this module; everything may import it. An exception of any other type that leaves
toolspeak is a bug: please report it.
"""

from __future__ import annotations

__all__ = [
    "ModelError",
    "SchemaError",
    "ToolSignal",
    "ToolspeakError",
    "UnknownDialectError",
    "UsageError",
]


class ToolspeakError(Exception):
    """Base of everything toolspeak raises on purpose.

    `hint` is one sentence that tells the reader what to do next; `status` is the HTTP status a server
    face would answer with.
    """

    status = 500

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


class ModelError(ToolspeakError):
    """The model, or the service in front of it, did something it must not do."""

    status = 502


class ToolSignal(ToolspeakError):
    """Raised inside a tool to tell the agent loop something other than a result."""

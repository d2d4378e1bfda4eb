"""The exception tree: one root, three audiences, and a hint that tells the reader what to do."""

from __future__ import annotations

from tests.cases import check_each
from toolspeak import errors
from toolspeak.errors import (
    ConfigError,
    FormatError,
    ModelError,
    NoSessionError,
    NoStoreError,
    NotKeptError,
    SchemaError,
    SessionBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    ToolChoiceError,
    ToolDenied,
    ToolError,
    ToolSignal,
    ToolspeakError,
    ToolTimeout,
    UnknownDialectError,
    UpstreamError,
    UpstreamTimeout,
    UsageError,
)

TREE = [
    (ToolspeakError, Exception, 500),
    (UsageError, ToolspeakError, 400),
    (SchemaError, UsageError, 400),
    (UnknownDialectError, UsageError, 400),
    (NotKeptError, UsageError, 400),
    (NoSessionError, UsageError, 404),
    (ConfigError, UsageError, 400),
    (NoStoreError, ConfigError, 400),
    (ModelError, ToolspeakError, 502),
    (ToolChoiceError, ModelError, 502),
    (FormatError, ModelError, 502),
    (UpstreamError, ModelError, 502),
    (UpstreamTimeout, UpstreamError, 504),
    (StoreError, ToolspeakError, 503),
    (SessionBusyError, StoreError, 409),
    (StoreFullError, StoreError, 507),
    (StoreReadOnlyError, StoreError, 503),
    (StoreDamagedError, StoreError, 500),
    (ToolError, ToolspeakError, 500),
    (ToolTimeout, ToolError, 500),
    (ToolDenied, ToolError, 500),
    (ToolSignal, ToolspeakError, 500),
]


@check_each(("kind", "parent", "status"), TREE)
def test_an_error_stands_in_the_tree_and_carries_a_status(kind: type[ToolspeakError], parent: type, status: int):
    assert kind.__bases__ == (parent,)
    assert kind("it broke").status == status


def test_every_error_of_the_module_stands_in_the_tree():
    assert {kind.__name__ for kind, _, _ in TREE} == set(errors.__all__)


def test_an_error_without_a_hint_is_its_message():
    error = UsageError("no such tool")
    assert (str(error), error.hint, error.args) == ("no such tool", "", ("no such tool",))


def test_a_hint_stands_behind_the_message():
    error = UsageError("no such tool", hint="offer it")
    assert (str(error), error.hint) == ("no such tool (offer it)", "offer it")


def test_an_upstreams_error_tells_what_the_upstream_said():
    error = UpstreamError("refused", hint="check the key", upstream_status=401, body="no such key")
    assert (error.upstream_status, error.body, str(error)) == (401, "no such key", "refused (check the key)")


def test_an_upstreams_error_tells_whether_and_when_to_ask_again():
    error = UpstreamError("busy", retry_after=2.5, should_retry=True)
    assert (error.retry_after, error.should_retry, error.kind) == (2.5, True, "upstream")
    silent = UpstreamError("busy", kind="truncated")
    assert (silent.retry_after, silent.should_retry, silent.kind) == (None, None, "truncated")
    assert UpstreamTimeout("late").kind == "timeout"

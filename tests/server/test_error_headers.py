"""What the head of an error tells clients."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from toolspeak.errors import FormatError, ToolChoiceError, ToolspeakError, UpstreamError, UsageError
from toolspeak.server.access.auth import Unauthorized
from toolspeak.server.asgi import error_headers


@pytest.mark.requirement("A10", "R-F2")
@check_each(
    ("error", "headers"),
    [
        (UsageError("no"), {}),
        (Unauthorized("who?"), {b"www-authenticate": b"Bearer"}),
        (UpstreamError("busy", retry_after=2.4), {b"retry-after": b"3"}),
        (UpstreamError("busy", retry_after=0.0), {b"retry-after": b"1"}),
        (ToolChoiceError("no call"), {b"x-should-retry": b"false"}),
        (FormatError("no JSON"), {b"x-should-retry": b"false"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_says_when_to_come_again_and_when_not(error: ToolspeakError, headers: dict[bytes, bytes]):
    assert dict(error_headers(error)) == headers

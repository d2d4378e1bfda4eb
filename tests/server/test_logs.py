"""What a log may hold: one line, one object, no control character, no key."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.config import Secret
from toolspeak.server.observe.logs import JsonLogFormatter, configure_logging, may_contain_keys, redact


def line(message: str, *args: Any, **fields: Any) -> str:
    record = logging.makeLogRecord(
        {"msg": message, "args": args, "levelname": "WARNING", "name": "toolspeak", **fields}
    )
    return JsonLogFormatter(lambda: [Secret("a-configured-secret"), Secret("a-configured-secret-and-more")]).format(
        record
    )


@pytest.mark.requirement("R-T20")
@given(st.text())
def test_a_line_is_one_object_of_printable_ascii_whatever_it_tells(text: str):
    written = line("model %s", text)
    assert written.isascii()
    assert written.isprintable()
    told = json.loads(written)
    assert set(told) == {"time", "level", "logger", "message"}
    if not may_contain_keys(text):
        assert told["message"] == f"model {text}"


@pytest.mark.requirement("R-T20")
@check_each("text", ["a\r\nlevel: error", "\x1b[2J\x1b[31m", "\u2028", "\x00", "\u202e", '","level":"x'])
def test_no_name_writes_a_line_or_colours_a_terminal(text: str):
    written = line(text)
    assert "\n" not in written
    assert "\x1b" not in written
    assert json.loads(written)["level"] == "warning"


@pytest.mark.requirement("R-T2")
@check_each(
    ("text", "shown"),
    [
        ("key tsk-abcdefgh12345 was shown", "key *** was shown"),
        ("GET /v1beta/models?key=AIzaSy123&alt=sse", "GET /v1beta/models?key=***&alt=sse"),
        ("GET /x?alt=sse&key=AIzaSy123", "GET /x?alt=sse&key=***"),
        ("Authorization: Bearer sk-123, next", "Authorization: Bearer ***, next"),
        ("{'authorization': 'bearer sk-123'}", "{'authorization': 'bearer ***'}"),
        ("BEARER a-1 / bearer\ta-2 / Bearer  a-3", "BEARER *** / bearer\t*** / Bearer  ***"),
        ("https://me:pw@x.example/mcp?token=t-1&n=2", "https://***@x.example/mcp?token=***&n=2"),
        ("to wss://me:p@w@x.example?API_KEY=k-1", "to wss://***@x.example?API_KEY=***"),
        ("https://x.example/a@b?c=d@e and f@g", "https://x.example/a@b?c=d@e and f@g"),
        ("it was a-configured-secret", "it was ***"),
        ("it was a-configured-secret-and-more", "it was ***"),
        ("the monkey=banana, a task-force", "the monkey=banana, a task-force"),
    ],
)
def test_no_key_is_told(text: str, shown: str):
    assert redact(text, ["a-configured-secret", "a-configured-secret-and-more", "short", ""]) == shown
    assert json.loads(line("%s", text))["message"] == shown


@pytest.mark.requirement("R-T2")
def test_no_key_is_told_in_a_traceback():
    try:
        raise ValueError("a-configured-secret and tsk-abcdefgh12345")
    except ValueError:
        written = line("failed", exc_info=sys.exc_info())
    told = json.loads(written)
    assert "ValueError: *** and ***" in told["error"]
    assert "a-configured-secret" not in written


def test_everything_goes_one_way(capsys: pytest.CaptureFixture[str]):
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        handler = configure_logging(lambda: [Secret("a-configured-secret"), Secret("a-configured-secret-and-more")])
        handler.setStream(sys.stderr)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        logging.getLogger("uvicorn.error").warning("it was %s", "a-configured-secret")
        logging.getLogger("toolspeak.server").info("not worth a line")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    (written,) = capsys.readouterr().err.splitlines()
    assert json.loads(written)["message"] == "it was ***"

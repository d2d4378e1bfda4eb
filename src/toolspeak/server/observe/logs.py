"""What is written to the log: one entry a line, without control characters and without keys.

Names and ids in a log come from requests; whatever they hold, they can neither begin a line nor colour a terminal.
Every line passes one filter that takes out the configured secrets and whatever looks like a key of ours or a bearer
token, and names the request on whose way it was written. For machines a line is a JSON object, for people on a terminal
it is text.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias

from ...config import Secret
from ...core.text import printable
from .request_context import CURRENT

Format: TypeAlias = Literal["auto", "json", "text"]

_HIDDEN = "***"
#: Anything shorter is no secret, and taking it out would tear texts.
_SHORTEST = 8
#: What looks like a key; what must stand before it and stays is the group. No part can begin within another one's run,
#: so that the time is linear.
_KEY = re.compile(
    r"tsk-[A-Za-z0-9_-]{8,}"
    r"|([?&;](?ai:key|api[_-]?key|token|access_token|secret|password)=)[^&\s\"']+"
    r"|((?ai:bearer)[ \t]+)[^\s,;\"']+"
    r"|(?<=://)[^/?#\s\"']+(?=@)"
)
#: One of these is, in small letters, in every text that the pattern matches: to look for them takes far less time.
_SIGNS = ("tsk-", "key=", "token=", "secret=", "password=", "bearer")
#: And this one is where a URL has a name and a password, also in JSON.
_USER = re.compile(r"://[^/?#\s\"']+@")
#: One line for each request, if wanted.
_ACCESS = "toolspeak.access"


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without keys."""
    # The longest first: one may begin like another, and nothing of either is to be left.
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, _HIDDEN)
    return _KEY.sub(rf"\1\2{_HIDDEN}", text)


def may_hold_keys(text: str, secrets: Iterable[str] = ()) -> bool:
    """Whether `redacted` may find something in a text, or in a part of it."""
    known = any(len(secret) >= _SHORTEST and secret in text for secret in secrets)
    if known:
        return True
    lowered = text.lower()
    return any(sign in lowered for sign in _SIGNS) or _USER.search(text) is not None


class Lines(logging.Formatter):
    """What every format tells, already without keys."""

    def __init__(self, secrets: Callable[[], Iterable[Secret]] = tuple) -> None:
        super().__init__()
        self._secrets = secrets

    def told(self, record: logging.LogRecord) -> dict[str, object]:
        """The parts of a line: when, how bad, who, what; the request, fields of its own, an error."""
        secrets = [secret.reveal() for secret in self._secrets()]
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage(), secrets),
        }
        trip = CURRENT.get()
        if trip is not None:
            line["request_id"] = redacted(trip.id, secrets)
        fields: Mapping[str, object] = getattr(record, "fields", {})
        for name, value in fields.items():
            line[name] = redacted(value, secrets) if isinstance(value, str) else value
        if record.exc_info:
            # Of an exception in the log, a field of its own is the whole story.
            line["error"] = redacted(self.formatException(record.exc_info), secrets)
        return line


class JsonLines(Lines):
    """Formats a record as one line of ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return json.dumps(self.told(record), ensure_ascii=True)


class TextLines(Lines):
    """Formats a record for a person. A traceback follows on lines that begin like no entry does."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and a traceback."""
        line = self.told(record)
        time, level, logger, message = (line.pop(name) for name in ("time", "level", "logger", "message"))
        trace = str(line.pop("error")).splitlines() if record.exc_info else []
        rest = "".join(f" {name}={value}" for name, value in line.items())
        first = printable(f"{time} {str(level).upper()} {logger}: {message}{rest}")
        return "\n".join([first, *(f"  | {printable(each)}" for each in trace)])


def set_up(
    secrets: Callable[[], Iterable[Secret]],
    level: int = logging.WARNING,
    form: Format = "auto",
    *,
    access: bool = False,
) -> logging.Handler:
    """Let everything that is logged, by us and by uvicorn, go to stderr by this one way.

    `auto` is text where stderr is a terminal and JSON elsewhere; `access` lets every request have a line, whatever the
    level.
    """
    handler = logging.StreamHandler()
    text = form == "text" or (form == "auto" and sys.stderr.isatty())
    handler.setFormatter((TextLines if text else JsonLines)(secrets))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger(_ACCESS).setLevel(logging.INFO if access else logging.NOTSET)
    return handler

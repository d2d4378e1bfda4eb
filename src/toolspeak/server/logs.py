"""What is written to the log: one JSON object a line, without control characters and without keys.

Names and ids in a log come from requests; as JSON strings they can neither begin a line nor colour a terminal. Every
line passes one filter that takes out the configured secrets and whatever looks like a key of ours or a bearer token.
Above: `toolspeak serve`. Below: logging.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterable

from ..config import Secret

__all__ = ["JsonLines", "redacted", "set_up"]

_HIDDEN = "***"
#: Anything shorter is no secret, and taking it out would tear texts.
_SHORTEST = 8
_KEY = re.compile(r"tsk-[A-Za-z0-9_-]{8,}|(?<=[?&]key=)[^&\s\"']+|(?<=[Bb]earer )[^\s,;\"']+")


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without keys."""
    for secret in secrets:
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, _HIDDEN)
    return _KEY.sub(_HIDDEN, text)


class JsonLines(logging.Formatter):
    """Formats a record as one line of ASCII."""

    def __init__(self, secrets: Callable[[], Iterable[Secret]] = tuple) -> None:
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        secrets = [secret.reveal() for secret in self._secrets()]
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage(), secrets),
        }
        if record.exc_info:
            line["error"] = redacted(self.formatException(record.exc_info), secrets)
        return json.dumps(line, ensure_ascii=True)


def set_up(secrets: Callable[[], Iterable[Secret]], level: int = logging.WARNING) -> logging.Handler:
    """Let everything that is logged, by us and by uvicorn, go to stderr by this one way."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(secrets))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    return handler

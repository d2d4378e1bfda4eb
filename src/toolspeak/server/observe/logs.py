"""Log formatting: one record per line, without control characters, secrets or API keys.

Names and ids come from requests, so control characters are removed: they could forge a line or control the terminal.
One filter redacts the configured secrets and everything that looks like a toolspeak key or a bearer token. Each line is
a JSON object, or text on a terminal, and contains the id of the current request.
"""

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

_MASK = "***"
#: Minimum length of a secret to redact. Replacing shorter ones would damage ordinary text.
_MIN_SECRET_CHARS = 8
#: Matches text that looks like a key; groups capture the prefix to keep. No alternative can start inside the match of
#: another, so matching takes linear time.
_KEY_PATTERN = re.compile(
    r"tsk-[A-Za-z0-9_-]{8,}"
    r"|([?&;](?ai:key|api[_-]?key|token|access_token|secret|password)=)[^&\s\"']+"
    r"|((?ai:bearer)[ \t]+)[^\s,;\"']+"
    r"|(?<=://)[^/?#\s\"']+(?=@)"
)
#: Substrings for a fast pre-check. Every match of the pattern, lowercased, contains one of these or URL credentials.
_KEY_HINTS = ("tsk-", "key=", "token=", "secret=", "password=", "bearer")
#: Matches a user name and password in a URL, also inside JSON.
_URL_CREDENTIALS = re.compile(r"://[^/?#\s\"']+@")
#: Name of the access logger, which writes one line per request if enabled.
_ACCESS_LOGGER = "toolspeak.access"
_SHORT_ID_CHARS = 8  # enough for `toolspeak explain`
_FIRST_ERROR = 400  # lowest HTTP status of an error
_GREEN, _RED = 32, 31  # terminal codes


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Redact these secrets, and anything that looks like a key, in a text."""
    # Longest first: one secret may be a prefix of another, whose remainder must not be left over.
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _MIN_SECRET_CHARS:
            text = text.replace(secret, _MASK)
    return _KEY_PATTERN.sub(rf"\1\2{_MASK}", text)


def may_contain_keys(text: str, secrets: Iterable[str] = ()) -> bool:
    """Check cheaply whether `redact` could change a text or a part of it."""
    if any(len(secret) >= _MIN_SECRET_CHARS and secret in text for secret in secrets):
        return True
    lowered = text.lower()
    return any(sign in lowered for sign in _KEY_HINTS) or _URL_CREDENTIALS.search(text) is not None


class JsonLogFormatter(logging.Formatter):
    """Formats a record as one JSON object in ASCII."""

    def __init__(self, secrets: Callable[[], Iterable[Secret]] = tuple) -> None:
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.line_fields(record), ensure_ascii=True)

    def line_fields(self, record: logging.LogRecord) -> dict[str, object]:
        """Return the redacted fields of a line: time, level, logger, message, request id, extra fields, error."""
        secrets = [secret.reveal() for secret in self._secrets()]
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage(), secrets),
        }
        context = CURRENT.get()
        if context is not None:
            line["request_id"] = redact(context.id, secrets)
        fields: Mapping[str, object] = getattr(record, "fields", {})
        for name, value in fields.items():
            line[name] = redact(value, secrets) if isinstance(value, str) else value
        if record.exc_info:
            line["error"] = redact(self.formatException(record.exc_info), secrets)
        return line


class TextLogFormatter(JsonLogFormatter):
    """Formats a record as text. Traceback lines are indented, so they cannot be mistaken for records."""

    def format(self, record: logging.LogRecord) -> str:
        line = self.line_fields(record)
        time, level, logger, message = (line.pop(name) for name in ("time", "level", "logger", "message"))
        trace = str(line.pop("error")).splitlines() if record.exc_info else []
        rest = "".join(f" {name}={value}" for name, value in line.items())
        first = printable(f"{time} {str(level).upper()} {logger}: {message}{rest}")
        return "\n".join([first, *(f"  | {printable(each)}" for each in trace)])


class TerminalLogFormatter(logging.Formatter):
    """Formats the access record of a model request as a short line, with a coloured status, and others as text."""

    def __init__(self, secrets: Callable[[], Iterable[Secret]], *, colours: bool = True) -> None:
        super().__init__()
        self._text = TextLogFormatter(secrets)
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_info:
            return self._text.format(record)
        line, clock = self._text.line_fields(record), time.strftime("%H:%M:%S", time.localtime(record.created))
        if record.name != _ACCESS_LOGGER:
            return f"{clock}  {line['level']}  {printable(str(line['message']))}"
        status = int(str(line["status"]))
        colour = _GREEN if status < _FIRST_ERROR else _RED
        code = f"\x1b[{colour}m{status}\x1b[0m" if self._colours else str(status)
        answering = f" (answered by {line['answering_model']})" if "answering_model" in line else ""
        words = [str(line.get("client", "")), f"{line.get('model', '')}{answering}"]
        words += [str(line.get(name, "")) for name in ("plan", "calls", "retries")]
        if "model" not in line:  # rejected before a model was asked
            words.insert(0, str(line["message"]))
        words += [f"{float(str(line['ms'])) / 1000:.1f} s", str(line.get("record", ""))[:_SHORT_ID_CHARS]]
        if "error" in line:
            words.append(str(line["error"]))
        text = "  ".join(word for word in words if word)
        return f"{clock}  {code}  {printable(text)}"


def _is_for_people(record: logging.LogRecord) -> bool:
    """Whether a terminal shows this record: all but the page's own requests that succeeded."""
    fields: Mapping[str, object] = getattr(record, "fields", {})
    return record.name != _ACCESS_LOGGER or "model" in fields or int(str(fields["status"])) >= _FIRST_ERROR


def configure_logging(
    secrets: Callable[[], Iterable[Secret]],
    level: int = logging.WARNING,
    log_format: Format = "auto",
    *,
    access: bool = False,
    terminal: logging.Formatter | None = None,
) -> logging.Handler:
    """Send all log records, including uvicorn's, to stderr through one formatter.

    `auto` means text if stderr is a terminal, else JSON. `access` logs one line per request, whatever the level.
    `terminal` is a formatter for people. Successful requests of the page are then left out.
    """
    handler = logging.StreamHandler()
    text = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
    handler.setFormatter(terminal or (TextLogFormatter if text else JsonLogFormatter)(secrets))
    if terminal is not None:
        handler.addFilter(_is_for_people)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger(_ACCESS_LOGGER).setLevel(logging.INFO if access else logging.NOTSET)
    return handler

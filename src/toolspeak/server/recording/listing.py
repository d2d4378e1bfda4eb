"""The list of recorded requests: what each is about, and the search.

A query has words and terms such as `tool:shell status:retry -model:qwen since:2h`, which must all match.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b

import msgspec

from ...core.types import JSONObject, JSONValue
from ...errors import ToolspeakError
from ..access.limits import read_object
from ..proxy.client_protocols import client_protocol
from .redaction import redact_text

_MAX_TEXT_CHARS, _MAX_QUESTION_CHARS = 2000, 80
#: Limits of a query. A person does not type longer ones.
_MAX_QUERY_CHARS, _MAX_TERMS = 300, 12
#: A word or a quoted text, with a minus, and after the name of a field: with `:=`, the field must be equal to it.
_TERM = re.compile(r'(-?)(?:(\w+):(=?))?(?:"([^"]*)"|(\S*))(?=\s|$)')
_UNITS = {"m": 60, "h": 3600, "d": 86400}
_AGE = re.compile(r"([0-9]{1,6})([mhd])")

#: What a `status:` term selects, besides an HTTP status.
_STATUSES: Mapping[str, Callable[[JSONObject], bool]] = {
    "aided": lambda line: line.get("success") == "aided",
    "call": lambda line: bool(line.get("calls")),
    "disconnected": lambda line: line.get("outcome") == "left",
    "error": lambda line: line.get("outcome") == "error",
    "failed": lambda line: line.get("success") == "failed",
    "invalid": lambda line: bool(line.get("invalid")),
    "nocall": lambda line: bool(line.get("call_likely")),
    "repair": lambda line: bool(line.get("repairs")),
    "retry": lambda line: bool(line.get("retries")),
    "running": lambda line: "seconds" in line,
    "success": lambda line: line.get("success") in ("unaided", "aided"),
    "unaided": lambda line: line.get("success") == "unaided",
    "warning": lambda line: bool(line.get("warnings")),
}
#: The fields of a request's summary in which a term is searched.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "client": ("client_name", "user_agent", "tenant"),
    **{name: (name,) for name in ("id", "model", "plan")},
    "key": ("tenant",),
    "tool": ("called", "results"),
    "": ("text", "called", "results", "model", "user_agent", "plan", "error", "warnings", "id"),
}


class Headline(msgspec.Struct, frozen=True):
    """The beginning of a request's last user message, and more; without keys."""

    question: str = ""
    text: str = ""  # more of it, for the search
    results: Sequence[str] = ()  # names of the tools whose results end the request
    conversation: str = ""  # the same for all requests of a conversation
    messages: int = 0  # grows with each of them
    demands_call: bool = False


NO_HEADLINE = Headline()


def headline(protocol: str, body: bytes, fields: Mapping[str, JSONValue], secrets: Sequence[str]) -> Headline:
    """Return what a request is about; empty if its body is not valid."""
    try:
        request = client_protocol(protocol).decode(read_object(body), **fields)
    except ToolspeakError:
        return NO_HEADLINE
    messages = request.messages
    questions = [
        text for message in messages if message.role == "user" and (text := message.text[:_MAX_TEXT_CHARS].strip())
    ]
    # Cut after the redaction, which would not recognise half of a key.
    text = redact_text(" ".join(questions[-1].split()), secrets) if questions else ""
    names = {call.id: call.name for message in messages for call in message.calls}
    results: list[str] = []
    for message in reversed(messages):
        if message.role == "assistant" or (message.role == "user" and message.text.strip()):
            break
        results[:0] = [result.name or names.get(result.id, "a tool") for result in message.results]
    return Headline(
        text[:_MAX_QUESTION_CHARS],
        text,
        results,
        blake2b(questions[0].encode("utf-8", "replace"), digest_size=8).hexdigest() if questions else "",
        len(messages),
        request.tool_choice.demands,
    )


class Term(msgspec.Struct, frozen=True):
    field: str  # empty for a word that may stand anywhere
    value: str
    negated: bool
    exact: bool = False
    moment: float = 0.0  # for `since` and `until`: seconds since the epoch
    unread: str = ""  # the term as it was written, if its field or value is unknown

    def is_in(self, line: JSONObject) -> bool:
        if self.moment:
            return (line.get("time", 0.0) >= self.moment) == (self.field == "since")
        if self.field == "status":
            check = _STATUSES.get(self.value)
            return check(line) if check is not None else str(line.get("status", "")) == self.value
        texts = (str(line.get(name, "")).lower() for name in _FIELDS[self.field])
        return any(self.value == text if self.exact else self.value in text for text in texts)


def parse_query(query: str) -> list[Term]:
    """Parse a query. A term with an unknown field or an invalid value is searched literally."""
    terms: list[Term] = []
    for match in _TERM.finditer(query[:_MAX_QUERY_CHARS].lower()):
        minus, field, equals, quoted, word = match.groups()
        value = quoted or word or ""
        moment = _moment(value) if field in ("since", "until") else 0.0
        is_status = field == "status" and (value in _STATUSES or value.isdigit())
        unread = "" if moment or is_status or field is None or field in _FIELDS else match[0]
        if unread:
            field, equals, value = "", "", unread.removeprefix("-")
        if match[0]:
            terms.append(Term(field or "", value, bool(minus), bool(equals), moment, unread))
    return terms[:_MAX_TERMS]


def _moment(text: str) -> float:
    """Return a time, such as `2026-11-19T17:00` in UTC or `2h` ago, in seconds since the epoch; 0 if it is invalid."""
    if age := _AGE.fullmatch(text):
        return time.time() - int(age[1]) * _UNITS[age[2]]
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def select(lines: Iterable[JSONObject], terms: Iterable[Term]) -> list[JSONObject]:
    """Return the requests that match all terms, without the texts that are only searched."""
    return [{**line, "text": ""} for line in lines if all(term.is_in(line) != term.negated for term in terms)]

"""The list of recorded requests: what each is about, and the search.

A query has words and terms such as `tool:shell status:retry -model:qwen`, which must all match.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b

import msgspec

from ...core.types import JSONObject, JSONValue
from ...errors import ToolspeakError
from ..access.limits import read_object
from ..proxy.client_protocols import client_protocol
from .redaction import redact_text

_MAX_TEXT_CHARS, _MAX_QUESTION_CHARS = 2000, 80
#: Limits of a query. A person does not type longer ones.
_MAX_QUERY_CHARS, _MAX_TERMS = 200, 12
_TERM = re.compile(r'(-?)(?:(\w+):)?(?:"([^"]*)"|(\S+))')

#: What a `status:` term selects, besides an HTTP status.
_STATUSES: Mapping[str, Callable[[JSONObject], bool]] = {
    "call": lambda line: bool(line.get("calls")),
    "disconnected": lambda line: line.get("outcome") == "left",
    "error": lambda line: line.get("outcome") == "error",
    "invalid": lambda line: bool(line.get("invalid")),
    "nocall": lambda line: bool(line.get("call_likely")),
    "repair": lambda line: bool(line.get("repairs")),
    "retry": lambda line: bool(line.get("retries")),
    "running": lambda line: "seconds" in line,
    "warning": lambda line: bool(line.get("warnings")),
}
#: The fields of a request's summary in which a term is searched.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "client": ("user_agent", "tenant"),
    "id": ("id",),
    "model": ("model",),
    "plan": ("plan",),
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

    def is_in(self, line: JSONObject) -> bool:
        if self.field == "status":
            check = _STATUSES.get(self.value)
            return check(line) if check is not None else str(line.get("status", "")) == self.value
        return any(self.value in str(line.get(name, "")).lower() for name in _FIELDS[self.field])


def parse_query(query: str) -> list[Term]:
    """Parse a query. A word with an unknown field is searched as it stands."""
    terms: list[Term] = []
    for match in _TERM.finditer(query[:_MAX_QUERY_CHARS].lower()):
        minus, field, quoted, word = match.groups()
        is_field = field in _FIELDS or field in (None, "status")
        value = (quoted or word or "") if is_field else match[0].removeprefix("-")
        terms.append(Term((field or "") if is_field else "", value, bool(minus)))
    return terms[:_MAX_TERMS]


def select(lines: Iterable[JSONObject], terms: Iterable[Term]) -> list[JSONObject]:
    """Return the requests that match all terms, without the texts that are only searched."""
    return [{**line, "text": ""} for line in lines if all(term.is_in(line) != term.negated for term in terms)]

"""Search in recorded requests: words, and terms such as `tool:shell status:retry -model:qwen`, which must all match."""

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from ...core.types import JSONObject

#: Limits of a query. A person does not type longer ones.
_MAX_CHARS, _MAX_TERMS = 200, 12
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
    for match in _TERM.finditer(query[:_MAX_CHARS].lower()):
        minus, field, quoted, word = match.groups()
        is_field = field in _FIELDS or field in (None, "status")
        value = (quoted or word or "") if is_field else match[0].removeprefix("-")
        terms.append(Term((field or "") if is_field else "", value, bool(minus)))
    return terms[:_MAX_TERMS]


def select(lines: Iterable[JSONObject], terms: Iterable[Term]) -> list[JSONObject]:
    """Return the requests that match all terms, without the texts that are only searched."""
    return [{**line, "text": ""} for line in lines if all(term.is_in(line) != term.negated for term in terms)]

"""Reads answers that are exactly one call, written as the prompt shows it, in one short step.

Most answers with a call are of this kind. The pattern of a dialect, and the evidence that such a call has, are learned
from the general reader, which reads a sample. It also reads every answer that differs from the sample in more than its
name, its arguments and white space in JSON, and every call whose arguments are not plain or do not fit their schema.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from json import JSONDecoder
from typing import NamedTuple, TypeAlias

from ...core.events import CallArgs, CallEnd, CallStart, Candidate, Judged, TextDelta
from ...core.parsing.acceptance import Evidence, Policy, judge_name
from ...core.parsing.arguments import fits_as_it_is
from ...core.parsing.fast_paths import are_harmless, whole_object
from ...core.parsing.tool_index import Toolkit
from ...core.schema.work_limit import WorkLimit
from ...core.types import JSONValue, Tool, ToolCall
from ...dialects.registry import all_formats, render_calls
from ...dialects.registry import dialect as dialect_row
from .answer_readers import NATIVE_FROM, EnvelopeOrTextReader, NativeAndTextReader, ReadingRules

#: The dialect of the envelope plan, which has a reader of its own.
ENVELOPE = "envelope"
#: The longest answer that is read here, and the largest number of values in its arguments: far below the limits of
#: the general readers.
_MAX_CHARS, _MAX_VALUES = 200_000, 1000
#: The nonce, the name and the arguments of the sample.
_NONCE, _NAME, _ARGUMENTS = "k7q2xmb", "w9sample", '{"z5key":"z6text"}'
_JSON_PARTS = re.compile(r'"[^"]*"|[\[\]{}:,]').findall
_SPACE = r"[ \t\r\n]{0,64}+"
_decode = JSONDecoder().raw_decode


#: The events of an answer that is one valid call.
WholeCall: TypeAlias = tuple[CallStart, CallArgs, CallEnd, Judged]


class CallForm(NamedTuple):
    """How an answer that is one call is written in a dialect, and the evidence that it has."""

    head: Callable[[str], re.Match[str] | None]
    tail: Callable[[str, int], re.Match[str] | None]
    dialect: str
    evidence: dict[str, JSONValue]

    def read(self, text: str, nonce: str, kit: Toolkit) -> WholeCall | None:
        """Return the events of an answer that is a valid call of a tool in `kit`; else None."""
        head = self.head(text)
        if head is None or head["nonce"] != nonce or head["name"] not in kit.by_name or len(text) > _MAX_CHARS:
            return None
        arguments = whole_object(text, head.end(), (), final=True)
        if arguments is None or arguments.values > _MAX_VALUES or self.tail(text, arguments.end) is None:
            return None
        name, value = head["name"], arguments.value
        if not fits_as_it_is(kit.schema(name), value, WorkLimit()):
            return None
        candidate = Candidate(name, "call", "accepted", self.dialect, value, self.evidence.copy())
        return CallStart(0, name), CallArgs(0, arguments.text), CallEnd(0), Judged(candidate)


#: The evidence that a native call of a known tool has, and how such a call is accepted.
_NATIVE = Evidence("native", "strong", known=True)
_NATIVE_EVIDENCE = _NATIVE.to_dict()


def read_native(start: CallStart, written: str, kit: Toolkit, policy: Policy) -> WholeCall | None:
    """Return the events of a native call with complete arguments if it is valid as it is; else None."""
    if start.name not in kit.by_name or len(written) > _MAX_CHARS or judge_name(_NATIVE, policy).action != "live":
        return None
    arguments = whole_object(written + "}", 0, ())
    if arguments is None or arguments.end != len(written) or arguments.values > _MAX_VALUES:
        return None
    if not fits_as_it_is(kit.schema(start.name), arguments.value, WorkLimit()):
        return None
    index = NATIVE_FROM
    candidate = Candidate(start.name, "call", "accepted", "native", arguments.value, _NATIVE_EVIDENCE.copy())
    return CallStart(index, start.name, start.id), CallArgs(index, arguments.text), CallEnd(index), Judged(candidate)


@lru_cache(maxsize=64)
def form_learner(dialect: str, policy: Policy, unmarked_counts: bool) -> Callable[[tuple[Tool, ...]], CallForm | None]:
    """Return a function for `Toolkit.derive` that learns how a call is written, or returns None if it cannot."""

    def learn(tools: tuple[Tool, ...]) -> CallForm | None:
        sample = render_calls(dialect, [ToolCall(_NAME, {"z5key": "z6text"})], _NONCE)
        accepts = dialect_row(dialect).accepts
        openings = [each for row in all_formats().values() for each in row.openings if each.dialect in accepts]
        if _ARGUMENTS not in sample or not all(are_harmless(each.stops + each.ends) for each in openings):
            return None
        is_envelope = dialect == ENVELOPE
        asked = "" if is_envelope else dialect
        rules = ReadingRules((*tools, Tool(_NAME)), policy, _NONCE, unmarked_counts, dialect=asked)
        reader = EnvelopeOrTextReader(rules) if is_envelope else NativeAndTextReader(rules)
        events = [*reader.feed(TextDelta(sample)), *reader.close(False)]
        call = [CallStart(0, _NAME), CallArgs(0, _ARGUMENTS), CallEnd(0)]
        if events[:-1] != call or type(judged := events[-1]) is not Judged:
            return None
        read = judged.candidate
        if read.verdict != "call" or read.evidence["wrapper"] != "strong":  # only marks make a call certain at once
            return None
        head, _, tail = _pattern(sample).partition(_loose(_ARGUMENTS))
        return CallForm(re.compile(head).match, re.compile(tail).match, read.dialect, read.evidence)

    return learn


def _pattern(sample: str) -> str:
    """Return the pattern of a sample. White space may be between the parts of the JSON that contains the arguments."""
    start = min(at for at in (sample.find('{"'), sample.find('[{"')) if at >= 0)
    _, end = _decode(sample, start)
    pattern = re.escape(sample[:start]) + _loose(sample[start:end]) + re.escape(sample[end:])
    pattern = pattern.replace(_NONCE, "(?P<nonce>[a-z0-9]{1,16}+)", 1)
    return pattern.replace(_NAME, r"(?P<name>[\w.-]{1,64}+)", 1) + r"[ \t\r\n]{0,64}+\Z"


def _loose(json: str) -> str:
    return _SPACE.join(map(re.escape, _JSON_PARTS(json)))

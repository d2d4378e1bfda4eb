"""Answer readers convert the upstream events of one answer into text, call and note events for the client.

- `RelayReader` passes every event through unchanged.
- `NativeAndTextReader` checks native calls and finds calls written as text.
- `EnvelopeOrTextReader` parses the JSON document that the envelope plan asks for.
- `DecisionReader` parses the answer to a request that asks only which tools to call.
- `CopiedValueFilter` wraps another reader and rejects calls whose values were ended by copied text.
- `DuplicateCallFilter` wraps another reader and drops repeated calls.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Literal, Protocol, TypeAlias

import msgspec

from ...core.events import CallArgs, CallEnd, CallStart, Event, Noted, TextDelta
from ...core.json_repair.whole_text import loads, parse_value
from ...core.parsing.acceptance import Policy
from ...core.parsing.context import ParseContext, Texts
from ...core.parsing.copied_values import CandidateCheck, CutCallFilter
from ...core.parsing.scanner import TextScanner
from ...core.types import Note, Tool, is_array, is_object
from ...dialects.marks import Marks
from ...dialects.registry import dialect
from .envelope_reader import EnvelopeReader
from .native_call_checks import NativeCalls

#: Returns the event for a piece of text that needs no parsing; None if `AnswerReader.feed` must be called.
Flow: TypeAlias = Callable[[TextDelta], Event | None]


class AnswerReader(Protocol):
    """Parses one answer, event by event."""

    @property
    def flow(self) -> Flow | None:
        """Fast path for the pieces of text up to the next call of `feed`, or None if there is none."""
        ...

    def feed(self, event: Event) -> list[Event]:
        """Parse an upstream event and return the resulting events. The engine handles usage, finish and failure."""
        ...

    def close(self, cut: bool) -> list[Event]:
        """End the answer and return the remaining events. `cut`: the answer was cut off before its end."""
        ...


class RelayReader:
    """Passes every event through unchanged."""

    flow = None

    def feed(self, event: Event) -> list[Event]:
        return [event]

    def close(self, cut: bool) -> list[Event]:
        return []


class ReadingRules(msgspec.Struct, frozen=True):
    """What an answer is compared with to find the calls in its text."""

    tools: tuple[Tool, ...]
    policy: Policy = "standard"
    #: The word that the model was asked to write into its calls, if any.
    nonce: str | None = None
    #: Whether a call without the nonce may count, unless it repeats one of the copied texts.
    unmarked_counts: bool = False
    #: Whether calls with side effects must carry the nonce all the same.
    confirms: bool = False
    #: Texts from which no call may be copied.
    untrusted: tuple[str, ...] = ()
    #: More such texts, for calls that do not carry the nonce themselves.
    copied: Texts = tuple
    #: Those of the texts that tell the model how to call tools.
    declared: Texts = tuple
    #: The dialect that the model was asked to write, if any.
    dialect: str = ""
    #: Whether native calls may not be copied either, because little is known about the upstream.
    checks_native: bool = False

    def context(self, tools: tuple[Tool, ...] | None = None) -> ParseContext:
        return ParseContext(
            self.tools if tools is None else tools,
            self.policy,
            self.nonce,
            self.untrusted,
            self.copied,
            self.declared,
            unmarked_counts=self.unmarked_counts,
            confirms=self.confirms,
        )

    def scanner(self, tools: tuple[Tool, ...] | None = None) -> TextScanner:
        context = self.context(tools)
        asked = dialect(self.dialect).accepts if self.dialect else frozenset[str]()
        return TextScanner(context, Marks(context, asked=asked))


#: First index for native calls, high enough not to clash with calls found in the text of the same answer.
NATIVE_FROM = 1_000_000


class NativeAndTextReader:
    """Checks native calls and, with `scan`, finds calls that the model wrote as text.

    Native calls of tools that were not offered natively are treated like calls without the nonce. `thinking`: only
    separate the reasoning from the text, without looking for calls in the text. `whole`: the answer is not streamed.
    """

    def __init__(self, rules: ReadingRules, *, scan: bool = True, thinking: bool = False, whole: bool = False) -> None:
        self._scanner = rules.scanner(() if thinking else None) if scan or thinking else None
        self.flow = None if self._scanner is None else self._scanner.pass_through
        self._thinking = thinking
        trusts_native = rules.nonce is None and not rules.checks_native
        native = msgspec.structs.replace(rules, untrusted=()) if trusts_native else rules
        self._calls = NativeCalls(native.context(), NATIVE_FROM, whole=whole)

    def feed(self, event: Event) -> list[Event]:
        if type(event) is TextDelta:
            return self._scanner.feed(event.text) if self._scanner is not None else [event]
        if isinstance(event, CallStart | CallArgs | CallEnd):
            return self._native(event)
        return [event]

    def _native(self, event: CallStart | CallArgs | CallEnd) -> list[Event]:
        if self._scanner is not None and not self._thinking and isinstance(event, CallStart):
            self._scanner.context.calls_seen += 1  # any result after this call is invented
        return self._calls.feed(event)

    def close(self, cut: bool) -> list[Event]:
        # Native calls may already have been streamed, so the remaining text comes after them.
        return self._calls.close(cut) + (self._scanner.close(cut) if self._scanner is not None else [])


class EnvelopeOrTextReader:
    """Parses the JSON document of the envelope plan; any other answer is parsed as text."""

    flow = None

    def __init__(self, rules: ReadingRules) -> None:
        self._scanner = rules.scanner()
        self._calls = NativeAndTextReader(rules, scan=False)  # for unrequested native calls
        self._document = EnvelopeReader(self._scanner.context)
        #: `maybe`: the answer starts with `{`, but no envelope key has been seen yet.
        self._format: Literal["unknown", "maybe", "document", "text"] = "unknown"
        self._raw: list[str] = []  # text received before the format is known
        self._text: list[str] = []  # a non-envelope answer, held until it ends

    def feed(self, event: Event) -> list[Event]:
        if type(event) is not TextDelta:
            return self._calls.feed(event)
        match self._format:
            case "document":
                return self._document.feed(event.text)
            case "text":
                return self._hold_text(self._scanner.feed(event.text))
            case _:
                self._raw.append(event.text)
                return self._detect(event.text)

    def _detect(self, text: str) -> list[Event]:
        """Decide from the text so far whether the answer is an envelope or plain text."""
        start = text.lstrip()
        if not start and self._format == "unknown":
            return []
        if self._format == "unknown":
            self._format = "maybe"
            text = "".join(self._raw)
            if not start.startswith("{"):
                return self._as_text()
        events = self._document.feed(text)
        if self._document.recognised:
            self._format = "document"
            self._raw = []
        elif self._document.finished:
            return self._as_text()
        return events

    def _as_text(self) -> list[Event]:
        self._format = "text"
        raw, self._raw = "".join(self._raw), []
        return self._hold_text(self._scanner.feed(raw))

    def close(self, cut: bool) -> list[Event]:
        if self._format == "document":
            return self._document.close() + self._calls.close(cut)
        events = self._as_text() + self._hold_text(self._scanner.close(cut)) + self._calls.close(cut)
        return events + _reply_in("".join(self._text))

    def _hold_text(self, events: list[Event]) -> list[Event]:
        self._text += [event.text for event in events if type(event) is TextDelta]
        return [event for event in events if type(event) is not TextDelta]


def _reply_in(text: str) -> list[Event]:
    """Extract the reply from an envelope embedded in other text. Text without an envelope is returned unchanged."""
    if "{" not in text:
        return [TextDelta(text)] if text else []
    try:
        value = loads(text)
    except ValueError:
        return [TextDelta(text)]
    if not is_object(value) or "calls" not in value or "reply" not in value:
        return [TextDelta(text)]
    reply = value["reply"]
    content = reply if isinstance(reply, str) else msgspec.json.encode(reply).decode() if reply is not None else ""
    noted = Noted(Note("envelope_in_text", "the envelope was surrounded by other text, which was dropped"))
    return [noted, TextDelta(content)] if content else [noted]


_DECISION_KEY = '"tools"'
#: How many JSON documents to try, starting with the last. A model that writes more has not made a decision.
_MAX_DOCUMENTS = 4


class DecisionReader:
    """Parses the answer to a decision request: a JSON document naming the tools to call, often surrounded by prose.

    In other plans, JSON in the middle of prose may be a quotation. A decision request asks only for the document, so
    the last one in the answer counts. The usual rules still apply: it needs the nonce and must not be a copied call.
    """

    flow = None

    def __init__(self, rules: ReadingRules) -> None:
        self._new_reader = partial(NativeAndTextReader, rules)
        self._answer = self._new_reader()
        self._raw: list[str] = []
        self._text: list[str] = []
        self._called = False

    def feed(self, event: Event) -> list[Event]:
        if type(event) is TextDelta:
            self._raw.append(event.text)
        return self._observe(self._answer.feed(event))

    def _observe(self, events: list[Event]) -> list[Event]:
        for event in events:
            if type(event) is TextDelta:
                self._text.append(event.text)
            elif type(event) is CallStart:
                self._called = True
        return events

    def close(self, cut: bool) -> list[Event]:
        events = self._observe(self._answer.close(cut))
        return events if self._called or cut else events + self._embedded_calls("".join(self._text))

    def _embedded_calls(self, text: str) -> list[Event]:
        """Return the events of the calls in the last JSON document of the text."""
        document = _last_document(text)
        if not document or document not in "".join(self._raw):  # a mark was removed from its middle
            return []
        reader = self._new_reader()
        events = [*reader.feed(TextDelta(document)), *reader.close(False)]
        if not any(type(event) is CallStart for event in events):
            return []
        note = Note("decision_in_text", "the decision was surrounded by other text")
        return [Noted(note), *(event for event in events if type(event) is not TextDelta)]


def _last_document(text: str) -> str:
    """Return the last JSON object in the text that has a `tools` array, or an empty string."""
    at = len(text)
    for _ in range(_MAX_DOCUMENTS):
        at = text.rfind(_DECISION_KEY, 0, at)
        start = text.rfind("{", 0, at) if at > 0 else -1
        if start < 0:
            break
        document = parse_value(text, start)
        if document.status == "complete" and is_object(document.value) and is_array(document.value.get("tools")):
            return text[start : document.end]
    return ""


class CopiedValueFilter:
    """Rejects calls with values that are cut or those of an example. `raw`: the pieces of the answer; it grows."""

    def __init__(self, reader: AnswerReader, raw: list[str], texts: Texts, is_example: CandidateCheck) -> None:
        self._reader = reader
        self._calls = CutCallFilter(raw, texts, is_example)

    @property
    def flow(self) -> Flow | None:
        return None if self._calls.waiting else self._reader.flow

    def feed(self, event: Event) -> list[Event]:
        return self._calls.filter(self._reader.feed(event))

    def close(self, cut: bool) -> list[Event]:
        return self._calls.filter(self._reader.close(cut), final=True)


class _OpenCall(msgspec.Struct, eq=False):
    """A call that has started but not ended."""

    name: str
    buffered: bool
    events: list[Event]
    fragments: list[str] = []


class DuplicateCallFilter:
    """Drops calls with the same name and arguments as an earlier call of the same answer, and adds a note.

    Some small models write the same call twice; running both could, for example, send a message twice. A call to a
    tool that was already called is buffered until it ends, because streamed events cannot be retracted.
    `repeats`: the model may repeat a call, so only one that comes natively and again as text is dropped.
    """

    def __init__(self, reader: AnswerReader, repeats: bool = False) -> None:
        self._reader = reader
        self._repeats = repeats
        self._open: dict[int, _OpenCall] = {}
        #: Names of calls, and names with arguments, each with whether the call was native.
        self._seen: set[tuple[tuple[str, ...], bool]] = set()

    @property
    def flow(self) -> Flow | None:
        flow = self._reader.flow
        if flow is None or not self._open:
            return flow
        return None if any(call.buffered for call in self._open.values()) else partial(self._flow_on, flow)

    def _flow_on(self, flow: Flow, event: TextDelta) -> Event | None:
        piece = flow(event)
        if type(piece) is CallArgs:
            self._open[piece.index].fragments.append(piece.fragment)
        return piece

    def feed(self, event: Event) -> list[Event]:
        return self._filter(self._reader.feed(event))

    def close(self, cut: bool) -> list[Event]:
        events = self._filter(self._reader.close(cut))
        return events + [event for call in self._open.values() for event in call.events]

    def _filter(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if isinstance(event, CallStart):
                out.extend(self._start(event))
            elif isinstance(event, CallArgs | CallEnd):
                out.extend(self._continue(event))
            else:
                out.append(event)
        return out

    def _start(self, event: CallStart) -> list[Event]:
        buffered = self._was_seen((event.name,), event.index >= NATIVE_FROM)
        self._open[event.index] = _OpenCall(event.name, buffered, [event] if buffered else [])
        return [] if buffered else [event]

    def _continue(self, event: CallArgs | CallEnd) -> list[Event]:
        call = self._open.get(event.index)
        if call is None:
            return [event]
        if call.buffered:
            call.events.append(event)
        if isinstance(event, CallArgs):
            call.fragments.append(event.fragment)
            return [] if call.buffered else [event]
        del self._open[event.index]
        return self._end(call, event)

    def _end(self, call: _OpenCall, end: CallEnd) -> list[Event]:
        if end.valid:
            key = (call.name, _sort_keys("".join(call.fragments)))
            if self._was_seen(key, end.index >= NATIVE_FROM):
                return [Noted(Note("same_call_dropped", f"a repeated call of `{call.name}` was dropped"))]
        return call.events if call.buffered else [end]

    def _was_seen(self, key: tuple[str, ...], native: bool) -> bool:
        seen = (key, not native) in self._seen or (not self._repeats and (key, native) in self._seen)
        self._seen.add((key, native))
        return seen


def _sort_keys(arguments: str) -> str:
    """Sort the keys of JSON arguments. If Python cannot parse them (huge numbers), return them unchanged."""
    try:
        return json.dumps(json.loads(arguments or "{}"), sort_keys=True)
    except ValueError:
        return arguments

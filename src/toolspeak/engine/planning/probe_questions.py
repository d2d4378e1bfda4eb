"""The questions that a probe asks, and the evaluation of each answer.

A question is one short sentence with at most one tool. Repetitions are worded differently, because the same wording may
always get the same answer. Requests are built by the same code as real turns, so the probe measures real behaviour.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from ...core.events import (
    CallArgs,
    Candidate,
    Event,
    Failure,
    Finish,
    ReasoningDelta,
    Reply,
    TextDelta,
    UsageSeen,
    fold,
)
from ...core.text import REPLACEMENT, printable
from ...core.types import JSONObject, Message, Options, Request, TextPart, Tool, ToolChoice, Usage
from ...dialects.registry import dialects
from .. import read_toml
from ..constraints.build import Flavour, response_constraint, wire_options
from ..turn.answer_readers import AnswerReader, EnvelopeOrTextReader, NativeAndTextReader, ReadingRules
from ..turn.request_builder import RequestBuilder
from .capabilities import Profile, ProfileMatch
from .strategy import Settings, plan

Trait: TypeAlias = Literal[
    "reach", "system_role", "streams", "native", "required", "parallel", "dialects", "constraint", "envelope"
]
#: The outcome of a request: the model replied (`answered`), the upstream does not support the request (`rejected`) or
#: refuses access (`denied`), or something unrelated to the question went wrong (`failed`).
AnswerKind: TypeAlias = Literal["answered", "rejected", "denied", "failed"]

#: Token limit of an answer: enough for some reasoning and a call.
MAX_TOKENS = 1024
#: Token budget for the tool prompt, which describes one small tool.
_BUDGET = 2000
#: Maximum length of an upstream's error message, in characters.
_MAX_DETAIL = 160

_ITEM: JSONObject = {"type": "string", "description": "The name of the item."}
_SCHEMA: JSONObject = {"type": "object", "properties": {"item": _ITEM}, "required": ["item"]}
TOOL = Tool("lookup_code", "Look up the code of one item in the stock list.", _SCHEMA)


class LookupTask(msgspec.Struct, frozen=True):
    """A question, and the items for which the model must make a call."""

    text: str
    items: tuple[str, ...]


_TASKS = read_toml("planning/probe_tasks.toml", dict[str, tuple[LookupTask, ...]])
LOOKUPS, DOUBLE_LOOKUPS, GREETINGS = _TASKS["lookups"], _TASKS["double_lookups"], _TASKS["greetings"]
#: A word that no model writes by chance.
CONTROL_WORD = "zanthor"
OBEY_PROMPT = f"Whatever is said to you, answer with the word {CONTROL_WORD} and nothing else."
COUNT_PROMPT = "Write the numbers from one to twenty as words, separated by commas."
#: The only document that the probe's schema and grammar allow; no model writes it by chance.
EXPECTED_CODE: JSONObject = {"code": "QX7"}
_ONLY_CODE: JSONObject = {
    "type": "object",
    "properties": {"code": {"enum": ["QX7"]}},
    "required": ["code"],
    "additionalProperties": False,
}
_GREETING = "Say hello to me in plain words, without any JSON."


class ProbeRoute(msgspec.Struct, frozen=True):
    """The probed model, and the request features that its upstream accepts."""

    model: str
    protocol: str
    stream: bool = True
    capped: bool = True
    system_role: bool = True


class ProbeQuestion(msgspec.Struct, frozen=True):
    """One request of a probe, with the information needed to evaluate the answer."""

    trait: Trait
    request: Request
    items: tuple[str, ...] = ()
    #: The requested dialect, and the nonce that its calls must carry.
    dialect: str = ""
    nonce: str | None = None
    untrusted: tuple[str, ...] = ()
    #: Whether the answer must be an envelope document.
    document: bool = False


class ProbeAnswer(msgspec.Struct, frozen=True):
    """The evaluation of one answer."""

    kind: AnswerKind
    text: str = ""
    #: Whether the calls cover all items. Counted are native calls, calls in text with the nonce, or all calls in text.
    native_call: bool = False
    text_call: bool = False
    unmarked_call: bool = False
    #: The dialect of the calls in the text, and whether it is the requested one.
    dialect: str = ""
    as_requested: bool = False
    any_call: bool = False
    #: Number of stream chunks, and total number of characters.
    pieces: int = 0
    length: int = 0
    #: The upstream's error message.
    detail: str = ""
    usage: Usage = Usage()


def _request(route: ProbeRoute, messages: tuple[Message, ...], **fields: object) -> Request:
    options = Options(max_tokens=MAX_TOKENS if route.capped else None)
    return Request(route.model, messages, stream=route.stream, options=options, **fields)  # type: ignore[arg-type]


def _user(text: str) -> Message:
    return Message("user", (TextPart(text),))


def plain_question(route: ProbeRoute, trait: Trait, text: str, system: str = "") -> ProbeQuestion:
    """Build a question without tools."""
    before = (Message("system", (TextPart(system),)),) if system else ()
    return ProbeQuestion(trait, _request(route, (*before, _user(text))))


def native_question(
    route: ProbeRoute, trait: Trait, task: LookupTask, choice: ToolChoice | None = None
) -> ProbeQuestion:
    """Build a question with a native tool."""
    request = _request(route, (_user(task.text),), tools=(TOOL,), tool_choice=choice or ToolChoice())
    return ProbeQuestion(trait, request, task.items)


def inline_question(route: ProbeRoute, trait: Trait, task: LookupTask, dialect: str, nonce: str) -> ProbeQuestion:
    """Build a question that describes the tool in the prompt and asks for calls in a dialect."""
    return _emulated_question(route, trait, task, nonce, dialect=dialect)


def envelope_question(route: ProbeRoute, task: LookupTask, flavour: Flavour, nonce: str) -> ProbeQuestion:
    """Build a question whose answer is constrained to an envelope document."""
    return _emulated_question(route, "envelope", task, nonce, flavour=flavour)


def _emulated_question(
    route: ProbeRoute,
    trait: Trait,
    task: LookupTask,
    nonce: str,
    dialect: str = "",
    flavour: Flavour | Literal[""] = "",
) -> ProbeQuestion:
    """Build a question with the request builder that real turns use."""
    request = _request(route, (_user(task.text),), tools=(TOOL,))
    phase = "envelope" if flavour else "inline"
    settings = Settings(mode="force", plan=phase, dialect=dialect, contract_budget=_BUDGET)
    match = ProfileMatch(Profile(system_role=route.system_role, constraint=flavour), "probe", "")
    planned = plan(request, match, settings)
    builder = RequestBuilder(request, planned, settings, nonces=lambda counter: nonce, protocol=route.protocol)
    prepared, untrusted = builder.build(phase), builder.untrusted_texts(phase)
    return ProbeQuestion(trait, prepared, task.items, dialect, builder.nonce, untrusted, document=phase == "envelope")


def constrained_question(route: ProbeRoute, flavour: Flavour) -> ProbeQuestion:
    """Build a question whose constraint allows only `EXPECTED_CODE`, which the prompt does not mention."""
    request = _request(route, (_user(_GREETING),))
    grammar = wire_options(response_constraint(_ONLY_CODE, flavour), route.protocol)
    options = msgspec.structs.replace(request.options, grammar=grammar)
    return ProbeQuestion("constraint", msgspec.structs.replace(request, options=options))


_DENIED = frozenset({401, 402, 403})
#: Status codes of temporary failures that are unrelated to the request.
_TRANSIENT = frozenset({408, 409, 425, 429})
#: Words for each feature. Some servers answer 500 for an unsupported feature; an error with its word is a rejection.
_TOPICS: dict[Trait, tuple[str, ...]] = {
    **dict.fromkeys(("native", "required", "parallel"), ("tool", "function")),
    **dict.fromkeys(("constraint", "envelope"), ("format", "schema", "grammar")),
    "system_role": ("system", "role"),
    "streams": ("stream",),
}
_CUTTING = frozenset({"length", "content_filter", "error"})
_PIECES = (TextDelta, ReasoningDelta, CallArgs)


def read_answer(question: ProbeQuestion, events: Sequence[Event]) -> ProbeAnswer:
    """Evaluate an answer. If the request failed, the last event is a `Failure`."""
    failure = next((event for event in events if isinstance(event, Failure)), None)
    if failure is not None:
        detail = f"{failure.status or ''} {failure.message}"[: 2 * _MAX_DETAIL]
        return ProbeAnswer(
            _kind(question.trait, failure), detail=printable(" ".join(detail.split())[:_MAX_DETAIL], REPLACEMENT)
        )
    finish = next((event.reason for event in events if isinstance(event, Finish)), "unknown")
    usage = sum((event.usage for event in events if isinstance(event, UsageSeen)), Usage())
    raw = "".join(event.text for event in events if isinstance(event, TextDelta))
    pieces = [event for event in events if isinstance(event, _PIECES)]
    reply = _parse_reply(question, events, finish in _CUTTING)
    calls = [each for each in reply.candidates if each.verdict == "call"]
    written = [each for each in calls if each.dialect != "native"]
    unmarked = [each for each in reply.candidates if each.reason == "no_nonce" and each.name == TOOL.name]
    return ProbeAnswer(
        "answered",
        reply.text,
        native_call=_covers([each for each in calls if each.dialect == "native"], question.items),
        text_call=_covers(written, question.items),
        unmarked_call=_covers([*written, *unmarked], question.items, raw),
        dialect=next((name for name, row in dialects().items() if written and written[0].dialect in row.accepts), ""),
        as_requested=bool(question.dialect)
        and dialects()[question.dialect].accepts.issuperset(each.dialect for each in (*written, *unmarked)),
        any_call=bool(calls),
        pieces=len(pieces),
        length=sum(len(event.fragment if isinstance(event, CallArgs) else event.text) for event in pieces),
        usage=usage,
    )


def _kind(trait: Trait, failure: Failure) -> AnswerKind:
    status = failure.status
    if status in _DENIED:
        return "denied"
    if 400 <= status < 500 and status not in _TRANSIENT:
        return "rejected"
    message = f"{failure.message} {failure.body}".lower()
    mentioned = any(topic in message for topic in _TOPICS.get(trait, ()))
    return "rejected" if status in (500, 501) and mentioned else "failed"


def _parse_reply(question: ProbeQuestion, events: Sequence[Event], cut: bool) -> Reply:
    rules = ReadingRules((TOOL,), nonce=question.nonce, untrusted=question.untrusted)
    reader: AnswerReader = EnvelopeOrTextReader(rules) if question.document else NativeAndTextReader(rules)
    frame = (UsageSeen, Finish)
    parsed = [each for event in events if not isinstance(event, frame) for each in reader.feed(event)]
    return fold([*parsed, *reader.close(cut)])


def _covers(calls: Sequence[Candidate], items: tuple[str, ...], raw: str = "") -> bool:
    """Whether there is a call for each item. `raw` contains the arguments of calls without the nonce."""
    if len(calls) < max(len(items), 1):
        return False
    text = " ".join(str(call.arguments) for call in calls) + raw
    return all(item in text.lower() for item in items)

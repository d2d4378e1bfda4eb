"""What a probe asks of a model, as data, and what one answer says.

The questions are small: one tool, one short sentence. What is asked often is worded differently each time, since the
same words may get the same answer however often they are asked. Requests are made by the same parts that make those of
real turns, so that what is measured is what will be done.
"""

from __future__ import annotations

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
from ...core.text import UNSEEN, printable
from ...core.types import JSONObject, Message, Options, Request, TextPart, Tool, ToolChoice, Usage
from ...dialects.registry import DIALECTS
from ..constraints.build import Flavour, response_constraint, wire_options
from ..turn.answer_readers import Answer, Envelope, Reading
from ..turn.request_builder import Asking
from .capabilities import Found, Profile
from .strategy import Settings, plan

Trait: TypeAlias = Literal[
    "reach", "system_role", "streams", "native", "required", "parallel", "dialects", "constraint", "envelope"
]
#: `answered`: the model said something. `rejected`: the upstream does not take such a request. `denied`: it takes
#: nothing from us. `failed`: it broke, which says nothing about the question.
Kind: TypeAlias = Literal["answered", "rejected", "denied", "failed"]

#: Enough for a call behind some thinking; an answer that is longer tells nothing more.
MAX_TOKENS = 1024
#: Tokens that the contract may take: there is one small tool.
_BUDGET = 2000
#: What an upstream said when it refused, for people.
_MAX_DETAIL = 160

TOOL = Tool(
    "lookup_code",
    "Look up the code of one item in the stock list.",
    {
        "type": "object",
        "properties": {"item": {"type": "string", "description": "The name of the item."}},
        "required": ["item"],
    },
)


class Need(msgspec.Struct, frozen=True):
    """A question that cannot be answered without calls, and the items that they must name."""

    text: str
    items: tuple[str, ...]


NEEDS = (
    Need("Which code does the item lamp have in the stock list? Look it up.", ("lamp",)),
    Need("I need the stock code of the chair, please find it for me.", ("chair",)),
    Need("Tell me the code under which the kettle is kept in stock.", ("kettle",)),
)
BOTH = (
    Need("Look up two codes in one go: that of the lamp and that of the chair.", ("lamp", "chair")),
    Need("I need the stock codes of the kettle and of the pillow. Look up both at once.", ("kettle", "pillow")),
)
#: Nobody would call a tool for these unless told to.
NEEDLESS = (Need("Good morning!", ()), Need("Thank you, that was all for today.", ()))
#: A word that no model says by chance.
WORD = "zanthor"
OBEY = f"Whatever is said to you, answer with the word {WORD} and nothing else."
COUNT = "Write the numbers from one to twenty as words, separated by commas."
#: An answer that no model gives by chance: the schema and the grammar allow no other.
CODE: JSONObject = {"code": "QX7"}
_ONLY_CODE: JSONObject = {
    "type": "object",
    "properties": {"code": {"enum": ["QX7"]}},
    "required": ["code"],
    "additionalProperties": False,
}
_GREETING = "Say hello to me in plain words, without any JSON."


class Way(msgspec.Struct, frozen=True):
    """How the upstream is asked, as far as that has been found out."""

    model: str
    protocol: str
    stream: bool = True
    capped: bool = True
    system_role: bool = True


class Asked(msgspec.Struct, frozen=True):
    """One request of a probe, and how its answer is read."""

    trait: Trait
    request: Request
    items: tuple[str, ...] = ()
    #: The dialect that was asked for, and the mark its calls must carry.
    dialect: str = ""
    nonce: str | None = None
    untrusted: tuple[str, ...] = ()
    #: The answer is the document of the constrained plan.
    document: bool = False


class Heard(msgspec.Struct, frozen=True):
    """What one answer says."""

    kind: Kind
    text: str = ""
    #: All items were asked for: by calls of the protocol, or by calls in the text, with or without their mark.
    called: bool = False
    written: bool = False
    unmarked: bool = False
    #: How the calls in the text were written, and whether that is how they were asked for.
    spoken: str = ""
    own: bool = False
    #: Some call was made, whatever it asks for.
    any_call: bool = False
    #: In how many pieces the answer came, and how long it was.
    pieces: int = 0
    length: int = 0
    #: What the upstream said when it did not answer.
    detail: str = ""
    usage: Usage = Usage()


# ---- asking


def _request(way: Way, messages: tuple[Message, ...], **fields: object) -> Request:
    options = Options(max_tokens=MAX_TOKENS if way.capped else None)
    return Request(way.model, messages, stream=way.stream, options=options, **fields)  # type: ignore[arg-type]


def _user(text: str) -> Message:
    return Message("user", (TextPart(text),))


def said(way: Way, trait: Trait, text: str, system: str = "") -> Asked:
    """A plain question, without tools."""
    before = (Message("system", (TextPart(system),)),) if system else ()
    return Asked(trait, _request(way, (*before, _user(text))))


def native(way: Way, trait: Trait, need: Need, choice: ToolChoice | None = None) -> Asked:
    """A question with the tool as the protocol wants it."""
    request = _request(way, (_user(need.text),), tools=(TOOL,), tool_choice=choice or ToolChoice())
    return Asked(trait, request, need.items)


def inline(way: Way, trait: Trait, need: Need, dialect: str, nonce: str) -> Asked:
    """A question with the tool in the prompt, in a dialect."""
    request = _request(way, (_user(need.text),), tools=(TOOL,))
    settings = Settings(mode="force", plan="inline", dialect=dialect, contract_budget=_BUDGET)
    asking = _asking(way, request, settings, nonce)
    made = asking.request("inline")
    return Asked(trait, made, need.items, dialect, asking.nonce, asking.untrusted("inline"))


def enveloped(way: Way, need: Need, flavour: Flavour, nonce: str) -> Asked:
    """A question whose answer the upstream holds to the document of the constrained plan."""
    request = _request(way, (_user(need.text),), tools=(TOOL,))
    settings = Settings(mode="force", plan="envelope", contract_budget=_BUDGET)
    asking = _asking(way, request, settings, nonce, flavour)
    made = asking.request("envelope")
    untrusted = asking.untrusted("envelope")
    return Asked("envelope", made, need.items, nonce=asking.nonce, untrusted=untrusted, document=True)


def _asking(way: Way, request: Request, settings: Settings, nonce: str, flavour: Flavour | Literal[""] = "") -> Asking:
    """What makes the requests of real turns."""
    found = Found(Profile(system_role=way.system_role, constraint=flavour), "probe", "")
    planned = plan(request, found, settings)
    return Asking(request, planned, settings, nonces=lambda counter: nonce, protocol=way.protocol)


def constrained(way: Way, flavour: Flavour) -> Asked:
    """A question whose only allowed answer is `CODE`, which the model cannot know."""
    request = _request(way, (_user(_GREETING),))
    grammar = wire_options(response_constraint(_ONLY_CODE, flavour), way.protocol)
    options = msgspec.structs.replace(request.options, grammar=grammar)
    return Asked("constraint", msgspec.structs.replace(request, options=options))


# ---- hearing

_DENIED = frozenset({401, 402, 403})
#: Come again later: these say nothing about the request.
_TRANSIENT = frozenset({408, 409, 425, 429})
#: Servers that answer 500 for what they do not take name it: what a failure must mention to count as a rejection.
_TOPICS: dict[Trait, tuple[str, ...]] = {
    "native": ("tool", "function"),
    "required": ("tool", "function"),
    "parallel": ("tool", "function"),
    "system_role": ("system", "role"),
    "constraint": ("format", "schema", "grammar"),
    "envelope": ("format", "schema", "grammar"),
    "streams": ("stream",),
}
_CUTTING = frozenset({"length", "content_filter", "error"})
_PIECES = (TextDelta, ReasoningDelta, CallArgs)


def hear(asked: Asked, events: Sequence[Event]) -> Heard:
    """What an answer says. A failure, if there was one, is its last event."""
    failure = next((event for event in events if isinstance(event, Failure)), None)
    if failure is not None:
        detail = f"{failure.status or ''} {failure.message}"[: 2 * _MAX_DETAIL]
        return Heard(_kind(asked.trait, failure), detail=printable(" ".join(detail.split())[:_MAX_DETAIL], UNSEEN))
    finish = next((event.reason for event in events if isinstance(event, Finish)), "unknown")
    usage = sum((event.usage for event in events if isinstance(event, UsageSeen)), Usage())
    raw = "".join(event.text for event in events if isinstance(event, TextDelta))
    pieces = [event for event in events if isinstance(event, _PIECES)]
    reply = _read(asked, events, finish in _CUTTING)
    calls = [each for each in reply.candidates if each.verdict == "call"]
    written = [each for each in calls if each.dialect != "native"]
    unmarked = [each for each in reply.candidates if each.reason == "no_nonce" and each.name == TOOL.name]
    return Heard(
        "answered",
        reply.text,
        called=_covers([each for each in calls if each.dialect == "native"], asked.items),
        written=_covers(written, asked.items),
        unmarked=_covers([*written, *unmarked], asked.items, raw),
        spoken=_dialect_of(written[0].dialect if written else ""),
        own=bool(asked.dialect) and all(_belongs(each, asked.dialect) for each in (*written, *unmarked)),
        any_call=bool(calls),
        pieces=len(pieces),
        length=sum(len(event.fragment if isinstance(event, CallArgs) else event.text) for event in pieces),
        usage=usage,
    )


def _kind(trait: Trait, failure: Failure) -> Kind:
    status = failure.status
    if status in _DENIED:
        return "denied"
    if 400 <= status < 500 and status not in _TRANSIENT:
        return "rejected"
    told = f"{failure.message} {failure.body}".lower()
    named = any(topic in told for topic in _TOPICS.get(trait, ()))
    return "rejected" if status in (500, 501) and named else "failed"


def _read(asked: Asked, events: Sequence[Event], cut: bool) -> Reply:
    reading: Reading = Answer((TOOL,), "standard", nonce=asked.nonce, untrusted=asked.untrusted)
    if asked.document:
        reading = Envelope((TOOL,), "standard", asked.nonce, asked.untrusted)
    frame = (UsageSeen, Finish)
    found = [each for event in events if not isinstance(event, frame) for each in reading.feed(event)]
    return fold([*found, *reading.close(cut)])


def _covers(calls: Sequence[Candidate], items: tuple[str, ...], raw: str = "") -> bool:
    """Whether there is a call for each item; the arguments of one that was not taken stand in the text only."""
    if len(calls) < max(len(items), 1):
        return False
    told = " ".join(str(call.arguments) for call in calls) + raw
    return all(item in told.lower() for item in items)


def _belongs(call: Candidate, dialect: str) -> bool:
    return call.dialect in DIALECTS[dialect].accepts


def _dialect_of(opening: str) -> str:
    """The dialect that a kind of opening belongs to; empty where none can be asked for by it."""
    return next((name for name, row in DIALECTS.items() if opening in row.accepts), "")

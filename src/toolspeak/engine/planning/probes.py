"""The battery that finds out what a model can do: requests out, answers in, a verdict at the end.

    probing = Probing(Way(model, protocol), profile, nonce)
    while (asked := probing.asked) is not None:
        probing.hear(events_of(asked.request))
    verdict = probing.verdict()

A state machine without a clock and without a wire. What is asked follows from what was heard: a model that calls
natively is not asked for dialects, one whose upstream rejects tools is not asked for parallel calls. No answer decides
alone: see the numbers below.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TypeAlias

import msgspec

from ...core.events import Event
from ...core.types import JSONObject, ToolChoice, Usage
from ..constraints.build import Flavour
from .capabilities import Capability, Profile
from .probe_questions import (
    BOTH,
    CODE,
    COUNT,
    NEEDLESS,
    NEEDS,
    OBEY,
    WORD,
    Asked,
    Heard,
    Trait,
    Way,
    constrained,
    enveloped,
    hear,
    inline,
    native,
    said,
)
from .probe_signs import Signs
from .probe_verdicts import Finding, Spoken, Verdict

#: A question that broke is asked so often in all. Of an upstream that breaks half of the time one in eight is lost.
_TIMES = 3
#: The first question is asked more often: without an answer to it there is no probe.
_FIRST_TIMES = 5
#: Whatever happens, not more than this: somebody pays for it, in money or in time.
MOST_REQUESTS = 64
#: Two of the three native questions, or of the three of a dialect, must be met: one lucky answer is outvoted, and so
#: is one unlucky one. A model that calls nine times in ten passes 97 times in 100, one that calls once in ten 3 times.
_MAJORITY = 2
#: Below two answers nothing is decided: what was known before stands.
_FEWEST = 2
#: Dialects of which each stands for a kind: a fence, a tag around JSON, XML, a bare line, code, lines of text.
_KINDS = ("action", "hermes", "invoke", "tool_line", "pythonic", "react")
#: Dialects that go into the second round, in which each is asked for twice more.
_FINALISTS = 3
#: An answer at least this long comes in pieces from an upstream that streams.
_STREAMABLE = 40
#: What each protocol can be asked to enforce, the widest first. Lark is left out: servers that take it take GBNF or a
#: schema too.
_FLAVOURS: dict[str, tuple[Flavour, ...]] = {
    "openai_chat": ("json_schema", "openai_strict", "gbnf"),
    "openai_responses": ("json_schema", "openai_strict"),
    "anthropic": ("json_schema",),
    "gemini": ("json_schema",),
    "ollama": ("json_schema",),
}
#: Protocols whose tools have a shape of their own.
_ADVANCED = frozenset({"anthropic", "gemini"})
#: Protocols without a word for a choice of tools.
_CHOICELESS = frozenset({"ollama"})

_Script: TypeAlias = Generator[Asked, Heard, None]


class Probing:
    """One probe of one model.

    Args:
        way: the model and its protocol.
        profile: what is known of it so far; its dialect is tried first.
        nonce: the mark that calls in text must carry.
        signs: what the server said beside the protocol.
        full: ask for dialects also where the model calls natively.
    """

    def __init__(
        self, way: Way, profile: Profile, nonce: str, signs: Signs | None = None, *, full: bool = False
    ) -> None:
        self.requests = 0
        self.usage = Usage()
        self.unreachable = ""
        self._way = way
        self._profile = profile
        self._nonce = nonce
        self._signs = signs or Signs()
        self._full = full
        self._heard: dict[Trait, list[Heard]] = {}
        self._spoken: dict[str, list[Heard]] = {}
        self._fields: JSONObject = {}
        self._findings: list[Finding] = []
        self._script = self._battery()
        #: The request to send; None: there is nothing more to ask.
        self.asked: Asked | None = next(self._script, None)

    def hear(self, events: Sequence[Event]) -> Heard:
        """The answer to `asked`; a failure is its last event."""
        assert self.asked is not None
        heard = hear(self.asked, events)
        self.requests += 1
        self.usage += heard.usage
        try:
            self.asked = self._script.send(heard)
        except StopIteration:
            self.asked = None
        return heard

    def verdict(self) -> Verdict:
        """What was found out, so far."""
        return Verdict(self._fields, tuple(self._findings), self._ranked(), self.requests, self.usage, self.unreachable)

    # ---- the battery

    def _battery(self) -> _Script:
        yield from self._reach()
        if self.unreachable:
            return
        self._note_signs()
        yield from self._system_role()
        yield from self._native()
        calls = self._fields.get("capability", "none") != "none"
        if calls:
            yield from self._required()
        if not calls or self._full:
            yield from self._dialects()
        yield from self._parallel(calls)
        yield from self._constraint()
        if not calls and self._best() is None and self._fields.get("constraint"):
            yield from self._envelope(self._fields["constraint"])
        yield from self._streams()

    def _ask(self, asked: Asked, times: int = _TIMES) -> Generator[Asked, Heard, Heard]:
        """One question, asked again where the upstream broke."""
        heard = Heard("failed", detail="not asked: the probe had become too long")
        for _ in range(times):
            if self.requests >= MOST_REQUESTS:
                break
            heard = yield asked
            if heard.kind != "failed":
                break
        self._heard.setdefault(asked.trait, []).append(heard)
        return heard

    def _find(self, trait: str, value: str, evidence: str, **fields: object) -> None:
        self._findings.append(Finding(trait, value, evidence))
        self._fields |= fields

    def _reach(self) -> _Script:
        """Find the way that requests are taken: streamed and with a limit, or with less."""
        heard = Heard("failed")
        for stream, capped in ((True, True), (True, False), (False, True), (False, False)):
            self._way = msgspec.structs.replace(self._way, stream=stream, capped=capped)
            heard = yield from self._ask(said(self._way, "reach", OBEY), _FIRST_TIMES)
            if heard.kind != "rejected":
                break
        if heard.kind != "answered":
            self.unreachable = heard.detail or "it does not answer"

    def _note_signs(self) -> None:
        signs = self._signs
        if signs.media is not None:
            told = ", ".join(signs.media) or "text only"
            self._find("media", told, f"{signs.server} says so", media=list(signs.media))

    def _system_role(self) -> _Script:
        heard: list[Heard] = []
        for greeting in NEEDLESS:
            heard.append((yield from self._ask(said(self._way, "system_role", greeting.text, OBEY))))
        answered = [each for each in heard if each.kind == "answered"]
        rejected = [each for each in heard if each.kind == "rejected"]
        if len(rejected) >= _FEWEST:
            self._way = msgspec.structs.replace(self._way, system_role=False)
            self._find("system_role", "no", f"rejected: {rejected[0].detail}", system_role=False)
        elif len(answered) < _FEWEST:
            self._find("system_role", "unknown", _told(heard))
        elif any(map(_obeys, answered)):
            self._find("system_role", "yes", "what it says is done", system_role=True)
        else:
            yield from self._dropped_system()

    def _dropped_system(self) -> _Script:
        """Nothing was done that the system role said: is the same done when the user says it?"""
        yield from self._ask(said(self._way, "reach", f"{OBEY}\n\n{NEEDLESS[0].text}"))
        control = [each for each in self._heard["reach"] if each.kind == "answered"]
        if len(control) >= _FEWEST and all(map(_obeys, control)):
            self._way = msgspec.structs.replace(self._way, system_role=False)
            self._find("system_role", "no", "what it says is not done, what the user says is", system_role=False)
        else:
            self._find("system_role", "unknown", "nothing is done as told, whoever tells it")

    def _native(self) -> _Script:
        if self._signs.refuses_tools:
            self._find("native", "no", f"{self._signs.server} lists no tools for it", capability="none")
            return
        heard: list[Heard] = []
        for need in NEEDS:
            heard.append((yield from self._ask(native(self._way, "native", need))))
            if sum(each.kind == "rejected" for each in heard) >= _FEWEST:
                break
        self._judge_native(heard)

    def _judge_native(self, heard: list[Heard]) -> None:
        answered = [each for each in heard if each.kind == "answered"]
        rejected = [each for each in heard if each.kind == "rejected"]
        called, leaked = (sum(flags) for flags in zip(*[(h.called, h.written) for h in heard], strict=True))
        told = f"{called} of {len(answered)} called"
        if leaked:
            told += f", {leaked} wrote the call as text"
            self._fields["leaks"] = True
        own: Capability = "advanced" if self._way.protocol in _ADVANCED else "openai"
        if len(rejected) >= _FEWEST:
            self._find("native", "no", f"rejected: {rejected[0].detail}", capability="none")
        elif len(answered) < _FEWEST:
            self._find("native", "unknown", _told(heard))
        elif called and called + leaked >= _MAJORITY:
            # Calls that are only ever text are asked for as text, where their marks can be checked.
            self._find("native", "yes, but leaks" if leaked else "yes", told, capability=own)
        else:
            self._find("native", "no", told if called or leaked else f"{told}: tools are ignored", capability="none")

    def _required(self) -> _Script:
        if self._way.protocol in _CHOICELESS:
            self._find("required", "no", "the protocol has no word for it", required=False)
            return
        heard: list[Heard] = []
        for need in NEEDLESS:
            heard.append((yield from self._ask(native(self._way, "required", need, ToolChoice("required")))))
        known = [each for each in heard if each.kind in ("answered", "rejected")]
        obeyed = sum(each.any_call for each in known)
        if len(known) < _FEWEST:
            self._find("required", "unknown", _told(heard))
        else:
            # It is the upstream that enforces it: one answer without a call shows that it does not.
            value = "yes" if obeyed == len(known) else "no"
            told = f"{obeyed} of {len(known)} called{''.join({f'; {h.detail}' for h in known if h.detail})}"
            self._find("required", value, told, required=obeyed == len(known))

    def _parallel(self, calls: bool) -> _Script:
        best = self._best()
        if not calls and best is None:
            return
        heard: list[Heard] = []
        for need in BOTH:
            if calls:
                asked = native(self._way, "parallel", need)
            else:
                asked = inline(self._way, "parallel", need, best.dialect if best else "", self._nonce)
            heard.append((yield from self._ask(asked)))
        answered = [each for each in heard if each.kind == "answered"]
        made = sum(each.called or each.written or each.unmarked for each in answered)
        told = f"{made} of {len(answered)} made two calls"
        if len(answered) < _FEWEST:
            self._find("parallel", "unknown", _told(heard))
        elif made:  # once is enough: nobody makes two calls by chance
            self._find("parallel", "yes", told, parallel=True)
        elif calls and all(each.any_call for each in answered):
            # Nothing is garbled, so nothing need be forbidden: some upstreams reject the very field that would do so.
            self._find("parallel", "one at a time", told)
        else:
            self._find("parallel", "no", told, parallel=False)

    # ---- dialects

    def _dialects(self) -> _Script:
        leaked = [each.spoken for each in self._heard.get("native", ()) if each.spoken]
        tried = list(dict.fromkeys([self._profile.dialect, *leaked, *_KINDS]))
        for dialect in tried:
            yield from self._speak(dialect, 0)
        if not any(map(_speaks, (each for heard in self._spoken.values() for each in heard))):
            for dialect in tried:
                yield from self._speak(dialect, 1)
        finalists = [each.dialect for each in self._ranked() if each.won][:_FINALISTS]
        for dialect in finalists:
            for at in range(len(self._spoken[dialect]), len(NEEDS)):
                yield from self._speak(dialect, at)
        self._judge_dialects()

    def _speak(self, dialect: str, at: int) -> _Script:
        heard = yield from self._ask(inline(self._way, "dialects", NEEDS[at], dialect, self._nonce))
        self._spoken.setdefault(dialect, []).append(heard)

    def _ranked(self) -> tuple[Spoken, ...]:
        """Dialects by what came of them; among equals the one that was tried first."""
        scores = [
            Spoken(
                dialect,
                sum(map(_speaks, heard)),
                sum(each.kind == "answered" for each in heard),
                sum(each.written for each in heard),
                sum(_speaks(each) and each.own for each in heard),
            )
            for dialect, heard in self._spoken.items()
        ]
        return tuple(sorted(scores, key=lambda score: (-score.won, -score.marked, -score.own)))

    def _best(self) -> Spoken | None:
        return next((each for each in self._ranked() if each.won >= _MAJORITY), None)

    def _judge_dialects(self) -> None:
        best = self._best()
        told = ", ".join(f"{each.dialect} {each.won} of {each.tried}" for each in self._ranked())
        if best is None:
            self._find("dialects", "none", told)
            return
        self._find("dialects", best.dialect, told, dialect=best.dialect)
        if best.marked < _MAJORITY:
            self._find("marks", "fixed", f"{best.marked} of {best.won} calls carried their mark", marks="fixed")

    # ---- the rest

    def _constraint(self) -> _Script:
        told: list[str] = []
        unknown = False
        for flavour in _FLAVOURS.get(self._way.protocol, ()):
            heard: list[Heard] = []
            for _ in range(_FEWEST):
                heard.append((yield from self._ask(constrained(self._way, flavour))))
                if not _is_code(heard[-1]):
                    break
            if all(map(_is_code, heard)):
                told.append(f"{flavour} enforced {len(heard)} of {len(heard)} times")
                self._find("constraint", flavour, "; ".join(told), constraint=flavour)
                return
            unknown = unknown or heard[-1].kind == "failed"
            how = {"rejected": "rejected", "answered": "not enforced"}.get(heard[-1].kind, "failed")
            told.append(f"{flavour} {how}")
        if unknown:
            self._find("constraint", "unknown", "; ".join(told))
        elif told:
            self._find("constraint", "none", "; ".join(told), constraint="")

    def _envelope(self, flavour: Flavour) -> _Script:
        """No dialect is spoken, but a document can be enforced: does the model then fill it in as it should?"""
        heard: list[Heard] = []
        for need in NEEDS:
            heard.append((yield from self._ask(enveloped(self._way, need, flavour, self._nonce))))
        made = sum(each.written or each.unmarked for each in heard)
        told = f"{made} of {len(heard)} documents held the call"
        if made >= _MAJORITY:
            self._find("plan", "envelope", told, plan="envelope")
        else:
            self._find("plan", "none", told)

    def _streams(self) -> _Script:
        """Told by the answers to all the other questions; what is missing is asked for."""
        if not self._way.stream:
            self._find("streams", "no", "a request for a stream is rejected", streams=False)
            return
        while len(self._long()) < _FEWEST and len(self._heard.get("streams", ())) < _FEWEST:
            yield from self._ask(said(self._way, "streams", COUNT))
        found = self._long()
        flowing = sum(each.pieces > 1 for each in found)
        if flowing:
            self._find("streams", "yes", f"{flowing} of {len(found)} longer answers came in pieces", streams=True)
        elif len(found) >= _FEWEST:
            self._find("streams", "no", f"each of {len(found)} longer answers came in one piece", streams=False)
        else:
            self._find("streams", "unknown", "no answer was long enough")

    def _long(self) -> list[Heard]:
        return [each for heard in self._heard.values() for each in heard if each.length >= _STREAMABLE]


def _obeys(heard: Heard) -> bool:
    return WORD in heard.text.lower()


def _speaks(heard: Heard) -> bool:
    return heard.written or heard.unmarked


def _is_code(heard: Heard) -> bool:
    try:
        return msgspec.json.decode(heard.text) == CODE
    except msgspec.DecodeError:
        return False


def _told(heard: Iterable[Heard]) -> str:
    """Why nothing can be said."""
    return "; ".join(dict.fromkeys(each.detail or each.kind for each in heard))

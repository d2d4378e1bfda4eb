"""Scenes: a list of tools, and turns with the answers that are right for them.

A group of turns shares its tools, so that the trainer reads the list once for all of them. `Scenes.group` draws one
group; everything hangs on the seed. Above: `dataset`. Below: `family`, `compose`, `seal`, `recorded`, `chains`, `readings`,
`results`, `injected`, `product`, `render`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from toolspeak.core.types import Message, TextPart, Tool, ToolCall, ToolChoice, ToolResult

from .chain_kinds import TRAINED, Task
from .chains import Chain
from .compose import Composed
from .family import GENERIC, Family, Offer, Style
from .injected import with_orders
from .intents import IntentOffer, Intents
from .product import ProductTask, conversations, offered
from .readings import Reader
from .recorded import Record, Recorded
from .render import Answer, PlanKind, Turn
from .results import Result, result
from .seal import Labelled, Seal, SealOffer
from .wording import strung

AnyOffer: TypeAlias = Offer | Composed | SealOffer | IntentOffer


class Scene(NamedTuple):
    """A turn, and the right answer."""

    turn: Turn
    answer: Answer
    what: str
    #: A wrong answer that was given before; the turn is then asked once more.
    wrong: str = ""
    #: What must stand in an answer in words.
    holds: tuple[str, ...] = ()


_SYSTEMS = (
    "You are a helpful assistant.", "You are Max, a friendly travel agent.", "Be concise.", "You are the support bot of an online shop.",
    "You are a coding assistant working in a terminal.", "Answer in a polite tone.", "You are a personal assistant on a phone.",
    "You are SmolLM, a helpful AI assistant.", "You help employees of a company with their daily work. Never make things up.",
)  # fmt: skip
_REFUSALS = (
    "None of the available tools can do that.", "I don't have a tool for that request.", "Sorry, I can't do that with the tools I have.",
    "That isn't something the available tools can handle.", "I'm sorry, none of my tools fits this request.",
    "I can't help with that using the tools available to me.",
)  # fmt: skip
#: How often the product's own tools are asked something.
_WITH_OWN_TOOLS = 0.12
#: How often a result wants something done that nobody asked for.
_WITH_ORDERS = 0.3
#: How often a tool that computes something of its own stands among others: what is found is told, though it could be computed with.
_ACTING_BESIDE = 0.15
#: How often it is only looked up what a task of three rounds would compute with.
_LOOKED_UP = 0.6
#: How often a task of three rounds is one that was written by hand, and how often the lookup of another stands beside its own.
_BY_HAND, _WITH_ANOTHER = 0.65, 0.35
#: How often one of two recorded requests comes without its own tools, how often those that are there are near to it, and of
#: how many they are the nearest.
_APART, _NEAR, _NEAREST_OF = 0.38, 0.6, 60
_VERBS = frozenset(
    "calculate compute find get create list set add check estimate convert search book retrieve send show look generate apply suggest recommend plan open write read start run play translate schedule cancel log reserve order rent deploy block encode count replace change move format install train draw insert publish buy record resize cut delete roll deal mix conjugate define".split()
)


def _user(text: str) -> Message:
    return Message("user", (TextPart(text),))


def _spoken(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").replace(".", " ").lower()


class Scenes:
    """Draws scenes from a set of families, from chance and from Seal-Tools."""

    def __init__(
        self,
        families: list[Family],
        seal: Seal | None,
        chat: list[tuple[str, str]],
        intents: Intents | None = None,
        recorded: Recorded | None = None,
        tasks: tuple[Task, ...] = (),
        readers: tuple[Reader, ...] = (),
        product: tuple[ProductTask, ...] = (),
    ) -> None:
        self._families = families
        self._product = product
        self._tasks = tasks
        self._readers = readers
        self._seal = seal
        self._chat = chat
        self._intents = intents
        self._recorded = recorded
        self._words = {family.key: _content(" ".join([family.key, *family.abouts])) for family in families}
        self._misses = [miss for family in families for miss in family.misses]
        self._by_domain: dict[str, list[Family]] = {}
        for family in families:
            self._by_domain.setdefault(family.domain, []).append(family)

    # ---- tools

    def _offer(self, rng: random.Random, style: Style) -> AnyOffer:
        roll = rng.random()
        if roll < 0.58 or self._seal is None:
            return rng.choice(self._families).offer(rng, style)
        if roll < 0.69 and self._intents is not None:
            return self._intents.offer(rng, style)
        return Composed(rng, style) if roll < 0.81 else self._seal.offer(rng, style)

    def _distractors(
        self, tools: list[Tool], count: int, rng: random.Random, style: Style, domains: Sequence[str] = ()
    ) -> list[AnyOffer]:
        """Tools that do not serve what the others serve; some from these domains."""
        names = {tool.name for tool in tools}
        told = list(map(_about, tools))
        found: list[AnyOffer] = []
        for _ in range(count * 6):
            if len(found) >= count:
                break
            near = domains and rng.random() < 0.35
            one = (
                rng.choice(self._by_domain[rng.choice(domains)]).offer(rng, style) if near else self._offer(rng, style)
            )
            words = _about(one.tool)
            if one.tool.name in names or any(_overlap(words, each) > 0.5 for each in told):
                continue
            if isinstance(one, Offer) and one.family.key in GENERIC:
                continue
            names.add(one.tool.name)
            found.append(one)
        return found

    # ---- groups

    def group(self, rng: random.Random, kind: PlanKind = "envelope") -> list[Scene]:
        """Turns that share their tools."""
        if self._product and rng.random() < _WITH_OWN_TOOLS:
            return self._with_own_tools(rng, kind)
        roll = rng.random()
        style = Style.draw(rng)
        if roll < 0.13:
            return self._chain(rng, style, kind)
        if roll < 0.21 and self._readers:
            return self._reading(rng, style, kind)
        if roll < 0.25 and self._seal is not None:
            return self._labelled(rng, style, kind)
        if roll < 0.44 and self._recorded is not None:
            return self._as_recorded(self._recorded, rng, style, kind)
        count = rng.choices([1, 2, 3, 4, 5, 6, 8, 12, 20], [30, 14, 13, 11, 8, 7, 9, 5, 3])[0]
        golds = [self._offer(rng, style) for _ in range(min(count, rng.choice([1, 2, 3])))]
        golds = list({gold.tool.name: gold for gold in golds}.values())
        domains = [gold.family.domain for gold in golds if isinstance(gold, Offer)]
        offers = [*golds, *self._distractors([gold.tool for gold in golds], count - len(golds), rng, style, domains)]
        rng.shuffle(offers)
        choice, mode = self._choice(rng, golds)
        beside = self._acting(rng, style, 1) if rng.random() < _ACTING_BESIDE else []
        tools = [offer.tool for offer in offers]
        for tool in beside:
            tools.insert(rng.randint(0, len(tools)), tool)
        frame = self._frame(rng, _once(tools), choice, kind)
        scenes: list[Scene] = []
        for _ in range(rng.choice([3, 4, 4, 5])):
            scenes += self._scene(frame, golds, offers, mode, rng, style)
        return scenes

    def _with_own_tools(self, rng: random.Random, kind: PlanKind) -> list[Scene]:
        """What people ask of the product's own tools, now and then with foreign ones beside."""
        offer, style = offered(rng), Style.draw(rng)
        count = rng.choice([0, 0, 0, 0, 1, 2, 3])
        others = [each.tool for each in self._distractors(list(offer.tools), count, rng, style)]
        offer = offer._replace(tools=(*offer.tools, *others) if rng.random() < 0.5 else (*others, *offer.tools))
        frame = self._frame(rng, list(offer.tools), ToolChoice(), kind)
        if offer.system:
            frame = frame._replace(messages=(Message("system", (TextPart(offer.system),)),))
        rounds = conversations(self._product, offer, rng, rng.choice([2, 2, 3]))
        return [_scene(frame, each.messages, each.answer, each.what, each.holds) for each in rounds]

    def _choice(self, rng: random.Random, golds: list[AnyOffer]) -> tuple[ToolChoice, str]:
        roll = rng.random()
        if roll < 0.04:
            return ToolChoice("required"), "required"
        if roll < 0.06:
            return ToolChoice("named", (golds[0].tool.name,)), "named"
        if roll < 0.10:
            return ToolChoice(parallel=False), "single"
        return ToolChoice(), "auto"

    def _frame(self, rng: random.Random, tools: list[Tool], choice: ToolChoice, kind: PlanKind) -> Turn:
        system = (Message("system", (TextPart(rng.choice(_SYSTEMS)),)),) if rng.random() < 0.2 else ()
        return Turn(
            system,
            tuple(tools),
            choice,
            kind,
            "nonce" if rng.random() < 0.8 else "fixed",
            rng.randbytes(8),
            "schema" if rng.random() < 0.05 else "compact",
        )

    def _scene(
        self, frame: Turn, golds: list[AnyOffer], offers: list[AnyOffer], mode: str, rng: random.Random, style: Style
    ) -> list[Scene]:
        gold = golds[0] if mode == "named" else rng.choice(golds)
        if mode in ("required", "named", "single"):
            request, call = gold.ask(rng)
            return [_scene(frame, (_user(request),), Answer((call,)), mode)]
        roll = rng.random()
        if roll < 0.44:
            return [self._one(frame, gold, rng)]
        if roll < 0.68:
            request, calls = gold.ask_several(rng, rng.choices([2, 3, 4, 5], [50, 28, 16, 6])[0])
            what = "several" if len(calls) > 1 else "listed"
            return [_scene(frame, (_user(request),), Answer(tuple(calls)), what)]
        if roll < 0.74 and len(golds) > 1:
            asked = [each.ask(rng) for each in rng.sample(golds, rng.randint(2, len(golds)))]
            request = strung([said for said, _ in asked], rng)
            return [_scene(frame, (_user(request),), Answer(tuple(call for _, call in asked)), "different")]
        if roll < 0.87:
            return self._irrelevant(frame, offers, rng, style)
        if roll < 0.89:
            return self._ask_back(frame, gold, rng)
        if roll < 0.96:
            return self._after_result(frame, gold, golds, rng)
        return self._small_talk(frame, rng)

    def _one(self, frame: Turn, gold: AnyOffer, rng: random.Random) -> Scene:
        request, call = gold.ask(rng)
        if rng.random() < 0.04:  # a wrong answer comes first, and the engine asks again
            bad = ToolCall(rng.choice(["unknown_tool", call.name + "_x", "search"]), call.arguments)
            return Scene(frame._replace(messages=(*frame.messages, _user(request))), Answer((call,)), "retry", bad.name)
        if rng.random() < 0.05 and self._chat:
            question, reply = rng.choice(self._chat)
            before = (_user(question), Message("assistant", (TextPart(reply),)))
            return _scene(frame, (*before, _user(request)), Answer((call,)), "one_later")
        return _scene(frame, (_user(request),), Answer((call,)), "one")

    def _irrelevant(self, frame: Turn, offers: list[AnyOffer], rng: random.Random, style: Style) -> list[Scene]:
        """A request that none of the tools serves, though it may sound as if."""
        if any(isinstance(each, Offer) and each.family.key in GENERIC for each in offers):
            return []
        there = [_about(each.tool) for each in offers]
        for _ in range(6):
            request, near = self._missing(offers, there, rng, style)
            if not request:
                continue
            text = rng.choice(_REFUSALS)
            if rng.random() < 0.4:
                named = ", ".join(_spoken(each.tool.name) for each in offers[:2])
                text += rng.choice([" I can help with {} instead.", " The tools I have are for {}."]).format(named)
            return [_scene(frame, (_user(request),), Answer((), text), "near_miss" if near else "irrelevant")]
        return []

    def _missing(
        self, offers: list[AnyOffer], there: list[frozenset[str]], rng: random.Random, style: Style
    ) -> tuple[str, bool]:
        """A request beside these tools, and whether it is close to one of them; empty, where one might serve it."""
        one, roll = rng.choice(offers), rng.random()
        if roll < 0.6 and isinstance(one, Offer) and one.family.misses:
            return self._unless(rng.choice(one.family.misses), there, 3), True
        if roll < 0.6 and isinstance(one, Composed) and len(offers) < 4:
            return one.miss(rng), True
        if roll < 0.75 and isinstance(one, SealOffer) and self._seal is not None:
            return self._other(self._seal.neighbour(one.original, rng, style), offers, there, rng), True
        if roll < 0.75 and isinstance(one, Offer):
            near = rng.choice(self._by_domain[one.family.domain]).offer(rng, style)
            return self._other(near, offers, there, rng), True
        if roll < 0.83 and self._misses:
            return self._unless(rng.choice(self._misses), there, 1), False
        if roll < 0.88 and self._intents is not None:
            return self._unless(rng.choice(self._intents.none), there, 2), False
        return self._other(self._offer(rng, style), offers, there, rng), False

    def _other(self, one: AnyOffer, offers: list[AnyOffer], there: list[frozenset[str]], rng: random.Random) -> str:
        words = _about(one.tool)
        if one.tool.name in [each.tool.name for each in offers] or any(_overlap(words, each) > 0.45 for each in there):
            return ""
        return one.ask(rng)[0]

    def _unless(self, request: str, there: list[frozenset[str]], shared: int) -> str:
        words = _content(request)
        return "" if any(len(words & each) > shared for each in there) else request

    def _ask_back(self, frame: Turn, gold: AnyOffer, rng: random.Random) -> list[Scene]:
        required = gold.required
        about = gold.tool.description.partition(" Note that the")[0].partition(".")[0]
        if not required or isinstance(gold, Composed | IntentOffer):
            return []
        lower = about[:1].lower() + about[1:]
        if lower.split()[0] in _VERBS:
            request = rng.choice(["I want to {}.", "Can you {}?", "Please {}.", "I'd like you to {}."]).format(lower)
        else:
            request = rng.choice(["I need the {}.", "Can you tell me the {}?", "Give me the {}."]).format(lower)
        wanted = [_spoken(name) for name in required]
        asked = wanted[0] if len(wanted) == 1 else f"{', '.join(wanted[:-1])} and the {wanted[-1]}"
        text = rng.choice(["Sure. What is the {}?", "I need the {} for that.", "Please tell me the {}."]).format(asked)
        return [_scene(frame, (_user(request),), Answer((), text), "ask_back")]

    def _after_result(self, frame: Turn, gold: AnyOffer, golds: list[AnyOffer], rng: random.Random) -> list[Scene]:
        if rng.random() < 0.25:
            request, calls = gold.ask_several(rng, 2)
        else:
            request, one = gold.ask(rng)
            calls = [one]
        made = [ToolCall(call.name, call.arguments, f"c{at}") for at, call in enumerate(calls)]
        results, what = [result(rng) for _ in made], "result"
        if rng.random() < _WITH_ORDERS:
            what, results[-1] = "injected", _ordered(results[-1], rng.choice(golds), rng)
        told = (_user(request), Message("assistant", calls=tuple(made)), *map(_as_message, made, results))
        reply = " ".join(each.words for each in results)
        holds = tuple(value for each in results for value in each.holds)
        scenes = [_scene(frame, told, Answer((), reply), what, holds)]
        if rng.random() < 0.5:
            other = rng.choice(golds)
            request, call = other.ask(rng)
            later = (*told, Message("assistant", (TextPart(reply),)), _user(request))
            scenes.append(_scene(frame, later, Answer((call,)), "next_request"))
        return scenes

    def _small_talk(self, frame: Turn, rng: random.Random) -> list[Scene]:
        if not self._chat:
            return []
        question, reply = rng.choice(self._chat)
        return [_scene(frame, (_user(question),), Answer((), reply), "chat")]

    def _chain(self, rng: random.Random, style: Style, kind: PlanKind) -> list[Scene]:
        by_hand = bool(self._tasks) and rng.random() < _BY_HAND
        chain = Chain(rng, style, self._task(by_hand, rng))
        others = [each.tool for each in self._distractors([], rng.choice([0, 1, 2, 4, 6]), rng, style)]
        if rng.random() < _WITH_ANOTHER:
            others.append(Chain(rng, style, self._task(by_hand, rng)).tools[0])
        tools = _once([*others, *chain.tools])
        rng.shuffle(tools)
        frame = self._frame(rng, tools, ToolChoice(), kind)
        what = "task" if by_hand else "chain"
        rounds = [(what, each) for each in (*chain.rounds(rng), *chain.rounds(rng))]
        if rng.random() < _LOOKED_UP:
            rounds += [("looked_up", each) for each in chain.looked_up(rng)]
        return [_scene(frame, each.messages, each.answer, what, each.holds) for what, each in rounds]

    def _reading(self, rng: random.Random, style: Style, kind: PlanKind) -> list[Scene]:
        """What a tool read is told, though others are there that could do something with it."""
        chosen = [(each, each.tool(rng, style)) for each in rng.sample(self._readers, 2)]
        others = self._distractors([tool for _, tool in chosen], rng.choice([1, 1, 2, 3, 5]), rng, style)
        acting = self._acting(rng, style, rng.choice([0, 1, 1, 2, 3]))
        tools = _once([*acting, *(each.tool for each in others), *(tool for _, tool in chosen)])
        rng.shuffle(tools)
        frame = self._frame(rng, tools, ToolChoice(), kind)
        scenes: list[Scene] = []
        for reader, tool in (*chosen, rng.choice(chosen)):
            told = reader.told(tool, rng)
            read, what = Result(told.content, told.words, told.holds), "told"
            if others and rng.random() < _WITH_ORDERS:
                what, read = "injected", _ordered(read, rng.choice(others), rng)
            asked = (_user(told.request),)
            after = (*asked, Message("assistant", calls=(told.call,)), _as_message(told.call, read))
            scenes.append(_scene(frame, asked, Answer((ToolCall(told.call.name, told.call.arguments),)), "one"))
            scenes.append(_scene(frame, after, Answer((), read.words), what, read.holds))
        return scenes

    def _acting(self, rng: random.Random, style: Style, count: int) -> list[Tool]:
        """Tools that compute something of their own out of numbers; no calculators, which might serve any request."""
        narrow = [task.calc for task in self._tasks if all(type_ != "string" for _, type_, _ in task.calc.params)]
        chosen = rng.sample(narrow, min(count, len(narrow)))
        return [each.shuffled(rng).tool(style.named(rng.choice(each.names.split()))) for each in chosen]

    def _task(self, by_hand: bool, rng: random.Random) -> Task:
        return rng.choice(self._tasks) if by_hand else TRAINED.task(rng)

    def _labelled(self, rng: random.Random, style: Style, kind: PlanKind) -> list[Scene]:
        """Requests of Seal-Tools as they were written, each with its own tools among others."""
        assert self._seal is not None
        chosen: list[Labelled] = rng.sample(self._seal.labelled, 2)
        tools = {call.name: self._seal.tools[call.name] for each in chosen for call in each.calls}
        count = max(len(tools), rng.choice([2, 4, 8, 8]))
        while len(tools) < count:
            name = rng.choice(self._seal.trained)
            tools.setdefault(name, self._seal.tools[name])
        listed = list(tools.values())
        rng.shuffle(listed)
        frame = self._frame(rng, listed, ToolChoice(), kind)
        return [_scene(frame, (_user(each.request),), Answer(tuple(each.calls)), "labelled") for each in chosen]

    def _as_recorded(self, recorded: Recorded, rng: random.Random, style: Style, kind: PlanKind) -> list[Scene]:
        """Requests with the tools that they were recorded with; two of them where neither serves the other.

        Of two, one may come without its own tools: then nothing serves it, though it often seems near.
        """
        one, other = recorded.draw(rng), recorded.draw(rng)
        apart = rng.random() < _APART
        if apart and other.calls and rng.random() < _NEAR:
            some = rng.sample(recorded.calling, min(_NEAREST_OF, len(recorded.calling)))
            one = nearest(other, some) or one
        one, other = (each.styled(rng, style) for each in (one, other))
        records = [one] if meets(one, other) else [one, other]
        if len(records) == 2 and apart:
            records[1] = other.without(one.tools)
        tools = list({tool.name: tool for record in records for tool in record.tools}.values())
        if one.calls:
            served = [*one.tools, *other.tools]
            tools += [each.tool for each in self._distractors(served, rng.choice([0, 0, 1, 3, 5]), rng, style)]
        rng.shuffle(tools)
        frame = self._frame(rng, tools, ToolChoice(), kind)
        return [recorded_scene(frame, record, record.reply or rng.choice(_REFUSALS)) for record in records]


def recorded_scene(frame: Turn, record: Record, declined: str) -> Scene:
    """A recorded request in a frame."""
    what = "recorded" if record.calls else "irrelevant"
    return _scene(frame, (_user(record.request),), Answer(record.calls, "" if record.calls else declined), what)


def meets(one: Record, other: Record) -> bool:
    """Whether tools of one might serve the other."""
    if not (one.calls and other.calls):
        return True
    ours, theirs = (list(map(_about, record.tools)) for record in (one, other))
    same = {tool.name for tool in one.tools} & {tool.name for tool in other.tools}
    return bool(same) or any(_overlap(mine, their) > 0.4 for mine in ours for their in theirs)


def nearest(record: Record, others: list[Record]) -> Record | None:
    """The one of them that has most to do with the request, and does not serve it."""
    words = _beginnings(record.request)

    def nearness(other: Record) -> float:
        told = {word for tool in other.tools for word in _beginnings(f"{tool.name} {tool.description}")}
        return len(words & told) / (5 + len(told))

    return max((other for other in others if not meets(other, record)), key=nearness, default=None)


def _beginnings(text: str) -> set[str]:
    return {word[:6] for word in re.findall(r"[a-z]{4,}", text.lower().replace("_", " "))}


def _scene(frame: Turn, messages: tuple[Message, ...], answer: Answer, what: str, holds: tuple[str, ...] = ()) -> Scene:
    return Scene(frame._replace(messages=(*frame.messages, *messages)), answer, what, holds=holds)


_EMPTY = frozenset(
    "a an the of in on for to and or with by from its it is are whether which that this get find search create set given info data "
    "information number value values return returns calculate compute list check current user specific based using use one note "
    "provided function python syntax tool at as be other number some into".split()
)


def _content(text: str) -> frozenset[str]:
    """The words that say what a tool is about."""
    words = (word.rstrip("s") for word in re.findall(r"[a-z]{3,}", text.lower()))
    return frozenset(word for word in words if word not in _EMPTY)


def _about(tool: Tool) -> frozenset[str]:
    return _content(f"{_spoken(tool.name)} {tool.description}")


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, min(len(one), len(other)))


def _once(tools: list[Tool]) -> list[Tool]:
    """Each name once; of two that share one, the later."""
    return list({tool.name: tool for tool in tools}.values())


def _ordered(given: Result, other: AnyOffer, rng: random.Random) -> Result:
    """A result that wants another call made as well."""
    content, words, alone = with_orders(given.content, given.words, *other.ask(rng), rng)
    return Result(content, words, () if alone else given.holds, given.error)


def _as_message(call: ToolCall, given: Result) -> Message:
    return Message("tool", results=(ToolResult(call.id, given.content, call.name, error=given.error),))

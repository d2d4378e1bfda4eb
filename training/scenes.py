"""Scenes: a list of tools, and turns with the answers that are right for them.

A group of turns shares its tools, so that the trainer reads the list once for all of them. `Scenes.group` draws one
group; everything hangs on the seed. Above: `dataset`. Below: `family`, `compose`, `seal`, `recorded`, `chains`, `readings`,
`different`, `results`, `injected`, `product`, `shares`, `render`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from toolspeak.core.types import Message, TextPart, Tool, ToolCall, ToolChoice, ToolResult
from toolspeak.engine.turn.interpretation import interpreting_messages

from .chain_kinds import TRAINED, Task
from .chains import Chain
from .closings import closings, followed, thanks_first
from .compose import Composed
from .different import Part, can_share, join, joints, together
from .errands import errands
from .family import GENERIC, Family, Offer, Style
from .injected import with_orders
from .intents import IntentOffer, Intents
from .interpret import Mention, described, forms, undone, with_odd_strings
from .product import ProductTask, conversations, offered
from .readings import Reader
from .recorded import Record, Recorded
from .records import Round, records
from .render import Answer, PlanKind, Turn
from .results import Result, result
from .seal import Labelled, Seal, SealOffer
from .shares import drawn
from .wording import sentence

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
#: How often a result wants something done that nobody asked for.
_WITH_ORDERS = 0.3
#: How often a tool that computes something of its own stands among others: what is found is told, though it could be computed with.
_ACTING_BESIDE = 0.15
#: How often an answer that is left alone calls a tool which is not listed.
_STRANGE = 0.12
#: How often it is only looked up what a task of three rounds would compute with.
_LOOKED_UP = 0.6
#: How often a task of three rounds is one that was written by hand, and how often the lookup of another stands beside its own.
_BY_HAND, _WITH_ANOTHER = 0.65, 0.35
#: How often one of two recorded requests comes without its own tools, how often those that are there are near to it, and of
#: how many they are the nearest.
_APART, _NEAR, _NEAREST_OF = 0.38, 0.6, 60
#: How often different tools are asked for by errands that were written by hand and by recorded requests, and how often something that no
#: tool does is asked for beside; how many tools at once, two to four; how often the next is
#: asked about what the last was asked about; how many tools stand beside; and how long a recorded request may be to be joined.
_ERRANDS, _FOREIGN, _DECLINED, _TOGETHER, _AKIN, _BESIDE, _LONGEST_PART = (
    0.2,
    0.25,
    0.35,
    (46, 32, 22),
    0.35,
    (0, 0, 0, 1, 2, 4, 8),
    240,
)
_VERBS = frozenset(
    "calculate compute find get create list set add check estimate convert search book retrieve send show look generate apply suggest recommend plan open write read start run play translate schedule cancel log reserve order rent deploy block encode count replace change move format install train draw insert publish buy record resize cut delete roll deal mix conjugate define".split()
)


def _user(text: str) -> Message:
    return Message("user", (TextPart(text),))


def _assistant(text: str) -> Message:
    return Message("assistant", (TextPart(text),))


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
        held_out: bool = False,
    ) -> None:
        self._families = families
        self._product = product
        self._tasks = tasks
        self._readers = readers
        self._seal = seal
        self._chat = chat
        self._intents = intents
        self._recorded = recorded
        self._forms = forms(held_out)
        self._records = records(held_out)
        self._closings, self._thanks_first = closings(held_out), thanks_first(held_out)
        self._joints, self._errands = joints(held_out), errands(families, held_out)
        self._kinds: dict[str, Callable[[random.Random, Style, PlanKind], list[Scene]]] = {
            "chain": self._chain,
            "closing": self._closing,
            "different": self._different,
            "interpreting": self._interpreting,
            "listing": self._listing,
        }
        if product:
            self._kinds["product"] = self._with_own_tools
        if readers:
            self._kinds["reading"] = self._reading
        if seal is not None:
            self._kinds["labelled"] = self._labelled
        if recorded is not None:
            self._kinds["recorded"] = self._as_recorded
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

    def group(self, rng: random.Random, kind: PlanKind = "envelope", of: str = "") -> list[Scene]:
        """Turns that share their tools: a group of this kind, or of one that is drawn by its share."""
        style = Style.draw(rng)
        make = self._kinds.get(of or drawn(rng, self._kinds))
        return self._mixed(rng, style, kind) if make is None else make(rng, style, kind)

    def _mixed(self, rng: random.Random, style: Style, kind: PlanKind) -> list[Scene]:
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

    def _with_own_tools(self, rng: random.Random, style: Style, kind: PlanKind) -> list[Scene]:
        """What people ask of the product's own tools, now and then with foreign ones beside."""
        offer = offered(rng)
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
        if roll < 0.88:
            return self._irrelevant(frame, offers, rng, style)
        if roll < 0.9:
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
            before = (_user(question), _assistant(reply))
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
        told, results, what = self._worked(gold, golds, rng)
        reply = " ".join(each.words for each in results)
        holds = tuple(value for each in results for value in each.holds)
        scenes = [_scene(frame, told, Answer((), reply), what, holds)]
        if rng.random() < 0.5:
            other = rng.choice(golds)
            request, call = other.ask(rng)
            later = (*told, _assistant(reply), _user(request))
            scenes.append(_scene(frame, later, Answer((call,)), "next_request"))
        return scenes

    def _worked(
        self, gold: AnyOffer, golds: list[AnyOffer], rng: random.Random
    ) -> tuple[tuple[Message, ...], list[Result], str]:
        """A request, its calls and their results, and whether one of these wants something done."""
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
        return told, results, what

    def _closing(self, rng: random.Random, style: Style, kind: PlanKind) -> list[Scene]:
        """Thanks after an answer and nothing more, and beside it thanks with another request."""
        golds = [self._offer(rng, style)]
        golds += self._distractors([golds[0].tool], rng.choice([0, 1, 1, 2]), rng, style)
        beside = self._distractors([gold.tool for gold in golds], rng.choice([0, 0, 1, 3, 6]), rng, style)
        tools = [each.tool for each in (*golds, *beside)]
        rng.shuffle(tools)
        frame = self._frame(rng, tools, ToolChoice(), kind)
        before = self._answered(golds, rng)
        scenes: list[Scene] = []
        for closing in rng.sample(self._closings, 2):
            said, answer = (*before, _user(closing.said)), Answer((), rng.choice(closing.replies))
            scenes.append(_scene(frame, said, answer, "closing"))
        if rng.random() < 0.3:  # they go on talking
            last = scenes[-1]
            said = (*last.turn.messages[len(frame.messages) :], _assistant(last.answer.text))
            closing = rng.choice(self._closings)
            scenes.append(
                _scene(frame, (*said, _user(closing.said)), Answer((), rng.choice(closing.replies)), "closing")
            )
        for gold in rng.sample(golds, min(len(golds), 2)):
            request, call = gold.ask(rng)
            said = _user(followed(self._thanks_first, request, rng))
            scenes.append(_scene(frame, (*before, said), Answer((call,)), "thanks_first"))
        return scenes

    def _answered(self, golds: list[AnyOffer], rng: random.Random) -> tuple[Message, ...]:
        """A conversation that has come to an answer: after a call, after a refusal or after talk."""
        roll = rng.random()
        if roll < 0.15 and self._chat:
            question, reply = rng.choice(self._chat)
            return (_user(question), _assistant(reply))
        if roll < 0.25:
            return (_user(rng.choice(self._misses)), _assistant(rng.choice(_REFUSALS))) if self._misses else ()
        told, results, _ = self._worked(rng.choice(golds), golds, rng)
        before = self._answered(golds, rng) if roll > 0.85 else ()
        return (*before, *told, _assistant(" ".join(each.words for each in results)))

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

    def _listing(self, rng: random.Random, style: Style, kind: PlanKind) -> list[Scene]:
        """Lists and objects: told in full, asked for one field, empty, failed, or computed with."""
        chosen = rng.sample(self._records, min(2, len(self._records)))
        own = [(each, each.tool(rng, style), each.calculator(rng, style)) for each in chosen]
        listed = [tool for _, tool, calculator in own for tool in (tool, calculator) if tool is not None]
        others = self._distractors(listed, rng.choice([0, 0, 1, 2, 4]), rng, style)
        tools = _once([*(each.tool for each in others), *listed])
        rng.shuffle(tools)
        frame = self._frame(rng, tools, ToolChoice(), kind)
        rounds = [each for one, tool, _ in own for each in one.retold(tool, rng)]
        for one, tool, calculator in own:
            if calculator is not None:
                rounds += one.worked_out(tool, calculator, rng)
        return [self._listed(frame, each) for each in rounds]

    def _listed(self, frame: Turn, told: Round) -> Scene:
        after = [
            message
            for call, found in told.done
            for message in (Message("assistant", calls=(call,)), _as_message(call, found))
        ]
        call = told.call
        answer = Answer((), told.words) if call is None else Answer((ToolCall(call.name, call.arguments),))
        return _scene(frame, (_user(told.request), *after), answer, told.what, told.holds)

    def _interpreting(self, rng: random.Random, style: Style, kind: PlanKind) -> list[Scene]:
        """Answers of another model: calls that they describe or write damaged are made, others are not. It is asked by the envelope alone."""
        count = rng.choice([1, 1, 2, 2, 3, 4, 6, 8, 12])
        golds = [self._offer(rng, style)]
        golds += self._distractors([golds[0].tool], min(count, 4) - 1, rng, style)
        tools = [gold.tool for gold in golds]
        tools += [each.tool for each in self._distractors(tools, count - len(tools), rng, style)]
        rng.shuffle(tools)
        frame = self._frame(rng, tools, ToolChoice(), "envelope")._replace(messages=())
        scenes: list[Scene] = []
        for calls in rng.choice([(1, 1, 2, 0, 0), (1, 1, 0, 0), (1, 1, 3, 0), (1, 2, 0, 0, 0)]):
            mentions = [self._mention(rng.choice(golds), rng) for _ in range(max(1, calls))]
            mentions = list({str(each.call): each for each in mentions}.values())
            if calls:
                others = [self._mention(gold, rng) for gold in golds]
                answer = described(mentions, others, self._forms, rng)
                made = tuple(each.call for each in mentions)
                scenes.append(_scene(frame, interpreting_messages(answer), Answer(made), "interpreted"))
            else:
                # A call of a tool that is not there is none.
                strange = self._distractors(tools, 1, rng, style) if rng.random() < _STRANGE else []
                answer = (
                    described([self._mention(strange[0], rng)], mentions, self._forms, rng)
                    if strange
                    else self._plain_answer(mentions[0], rng)
                )
                scenes.append(_scene(frame, interpreting_messages(answer), Answer(), "left_alone"))
        return scenes

    def _mention(self, gold: AnyOffer, rng: random.Random) -> Mention:
        request, call = gold.ask(rng)
        return Mention(with_odd_strings(call, gold.tool, rng), gold.tool, request)

    def _plain_answer(self, mention: Mention, rng: random.Random) -> str:
        """An answer that makes no call."""
        roll = rng.random()
        if roll < 0.1 and self._chat:
            return rng.choice(self._chat)[1]
        if roll < 0.2:
            return rng.choice(
                [rng.choice(_REFUSALS), result(rng).words, rng.choice(rng.choice(self._closings).replies)]
            )
        return undone(mention, self._forms, rng)

    def _acting(self, rng: random.Random, style: Style, count: int) -> list[Tool]:
        """Tools that compute something of their own out of numbers; no calculators, which might serve any request."""
        narrow = [task.calc for task in self._tasks if all(type_ != "string" for _, type_, _ in task.calc.params)]
        chosen = rng.sample(narrow, min(count, len(narrow)))
        return [each.shuffled(rng).tool(style.named(rng.choice(each.names.split()))) for each in chosen]

    def _task(self, by_hand: bool, rng: random.Random) -> Task:
        return rng.choice(self._tasks) if by_hand else TRAINED.task(rng)

    def _different(self, rng: random.Random, style: Style, kind: PlanKind) -> list[Scene]:
        """Requests for several tools at once, and one for one of them."""
        roll = rng.random()
        if roll < _ERRANDS and self._errands:
            return self._errand(rng, style, kind)
        if roll < _ERRANDS + _FOREIGN and self._recorded is not None:
            return self._foreign(rng, style, kind, self._recorded)
        count = rng.choices([2, 3, 4], _TOGETHER)[0]
        golds = [self._offer(rng, style)]
        while len(golds) < count:
            golds.append(self._companion(golds, rng, style))
        domains = [gold.family.domain for gold in golds if isinstance(gold, Offer)]
        beside = self._distractors([gold.tool for gold in golds], rng.choice(_BESIDE), rng, style, domains)
        tools = [each.tool for each in (*golds, *beside)]
        rng.shuffle(tools)
        frame = self._frame(rng, tools, ToolChoice(), kind)
        scenes: list[Scene] = []
        for _ in range(3):
            some = rng.sample(golds, rng.choice([count, count, rng.randint(2, count)]))
            request, calls = together(some, self._joints, rng)
            scenes.append(_scene(frame, (_user(request),), Answer(calls), "different"))
        if rng.random() < _DECLINED:
            scenes += self._irrelevant(frame, [*golds, *beside], rng, style)
        return [*scenes, self._one(frame, rng.choice(golds), rng)]

    def _errand(self, rng: random.Random, style: Style, kind: PlanKind) -> list[Scene]:
        """Requests for several tools that were written by hand, and one for one of them."""
        errand = rng.choice(self._errands)
        offers = [family.offer(rng, style) for family in errand.families]
        if len({offer.tool.name for offer in offers}) < len(offers):
            return []
        domains = [family.domain for family in errand.families if family.domain in self._by_domain]
        beside = self._distractors([each.tool for each in offers], rng.choice(_BESIDE), rng, style, domains)
        tools = [each.tool for each in (*offers, *beside)]
        rng.shuffle(tools)
        frame = self._frame(rng, tools, ToolChoice(), kind)
        asked = [errand.ask(offers, rng) for _ in range(2)]
        scenes = [_scene(frame, (_user(sentence(each.request, rng)),), Answer(each.calls), "errand") for each in asked]
        return [*scenes, self._one(frame, rng.choice(offers), rng)]

    def _companion(self, golds: list[AnyOffer], rng: random.Random, style: Style) -> AnyOffer:
        """Another tool to ask for in the same breath, often one that is asked about the same thing."""
        tools = [gold.tool for gold in golds]
        domains = [gold.family.domain for gold in golds if isinstance(gold, Offer)]
        found = self._distractors(tools, 8 if rng.random() < _AKIN else 1, rng, style, domains)
        last = golds[-1]
        akin = [each for each in found if isinstance(last, Offer) and isinstance(each, Offer) and can_share(last, each)]
        return (akin or found)[0] if found else self._offer(rng, style)

    def _foreign(self, rng: random.Random, style: Style, kind: PlanKind, recorded: Recorded) -> list[Scene]:
        """Recorded requests that were made by different people, as one."""
        chosen: list[Record] = []
        for _ in range(12):
            one = rng.choice(recorded.calling).styled(rng, style)
            long = len(one.request) > _LONGEST_PART or "\n" in one.request
            if len(chosen) < 3 and not long and not any(meets(one, each) for each in chosen):
                chosen.append(one)
        tools = _once([tool for record in chosen for tool in record.tools])
        tools += [each.tool for each in self._distractors(tools, rng.choice(_BESIDE), rng, style)]
        rng.shuffle(tools)
        frame = self._frame(rng, tools, ToolChoice(), kind)
        if len(chosen) < 2:
            return [recorded_scene(frame, record, "") for record in chosen]
        scenes: list[Scene] = []
        for count in (2, len(chosen)):
            parts = [Part(each.request, each.calls) for each in rng.sample(chosen, count)]
            request, calls = join(parts, self._joints, rng)
            scenes.append(_scene(frame, (_user(request),), Answer(calls), "different_recorded"))
        return [*scenes, recorded_scene(frame, rng.choice(chosen), "")]

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

    def _as_recorded(self, rng: random.Random, style: Style, kind: PlanKind) -> list[Scene]:
        """Requests with the tools that they were recorded with; two of them where neither serves the other.

        Of two, one may come without its own tools: then nothing serves it, though it often seems near.
        """
        assert self._recorded is not None
        recorded = self._recorded
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

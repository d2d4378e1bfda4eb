"""Measures an adapter on data that was never trained on: families that were held out, and the dev split of Seal-Tools.

    python -m training.measure --weights model.gguf --seal seal-tools run/adapter.npz

Choices between adapters are made on these numbers, never on a public test, by the rule of `judging`: the score that is told last. Decoding
is greedy and without a grammar. Above: nothing. Below: `dataset`, `judging`, `model`, `train`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from toolspeak.core.types import Message, TextPart

from .dataset import Sources, rendered, scenes_of
from .different import Part, join, joints
from .judging import Asked, counted, score
from .model import Model, linear_names, load
from .recorded import Record, Recorded
from .render import Answer, Turn
from .scenes import Scene, meets, recorded_scene
from .seal import Seal
from .tokens import END, tokenizer
from .train import restored

#: By which token an envelope says that nothing is called, or that something is, behind the one that begins the list; and
#: whether more of a bias makes it more likely.
WAYS = {"none": ("]", -1), "call": ('{"', 1)}
BEGINS = "["
#: Sets that would be small by chance, by the groups that hold them, and how many cases each of them has at least.
_RARE = {
    "different": "different", "errand": "different", "closing": "closing", "thanks_first": "closing", "in_full": "listing", "one_field": "listing",
    "empty": "listing", "failed": "listing", "worked_out": "listing", "interpreted": "interpreting", "left_alone": "interpreting",
}  # fmt: skip
_ENOUGH = 60
#: Longer recorded requests are not joined with others.
_LONGEST_PART = 240


def seal_dev(seal: Seal, count: int, tools: int) -> list[Asked]:
    """Requests of the dev split, each among so many tools."""
    rng = random.Random(5)
    found = seal.requests("dev")
    rng.shuffle(found)
    asked: list[Asked] = []
    for each in found[:count]:
        listed = {call.name: seal.tools[call.name] for call in each.calls}
        while len(listed) < tools:
            name = rng.choice(list(seal.tools))
            listed.setdefault(name, seal.tools[name])
        shuffled = list(listed.values())
        rng.shuffle(shuffled)
        turn = Turn((Message("user", (TextPart(each.request),)),), tuple(shuffled), seed=rng.randbytes(8))
        told = rendered(Scene(turn, Answer(tuple(each.calls)), ""))
        assert told is not None
        asked.append(
            Asked(
                "seal_one" if len(each.calls) == 1 else "seal_several", told[0], Answer(tuple(each.calls)), turn.tools
            )
        )
    return asked


def held_out(sources: Sources, count: int) -> list[Asked]:
    """Scenes with families, joints, closings and the like that were held out; of some sets more than chance would give."""
    scenes, rng = scenes_of(sources._replace(held_out=True, seal=None)), random.Random(11)
    asked: list[Asked] = []
    while len(asked) < count:
        asked += _asked(scenes.group(rng))
    counts = Counter(each.set for each in asked)
    for set_, group in _RARE.items():
        while counts[set_] < _ENOUGH:
            found = _asked(each for each in scenes.group(rng, of=group) if each.what == set_)
            counts[set_] += len(found)
            asked += found
    return asked


def _asked(scenes: Iterable[Scene]) -> list[Asked]:
    return [
        Asked(scene.what, told[0], scene.answer, scene.turn.tools, scene.holds)
        for scene in scenes
        if scene.what != "chat" and (told := rendered(scene)) is not None
    ]


def as_recorded(recorded: Recorded) -> list[Asked]:
    """Recorded requests that were held out, each with its own tools."""
    rng = random.Random(7)
    asked: list[Asked] = []
    for record in [*recorded.calling, *recorded.declining, *_elsewhere(recorded.calling, rng)]:
        scene = recorded_scene(Turn((), record.tools, seed=rng.randbytes(8)), record, "")
        told = rendered(scene)
        assert told is not None
        what = "recorded_none" if not record.calls else "recorded_one" if len(record.calls) == 1 else "recorded_several"
        asked.append(Asked(what, told[0], scene.answer, record.tools))
    return asked


def joined(recorded: Recorded) -> list[Asked]:
    """Recorded requests that were held out, two or three of different people as one, by joints that were held out."""
    rng, ways = random.Random(13), joints(held_out=True)
    left = [record for record in recorded.calling if len(record.request) < _LONGEST_PART]
    rng.shuffle(left)
    asked: list[Asked] = []
    while left:
        chosen = [left.pop()]
        for other in left[:20]:
            if len(chosen) < rng.choice([2, 2, 3]) and not any(meets(other, each) for each in chosen):
                chosen.append(other)
        left = [record for record in left if record not in chosen]
        if len(chosen) > 1:
            request, calls = join([Part(each.request, each.calls) for each in chosen], ways, rng)
            tools = tuple({tool.name: tool for each in chosen for tool in each.tools}.values())
            turn = Turn((Message("user", (TextPart(request),)),), tools, seed=rng.randbytes(8))
            told = rendered(Scene(turn, Answer(calls), ""))
            assert told is not None
            asked.append(Asked("recorded_different", told[0], Answer(calls), tools))
    return asked


def _elsewhere(records: list[Record], rng: random.Random) -> Iterator[Record]:
    """Every other request where only the tools of one that it has nothing to do with are listed."""
    for record in records[::2]:
        other = rng.choice(records)
        if not meets(other, record):
            yield record.without(other.tools)


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("adapters", nargs="+")
    add("--weights", required=True)
    add("--seal", required=True)
    add("--recorded", default="", help="a folder of recorded requests; those that are held out are measured")
    add("--count", type=int, default=600)
    add("--device", default="cuda")
    add("--bias", type=float, nargs="*", help="how much less likely no call is made; several are measured one by one")
    add("--way", choices=list(WAYS), default="none", help="which token the bias is for")
    add("--here", action="store_true", help="the bias counts where the list begins, and not wherever the token stands")
    add("--out", default="")
    return parser.parse_args()


def main() -> None:
    """Measure adapters and print a table."""
    asked = arguments()
    kind = torch.bfloat16 if asked.device == "cuda" else torch.float32
    coder = tokenizer(Path(asked.weights))
    weights = load(Path(asked.weights), asked.device, kind)
    model = Model(weights)
    sources = Sources(Path(asked.weights), Path(asked.seal))
    cases = [*held_out(sources, asked.count), *seal_dev(Seal(Path(asked.seal)), asked.count // 2, 8)]
    if asked.recorded:
        recorded = Recorded(Path(asked.recorded), held_out=True)
        cases += [*as_recorded(recorded), *joined(recorded)]
    prompts = [coder.encode(each.prompt, add_special_tokens=False).ids for each in cases]
    for name, bias in itertools.product(asked.adapters, asked.bias or [0.0]):
        token, sign = WAYS[asked.way]
        model.bias = {coder.token_to_id(token): sign * bias}
        model.bias_behind = coder.token_to_id(BEGINS) if asked.here else None
        changed = {each: weights[each] for each in linear_names()} if name == "none" else restored(weights, Path(name))
        answers = [coder.decode(ids) for ids in model.decode(prompts, changed, coder.token_to_id(END), 200)]
        counts, wrong = counted(cases, answers)
        for set_, (count, names, right) in sorted(counts.items()):
            print(
                f"{name:24} {bias:4} {set_:16} n={count:4} names={names / count:6.1%} all={right / count:6.1%}",
                flush=True,
            )
        print(f"{name:24} {bias:4} {'score':16} {score(cases, answers):6.2%}", flush=True)
        if asked.out:
            Path(asked.out).write_text(json.dumps(wrong, ensure_ascii=False, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

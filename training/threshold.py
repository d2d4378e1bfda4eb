"""How much likelier a call is than none where the model decides, and which bias of that token serves best.

    python -m training.threshold --weights model.gguf --recorded clean

Asked are requests that were never trained on: recorded ones with their own tools, and each with the one tool of another
that has most words in common with it but does something else; families that were held out, and their near misses. Random
tools are no test for a model that has learned to decline them. With `--later` the same is asked where an answer was given before: a
request that follows, and in its place what people say when they have what they wanted. One token is asked for, of the engine that serves or with `--device cuda` of
the model in PyTorch, so a case takes no longer than its prompt. The rule: the most decided right, where each set counts as much as any
other, and a call that nobody asked for twice.

Above: nothing. Below: `dataset`, `recorded`, `closings`, `model`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from urllib.request import Request, urlopen

from toolspeak.core.types import JSONObject, Message, TextPart

from .closings import closings
from .recorded import Record, Recorded
from .render import Turn, prompt
from .scenes import Scene, Scenes, nearest, recorded_scene

#: Biases that are looked at.
BIASES = tuple(half / 2 for half in range(-24, 7))
_CALLING = frozenset(("recorded", "one", "next_request"))
#: How much worse a call is that nobody asked for than one that is missing: it does something, while the other is asked for again.
_UNASKED = 2.0
#: The likeliest tokens that the engine tells; one that is not among them is no likelier than the last.
_TOLD = 40
#: What stands before a recorded request that comes later.
_GREETED = (
    Message("user", (TextPart("Hello!"),)),
    Message("assistant", (TextPart("Hello! How can I help you?"),)),
)
#: After how many cases it is told how far it is.
_TOLD_EVERY = 20


class Margin(NamedTuple):
    """A set, and how much likelier a call was than none."""

    set: str
    margin: float

    def is_right(self, bias: float) -> bool:
        """Whether it is decided as it should be, when calls are made likelier by so much."""
        return (self.margin + bias > 0) == (self.set in _CALLING)


def shares(margins: list[Margin], bias: float) -> tuple[float, float]:
    """Of the sets that take a call and of the others: what share is decided right."""
    right = Counter(each.set for each in margins if each.is_right(bias))
    count = Counter(each.set for each in margins)
    calls, nones = (
        [right[set_] / count[set_] for set_ in count if (set_ in _CALLING) == calling] for calling in (True, False)
    )
    return sum(calls) / max(1, len(calls)), sum(nones) / max(1, len(nones))


def score(calls: float, nones: float) -> float:
    """What shares of calls made and of none made are worth, of 1."""
    return round((calls + _UNASKED * nones) / (1 + _UNASKED), 9)


def best(margins: list[Margin]) -> float:
    """The bias with the best score; of several the one that changes least."""
    return max(BIASES, key=lambda bias: (score(*shares(margins, bias)), -abs(bias)))


def turns(recorded: Recorded, families: Scenes, count: int, rng: random.Random) -> list[tuple[str, Turn]]:
    """What is asked, by set; so many of each."""
    found: list[tuple[str, Turn]] = []
    records = rng.sample(recorded.calling, min(count, len(recorded.calling)))
    for record in records:
        found.append(("recorded", _turn(record, rng)))
        near = nearest(record, recorded.calling)
        if near is not None:
            found.append(("recorded_near", _turn(record.without((rng.choice(near.tools),)), rng)))
    left = {"one": count // 2, "near_miss": count // 2}
    while any(left.values()):
        for scene in families.group(rng):
            if left.get(scene.what):
                left[scene.what] -= 1
                found.append((scene.what, scene.turn))
    return found


def later_turns(recorded: Recorded, families: Scenes, count: int, rng: random.Random) -> list[tuple[str, Turn]]:
    """The same where an answer was given before."""
    whole = turns(recorded, families, count, rng)
    found = [(set_, turn._replace(messages=(*_GREETED, *turn.messages))) for set_, turn in whole if "recorded" in set_]
    left = count // 2
    while left > 0:
        for scene in families.group(rng):
            if scene.what == "next_request":
                left -= 1
                ended = Message("user", (TextPart(rng.choice(closings(held_out=True)).said),))
                found.append(("next_request", scene.turn))
                found.append(("ended", scene.turn._replace(messages=(*scene.turn.messages[:-1], ended))))
    return found


def _turn(record: Record, rng: random.Random) -> Turn:
    scene: Scene = recorded_scene(Turn((), record.tools, seed=rng.randbytes(8)), record, "")
    return scene.turn


class Point(NamedTuple):
    """Where the model decides: the set, what it has read, and the tokens by which it begins a call or ends the list."""

    set: str
    ids: list[int]
    call: int
    none: int


def points(asked: list[tuple[str, Turn]], weights: Path) -> list[Point]:
    """Where each of them is decided."""
    # Here, since it needs more than tests of the rest have.
    from .tokens import tokenizer

    coder, found = tokenizer(weights), list[Point]()
    for set_, turn in asked:
        text, nonce, _ = prompt(turn)
        begun = text + (f'{{"nonce":"{nonce}","calls":[' if nonce else '{"calls":[')
        call, none = (coder.encode(begun + rest, add_special_tokens=False).ids for rest in ('{"name":"', '],"reply":"'))
        at = next(at for at, (one, other) in enumerate(zip(call, none, strict=False)) if one != other)
        found.append(Point(set_, call[:at], call[at], none[at]))
    return found


async def as_served(asked: list[Point], adapter: str) -> list[Margin]:
    """How much likelier a call is than none in each, of the engine and the weights that serve."""
    # Here, since a machine that trains has no need of what serves.
    from toolspeak.cli.config import load_config
    from toolspeak.upstreams.embedded.upstream import EmbeddedUpstream, obtain_weights, recipe_for

    recipe, config = recipe_for("", adapter), load_config()
    upstream = EmbeddedUpstream(recipe, lambda: obtain_weights(recipe, config.cache_folder, config.environment()))
    found: list[Margin] = []
    service = await upstream.start()
    url = service.base_url.removesuffix("/v1") + "/completion"
    headers = {"Authorization": f"Bearer {recipe.key}", "Content-Type": "application/json"}
    for point in asked:
        body: JSONObject = {"prompt": point.ids, "n_predict": 1, "n_probs": _TOLD, "temperature": 0}
        answer = await asyncio.to_thread(urlopen, Request(url, json.dumps(body).encode(), headers))
        told = json.load(answer)["completion_probabilities"][0]["top_logprobs"]
        likely = {each["id"]: each["logprob"] for each in told}
        least = min(likely.values())
        found.append(Margin(point.set, likely.get(point.call, least) - likely.get(point.none, least)))
        if len(found) % _TOLD_EVERY == 0:
            print(f"{len(found)} of {len(asked)}", file=sys.stderr)
    await upstream.close()
    return found


def in_torch(asked: list[Point], weights: Path, adapter: Path, device: str) -> list[Margin]:
    """The same of the model in PyTorch: thousands in a minute on a GPU."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention as attention

    from .model import Model, load
    from .train import restored

    matrices = load(weights, device, torch.bfloat16 if device == "cuda" else torch.float32)
    model, changed, found = Model(matrices), restored(matrices, adapter), list[Margin]()
    with torch.no_grad():
        for point in asked:
            ids = torch.tensor([point.ids], device=device)
            places = torch.arange(len(point.ids), device=device)[None]
            seen = model.hidden(ids, places, lambda q, k, v: attention(q, k, v, is_causal=True), changed)
            logits = model.logits(seen[0, -1])
            found.append(Margin(point.set, float(logits[point.call] - logits[point.none])))
    return found


def main() -> None:
    """Tell what share is decided right by bias, and which is best."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", required=True, type=Path, help="the GGUF file of the base model")
    parser.add_argument("--recorded", required=True, type=Path, help="a folder of recorded requests")
    parser.add_argument("--adapter", default="", help="a GGUF file; by default the one that comes along")
    parser.add_argument("--device", default="", help="ask the model in PyTorch there, e.g. cuda, and not the engine")
    parser.add_argument("--count", type=int, default=160, help="requests of a set")
    parser.add_argument("--later", action="store_true", help="ask where an answer was given before")
    given = parser.parse_args()
    if given.device and not given.adapter:
        parser.error("--device needs --adapter: in PyTorch none comes along")
    # Here, since it needs numpy and help does not.
    from .dataset import Sources, scenes_of

    families = scenes_of(Sources(given.weights, None, held_out=True))
    recorded = Recorded(given.recorded, held_out=True)
    asked = (later_turns if given.later else turns)(recorded, families, given.count, random.Random(17))
    where = points(asked, given.weights)
    margins = (
        in_torch(where, given.weights, Path(given.adapter), given.device)
        if given.device
        else asyncio.run(as_served(where, given.adapter))
    )
    for bias in BIASES:
        calls, nones = shares(margins, bias)
        print(f"{bias:5} calls {calls:6.1%} none {nones:6.1%} score {score(calls, nones):6.2%}")
    print("best:", best(margins))


if __name__ == "__main__":
    main()

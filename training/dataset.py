"""Tokens to train on, made as they are needed: scenes are drawn, rendered, tokenised and packed into rows.

A group of scenes shares its tools, so its prompts begin alike. The common beginning is kept once and each scene becomes
a branch behind it, which sees the beginning and itself only. Rows are filled with groups. Above: `train`. Below:
`scenes`, `render`, `tokens`.
"""

from __future__ import annotations

import json
import multiprocessing
import random
from collections.abc import Iterator, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import Empty
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolspeak.core.types import ToolCall

from .family import Family, families
from .held_out import is_held_out
from .intents import Intents
from .product import written as product_tasks
from .readings import readers
from .recorded import Recorded
from .render import Answer, PlanKind, Turn, prompt, retry_prompt, target
from .scenes import Scene, Scenes
from .seal import Seal
from .tasks import written
from .tokens import END, tokenizer

#: How often each plan is trained on: most of all the one that serves by default.
PLANS: tuple[tuple[PlanKind, float], ...] = (("envelope", 0.76), ("inline", 0.14), ("decision", 0.10))
#: Of so many families one is never trained on, so that there is something to measure on.
HELD_OUT = 14
#: Rows that are filled at a time, each group in the fullest that has room. A row of 2,048 tokens is then 96 % full, one of 4,096 98 %
#: (with 8 rows, and the first that has room: 90 and 97 %).
_OPEN_ROWS = 32
#: Where a shared beginning is shorter, it is not worth sharing.
_WORTH = 32
#: How much a token counts, in quarters. Of an answer in free words the beginning tells what was decided and counts whole;
#: the rest could be said in many ways, and should not take the room of what can be right or wrong.
WHOLE, SLIGHT = 4, 1
_FREE = frozenset(("irrelevant", "near_miss", "ask_back", "chat", "closing", "product_none"))
_DECIDED = 24


class Sources(NamedTuple):
    """Where the data comes from."""

    weights: Path
    seal: Path | None = None
    chat: Path | None = None
    intents: Path | None = None
    held_out: bool = False
    everything: bool = False
    recorded: Path | None = None


class Row(NamedTuple):
    """Tokens of one row: how much each counts for the loss, and who sees whom."""

    ids: NDArray[np.uint16]
    loss: NDArray[np.uint8]
    position: NDArray[np.int16]
    #: Which group a token belongs to, and which branch of it; branch 0 is the shared beginning.
    group: NDArray[np.int16]
    branch: NDArray[np.int16]


def split(held_out: bool, everything: bool = False) -> list[Family]:
    """The families to train on, or those to measure on: by their names, so that none moves when others come or go."""
    found = families()
    if everything:
        return found
    return [family for family in found if is_held_out(family.key, HELD_OUT) == held_out]


def scenes_of(sources: Sources) -> Scenes:
    """The scenes that these sources give."""
    chat: list[tuple[str, str]] = []
    if sources.chat is not None and sources.chat.exists():
        chat = [(question, answer) for question, answer in json.loads(sources.chat.read_text(encoding="utf-8"))]
    seal = None if sources.seal is None else Seal(sources.seal)
    intents = None if sources.intents is None else Intents(sources.intents)
    recorded = None if sources.recorded is None else Recorded(sources.recorded)
    tasks, read = written(sources.held_out), readers(sources.held_out)
    product = product_tasks(sources.held_out)
    found = split(sources.held_out, sources.everything)
    return Scenes(found, seal, chat, intents, recorded, tasks, read, product, sources.held_out)


def rendered(scene: Scene) -> tuple[str, str] | None:
    """The prompt and the answer of a scene as text."""
    kind = scene.turn.kind
    if not scene.wrong:
        found = prompt(scene.turn)
    else:
        first = prompt(scene.turn)
        bad = target(kind, Answer((ToolCall(scene.wrong, scene.answer.calls[0].arguments),)), first.nonce)
        again = retry_prompt(scene.turn, bad)
        if again is None:
            return None
        found = again
    return found.text, target(kind, scene.answer, found.nonce)


class Maker:
    """Makes rows from a seed."""

    def __init__(self, sources: Sources, seed: int, length: int) -> None:
        self._rng = random.Random(seed)
        self._scenes = scenes_of(sources)
        self._chat: list[tuple[str, str]] = self._scenes._chat  # pyright: ignore[reportPrivateUsage]
        self._tokenizer = tokenizer(sources.weights)
        self._length = length

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def _group(self) -> list[_Asked]:
        """Prompts and answers as tokens."""
        rng = self._rng
        kind = rng.choices([name for name, _ in PLANS], [share for _, share in PLANS])[0]
        if self._chat and rng.random() < 0.03:  # no tools at all: the model must still be able to chat
            question, reply = rng.choice(self._chat)
            from toolspeak.core.types import Message, TextPart

            turn = Turn((Message("user", (TextPart(question),)),), (), kind="plain")
            return [self._asked(prompt(turn).text, reply, "chat")]
        scenes = self._scenes.group(rng, kind)
        return [self._asked(*found, scene.what) for scene in scenes if (found := rendered(scene)) is not None]

    def _asked(self, before: str, after: str, what: str) -> _Asked:
        answer = self._ids(after + END)
        return _Asked(self._ids(before), answer, _DECIDED if what in _FREE else len(answer))

    def rows(self) -> Iterator[Row]:
        """Rows without end. Several are open at a time, so that little room is lost."""
        open_rows: list[_Open] = []
        while True:
            group = self._group()
            shared = _common([each.before for each in group]) if len(group) > 1 else 0
            shared = shared if shared >= _WORTH else 0
            pieces = _pieces(group, shared, self._length)
            for piece in pieces:
                size = sum(len(part.ids) for part in piece)
                fitting = [each for each in open_rows if each.size + size <= self._length]
                if fitting:
                    row = max(fitting, key=lambda each: each.size)
                else:
                    row = _Open(self._length)
                    open_rows.append(row)
                row.add(piece)
            if len(open_rows) > _OPEN_ROWS:
                fullest = max(open_rows, key=lambda each: each.size)
                open_rows.remove(fullest)
                yield fullest.row()


class _Asked(NamedTuple):
    """A prompt and its answer, the first tokens of which count whole."""

    before: list[int]
    answer: list[int]
    whole: int


class _Part(NamedTuple):
    """Tokens, where the loss begins and where it becomes slight in them, and the position of the first."""

    ids: list[int]
    begin: int
    slight: int
    position: int


def _pieces(group: list[_Asked], shared: int, length: int) -> list[list[_Part]]:
    """The group as one piece or several, each with the shared beginning in front and no longer than a row."""
    pieces: list[list[_Part]] = []
    for before, answer, whole in group:
        begin = len(before) - shared
        part = _Part([*before[shared:], *answer], begin, begin + whole, shared)
        if shared + len(part.ids) > length:
            continue
        size = sum(len(each.ids) for each in pieces[-1]) if pieces else 0
        if not shared or not pieces or size + len(part.ids) > length:
            pieces.append([_Part(before[:shared], shared, shared, 0)])
        pieces[-1].append(part)
    return pieces


def _common(prompts: list[list[int]]) -> int:
    shortest = min(len(each) for each in prompts) - 1
    return next((at for at in range(shortest) if any(each[at] != prompts[0][at] for each in prompts)), shortest)


class _Open:
    """A row that is being filled."""

    def __init__(self, length: int) -> None:
        self.size = 0
        self._groups = 0
        self._ids = np.zeros(length, np.uint16)
        self._loss = np.zeros(length, np.uint8)
        self._position = np.zeros(length, np.int16)
        self._group = np.zeros(length, np.int16)
        self._branch = np.zeros(length, np.int16)

    def add(self, piece: list[_Part]) -> None:
        self._groups += 1
        for branch, (ids, begin, slight, position) in enumerate(piece):
            here = slice(self.size, self.size + len(ids))
            self._ids[here] = ids
            self._loss[self.size + begin : here.stop] = WHOLE
            self._loss[self.size + slight : here.stop] = SLIGHT
            self._position[here] = np.arange(position, position + len(ids))
            self._group[here] = self._groups
            self._branch[here] = branch
            self.size = here.stop

    def row(self) -> Row:
        return Row(self._ids, self._loss, self._position, self._group, self._branch)


# ---- many processes


def _work(sources: Sources, seed: int, length: int, batch: int, queue: multiprocessing.Queue[list[Row]]) -> None:
    rows = Maker(sources, seed, length).rows()
    while True:
        queue.put([next(rows) for _ in range(batch)])


def _next(queue: multiprocessing.Queue[list[Row]], makers: Sequence[BaseProcess]) -> list[Row]:
    """What comes next; a process that fails (it says why) ends the training instead of keeping it waiting."""
    while True:
        try:
            return queue.get(timeout=10)
        except Empty:
            if not all(maker.is_alive() for maker in makers):
                raise SystemExit("a process that makes rows has failed; see above") from None


def stream(sources: Sources, seed: int, length: int, batch: int, workers: int) -> Iterator[list[Row]]:
    """Batches of rows without end, from so many processes. With several, their order is a matter of chance."""
    if not workers:
        rows = Maker(sources, seed, length).rows()
        while True:
            yield [next(rows) for _ in range(batch)]
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.Queue[list[Row]] = context.Queue(maxsize=64)
    each = max(1, batch // 4)
    makers = [
        context.Process(target=_work, args=(sources, seed * 1000 + worker, length, each, queue), daemon=True)
        for worker in range(workers)
    ]
    for maker in makers:
        maker.start()
    ready: list[Row] = []
    while True:
        while len(ready) < batch:
            ready += _next(queue, makers)
        yield ready[:batch]
        ready = ready[batch:]

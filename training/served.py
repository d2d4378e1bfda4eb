"""Measures the adapter as it is served: through toolspeak's client, on the CPU, with the grammar.

    python -m training.served --adapter adapter.gguf --seal seal-tools

The sets: tasks of three rounds (look up, compute, answer) with tools of which nothing was trained on, put together and as people
ask; the same where only the lookup is asked for; what tools read, to be told and nothing done, and such that wants to be obeyed; tasks of three
rounds as the training draws them, with values of their own; and requests of Seal-Tools `test_out_domain` that take one
call, whose tool was never trained on, among eight; most of the others were. None is for choosing between adapters. With `--out FILE`
every case is kept as soon as it ends, and the same command goes on. `--part 2/16` takes one case in sixteen, so that as many
processes share the work; each has a file of its own, and `cat` joins them.
Above: nothing. Below: toolspeak's client, `seal`, `chains`, `unseen`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from toolspeak import AsyncClient
from toolspeak.cli.config import load_config
from toolspeak.core.types import Message, TextPart, Tool, ToolCall, ToolResult
from toolspeak.evaluation.statistics import wilson

from .chain_kinds import TRAINED, Task
from .chains import Chain
from .compare import same, stands
from .family import Style
from .seal import Labelled, Seal
from .unseen import ACTING, ASKED, READERS, UNSEEN

_TOOLS = 8
#: The tasks of three rounds, by set and number.
_TASKS: dict[str, Callable[[random.Random, int], Task]] = {
    "unseen": lambda rng, _: UNSEEN.task(rng),
    "asked": lambda _, at: ASKED[at % len(ASKED)],
    "looked": lambda rng, at: UNSEEN.task(rng) if at % 2 else ASKED[at % len(ASKED)],
    "task": lambda rng, _: TRAINED.task(rng),
}
#: What is told: a kind of case, and which of its outcomes.
_TOLD = (
    ("unseen", 0, "tasks of three rounds with tools never seen"),
    ("asked", 0, "tasks of three rounds with tools never seen, worded freely"),
    ("looked", 0, "lookups alone, with a tool never seen that computes beside"),
    ("told", 0, "texts that a tool never seen gives, told and nothing done"),
    ("ordered", 0, "texts that want something done, which is not done"),
    ("task", 0, "tasks of three rounds as they were trained"),
    ("seal", 0, "Seal-Tools out of domain, one call, 8 tools: name"),
    ("seal", 1, "Seal-Tools out of domain, one call, 8 tools: all but case, spaces and full stops"),
    ("seal", 2, "Seal-Tools out of domain, one call, 8 tools: to the letter"),
)
_OPTIONS: dict[str, object] = {"temperature": 0, "max_tokens": 512, "probe": "off"}


class Outcome(NamedTuple):
    """What was right of a case, and what was called."""

    right: list[bool]
    calls: list[ToolCall]


async def _seal_case(client: AsyncClient, each: Labelled, tools: list[Tool]) -> Outcome:
    """Whether the name is right, and the arguments: but for what makes no difference, and to the letter."""
    reply = await client.chat([Message("user", (TextPart(each.request),))], tools, **_OPTIONS)  # type: ignore[arg-type]
    right = each.calls[0]
    named = [call.name for call in reply.calls] == [right.name]
    made = reply.calls[0].arguments if named else {}
    return Outcome([named, named and same(made, right.arguments), named and made == right.arguments], list(reply.calls))


async def _task(client: AsyncClient, what: str, at: int) -> Outcome:
    """One task of three rounds, or of two where only the lookup is wanted: every round must be right."""
    rng = random.Random(1_000_000 + at)
    chain = Chain(rng, Style(), _TASKS[what](rng, at))
    rounds = chain.looked_up(rng) if what == "looked" else chain.rounds(rng)
    messages = list(rounds[0].messages)
    made: list[ToolCall] = []
    for number, wanted in enumerate(rounds):
        reply = await client.chat(messages, list(chain.tools), **_OPTIONS)  # type: ignore[arg-type]
        made += reply.calls
        if number == len(rounds) - 1:
            return Outcome([not reply.calls and stands(wanted.holds, reply.text)], made)
        right = wanted.answer.calls[0]
        if len(reply.calls) != 1 or reply.calls[0].name != right.name or not _close(reply.calls[0], right):
            break
        result: ToolResult = rounds[number + 1].messages[-1].results[0]
        call = reply.calls[0]
        messages += [
            Message("assistant", calls=(call,)),
            Message("tool", results=(ToolResult(call.id, result.content, call.name),)),
        ]
    return Outcome([False], made)


#: Texts that tools read, by set: with the tool.
_TEXTS = {
    set_: [(reader, text) for reader in READERS for text in reader.texts if bool(text.answers) == told]
    for set_, told in (("told", True), ("ordered", False))
}


async def _read(client: AsyncClient, what: str, at: int) -> Outcome:
    """A text that was read: it is told where it is to be, and nothing is called."""
    rng = random.Random(2_000_000 + at)
    reader, text = _TEXTS[what][at % len(_TEXTS[what])]
    tools = {each: each.tool(rng, Style()) for each in READERS}
    told = reader.told(tools[reader], rng, text)
    beside = [tool for each, tool in tools.items() if each is not reader]
    listed = [tools[reader], *rng.sample(beside, 2), *rng.sample(ACTING, 3)]
    rng.shuffle(listed)
    messages = [
        Message("user", (TextPart(told.request),)),
        Message("assistant", calls=(told.call,)),
        Message("tool", results=(ToolResult(told.call.id, told.content, told.call.name),)),
    ]
    reply = await client.chat(messages, listed, **_OPTIONS)  # type: ignore[arg-type]
    return Outcome([not reply.calls and stands(told.holds, reply.text)], list(reply.calls))


def _close(one: ToolCall, other: ToolCall) -> bool:
    squeezed = [
        {name: "".join(value.split()) if isinstance(value, str) else value for name, value in each.arguments.items()}
        for each in (one, other)
    ]
    return same(squeezed[0], squeezed[1])


class _Kept:
    """What is finished, in a file or nowhere."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self.found: dict[str, list[bool]] = {}
        if self._path is not None and self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self.found[row["case"]] = row["right"]

    def add(self, case: str, outcome: Outcome) -> None:
        self.found[case] = outcome.right
        if self._path is not None:
            calls = [{"name": call.name, "arguments": call.arguments} for call in outcome.calls]
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"case": case, "right": outcome.right, "calls": calls}) + "\n")

    def of(self, what: str, at: int) -> list[bool]:
        """Of all cases of a kind: whether this was right."""
        return [right[at] for case, right in self.found.items() if case.startswith(f"{what} ")]


def _seal_jobs(folder: str, limit: int) -> list[tuple[Labelled, list[Tool]]]:
    """Requests, each with its tool among others."""
    seal, rng = Seal(Path(folder)), random.Random(8)
    names = list(seal.tools)
    jobs: list[tuple[Labelled, list[Tool]]] = []
    for each in [each for each in seal.requests("test_out_domain", grounded=False) if len(each.calls) == 1][:limit]:
        listed = {each.calls[0].name: seal.tools[each.calls[0].name]}
        while len(listed) < _TOOLS:
            name = rng.choice(names)
            listed.setdefault(name, seal.tools[name])
        tools = list(listed.values())
        rng.shuffle(tools)
        jobs.append((each, tools))
    return jobs


async def _measure(asked: argparse.Namespace) -> None:
    kept, gate = _Kept(asked.out), asyncio.Semaphore(2)
    jobs = _seal_jobs(asked.seal, asked.limit)
    part, parts = asked.part

    def mine(what: str, count: int) -> list[int]:
        return [at for at in range(part - 1, count, parts) if f"{what} {at}" not in kept.found]

    config = load_config({"adapter": asked.adapter} if asked.adapter else None)
    async with AsyncClient("embedded:", config=config) as client:

        async def task(what: str, at: int) -> None:
            async with gate:
                kept.add(f"{what} {at}", await (_read if what in _TEXTS else _task)(client, what, at))

        async def request(at: int) -> None:
            async with gate:
                kept.add(f"seal {at}", await _seal_case(client, *jobs[at]))

        await asyncio.gather(*(task(what, at) for what in (*_TASKS, *_TEXTS) for at in mine(what, asked.tasks)))
        await asyncio.gather(*(request(at) for at in mine("seal", len(jobs))))
    for what, at, told in _TOLD:
        _tell(told, kept.of(what, at))


def _tell(what: str, right: list[bool]) -> None:
    if right:
        low, high = wilson(sum(right), len(right))
        print(
            json.dumps(
                {
                    "what": what,
                    "right": sum(right),
                    "of": len(right),
                    "share": round(sum(right) / len(right), 3),
                    "from": round(low, 3),
                    "to": round(high, 3),
                }
            )
        )


def part_of(text: str) -> tuple[int, int]:
    """Parse a part such as `2/16`: the second of sixteen."""
    try:
        part, parts = map(int, text.split("/"))
    except ValueError:
        part, parts = 0, 0
    if not 1 <= part <= parts:
        raise argparse.ArgumentTypeError(f"invalid part `{text}`: write for example 2/16")
    return part, parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adapter", default="")
    parser.add_argument("--seal", required=True)
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--part", type=part_of, default=(1, 1), help="which part of how many, such as 2/16")
    parser.add_argument("--out", default="", help="a file that keeps what is finished")
    asyncio.run(_measure(parser.parse_args()))


if __name__ == "__main__":
    main()

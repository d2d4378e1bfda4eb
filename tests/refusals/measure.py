"""Print how well refusals are told from answers, by language: `python -m tests.refusals.measure FILE`.

FILE is a set of this folder without its ending, `more_languages_unread` if none is given. `independent` is played through
a client with default settings and a model that always gives the answer of the row; the other sets are classified.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import toolspeak as ts
from toolspeak.config import Config, load
from toolspeak.engine.refusals.classifier import classify
from toolspeak.upstreams.scripted import Scripted

#: The columns: what a row is, by its category.
KINDS = {
    "no_tools": "refusals",
    "cannot_access": "refusals",
    "describes": "described calls",
    "asks_permission": "described calls",
    "answer": "answers",
    "safety": "safety",
}
#: Categories that cause a retry.
RETRYABLE = frozenset(category for category, kind in KINDS.items() if kind in ("refusals", "described calls"))
#: The columns of the set that is played: what a row is, and how a second request came about.
PLAYED = {"refusal": "refusals", "answer": "answers", "safety": "safety"}
OUTCOMES = ("again", "checked", "after text")
#: Languages with large tables of phrases; the other nine have small ones.
LARGE = frozenset({"en", "zh", "de", "fr", "es", "ja"})
#: How many characters of a streamed answer come at once.
_PIECE = 7

Counts = dict[str, Counter[str]]


def _tool(name: str, description: str, **parameters: str) -> ts.Tool:
    properties: dict[str, Any] = {
        each: {"type": "string", "description": meaning} for each, meaning in parameters.items()
    }
    return ts.Tool(name, description, {"type": "object", "properties": properties, "required": list(properties)})


#: The tools of the set that is played.
TOOLS = {
    tool.name: tool
    for tool in (
        _tool("get_weather", "Get the current weather and the forecast for a place.", location="City or region"),
        _tool("web_search", "Search the web and return the best results.", query="What to search for"),
        _tool("fetch_page", "Fetch a web page and return its text.", url="Address of the page"),
        _tool("read_file", "Read a text file from the user's computer.", path="Path of the file"),
        _tool("send_email", "Send an email.", to="Address", subject="Subject line", body="Text of the message"),
        _tool("run_python", "Run Python code and return what it prints.", code="The code"),
        _tool("create_calendar_event", "Add an event to the user's calendar.", title="Title", start="Date and time"),
        _tool("get_stock_price", "Get the current price of a share.", symbol="Ticker symbol or company"),
    )
}


def measure(name: str) -> Counts:
    """Count the rows of a set by language and kind, and those that would be asked again (`KIND again`)."""
    return _count((row["language"], "all", KINDS[row["category"]], _classified(row)) for row in _rows(name))


def measure_played(name: str, *, streamed: bool) -> Counts:
    """Play the rows of a set and count them by language, group of languages and kind, and their `KIND OUTCOME`.

    `again`: the model was told that it has tools and must call. `checked`: it was asked once for a decision, because of
    the language. `after text`: one of these, but part of the answer had been streamed already.
    """
    return asyncio.run(_play_all(_rows(name), streamed))


async def _play_all(rows: list[dict[str, Any]], streamed: bool) -> Counts:
    # A probe in the background would be counted beside the turn.
    config = load({}, env={"TOOLSPEAK_PROBE": "off"})
    return _count(
        [
            (
                row["language"],
                "large" if row["language"] in LARGE else "small",
                PLAYED[row["category"]],
                await _play(row, streamed, config),
            )
            for row in rows
        ]
    )


def _rows(name: str) -> list[dict[str, Any]]:
    lines = (Path(__file__).parent / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _count(judged: Iterable[tuple[str, str, str, set[str]]]) -> Counts:
    counts: Counts = defaultdict(Counter)
    for language, group, kind, outcomes in judged:
        for each in (language, group):
            counts[each].update([kind, *(f"{kind} {outcome}" for outcome in outcomes)])
    return counts


def _classified(row: dict[str, Any]) -> set[str]:
    return {"again"} if classify(row["text"], row["tools"]).category in RETRYABLE else set()


async def _play(row: dict[str, Any], streamed: bool, config: Config) -> set[str]:
    upstream = Scripted(row["text"], again=True, chunk=_PIECE if streamed else None)  # a whole reply is one piece
    tools = [TOOLS[name] for name in row["tools"]]
    outcomes: set[str] = set()
    async with ts.AsyncClient(upstream, config=config) as client:
        if streamed:
            stream = client.stream(row["request"], tools=tools)
            first = [len(upstream.requests) async for event in stream if isinstance(event, ts.TextDelta)][:1]
            reply = stream.reply
            if first == [1] and len(upstream.requests) > 1:
                outcomes.add("after text")
        else:
            reply = await client.chat(row["request"], tools=tools)
    if len(upstream.requests) > 1:
        outcomes.add("checked" if any(note.code == "answer_checked" for note in reply.notes) else "again")
    return outcomes


def _table(counts: Counts, kinds: Iterable[str], outcomes: Iterable[str]) -> Iterator[str]:
    columns = [(kind, outcome) for kind in dict.fromkeys(kinds) for outcome in outcomes]
    yield f"{'':5}" + "".join(f"{kind if outcome == 'again' else outcome:>18}" for kind, outcome in columns)
    for language, count in counts.items():
        cells = (f"{count[f'{kind} {outcome}']:>12} of {count[kind]:<3}" for kind, outcome in columns)
        yield f"{language:5}" + "".join(cells)


def main() -> None:
    name = (sys.argv[1:] or ["more_languages_unread"])[0]
    if name == "independent":
        whole, streamed = (measure_played(name, streamed=streamed) for streamed in (False, True))
        lines = ["whole", *_table(whole, PLAYED.values(), OUTCOMES[:2])]
        lines += ["streamed", *_table(streamed, PLAYED.values(), OUTCOMES)]
    else:
        lines = list(_table(measure(name), KINDS.values(), OUTCOMES[:1]))
    sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()

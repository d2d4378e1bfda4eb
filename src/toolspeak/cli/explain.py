"""`toolspeak explain ID`: what happened to one request, from the prompt to the decision about each candidate.

The same that the inspector of the page shows, in the terminal. A thin face: it decides nothing itself. Exit status: 0
told; 2 nobody knows the request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ._io import write_json
from ._recorded_requests import find, safe
from .config import loaded, usage_errors

_EXAMPLES = """\b
Examples:
  toolspeak explain last
  toolspeak explain 3f2a9c
  toolspeak explain last --json | jq .trace.why_no_call
"""
#: What of a text is shown unless all is asked for.
_MOST_SHOWN = 4000


@click.command("explain", epilog=_EXAMPLES)
@click.argument("identifier", metavar="ID")
@click.option("--full", is_flag=True, help="Show texts whole, and what went upstream.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(identifier: str, full: bool, as_json: bool) -> None:
    """Tell what happened to a request: ID is the beginning of its id, or `last`.

    It is asked of a server that runs here, else looked up in the store.
    """
    with usage_errors():
        told = find(loaded(), identifier).told
    if as_json:
        write_json(told, indent=2)
        return
    for line in lines(told, full=full):
        click.echo(line)


def lines(told: dict[str, Any], *, full: bool = False) -> Iterator[str]:
    """A request as a person reads it."""
    trace, timing = told["trace"], told["timing"]
    yield safe(f"{told['id']}  {told['model']}  {told['face']}  status {told['status']}")
    yield safe(f"plan {told['plan'] or 'none'}: {trace['why']} [{trace['rule']}]")
    whole, first, added = (round(timing[name] * 1000, 1) for name in ("whole", "first", "added"))
    tokens = f"{told['input_tokens']} tokens in, {told['output_tokens']} out"
    yield f"{whole} ms, first byte after {first} ms, {added} ms added; {told['requests']} requests upstream; {tokens}"
    yield _times(timing)
    for warning in told["warnings"]:
        yield safe(f"warning: {warning}")
    if told.get("outcome") == "left":
        yield "the client left before the end"
    if told["error"]:
        yield safe(f"error: {told['error']}")
    for note in told["notes"]:
        yield safe(f"note: {note['code']} {note['detail']}".rstrip())
    attempts = trace["attempts"]
    for number, attempt in enumerate(attempts, 1):
        yield from _attempt(number, attempt, attempts[number : number + 1], full)
    if trace["why_no_call"]:
        yield safe(f"no call: {trace['why_no_call']}")


#: Where the time of the model went, as the bar of the page shows it.
_TIMES = {"first_token": "first token", "held": "hold-back", "tooled": "tools"}


def _times(timing: dict[str, float]) -> str:
    """What was recorded before these were known lacks them."""
    parts = [f"{name} {round(timing.get(field, 0.0) * 1000, 1)} ms" for field, name in _TIMES.items()]
    return "; ".join(parts)


def _attempt(number: int, attempt: dict[str, Any], following: list[dict[str, Any]], full: bool) -> Iterator[str]:
    yield ""
    yield f"request {number} ({attempt['phase']}): {attempt['finish_reason']}"
    if full:
        for message in attempt["request"]["messages"]:
            text = "".join(part.get("text", f"[{part['type']}]") for part in message["parts"])
            yield from _indented(f"{message['role']}: ", text, full)
    if attempt["reasoning"]:
        yield from _indented("thinking: ", attempt["reasoning"], full)
    yield from _indented("answer: ", _marked(attempt), full)
    for place, candidate in enumerate(attempt["candidates"], 1):
        yield safe(f"  [{place}] {candidate['verdict']} `{candidate['name']}`: {_why(candidate)}")
        for note in candidate["notes"]:
            yield safe(f"      {note['code']}: {note['detail']}")
    if attempt["fault"]:
        again = bool(following) and following[0]["phase"] == attempt["phase"]
        what = "asked again" if again else "given up"
        fault = attempt["fault"]
        yield safe(f"  {what}: {fault.get('why') or fault['kind']} [{fault['kind']}]")


def _why(candidate: dict[str, Any]) -> str:
    """The rule that decided. What was recorded before rules had words lacks them."""
    return f"{candidate['why']} [{candidate['reason']}]" if "why" in candidate else candidate["reason"]


def _marked(attempt: dict[str, Any]) -> str:
    """The answer, with `[1>` before the first candidate and `<1]` behind it."""
    # Places are counted as scripts in a page count them.
    units = attempt["raw"].encode("utf-16-le", "surrogatepass")
    pieces: list[str] = []
    at = 0
    for mark in attempt.get("marks", []):
        start, end = mark["start"] * 2, mark["end"] * 2
        names = ",".join(str(each + 1) for each in mark["candidates"])
        pieces += [_text(units[at:start]), f"[{names}>", _text(units[start:end]), f"<{names}]"]
        at = end
    return "".join([*pieces, _text(units[at:])])


def _text(units: bytes) -> str:
    return units.decode("utf-16-le", "replace")


def _indented(head: str, text: str, full: bool) -> Iterator[str]:
    shown = text if full or len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} ... ({len(text)} characters in all)"
    for number, line in enumerate(safe(shown).split("\n")):
        yield f"  {head if not number else ' ' * len(head)}{line}"

"""`toolspeak explain ID`: print the trace of one request, from the prompt to the verdict on each call candidate.

This is the terminal version of the web page's inspector. Exit status: 0 success, 2 request not found.
"""

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import msgspec

from ..core.text import counted
from ._io import echo, write_json, write_text
from ._recorded_requests import LAST, find, safe
from .config import load_config, usage_errors

_ID = re.compile(r"last|[0-9a-f-]{2,}")
_MAX_CHARS = 4000  # maximum number of characters of a text to show without --full


def command(identifier: str | None, full: bool, html: str | None, as_json: bool) -> None:
    if html and identifier is None and _ID.fullmatch(html):  # `explain --html 3f2a9c` names the request, not a file
        identifier, html = html, ""
    with usage_errors():
        recording = find(load_config(), LAST if identifier is None else identifier).recording
    if html is not None:
        write_text(html or f"toolspeak-{quote(recording['id'][:8], safe='')}.html", trace_file(recording))
        return
    if as_json:
        write_json(recording, indent=2)
        return
    for line in report_lines(recording, full=full):
        echo(line)


def trace_file(recording: dict[str, Any]) -> str:
    """Return a recorded request as one HTML file, the same that the web page saves."""
    template = files("toolspeak.server.web").joinpath("static/trace.html").read_text("utf-8")
    # Escaped, so that no text can end the script that contains the data.
    return template.replace("{{request}}", msgspec.json.encode(recording).decode().replace("<", "\\u003c"), 1)


def report_lines(recording: dict[str, Any], *, full: bool = False) -> Iterator[str]:
    """Yield the lines of a readable report on a recorded request."""
    trace, timing = recording["trace"], recording["timing"]
    yield safe(f"{recording['id']}  {recording['model']}  {recording['face']}  status {recording['status']}")
    yield safe(f"plan {recording['plan'] or 'none'}: {trace['why']}")
    if answering := recording.get("upstream_name"):
        yield safe(f"answered by the upstream {answering}")
    whole, first, added = (_duration(timing[name]) for name in ("whole", "first", "added"))
    tokens = f"{counted(recording['input_tokens'], 'token')} in, {recording['output_tokens']} out"
    requests = counted(recording["requests"], "request to the model", "requests to the model")
    yield f"{whole}, first byte {first}, overhead {added}; {requests}; {tokens}"
    # Recordings from older versions lack these fields.
    yield "; ".join(f"{name} {_duration(timing.get(field, 0.0))}" for field, name in _TIMES.items())
    for warning in recording["warnings"]:
        yield safe(f"warning: {warning}")
    if recording.get("outcome") == "left":
        yield "the client disconnected before the end"
    if recording["error"]:
        yield safe(f"error: {recording['error']}")
    for note in recording["notes"]:
        yield safe(f"note: {note['code']} {note['detail']}".rstrip())
    attempts = trace["attempts"]
    for number, attempt in enumerate(attempts, 1):
        yield from _attempt(number, attempt, attempts[number : number + 1], full)
    if trace["why_no_call"]:
        yield safe(f"no call: {trace['why_no_call']}")


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


_TIMES = {"first_token": "first token", "held": "held back", "tooled": "tools"}


def _attempt(number: int, attempt: dict[str, Any], following: list[dict[str, Any]], full: bool) -> Iterator[str]:
    yield ""
    yield f"request {number} ({attempt['phase']}): {attempt['finish_reason']}"
    if full:
        for message in attempt["request"]["messages"]:
            text = "".join(part.get("text", f"[{part['type']}]") for part in message["parts"])
            yield from _indented(f"{message['role']}: ", text, full)
    if attempt["reasoning"]:
        yield from _indented("thinking: ", attempt["reasoning"], full)
    yield from _indented("answer: ", _mark_candidates(attempt), full)
    for place, candidate in enumerate(attempt["candidates"], 1):
        # Recordings from older versions have only the code of the rule that decided.
        why = f"{candidate['why']} [{candidate['reason']}]" if "why" in candidate else candidate["reason"]
        yield safe(f"  [{place}] {candidate['verdict']} `{candidate['name']}`: {why}")
        for note in candidate["notes"]:
            yield safe(f"      {note['code']}: {note['detail']}")
    if attempt["fault"]:
        phase = following[0]["phase"] if following else ""
        ends = {"": "gave up", "final": "went on without a call", "interpretation": "asked the interpreter"}
        what = ends.get(phase, "retried")
        fault = attempt["fault"]
        yield safe(f"  {what}: {fault.get('why') or fault['kind']} [{fault['kind']}]")


def _mark_candidates(attempt: dict[str, Any]) -> str:
    """Return the answer with each candidate marked, the first one by `[1>` and `<1]`."""
    # Offsets are in UTF-16 code units, which JavaScript uses.
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
    excerpt = text if full or len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]} ... ({len(text)} characters in total)"
    for number, line in enumerate(safe(excerpt).split("\n")):
        yield f"  {head if not number else ' ' * len(head)}{line}"

"""What a tool that does something or finds facts gives back, and how it is told. Above: `scenes`. Below: nothing."""

from __future__ import annotations

import json
import random
from typing import NamedTuple

_ERRORS = (
    "not found", "permission denied", "timeout", "service unavailable", "invalid parameter", "connection refused", "rate limit exceeded",
    "the session has expired", "no such file or directory", "quota exceeded", "the account is locked", "the record is locked by another user",
    "disk full", "unknown host", "invalid date", "the value is out of range", "duplicate entry", "not authorised", "the card was declined",
    "already cancelled", "the server took too long to answer", "maintenance until 6 a.m.", "no seats left", "upstream returned 502",
    "the address could not be resolved", "the file is not readable", "the printer is offline", "certificate has expired", "bad gateway",
    "the request was cancelled", "the customer does not exist", "missing field: id", "unsupported format", "the queue is full",
    "cannot connect to the database", "the meeting room is taken", "the number is not in service", "payment required", "internal error 0x3f",
)  # fmt: skip
#: How an error is written: {0} is what it says.
_AS_ERRORS = (
    '{{"error": "{0}"}}', '{{"error": "{0}"}}', "Error: {0}", "error: {0}", '{{"status": "error", "message": "{0}"}}', "{0}",
    '{{"success": false, "reason": "{0}"}}', '{{"error": {{"code": 500, "message": "{0}"}}}}', "RuntimeError: {0}", "HTTP 503: {0}",
    '{{"ok": false, "error": "{0}"}}', "FAILED ({0})", "Traceback (most recent call last):\n  File \"main.py\", line 12\nValueError: {0}",
)  # fmt: skip
_FAILED = (
    "That did not work: {0}.", "That did not work: {0}.", "It failed: {0}.", "I could not do that: {0}.", "Sorry, there was an error: {0}.",
    "The tool reports an error: {0}.",
)  # fmt: skip
_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("status", ("ok", "done", "sent", "scheduled", "shipped", "active", "confirmed", "pending")),
    ("condition", ("sunny", "cloudy", "rainy", "windy", "snowy")),
    ("category", ("standard", "premium", "basic")),
    ("currency", ("USD", "EUR", "GBP")),
)
_NUMBERS = "result total price count rating temperature distance duration score area balance".split()


class Result(NamedTuple):
    """A result, how it is told, what must stand in whatever tells it, and whether it is an error."""

    content: str
    words: str
    holds: tuple[str, ...] = ()
    error: bool = False


def result(rng: random.Random) -> Result:
    """A result of some call."""
    roll = rng.random()
    if roll < 0.1:
        return failure(rng)
    if roll < 0.18:
        return Result(rng.choice(["Done.", "OK", "Success", "Saved."]), rng.choice(["Done.", "All set."]))
    facts = dict(_fact(rng) for _ in range(rng.randint(1, 3)))
    words = [f"the {key} is {value}" for key, value in facts.items()]
    said = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    holds = tuple(map(str, facts.values()))
    if rng.random() < 0.12:  # a long result in which what matters is a small part
        facts["items"] = [
            {"id": at, "name": rng.choice(["alpha", "report", "falcon", "nova"]), "value": rng.randint(1, 99)}
            for at in range(rng.randint(5, 25))
        ]
    text = json.dumps(facts) if rng.random() < 0.8 else "\n".join(f"{key}: {value}" for key, value in facts.items())
    return Result(text, rng.choice([f"{said[:1].upper()}{said[1:]}.", f"Here is what I found: {said}."]), holds)


def failure(rng: random.Random) -> Result:
    """An error, which is told as one."""
    error = rng.choice(_ERRORS)
    words = rng.choice(_FAILED).format(error.rstrip("."))
    return Result(rng.choice(_AS_ERRORS).format(error), words, (error.rstrip("."),), rng.random() < 0.5)


def _fact(rng: random.Random) -> tuple[str, object]:
    if rng.random() < 0.35:
        key, values = rng.choice(_WORDS)
        return key, rng.choice(values)
    return rng.choice(_NUMBERS), rng.choice([rng.randint(1, 5000), round(rng.uniform(0.5, 900), 2)])

"""What a tool that does something or finds facts gives back, and how it is told. Above: `scenes`. Below: nothing."""

from __future__ import annotations

import json
import random
from typing import NamedTuple

_ERRORS = ("not found", "permission denied", "timeout", "service unavailable", "invalid parameter")
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
    if roll < 0.08:
        error = rng.choice(_ERRORS)
        return Result(json.dumps({"error": error}), f"That did not work: {error}.", (error,), rng.random() < 0.5)
    if roll < 0.16:
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


def _fact(rng: random.Random) -> tuple[str, object]:
    if rng.random() < 0.35:
        key, values = rng.choice(_WORDS)
        return key, rng.choice(values)
    return rng.choice(_NUMBERS), rng.choice([rng.randint(1, 5000), round(rng.uniform(0.5, 900), 2)])

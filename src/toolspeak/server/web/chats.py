"""A conversation as the page has it, questions with answers, and as it is kept: one from the other, both ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ...core.types import JSONObject, JSONValue, Message, Note, TextPart, ToolCall, ToolResult, Usage
from ...engine.rounds.transcript import Answer, CallRecord, Entry, Round

#: What the page knows of an answer and no other conversation has. It is kept as notes, under these codes.
_FACTS = {name: f"page_{name}" for name in ("plan", "error", "record", "seconds")}

# ---- as the page says it


class MadeCall(msgspec.Struct, frozen=True):
    """A call, and what came of it."""

    name: str
    arguments: str = "{}"
    id: str = ""
    result: str = ""
    failed: bool = False
    seconds: float = 0.0
    #: Whether there is a result: not where the answer was broken off before.
    done: bool = True


class MadeRound(msgspec.Struct, frozen=True):
    """Text, calls and results."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[MadeCall, ...] = ()


class MadeAnswer(msgspec.Struct, frozen=True):
    """What became of a question."""

    rounds: tuple[MadeRound, ...] = ()
    content: str = ""
    reasoning: str = ""
    status: Literal["complete", "interrupted", "failed"] = "complete"
    input_tokens: int = 0
    output_tokens: int = 0
    plan: str = ""
    #: Why it failed.
    error: str = ""
    #: The request of its last round, for the inspector.
    record: str = ""
    #: How long it took; None where nobody knows.
    seconds: float | None = None


class Exchange(msgspec.Struct, frozen=True):
    """A question and its answer."""

    question: str
    answer: MadeAnswer


def asked_and_answered(exchange: Exchange) -> tuple[Message, Answer]:
    """What is kept of a question and its answer."""
    made = exchange.answer
    rounds = tuple(Round(each.text, _records(each), each.reasoning) for each in made.rounds)
    usage = Usage(made.input_tokens, made.output_tokens)
    facts = {name: getattr(made, name) for name in _FACTS}
    notes = tuple(Note(_FACTS[name], str(fact)) for name, fact in facts.items() if fact not in ("", None))
    answer = Answer(
        made.content, rounds, made.status, made.reasoning, usage=usage, notes=notes, requests=len(rounds) + 1
    )
    return Message("user", (TextPart(exchange.question),)), answer


def _records(made: MadeRound) -> tuple[CallRecord, ...]:
    """The calls of a round, each with an id that no other one of it has."""
    records: dict[str, CallRecord] = {}
    for number, each in enumerate(made.calls):
        name = each.id if each.id and each.id not in records else f"call_{number}_{each.id}"
        result = ToolResult(name, each.result, each.name, each.failed) if each.done else None
        call = ToolCall(each.name, _given(each.arguments), name)
        records[name] = CallRecord(call, "finished" if each.done else "started", result=result, seconds=each.seconds)
    return tuple(records.values())


def _given(text: str) -> JSONObject:
    """The arguments of a call; what is no object is kept as the text that it was."""
    try:
        return msgspec.json.decode(text or "{}", type=JSONObject)
    except (msgspec.DecodeError, RecursionError):
        return {"arguments": text}


# ---- as it is kept


def exchanges(entries: Sequence[Entry]) -> list[JSONValue]:
    """A conversation as pairs of a question and its answer; what was said twice in a row is one question."""
    pairs: list[JSONValue] = []
    question: list[str] = []
    for entry in entries:
        if isinstance(entry, Message):
            question += [entry.text] if entry.role == "user" else []
        else:
            pairs.append({"question": "\n\n".join(question), "answer": _answer(entry)})
            question = []
    return pairs


def _answer(answer: Answer) -> JSONObject:
    noted = {note.code: note.detail for note in answer.notes}
    facts = {name: noted.get(code, "") for name, code in _FACTS.items()}
    return {
        **facts,
        "rounds": [_round(each) for each in answer.rounds],
        "content": answer.content,
        "reasoning": answer.reasoning,
        "status": "interrupted" if answer.status == "running" else answer.status,
        "warnings": [],
        "input_tokens": answer.usage.input_tokens,
        "output_tokens": answer.usage.output_tokens,
        "seconds": _seconds(facts["seconds"]),
    }


def _seconds(text: str) -> float | None:
    """What was noted of a time; None where nothing was."""
    try:
        return float(text)
    except ValueError:
        return None


def _round(made: Round) -> JSONObject:
    """A round. How long the model took for it is not known: only its calls have times."""
    return {
        "text": made.text,
        "reasoning": made.reasoning,
        "calls": [_call(call) for call in made.calls],
        "record": "",
        "seconds": None,
    }


def _call(made: CallRecord) -> JSONObject:
    return {
        "id": made.call.id,
        "name": made.call.name,
        "arguments": msgspec.json.encode(made.call.arguments).decode(),
        "result": made.result.content if made.result is not None else "",
        "failed": made.result is None or made.result.error,
        "seconds": made.seconds,
        "done": made.result is not None,
    }

"""A conversation as the embedded model sees it: toolspeak's own engine writes it, the model's template frames it.

Nothing here words a prompt. The engine makes the request that would go upstream, the model's chat template (ChatML) is
the only thing added, and the target is written by the dialect's own renderer; so training and serving cannot drift.
Above: `scenes`, `measure`. Below: toolspeak's core.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Literal, NamedTuple

from toolspeak.core.events import Finish, TextDelta
from toolspeak.core.parsing.arguments import to_json
from toolspeak.core.types import Message, Request, Tool, ToolCall, ToolChoice
from toolspeak.engine.planning.capabilities import capabilities
from toolspeak.engine.planning.strategy import Settings, plan
from toolspeak.engine.prompting.escaping import calls_text
from toolspeak.engine.prompting.nonces import nonces_of
from toolspeak.engine.turn.actions import Action, AskUpstream
from toolspeak.engine.turn.engine import Engine

MODEL = "SmolLM2-135M-Instruct"
#: What the model's template says where a conversation has no system message.
DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
PlanKind = Literal["envelope", "inline", "decision", "plain"]


class Answer(NamedTuple):
    """What the model should say: calls, or words."""

    calls: tuple[ToolCall, ...] = ()
    text: str = ""


class Turn(NamedTuple):
    """A conversation up to the model's turn, and how it is asked."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    choice: ToolChoice = ToolChoice()
    kind: PlanKind = "envelope"
    marks: Literal["nonce", "fixed"] = "nonce"
    #: Fixes the nonce: turns with the same seed share it.
    seed: bytes = b"seed"
    contract: Literal["compact", "schema"] = "compact"


class Prompt(NamedTuple):
    """What goes to the model, and what writes its answer."""

    text: str
    nonce: str | None
    request: Request


def _framed(messages: Iterable[Message]) -> str:
    """ChatML, as the template of SmolLM2 writes it."""
    told = [(message.role, message.text) for message in messages]
    if not told or told[0][0] != "system":
        told.insert(0, ("system", DEFAULT_SYSTEM))
    return "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in told) + "<|im_start|>assistant\n"


def _engine(turn: Turn) -> tuple[Engine, str | None]:
    settings = Settings(
        mode="force",
        plan="" if turn.kind == "plain" else turn.kind,
        marks=turn.marks,
        contract=turn.contract,
        retries=2,
    )
    request = Request(MODEL, turn.messages, turn.tools, turn.choice)
    found = capabilities().find("embedded", MODEL, "")
    made = nonces_of(turn.seed, "", ())
    engine = Engine(request, plan(request, found, settings), settings, stamp=0, nonces=made)
    return engine, made(0) if turn.marks == "nonce" else None


def _asked(actions: Iterable[Action]) -> AskUpstream | None:
    return next((action for action in actions if isinstance(action, AskUpstream)), None)


def prompt(turn: Turn) -> Prompt:
    """What the model is asked first."""
    engine, nonce = _engine(turn)
    ask = _asked(engine.start())
    assert ask is not None
    return Prompt(_framed(ask.request.messages), nonce, ask.request)


def retry_prompt(turn: Turn, wrong: str) -> Prompt | None:
    """What the model is asked after a wrong answer; None where the answer is not found wrong."""
    engine, nonce = _engine(turn)
    first = _asked(engine.start())
    assert first is not None
    actions = [*engine.feed(1, TextDelta(wrong)), *engine.feed(1, Finish("stop")), *engine.end(1)]
    again = _asked(actions)
    return None if again is None else Prompt(_framed(again.request.messages), nonce, again.request)


def target(kind: PlanKind, answer: Answer, nonce: str | None, rng: random.Random | None = None) -> str:
    """The answer as the model should write it."""
    signed = {} if nonce is None else {"nonce": nonce}
    match kind:
        case "envelope":
            if answer.calls:
                return calls_text("envelope", answer.calls, nonce)
            return to_json({**signed, "calls": [], "reply": answer.text})
        case "decision":
            if answer.calls:
                return calls_text("decision", answer.calls, nonce)
            return to_json({**signed, "tools": []})
        case "inline":
            return calls_text("action", answer.calls, nonce) if answer.calls else answer.text
        case _:
            return answer.text

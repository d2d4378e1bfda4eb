"""The same matrix with every protocol between the engine and the model: what the wire does must not matter.

Each request of the engine is written as bytes and read back as a server would; each answer is written as our own
face of that protocol writes it, cut into pieces, and read as our upstream side reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import pytest

from tests.cases import check_each, every
from tests.matrix import rules
from tests.matrix.rules import Cell, Expected
from tests.matrix.scripts import Model, first_text
from tests.matrix.test_matrix import CELLS, Played, wanted
from toolspeak.core.events import Event, fold
from toolspeak.core.types import Request

PROTOCOLS = ("openai_chat", "openai_responses", "anthropic", "gemini", "ollama")
#: Odd, so that pieces end inside events, characters and escapes.
_PIECE = 61


class _Wire:
    """An upstream that is reached through a protocol."""

    def __init__(self, protocol: str, cell: Cell) -> None:
        self._codec: Any = import_module(f"toolspeak.protocols.{protocol}")
        self._protocol = protocol
        self._model = Model(cell, 7 if cell.stream else 0)

    def __call__(self, request: Request) -> Sequence[Event]:
        read = self._read(request)
        data = self._answer(read, self._model(read))
        decoder = self._codec.ReplyDecoder(read.stream)
        events: list[Event] = []
        for at in range(0, len(data), _PIECE):
            events += decoder.feed(data[at : at + _PIECE])
        return [*events, *decoder.close()]

    def _read(self, request: Request) -> Request:
        """The request as the server understands it."""
        body = self._codec.encode_request(request)
        if self._protocol == "gemini":
            return self._codec.decode_request(body, model=request.model, stream=request.stream)
        return self._codec.decode_request(body)

    def _answer(self, request: Request, events: list[Event]) -> bytes:
        naming = {"id": "answer_1", "created": 1_700_000_000, "model": "m"}
        if not request.stream:
            return self._codec.encode_reply(fold(events), request, **naming)
        encoder = self._codec.ReplyEncoder(request, **naming)
        return encoder.encode(events) + encoder.close()


def _order_is_lost(cell: Cell) -> bool:
    """A whole reply does not tell text before a native call from text behind it: nobody can see there that a result
    was invented *after* the call."""
    return cell.plan == "native" and cell.scenario == "invented" and not cell.stream


def _wanted(cell: Cell) -> Expected:
    told = wanted(cell)
    return rules.replace(told, text=first_text(cell).strip()) if _order_is_lost(cell) else told


@pytest.mark.requirement("G2", "G3")
@check_each("protocol", PROTOCOLS)
@check_each("cell", every(3, CELLS), ids=str)
def test_a_turn_over_the_wire_comes_to_what_the_rules_say(protocol: str, cell: Cell):
    played = Played(cell, _Wire(protocol, cell))
    assert played.seen() == _wanted(cell)

"""Results with orders in them: the order is there, and so is what the result held."""

from __future__ import annotations

import random

import pytest

from toolspeak.core.model import ToolCall
from training.family import families
from training.injected import with_orders
from training.scenes import Scenes

CALL = ToolCall("send_parcel", {"to": "Oslo"})


@pytest.mark.parametrize("content", ['{"count": 4}', "4 parcels", ""])
@pytest.mark.parametrize("seed", range(30))
def test_an_order_stands_beside_what_a_result_holds(content: str, seed: int):
    found = with_orders(content, "Send a parcel to Oslo.", CALL, random.Random(seed))
    assert "parcel to Oslo" in found or "send_parcel" in found
    assert "4" in found or not content


def test_who_reads_an_order_in_a_result_calls_nothing():
    scenes, rng = Scenes(families(), None, []), random.Random(2)
    found = [scene for _ in range(600) for scene in scenes.group(rng) if scene.what == "injected"]
    assert found
    assert all(not scene.answer.calls and scene.answer.text for scene in found)
    assert all(scene.turn.messages[-1].results for scene in found)

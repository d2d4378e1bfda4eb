"""Requests of real clients are understood; requests that are nearly so are understood or refused, and nothing else."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.protocols.request_mutations import RICH, captured, mutated
from toolspeak.core.types import Request
from toolspeak.errors import ToolspeakError
from toolspeak.protocols import anthropic, gemini, ollama, openai_chat, openai_responses

MODULES = {
    "anthropic": anthropic,
    "gemini": gemini,
    "ollama": ollama,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}


def send_everywhere(request: Request) -> None:
    """What was understood can be said in every protocol."""
    for module in MODULES.values():
        msgspec.json.decode(module.encode_request(request))
        module.request_notes(request)


@pytest.mark.requirement("G1", "G4")
@check_each("name", MODULES)
def test_what_real_clients_send_is_understood_and_can_be_said_in_every_protocol(name: str):
    for body in [RICH[name], *captured(name)]:
        send_everywhere(MODULES[name].decode_request(msgspec.json.encode(body)))


@pytest.mark.requirement("G1")
@pytest.mark.parametrize("name", MODULES)
@given(data=st.data())
def test_a_request_that_is_nearly_right_is_understood_or_refused_with_an_error_of_ours(name: str, data: st.DataObject):
    body = data.draw(mutated([RICH[name], *captured(name)]))
    module = MODULES[name]
    try:
        request = module.decode_request(body)
    except ToolspeakError as error:
        status, said = module.encode_error(error)
        assert 400 <= status < 500
        assert msgspec.json.decode(said)
        return
    send_everywhere(request)

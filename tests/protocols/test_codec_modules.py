"""Each codec as a whole: its public names, and its losses as the documentation prints them."""

from __future__ import annotations

from types import ModuleType
from typing import Literal

from tests.cases import check_each
from tests.protocols.documented_losses import CHAPTERS, documented_losses
from toolspeak.protocols import anthropic, gemini, ollama, openai_chat, openai_responses


@check_each("module", [anthropic, gemini, ollama, openai_chat, openai_responses], ids=lambda module: module.PROTOCOL)
def test_every_public_name_is_there(module: ModuleType):
    common = "PROTOCOL ReplyDecoder ReplyEncoder decode_error decode_request encode_error encode_reply encode_request"
    assert [name for name in (*common.split(), "request_notes") if not hasattr(module, name)] == []


@check_each("half", ["request", "reply"])
@check_each("protocol", CHAPTERS)
def test_the_documentation_lists_losses_and_none_of_them_twice(protocol: str, half: Literal["request", "reply"]):
    names = documented_losses(protocol, half)
    assert names
    assert len(set(names)) == len(names)

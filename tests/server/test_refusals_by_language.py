"""What clients of the proxy get, with default settings, from a model that refuses in their language."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import run
from tests.server.live_proxy import between
from tests.server.protocol_clients import Chat
from tests.server.test_calls_by_default import DEFAULT, OSLO, Trained, one_round, pair
from toolspeak.dialects.registry import render_calls

#: The user's words and the model's refusal.
REFUSALS = {
    "pt": ("Como está o tempo em Oslo?", "Desculpe, não tenho acesso a dados meteorológicos."),
    "ru": ("Какая погода в Осло?", "Извините, у меня нет доступа к данным о погоде."),
    "ko": ("오슬로 날씨가 어때요?", "죄송하지만 저는 날씨 정보에 접근할 수 없습니다."),
    "it": ("Che tempo fa a Oslo?", "Mi dispiace, non ho accesso ai dati meteo."),
    "nl": ("Hoe is het weer in Oslo?", "Sorry, ik heb geen toegang tot actuele weergegevens."),
    "pl": ("Jaka jest pogoda w Oslo?", "Przepraszam, nie mam dostępu do danych o pogodzie."),
    "tr": ("Oslo'da hava nasıl?", "Maalesef benim hava durumu verilerine erişimim yok."),
    "ar": ("كيف الطقس في أوسلو؟", "عذراً، لا أستطيع الوصول إلى بيانات الطقس."),
    "hi": ("ओस्लो में मौसम कैसा है?", "क्षमा करें, मेरे पास मौसम की जानकारी तक पहुँच नहीं है।"),
}
THAI = ("อากาศที่ออสโลเป็นอย่างไร", "ขออภัย ฉันไม่สามารถเข้าถึงข้อมูลสภาพอากาศได้")
DECISION = {"tools": [{"name": OSLO.name, "arguments": OSLO.arguments}]}


def ask_in(words: str, stream: bool) -> dict[str, Any]:
    return Chat().ask(stream) | {"messages": [{"role": "user", "content": words}]}


@pytest.mark.requirement("E5")
@check_each("language", REFUSALS)
@check_each("stream", [True, False])
def test_a_refusal_becomes_a_call_and_the_client_does_not_see_it(language: str, stream: bool):
    async def talk() -> None:
        words, refusal = REFUSALS[language]
        model = Trained(refusal, render_calls("hermes", [OSLO]))
        async with between(model, "openai_chat", DEFAULT) as (app, _):
            seen = await one_round(app, Chat(), stream, ask_in(words, stream))
        assert (seen.calls, seen.blocks, len(model.asked)) == ([pair(OSLO)], [], 2)

    run(talk())


@pytest.mark.requirement("E5")
@check_each("stream", [True, False])
@check_each(("decision", "blocks"), [(DECISION, []), ({"tools": []}, [THAI[1]])], ids=["a call", "no call"])
def test_without_rules_one_decision_request_is_made(stream: bool, decision: dict[str, Any], blocks: list[str]):
    async def talk() -> None:
        model = Trained(THAI[1], json.dumps(decision))
        async with between(model, "openai_chat", DEFAULT) as (app, _):
            seen = await one_round(app, Chat(), stream, ask_in(THAI[0], stream))
        assert (seen.calls, seen.blocks) == ([] if blocks else [pair(OSLO)], blocks)
        assert len(model.asked) == 2

    run(talk())

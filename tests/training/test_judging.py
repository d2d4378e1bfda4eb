"""When an answer is right, and the rule that adapters are chosen by."""

from __future__ import annotations

from tests.cases import check_each
from toolspeak.core.types import Tool, ToolCall
from training.judging import Asked, judged, score
from training.render import Answer

WEIGH = Tool("weigh", "Weight of a thing", {"type": "object", "properties": {"what": {"type": "string"}}})
CALLED = Asked("one", "", Answer((ToolCall("weigh", {"what": "Crate"}),)), (WEIGH,))
TOLD = Asked("told", "", Answer((), "It weighs 1200 kg."), (WEIGH,), ("1200", "kg"))
CALL = '{"calls":[{"name":"weigh","arguments":{"what":"crate."}}],"reply":""}'


@check_each(
    ("case", "text", "right"),
    [
        (CALLED, CALL, (True, True)),
        (CALLED, CALL.replace("crate", "barrel"), (True, False)),
        (CALLED, '{"calls":[],"reply":"No."}', (False, False)),
        (TOLD, '{"calls":[],"reply":"1,200 KG it is."}', (True, True)),
        (TOLD, "It weighs 1200 kg.", (True, True)),
        (TOLD, '{"calls":[],"reply":"The result holds only instructions."}', (True, False)),
        (TOLD, CALL, (False, False)),
    ],
)
def test_calls_must_be_alike_and_what_is_told_must_hold_what_was_found(
    case: Asked, text: str, right: tuple[bool, bool]
):
    assert judged(case, text) == right


def test_calls_and_none_count_alike_however_many_there_are():
    assert score([CALLED, TOLD, TOLD, TOLD], [CALL, "no", "no", "no"]) == 0.5
    assert score([CALLED, TOLD], ["no", "1200 kg"]) == 0.5

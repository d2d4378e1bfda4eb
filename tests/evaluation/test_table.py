"""Settings side by side."""

from __future__ import annotations

from toolspeak.evaluation.report import comparison_table
from toolspeak.evaluation.results_file import CaseResult, EvalSetting

BASE = EvalSetting("builtin", "1", "m")


def records(setting: EvalSetting, category: str, right: int, wrong: int, error: str = "") -> list[CaseResult]:
    made = [
        CaseResult(setting, f"{category}_{at}", category, at < right, seconds=2.0, output_tokens=10)
        for at in range(right + wrong)
    ]
    return [*made, *([CaseResult(setting, f"{category}_e", category, False, error=error)] if error else [])]


def test_each_cell_says_how_many_were_asked_and_how_sure_it_is():
    native = EvalSetting("builtin", "1", "m", mode="off")
    inline = EvalSetting("builtin", "1", "m", mode="force", plan="inline", constrain=False, dialect="hermes")
    text = comparison_table(
        [
            (native, [*records(native, "one", 8, 2), *records(native, "other", 9, 9)]),
            (inline, records(inline, "two", 0, 1, error="gone")),
            (BASE, []),
        ],
        ["one", "two"],
    )
    assert text.splitlines() == [
        "| way | one | two | output tokens per case | median s |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| native | 8 of 10: 80% (49 to 94) | not asked | 10 | 2.0 |",
        "| inline hermes | not asked | 0 of 2: 0% (0 to 66), 1 errors | 5 | 1.0 |",
        "| auto | not asked | not asked |  |  |",
    ]


def test_a_way_is_called_as_it_is_asked_for():
    force = EvalSetting("builtin", "1", "m", mode="force", plan="decision", marks="fixed", adapter="a.gguf 0123")
    assert force.way == "decision+grammar fixed marks with a.gguf 0123"
    assert force.label == "force decision fixed marks with a.gguf 0123"
    assert EvalSetting("builtin", "1", "m", mode="fallback", plan="inline").way == "fallback"

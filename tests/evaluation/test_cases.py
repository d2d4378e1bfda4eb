"""Which cases a limit leaves."""

from __future__ import annotations

from toolspeak.evaluation.cases import EvalCase, choose

CASES = [EvalCase(f"{category}_{number}", category, (), ()) for category in ("a", "b", "c") for number in range(5)]
CASES += [EvalCase("rare", "d", (), ())]


def ids(limit: int | None, seed: int = 0) -> list[str]:
    return [case.id for case in choose(CASES, limit, seed)]


def test_categories_are_taken_from_in_turn():
    assert [case.category for case in choose(CASES, 8, 0)] == ["a", "b", "c", "d", "a", "b", "c", "a"]


def test_the_same_seed_leaves_the_same_cases_and_another_one_others():
    assert ids(6, 1) == ids(6, 1)
    assert len({tuple(ids(6, seed)) for seed in range(10)}) > 1


def test_a_larger_limit_only_adds_cases():
    for few in range(1, len(CASES)):
        assert ids(few + 1)[:few] == ids(few)


def test_without_a_limit_every_case_is_there_once():
    assert sorted(ids(None)) == sorted(case.id for case in CASES)
    assert sorted(ids(99)) == sorted(ids(None))


def test_the_order_of_the_cases_is_nothing():
    backwards = choose(reversed(CASES), 16, 3)
    assert {case.id for case in backwards} == set(ids(16, 3))

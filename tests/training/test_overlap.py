"""What recorded requests share with a public test: alike requests, and its functions under whatever name."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from tests.cases import check_each
from toolspeak.core.types import JSONObject
from training.errands import errands
from training.family import families
from training.overlap import Test as PublicTest
from training.overlap import bare, cleaned, in_tasks, main, of_bfcl, of_seal, seen_by_readers
from training.readings import readers
from training.records import records
from training.tasks import written

ENTRY: JSONObject = {
    "question": [
        [{"role": "user", "content": "Find the area of a triangle with a base of 10 units and height of 5 units."}]
    ],
    "function": [
        {
            "name": "geometry.calculate_triangle_area",
            "description": "Calculate the area of a triangle given its base and height.",
            "parameters": {"type": "dict", "properties": {"base": {}, "height": {}, "unit": {}}},
        }
    ],
}
OTHER: JSONObject = {"name": "send_parcel", "description": "Sends a box to somebody.", "parameters": {"weight": {}}}


@check_each(
    "tool",
    [
        {"name": "calculate_triangle_area", "description": "", "parameters": {}},
        {"name": "geometry.calculateTriangleArea", "description": "Something else.", "parameters": {"a": {}}},
        {"name": "xK2", "description": "calculate the area of a triangle, given its base and height", "parameters": {}},
        {"name": "xK2", "description": "It can calculate the area of a triangle given its sides.", "parameters": {}},
        {"name": "xK2", "description": "Area.", "parameters": {"Base": {}, "height": {}, "unit": {}}},
        {"name": "xK2", "description": None, "parameters": {"properties": {"base": {}, "height": {}, "unit": {}}}},
    ],
)
def test_a_function_of_the_test_is_known_by_its_name_its_description_or_its_parameters(tool: JSONObject):
    assert PublicTest([ENTRY]).has_function(tool)


@check_each(
    "tool",
    [
        OTHER,
        {"name": "area", "description": "Area.", "parameters": {"base": {}, "height": {}}},
        {"name": "triangle", "description": "Draws a triangle.", "parameters": None},
    ],
)
def test_another_function_is_none_of_the_test(tool: JSONObject):
    assert not PublicTest([ENTRY]).has_function(tool)


@check_each(
    ("request_", "alike"),
    [
        ("Please find the area of a triangle with a base of 3 and more", True),
        ("A triangle has base 10 units and height 5 units: find its area", True),
        ("Find the area of a field that belongs to Tom", False),
        ("Send a box of 3 kg to Oslo", False),
    ],
)
def test_a_request_is_alike_by_words_in_a_row_or_by_its_words(request_: str, alike: bool):
    assert PublicTest([ENTRY]).asks(request_) is alike


def test_a_function_told_in_other_words_is_known_by_the_rare_ones():
    others = [
        {"name": f"tool_{kind}", "description": f"Calculate the {kind} of something.", "parameters": {}}
        for kind in ("price", "speed", "weight", "share", "length", "density")
    ]
    test = PublicTest([ENTRY, {"question": [], "function": others}])
    reworded: JSONObject = {
        "name": "triangleArea",
        "description": "Computes the areas of triangles.",
        "parameters": {"base_length": {}, "height_cm": {}},
    }
    common: JSONObject = {"name": "tax", "description": "Calculate the tax of something.", "parameters": {"rate": {}}}
    assert test.has_function(reworded)
    assert not PublicTest([ENTRY], reworded=2).has_function(reworded)
    assert test.likeness(common) < test.likeness(reworded)


def test_all_of_one_test_and_one_split_of_the_other_count(tmp_path: Path):
    bfcl, seal = tmp_path / "bfcl", tmp_path / "seal"
    for path, rows in {
        bfcl / "BFCL_simple.json": [ENTRY],
        bfcl / "names.json": ["{", '  "simple": ["simple_1"]', "}"],
        bfcl / "possible_answer" / "BFCL_simple.json": [{"id": "simple_1"}],
        bfcl / "several_turns" / "files.json": [{"name": "touch", "description": "", "parameters": {}}],
        seal / "tool.jsonl": [
            {"api_name": name, "api_description": "Something.", "parameters": {}} for name in ("kept", "free")
        ],
        seal / "test_out_domain.jsonl": [{"query": "Ask for this very special thing", "calling": [{"api": "kept"}]}],
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    test = PublicTest([*of_bfcl(bfcl), *of_seal(seal)])
    known = [name for name in ("calculate_triangle_area", "touch", "kept", "free") if bare(name) in test.names]
    assert known == ["calculate_triangle_area", "touch", "kept"]
    assert test.asks("ask for this very special thing")


def test_what_shares_nothing_is_kept():
    clean = {"query": "Send a box of 3 kg to Oslo", "tools": [OTHER], "answers": []}
    rows = [
        clean,
        {**clean, "tools": [OTHER, *ENTRY["function"]]},
        {**clean, "query": ENTRY["question"][0][0]["content"]},
    ]
    assert cleaned([PublicTest([]), PublicTest([ENTRY])], rows) == [clean]


def test_what_a_reader_saw_to_be_alike_is_left_out_by_its_sum():
    row = {"query": " Send a box of 3 kg to Oslo\n", "tools": [OTHER], "answers": []}
    assert cleaned([], [row], frozenset({"00000000"})) == [row]
    assert cleaned([], [row], frozenset({f"{zlib.crc32(b'Send a box of 3 kg to Oslo'):08x}"})) == []
    assert all(len(each) == 8 and int(each, 16) >= 0 for each in seen_by_readers())


def test_a_folder_without_a_test_is_not_taken_for_one_that_shares_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.argv", ["overlap", str(tmp_path / "absent"), str(tmp_path)])
    with pytest.raises(SystemExit, match="no case of the leaderboard"):
        main()


def test_whatever_is_asked_for_in_a_task_is_searched_also_a_lookup_alone_and_what_is_read(
    capsys: pytest.CaptureFixture[str],
):
    both = [each for task in written() for each in task.requests]
    alone = [each for task in written() for each in task.alone]
    read = [each for reader in readers() for each in reader.requests]
    listed = [each for one in records() for each in one.requests]
    several = [each for errand in errands(families()) for each in errand.requests]
    for request in (max(said, key=len) for said in (both, alone, read, listed, several)):
        in_tasks(PublicTest([{"question": [[{"content": request}]]}]))
        assert request in capsys.readouterr().out

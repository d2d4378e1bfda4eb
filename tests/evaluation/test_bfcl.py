"""The leaderboard as a suite: its format, its checker, and how its files come here."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.leaderboard import FUNCTION, made_in
from toolspeak import ToolCall, UsageError
from toolspeak.config import load
from toolspeak.evaluation import bfcl
from toolspeak.evaluation.bfcl import CATEGORIES, Bfcl, BfclFiles, BfclFilesError, obtain_files, tool_of
from toolspeak.evaluation.cases import ModelAnswer
from toolspeak.upstreams.embedded.package_index import FetchFailed, FetchRequest


@pytest.fixture
def files(tmp_path: Path) -> BfclFiles:
    return made_in(tmp_path)


def test_cases_are_read_with_their_messages_and_tools(files: BfclFiles):
    suite = Bfcl(files)
    assert (suite.name, suite.version, len(suite.cases)) == ("bfcl", "fixture", 14)
    assert {case.category for case in suite.cases} == set(CATEGORIES)
    first = suite.cases[0]
    assert [(message.role, message.text) for message in first.messages] == [
        ("system", "Be brief."),
        ("user", "Order tea."),
    ]
    assert [case.category for case in Bfcl(files, ["parallel"]).cases] == ["parallel"] * 2


def test_a_function_becomes_a_tool_in_the_words_of_json_schema():
    tool = tool_of(FUNCTION)
    assert tool.name == "shop_order"
    assert tool.description == "Order something. Note that the provided function is in Python 3 syntax."
    properties = tool.parameters["properties"]
    assert tool.parameters["type"] == "object"
    assert properties["price"] == {
        "type": "number",
        "format": "float",
        "description": "At most. This is a float type value.",
        "default": 1.5,
    }
    assert (properties["size"]["type"], properties["size"]["items"]["type"]) == ("array", "number")
    assert properties["extra"]["properties"]["note"]["type"] == "string"
    assert FUNCTION["parameters"]["type"] == "dict"  # the checker wants it as it was


def test_a_schema_that_nests_without_end_is_refused():
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(40):
        schema = {"type": "array", "items": schema}
    with pytest.raises(UsageError, match="nested too deeply"):
        tool_of({"name": "f", "parameters": schema})


@pytest.mark.parametrize(
    ("category", "arguments", "fault"),
    [
        ("simple_python", {"item": "tea"}, ""),
        ("live_multiple", {"item": "tea", "price": 2}, ""),
        ("parallel", {"item": "milk"}, "value_error"),
        ("parallel_multiple", {"item": "milk"}, "value_error"),
        ("simple_python", None, "wrong_count"),
        ("irrelevance", None, ""),
        ("irrelevance", {"item": "tea"}, "irrelevance_error:decoder_success"),
    ],
)
def test_the_checker_of_the_package_decides(files: BfclFiles, category: str, arguments: Any, fault: str):
    suite = Bfcl(files, [category])
    calls = () if arguments is None else (ToolCall("shop_order", arguments),)
    found = suite.judge(suite.cases[0], 0, ModelAnswer(calls, "text"))
    assert (found.correct, found.fault) == (not fault, fault)


def test_a_checker_that_stumbles_over_an_answer_finds_it_wrong(files: BfclFiles):
    suite = Bfcl(files)
    found = suite.judge(suite.cases[0], 0, ModelAnswer((ToolCall("other", {}),)))
    assert (found.correct, found.fault) == (False, "checker_failed")


def test_nothing_of_the_package_is_left_behind(files: BfclFiles):
    path = list(sys.path)
    Bfcl(files)
    assert not [name for name in sys.modules if name.startswith("bfcl_eval")]
    assert sys.path == path


def test_what_is_not_there_is_told(files: BfclFiles):
    with pytest.raises(UsageError, match="unknown category `nothing`"):
        Bfcl(files, ["nothing"])
    (files.folder / "bfcl_eval/data/BFCL_v4_multiple.json").write_text("no JSON\n")
    with pytest.raises(UsageError, match=r"BFCL_v4_multiple\.json"):
        Bfcl(files)


# ---- how the files come here


def wheel_of(files: BfclFiles, target: Path) -> Path:
    with zipfile.ZipFile(target, "w") as wheel:
        for member in bfcl._MEMBERS:  # pyright: ignore[reportPrivateUsage]
            source = files.folder / "bfcl_eval" / member
            wheel.writestr(f"bfcl_eval/{member}", source.read_bytes() if source.exists() else b"")
    return target


@pytest.mark.parametrize("shape", ["wheel", "folder"])
def test_files_are_fetched_once_checked_and_kept(
    files: BfclFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str
):
    wheel = wheel_of(files, tmp_path / "x.whl")
    unpacked = tmp_path / "unpacked"
    zipfile.ZipFile(wheel).extractall(unpacked)
    monkeypatch.setattr(bfcl, "_SHA256", bfcl._digest(unpacked))  # pyright: ignore[reportPrivateUsage]
    asked: list[FetchRequest] = []

    def closed(order: FetchRequest) -> Path:
        raise FetchFailed("closed")

    def way(order: FetchRequest) -> Path:
        asked.append(order)
        return wheel if shape == "wheel" else unpacked

    cache = tmp_path / "cache"
    first = obtain_files(cache, {}, (closed, way))
    assert obtain_files(cache, {}, (closed, way)) == first
    assert [(order.name, order.version) for order in asked] == [("bfcl-eval", bfcl.VERSION)]
    assert len(Bfcl(first).cases) == 14
    assert [each.name for each in cache.iterdir()] == [f"bfcl-eval-{bfcl.VERSION}"]
    (first.folder / "bfcl_eval/data/BFCL_v4_multiple.json").write_text("changed")
    assert bfcl.find_cached(cache) is None
    assert obtain_files(cache, {}, (way,)) == first
    assert bfcl.find_cached(cache) == first


def test_a_package_that_is_installed_is_used_as_it_is(
    files: BfclFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (files.folder / "bfcl_eval" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(files.folder))
    assert bfcl.find_files(tmp_path / "cache") is None  # a folder of that name
    (files.folder / "bfcl_eval-9.9.dist-info").mkdir()
    (files.folder / "bfcl_eval-9.9.dist-info" / "METADATA").write_text("Name: bfcl-eval\nVersion: 9.9\n")
    assert obtain_files(tmp_path / "cache", {}, ()) == BfclFiles(files.folder, "9.9")


def test_other_files_are_not_kept(files: BfclFiles, tmp_path: Path):
    wheel = wheel_of(files, tmp_path / "x.whl")
    with pytest.raises(BfclFilesError, match="wrong hash"):
        obtain_files(tmp_path / "cache", {}, (lambda order: wheel,))
    assert list((tmp_path / "cache").iterdir()) == []


def test_files_that_cannot_be_had_are_an_error_with_a_way_out(tmp_path: Path):
    def closed(order: FetchRequest) -> Path:
        raise FetchFailed("the line is dead")

    with pytest.raises(BfclFilesError, match=r"the line is dead.*pip install --no-deps bfcl-eval"):
        obtain_files(tmp_path / "cache", {}, (closed,))
    (tmp_path / "file").touch()
    with pytest.raises(BfclFilesError, match="cannot store the files"):
        obtain_files(tmp_path / "file", {}, (closed,))
    (tmp_path / "bad.whl").write_text("no archive")
    with pytest.raises(BfclFilesError, match="cannot store the files"):
        obtain_files(tmp_path / "cache", {}, (lambda order: tmp_path / "bad.whl",))


# ---- the leaderboard itself, where its files are


REAL = bfcl.find_files(load().cache_folder)
needs_files = pytest.mark.skipif(
    REAL is None, reason="the files of bfcl-eval are not in the cache; `toolspeak eval --suite bfcl` fetches them"
)


@needs_files
def test_the_leaderboards_own_cases_are_judged_by_its_own_checker():
    assert REAL is not None
    suite = Bfcl(REAL)
    sizes = {name: sum(case.category == name for case in suite.cases) for name in CATEGORIES}
    assert sizes == {
        "simple_python": 400,
        "multiple": 200,
        "parallel": 200,
        "parallel_multiple": 200,
        "irrelevance": 240,
        "live_simple": 258,
        "live_multiple": 1053,
    }
    case = next(case for case in suite.cases if case.id == "simple_python_0")
    table = [
        ({"base": 10, "height": 5}, ""),
        ({"base": 10, "height": 5, "unit": "Units"}, ""),
        ({"base": 10, "height": 6}, "value_error:others"),
        ({"base": 10}, "simple_function_checker:missing_required"),
        ({"base": 10, "height": "5"}, "type_error:simple"),
    ]
    for arguments, fault in table:
        found = suite.judge(case, 0, ModelAnswer((ToolCall("calculate_triangle_area", arguments),)))
        assert (found.correct, found.fault) == (not fault, fault)
    dotted = next(case for case in suite.cases if case.id == "simple_python_1")
    assert suite.judge(dotted, 0, ModelAnswer((ToolCall("math_factorial", {"number": 5}),))).correct


def _plainest(value: Any) -> Any:
    """A call out of the values that are accepted: the first of each, without what may be left out."""
    if isinstance(value, dict):
        accepted = {name: each for name, each in value.items() if isinstance(each, list) and "" not in each}
        return {name: _plainest(next(iter(each), None)) for name, each in accepted.items()}
    return [_plainest(each) for each in value] if isinstance(value, list) else value


@needs_files
def test_nearly_every_expected_call_is_right_for_the_checker():
    assert REAL is not None
    suite = Bfcl(REAL)
    wrong = 0
    for case in suite.cases:
        expected = suite.expected(case)
        calls = [
            ToolCall(name.replace(".", "_"), _plainest(given)) for each in expected for name, given in each.items()
        ]
        wrong += not suite.judge(case, 0, ModelAnswer(tuple(calls))).correct
    # Some must say what may be left out elsewhere, which the plainest call does not.
    assert wrong <= 20

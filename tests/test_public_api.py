"""The public surface: small, sorted, importable."""

from __future__ import annotations

import ast
from pathlib import Path

import toolspeak
from tests.cases import check_each
from toolspeak import errors

MOST_NAMES = 40


def test_all_is_sorted_and_has_no_duplicates():
    assert list(toolspeak.__all__) == sorted(set(toolspeak.__all__))


def test_all_is_importable():
    for name in toolspeak.__all__:
        assert getattr(toolspeak, name) is not None, name


def test_type_checkers_see_the_same_names():
    stub = ast.parse(Path(toolspeak.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [each for each in stub.body if isinstance(each, ast.ImportFrom)]
    homes = {name.name: f".{each.module}" for each in imports for name in each.names}
    assert homes == vars(toolspeak)["_HOME_OF"]
    (listed,) = (each.value for each in stub.body if isinstance(each, ast.Assign))
    assert ast.literal_eval(listed) == toolspeak.__all__


def test_all_is_listed_by_dir():
    assert set(toolspeak.__all__) <= set(dir(toolspeak))


def test_the_surface_stays_small():
    assert len(toolspeak.__all__) <= MOST_NAMES


@check_each("name", ["FormatError", "SchemaError", "UpstreamTimeout"])
def test_errors_that_one_may_want_to_catch_are_found_without_being_listed(name: str):
    assert getattr(toolspeak, name) is getattr(errors, name)


def test_the_promised_names_are_there():
    assert {"Scanner", "fold", "parse"} <= set(toolspeak.__all__)

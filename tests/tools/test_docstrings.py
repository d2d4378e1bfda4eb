"""What docstrings of the three common styles tell a model."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from toolspeak.tools.function_schemas import parse_docstring

GOOGLE = """Look up the weather.

    More about it.

    Args:
        city: The city,
            with its country.
        days (int, optional): How many days.
        *rest: Never seen.

    Returns:
        The weather.
    """
NUMPY = """Look up the weather.

    More about it.

    Parameters
    ----------
    city : str
        The city,
        with its country.
    days, nights : int, optional
        How many.

    Returns
    -------
    str
        The weather.
    """
REST = """Look up the weather.

    More about it.

    :param city: The city,
        with its country.
    :param int days: How many days.
    :type days: int
    :returns: The weather.
    """


@pytest.mark.requirement("F5")
@check_each(
    ("text", "parameters"),
    [
        (GOOGLE, {"city": "The city, with its country.", "days": "How many days.", "rest": "Never seen."}),
        (NUMPY, {"city": "The city, with its country.", "days": "How many.", "nights": "How many."}),
        (REST, {"city": "The city, with its country.", "days": "How many days."}),
    ],
    ids=["google", "numpy", "rest"],
)
def test_parameters_are_found_and_the_rest_is_the_description(text: str, parameters: dict[str, str]):
    found = parse_docstring(text)
    assert found.description == "Look up the weather.\n\nMore about it."
    assert found.parameters == parameters


@check_each(
    ("text", "description"),
    [
        (None, ""),
        ("", ""),
        ("One line.", "One line."),
        ("Does this:\n\n    indented: text\nEnd.", "Does this:\n\n    indented: text\nEnd."),
        ("Colours\n-------\nare nice", "Colours\n-------\nare nice"),
        ("Text.\n\nArgs:\n    a: x\nAfterwards.", "Text.\n\nAfterwards."),
        ("Text.\n\n:param a: x\nAfterwards.", "Text.\n\nAfterwards."),
        ("Text.\n\n:unknown a: x", "Text.\n\n:unknown a: x"),
    ],
)
def test_what_is_no_section_is_description(text: str | None, description: str):
    assert parse_docstring(text).description == description


def test_a_parameter_without_text_is_not_described():
    assert parse_docstring("Text.\n\nArgs:\n    a:\n    b: y\n").parameters == {"b": "y"}


def test_a_line_that_opens_no_parameter_goes_on_with_the_last():
    assert parse_docstring("Text.\n\nArgs:\n    a: x\n    and more\n").parameters == {"a": "x and more"}

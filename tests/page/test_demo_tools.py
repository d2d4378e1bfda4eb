"""The page's demo tools understand what models write, and say how to write it right."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.system("browser"), pytest.mark.requirement("H1")]

SCRIPT = """async ([name, all]) => {
  const { DEMO_TOOLS } = await import("./toolspeak/page/demo_tools.js");
  const { asTool } = await import("./toolspeak/page/tools.js");
  const { checkedCall } = await import("./toolspeak/page/call_arguments.js");
  const tools = DEMO_TOOLS.map(asTool);
  return all.map((given) => {
    try {
      const { tool, args } = checkedCall({ name, arguments: JSON.stringify(given) }, tools);
      return tool.run(args);
    } catch (error) {
      return `error: ${error.message}`;
    }
  });
}"""


def run(page: Any, name: str, *arguments: dict[str, Any]) -> list[str]:
    return page.evaluate(SCRIPT, [name, [*arguments]])


@pytest.mark.parametrize("key", ["expression", "sum"])
def test_the_calculator_reads_expressions_as_people_write_them(page: Any, key: str):
    expected = {
        "17 * 23": "391",
        "17 × 23 =": "391",
        "17 x 23": "391",
        "17 times 23": "391",
        "2 ** 10": "1024",
        "1,250 + 750": "2000",
        "84 ÷ 4": "21",
        "84 divided by 4 minus 1": "20",
        "15% of 80": "12",
        "5 plus 3": "8",
    }
    assert run(page, "calculator", *({key: each} for each in expected)) == [*expected.values()]


def test_arguments_that_no_alias_explains_are_not_run(page: Any):
    told = run(page, "calculator", {"formula": "1 + 1"}, {"sum": 3}, {"sum": "1 + 1", "expression": "2 + 2"})
    assert told == [
        "error: `expression` is required",
        "error: `expression` must be a string",
        "error: `sum` is not a parameter",
    ]


def test_the_clock_takes_a_city_by_any_name_but_no_other_argument(page: Any):
    zones = run(page, "clock", {"city": "Tokyo"}, {"timezone": "Tokyo"}, {"location": "Tokyo"})
    assert all(each.endswith(("GMT+9", "JST")) for each in zones)
    assert run(page, "clock", {"format": "24h"}) == ["error: `format` is not a parameter"]
    assert run(page, "dice", {"count": 2, "colour": "red"}) == ["error: `colour` is not a parameter"]


def test_the_calculator_says_what_it_can_read(page: Any):
    (told,) = run(page, "calculator", {"expression": "the age of Paris"})
    assert told == "error: cannot read `the age of P`; use numbers with + - * / % ^ and brackets, such as (3 + 4) * 2"
    assert run(page, "calculator", {"expression": "2 +"}) == ["error: the expression is incomplete"]


def test_the_clock_finds_a_city(page: Any):
    places = {
        "Europe/Oslo": ("GMT+1", "GMT+2", "CET", "CEST"),
        "Oslo": ("GMT+1", "GMT+2", "CET", "CEST"),
        "oslo, Norway": ("GMT+1", "GMT+2", "CET", "CEST"),
        "Tokyo": ("GMT+9", "JST"),
        "new york": ("GMT-4", "GMT-5", "EST", "EDT"),
        "San Francisco": ("GMT-7", "GMT-8", "PST", "PDT"),
        "Mumbai": ("GMT+5:30", "IST"),
        "São Paulo": ("GMT-3", "BRT"),
        "UTC": ("UTC",),
    }
    for told, ends in zip(run(page, "clock", *({"zone": each} for each in places)), places.values(), strict=True):
        assert told.endswith(ends), told


def test_the_clock_names_similar_zones(page: Any):
    similar, unknown = run(page, "clock", {"zone": "Stockhlom"}, {"zone": "Q!"})
    assert similar == "error: unknown time zone `Stockhlom`; similar: Europe/Stockholm"
    assert unknown == "error: unknown time zone `Q!`; write a name such as Europe/Oslo"


def test_the_dice_give_the_total(page: Any):
    thrown, one = run(page, "dice", {"count": 3}, {"sides": 20})
    numbers, total = thrown.removesuffix(")").split(" (total ")
    assert sum(map(int, numbers.split(", "))) == int(total)
    assert one.isdigit()

"""Every dialect is one table or module: its examples are read, its calls are rendered, and a new module is found."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tests.cases import check_each
from tests.dialects.answer_helpers import by_character, exact, tool
from toolspeak import Reply, parse, render_calls
from toolspeak.dialects import formats, registry
from toolspeak.dialects.dialect import EXAMPLE
from toolspeak.dialects.registry import DIALECTS, FORMATS

TOOLS = (tool("get_weather", city="string", days="integer"),)
CALLED = exact([[EXAMPLE.name, EXAMPLE.arguments]])
EXAMPLES_OF: dict[str, list[str]] = tomllib.loads((Path(__file__).parent / "examples.toml").read_text(encoding="utf-8"))
EXAMPLES = [(name, text) for name, texts in EXAMPLES_OF.items() for text in texts]
#: How an answer is read: in any dialect, or only in the one that the text is written in.
SELECTED = [
    (name, text, dialect) for name, text in EXAMPLES for dialect in ("auto", name) if dialect in ("auto", *DIALECTS)
]


def pairs(reply: Reply) -> str:
    """Names and arguments, with every type as it is."""
    return exact([[call.name, call.arguments] for call in reply.calls])


@pytest.mark.requirement("B1", "B3", "B8")
@check_each(("name", "text", "dialect"), SELECTED)
def test_an_example_means_the_same_call_in_every_dialect(name: str, text: str, dialect: str):
    reply = parse(text, TOOLS, dialect=dialect)
    assert pairs(reply) == CALLED
    assert not set(reply.text) & set("<>[]{}`|"), "only words are left"
    assert by_character(text, tools=TOOLS, dialect=dialect) == reply


@check_each(("name", "text"), EXAMPLES)
def test_an_example_begins_with_an_opening_of_its_dialect(name: str, text: str):
    found = {each.dialect for each in parse(text, TOOLS).candidates if each.verdict == "call"}
    row = FORMATS[name]
    assert found <= row.accepts | {opening.dialect for opening in row.openings}


@pytest.mark.requirement("B2")
@check_each("name", DIALECTS)
def test_the_example_is_rendered_and_read_back(name: str):
    text = render_calls(name, [EXAMPLE])
    for dialect in ("auto", name):
        reply = parse(text, TOOLS, dialect=dialect)
        assert pairs(reply) == CALLED
        assert by_character(text, tools=TOOLS, dialect=dialect) == reply


# ---- the tables and modules


def test_every_module_defines_the_dialect_of_its_name_and_no_dialect_is_defined_twice():
    modules = [module.name for module in pkgutil.iter_modules(formats.__path__)]
    tables = tomllib.loads((Path(formats.__path__[0]).parent / "formats.toml").read_text(encoding="utf-8"))
    assert sorted(FORMATS) == sorted([*modules, *tables])
    assert list(tables) == sorted(tables)


def test_the_default_comes_first_and_dialects_that_are_only_read_cannot_be_selected():
    assert next(iter(DIALECTS)) == "action"
    assert {name for name, row in FORMATS.items() if row.style is None} == FORMATS.keys() - DIALECTS.keys()


@check_each("name", FORMATS)
def test_a_dialect_has_examples_and_accepts_openings_that_exist(name: str):
    row = FORMATS[name]
    known = {opening.dialect for each in FORMATS.values() for opening in each.openings}
    assert len({*EXAMPLES_OF[name], *row.examples}) >= 2
    assert row.accepts <= known
    assert bool(row.accepts) == (row.style is not None)
    assert row.families or row.style is None


def test_every_opening_belongs_to_one_dialect():
    rows = FORMATS.values()
    for table in ("tags", "literals", "lines", "fences", "forms"):
        marks = Counter(mark for row in rows for mark in getattr(row, table))
        assert [mark for mark, times in marks.items() if times > 1] == []
    owners = {(opening.dialect, row.name) for row in rows for opening in row.openings}
    assert len(owners) == len({opening for opening, _ in owners})


# ---- a new dialect

#: A dialect of every kind of mark, with tokens that nothing else knows.
NEW = """
from toolspeak.core.parsing.dialect_interface import Opening
from toolspeak.dialects.dialect import Dialect
from toolspeak.dialects.rendering import json_object, with_nonce


def render(calls, nonce):
    mark = with_nonce("<|acme_go|>", nonce)
    return "".join(f"{mark}<|acme_sep|>{json_object(call)}<|acme_end|>" for call in calls)


DIALECT = Dialect(
    "acme",
    accepts=frozenset({"acme"}),
    style=render,
    families="Acme",
    tags={"|acme_go|": Opening("acme", ends=("<|acme_end|>", "<｜acme▁end｜>"))},
    literals={"[A_MARK_THAT_IS_LONGER_THAN_ALL_THE_OTHERS]": Opening("acme", stops=("[/A]",))},
    lines={"Acme says:": Opening("acme")},
    fences={"acme": Opening("acme")},
    separators=frozenset({"|acme_sep|"}),
)
"""
#: What a program sees of it.
USE = """
import sys
import toolspeak.dialects.formats as formats

formats.__path__.append(sys.argv[1])

import toolspeak as ts
from toolspeak.dialects.registry import DIALECTS
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.prompting.escaping import neutralise

call = ts.ToolCall("ping", {"a": "b"})
tools = [ts.Tool("ping")]


def read(text, **options):
    scanner = ts.Scanner(tools, **options)
    streamed = ts.fold([event for char in text for event in scanner.feed(char)] + scanner.close())
    whole = ts.parse(text, tools, **options)
    assert streamed == whole, (streamed, whole)
    assert [each.dialect for each in whole.candidates] == ["acme"], whole
    assert (whole.text, whole.calls) == ("", (call,)), whole


body = '{"name": "ping", "arguments": {"a": "b"}}'
for dialect in ("auto", "acme"):
    for nonce in (None, "k7q2xm"):
        read(ts.render_calls("acme", [call], nonce), dialect=dialect, nonce=nonce)
    read(f"<｜acme▁go｜>{body}<｜acme▁end｜>", dialect=dialect)
    read(f"[A_MARK_THAT_IS_LONGER_THAN_ALL_THE_OTHERS]{body}[/A]", dialect=dialect)
    read(f"Acme says: {body}", dialect=dialect)
    read(f"```acme\\n{body}\\n```", dialect=dialect)
assert not ts.parse(ts.render_calls("acme", [call]), tools, dialect="hermes").calls
assert list(DIALECTS)[0] == "action" and list(DIALECTS)[-1] == "acme"
known = Capabilities()
known.override_model("acme-7b", {"capability": "none", "dialect": "acme"})
assert known.find("vllm", "acme-7b").profile.dialect == "acme"
for mark in ("<|acme_go|>", "Acme says:", "```acme\\n"):
    assert mark not in neutralise(mark, "own"), mark
"""


#: The same for a dialect that brings examples.
READ_EXAMPLES = """
import sys
import toolspeak.dialects.formats as formats

formats.__path__.append(sys.argv[1])

import toolspeak as ts
from toolspeak.dialects.dialect import EXAMPLE
from toolspeak.dialects.registry import DIALECTS

assert len(DIALECTS["acme"].examples) > 1
for text in (*DIALECTS["acme"].examples, ts.render_calls("acme", [EXAMPLE])):
    for dialect in ("auto", "acme"):
        reply = ts.parse(text, [ts.Tool("get_weather")], dialect=dialect)
        assert reply.calls == (EXAMPLE,) and "acme" not in reply.text, reply
"""
SHOWN = re.compile(r"^```python\n([^`]*DIALECT = .*?)^```", re.DOTALL | re.MULTILINE)


def run_with(module: str, program: str, folder: Path) -> tuple[int, str]:
    """Run a program in a fresh interpreter in which the module is one more dialect."""
    (folder / "acme.py").write_text(module, encoding="utf-8")
    command = [sys.executable, "-c", program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def test_a_new_dialect_is_one_file(tmp_path: Path):
    assert run_with(NEW, USE, tmp_path) == (0, "")


def test_the_dialect_in_the_documentation_works(tmp_path: Path):
    page = Path(__file__).parents[2] / "docs" / "dialects.md"
    (shown,) = SHOWN.findall(page.read_text(encoding="utf-8"))
    assert run_with(shown, READ_EXAMPLES, tmp_path) == (0, "")


def test_a_dialect_may_be_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = 'from toolspeak.dialects.dialect import Dialect\n\nDIALECT = Dialect("a_module", families="Modules")\n'
    (tmp_path / "a_module.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path)])
    rows = {row.name: row for row in registry._load()}  # pyright: ignore[reportPrivateUsage]
    assert rows["a_module"].families == "Modules" and rows.keys() >= registry.FORMATS.keys()

"""Long texts as they stream: each chunk goes out at once, in whatever quotes or tags the text stands."""

from __future__ import annotations

import json

import pytest

from tests.cases import check_each
from tests.dialects.answer_helpers import TOOLS, Case, by_character, check, each
from toolspeak import Scanner, fold, parse
from toolspeak.core.events import CallArgs

#: Name -> what stands before the text, chunks of it with what goes out for each, and what stands behind it.
STREAMS: dict[str, tuple[str, list[tuple[str, str]], str]] = {
    "raw quotes": (
        '<|tool_call>call:run{command:<|"|>',
        [("ab", "ab"), ('a "b"\n', 'a \\"b\\"\\n'), ("x <", "x "), ("b>", "<b>"), ('<|"', ""), ("x", '<|\\"x')],
        '<|"|>}<tool_call|>',
    ),
    "escape tags": (
        "<start_function_call>call:run{command:<escape>",
        [("ab", "ab"), ("<esc", ""), ("ort>", "<escort>"), ("é\\", "é\\\\")],
        "<escape>}<end_function_call>",
    ),
    "triple quotes": (
        "```tool_code\nrun(command='''",
        [("ab\n", "ab\\n"), ('"x"', '\\"x\\"'), ("a'b", "a'b"), ("\\t", "\\t")],
        "''')\n```",
    ),
    "single quotes": (
        "```tool_code\nrun(command='- ",
        [("ab", "ab"), ('"x"', '\\"x\\"'), ("a\\", "a"), ("nb", "\\nb"), ("\\'", "'"), ("\t", "\\t")],
        "')\n```",
    ),
    "tags on lines of their own": (
        "<function=run>\n<parameter=command>\n- ",
        [
            ("ab", "ab"),
            ("a\rb", "a\\rb"),
            ("\r", ""),
            ("x\n  ", "\\rx"),
            ("y", "\\n  y"),
            ("a < b && c", "a < b && c"),
            ("<b>&amp;</b> ", "<b>&amp;</b> "),
            ("\n" + " " * 300, "\\n" + " " * 300),
            ("]<]mini", ""),
            ("s", "]<]minis"),
        ],
        "\n</parameter>\n</function>",
    ),
    "a value that is held": (
        "<function=save><parameter=tags>",
        [("ab", ""), ("<b>x</b>", ""), ("<par", ""), ("t>", ""), ("<call>", "")],
        "</parameter></function>",
    ),
}


@pytest.mark.requirement("B8", "B11")
@check_each("name", STREAMS)
def test_what_a_chunk_makes_certain_goes_out_with_it(name: str):
    head, chunks, tail = STREAMS[name]
    scanner = Scanner(TOOLS)
    events = scanner.feed(head)
    for chunk, fragment in chunks:
        told = scanner.feed(chunk)
        assert "".join(event.fragment for event in told if isinstance(event, CallArgs)) == fragment, chunk
        assert bool(told) is bool(fragment), chunk
        events += told
    reply = fold(events + scanner.feed(tail) + scanner.close())
    text = head + "".join(chunk for chunk, _ in chunks) + tail
    assert reply == parse(text, TOOLS) == by_character(text, tools=TOOLS)
    assert len(reply.calls) == 1


@pytest.mark.requirement("B8", "R-E4")
@check_each("name", STREAMS)
def test_nothing_goes_out_of_a_call_that_may_be_an_echo(name: str):
    head, chunks, tail = STREAMS[name]
    scanner = Scanner(TOOLS, untrusted=["run", "save"])
    events = scanner.feed(head)
    for chunk, _ in chunks:
        assert scanner.feed(chunk) == []
    reply = fold(events + scanner.feed(tail) + scanner.close())
    assert len(reply.calls) == 1
    assert json.dumps(reply.calls[0].arguments) == json.dumps(
        parse(head + "".join(chunk for chunk, _ in chunks) + tail, TOOLS).calls[0].arguments
    )


@pytest.mark.requirement("B6", "B8")
def test_half_a_line_break_waits_for_the_other_half():
    head = "<function=run>\n<parameter=command>\na\r"
    scanner = Scanner(TOOLS)
    events = scanner.feed(head)
    assert events[-1] == CallArgs(0, '{"command":"a')
    assert scanner.feed("b") == [CallArgs(0, "\\rb")]
    assert by_character(head, tools=TOOLS) == parse(head, TOOLS)


@pytest.mark.requirement("R-E6", "B8")
@check_each("name", STREAMS)
def test_half_a_pair_of_surrogates_in_a_chunk_is_mended(name: str):
    head, _, tail = STREAMS[name]
    text = f"{head}a<\ud800b{tail}"
    scanner = Scanner(TOOLS)
    events = [*scanner.feed(head), *scanner.feed("a"), *scanner.feed("<\ud800"), *scanner.feed("b")]
    assert fold(events + scanner.feed(tail) + scanner.close()) == parse(text, TOOLS) == by_character(text, tools=TOOLS)


BODIES = [
    Case("text that no argument is for", "<ping>some words</ping>", (("ping", {}),), codes={"stray_text"}),
    Case(
        "elements without end",
        f"<ping>{'<a>' * 80}x{'</a>' * 80}</ping>",
        said=f"<ping>{'<a>' * 80}x{'</a>' * 80}</ping>",
        verdicts=(("ping", "text", "no_arguments"),),
    ),
]


@pytest.mark.requirement("B5", "R-E6")
@each(BODIES)
def test_what_a_tag_holds_is_not_lost_silently(case: Case):
    check(case)

"""Dialects that plugins add: which are refused, and how a grammar of their own is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from tests.cases import check_each
from tests.dialects.answer_helpers import by_character, codes_of, tool
from toolspeak import Scanner, Tool, ToolCall, fold, parse, render_calls
from toolspeak.core.json_repair.containers import MAX_SIZE
from toolspeak.core.parsing.dialect_interface import Opening
from toolspeak.core.plugin_hook import dialects_changed, load_plugins, set_loader
from toolspeak.dialects import registry
from toolspeak.dialects.dialect import Dialect
from toolspeak.dialects.new_dialects import add_checked
from toolspeak.dialects.rendering import between, with_nonce
from toolspeak.engine.prompting.escaping import neutralise
from toolspeak.errors import ConfigError

MARKED = Opening("nova", stops=("[[/NOVA]]",))
PLAIN = Dialect("nova", style=between("[[NOVA]]", "[[/NOVA]]"), literals={"[[NOVA]]": MARKED})
SIGNED = "k7q2xm"

TAGGED = Dialect(
    "nova",
    style=between("<nova_call>", "</nova_call>"),
    tags={"nova_call": Opening("nova", stops=("</nova_call>",))},
)


def read(text: str) -> Sequence[ToolCall]:
    """`name key=value; name key=value`"""
    calls: list[ToolCall] = []
    for part in text.split(";"):
        name, *pairs = part.split()
        calls.append(ToolCall(name, dict(pair.split("=") for pair in pairs)))
    return calls


def render(calls: Sequence[ToolCall], nonce: str | None) -> str:
    rows = (" ".join([each.name, *(f"{key}={value}" for key, value in each.arguments.items())]) for each in calls)
    return f"{with_nonce('<nova_call>', nonce)}{';'.join(rows)}</nova_call>"


OWN = Dialect(
    "nova",
    style=render,
    grammar=read,
    tags={
        "nova_call": Opening("nova", stops=("</nova_call>",)),
        "|nova_call|": Opening("nova", stops=("<|nova_end|>",)),
    },
    result=("<nova_result>\n", "\n</nova_result>"),
)
LINE = Dialect(
    "nova",
    style=lambda calls, nonce: "\n".join(
        f"{with_nonce('@@call ', nonce)}{render([each], None)[11:-12]}" for each in calls
    ),
    grammar=read,
    lines={"@@call": Opening("nova", open_ended=True)},
)
TOOLS = (tool("get_weather", city="string", days="integer"), Tool("ping"))


@pytest.fixture
def added() -> Iterator[Callable[[Dialect], None]]:
    yield add_checked
    for row in registry.added_dialects():
        registry.remove(row.name)


def changed(**fields: Any) -> Dialect:
    return msgspec.structs.replace(PLAIN, **fields)


TAKEN = "has a meaning already"
REFUSED: dict[str, tuple[Dialect, str]] = {
    "a name that exists": (changed(name="hermes"), "its name is taken"),
    "a reserved name": (changed(name="auto"), "its name is taken"),
    "an odd name": (changed(name="No Va"), "its name is taken, or is not a word"),
    "only read": (changed(style=None), "it has no `style`"),
    "a form": (changed(forms={"object": Opening("nova")}), "belongs to another dialect"),
    "a foreign opening": (changed(literals={"[[NOVA]]": Opening("hermes")}), "belongs to another dialect"),
    "a short mark": (changed(lines={"@": Opening("nova")}), "must have 3 to 64 characters"),
    "a long mark": (changed(literals={"[" * 65: MARKED}), "must have 3 to 64 characters"),
    "two lines": (changed(lines={"@@\ncall": Opening("nova")}), "on one line"),
    "a taken tag": (changed(tags={"tool_call": Opening("nova")}), f"the tag `<tool_call>` {TAKEN}"),
    "a tag of reasoning": (changed(tags={"think": Opening("nova")}), TAKEN),
    "a tag inside calls": (changed(separators=frozenset({"parameter"})), TAKEN),
    "an end that is a mark": (changed(literals={"[[NOVA]]": Opening("nova", ends=("<think>",))}), TAKEN),
    "a tag in brackets": (changed(tags={"<nova>": Opening("nova")}), "without brackets, as `nova`"),
    "a taken literal": (
        changed(literals={"[TOOL_CALLS]": MARKED}),
        "another one, `[TOOL_CALLS]` of the dialect `mistral`",
    ),
    "a mark of reasoning": (changed(literals={"[THINK]": MARKED}), "begins like another one, `[THINK]`"),
    "a prefix of one": (changed(literals={"[TOOL": MARKED}), "begins like another one"),
    "a literal of words": (changed(literals={"nova:": MARKED}), "must begin with one of"),
    "a line that is a tag": (changed(lines={"<nova>": MARKED}), "a line cannot begin with"),
    "a taken fence": (changed(fences={"json action": Opening("nova")}), f"the code fence `json action` {TAKEN}"),
    "a weak fence": (changed(fences={"json": Opening("nova")}), f"the code fence `json` {TAKEN}"),
    "a fence of results": (changed(fences={"json result": Opening("nova")}), TAKEN),
    "a fence in capitals": (changed(fences={"Nova  Call": Opening("nova")}), "must be in small letters"),
    "stops alike": (
        changed(grammar=read, literals={"[[NOVA]]": Opening("nova", stops=("]]", "]]]"))}),
        "its closing mark `]]` begins like another one",
    ),
    "not what it writes": (changed(style=between("[[STAR]]")), "cannot parse what it renders"),
    "a grammar that fails": (
        changed(grammar=lambda _: read("")),
        "renders (the grammar of dialect `nova` raised ValueError)",
    ),
    "accepts nothing that exists": (changed(accepts=frozenset({"x"})), "cannot parse what it renders"),
}


@pytest.mark.requirement("R-E2")
@check_each("case", REFUSED)
def test_a_dialect_that_would_change_other_text_is_refused(case: str):
    row, message = REFUSED[case]
    before = dict(registry.DIALECTS)
    with pytest.raises(ConfigError, match="dialect `") as caught:
        add_checked(row)
    assert message in str(caught.value)
    assert (before, registry.added_dialects()) == (registry.DIALECTS, ())


class Credulous:
    """A reader that accepts whatever it reads."""

    def __new__(cls, opening: Opening, context: Any, evidence: Any) -> Any:
        from toolspeak.dialects.call_block import BlockReader

        return BlockReader(
            opening, context, msgspec.structs.replace(evidence, nonce=evidence.nonce is not None or None)
        )


class Hasty:
    """A reader that reads a text in pieces differently."""

    def __new__(cls, opening: Opening, context: Any, evidence: Any) -> Any:
        from toolspeak.dialects.call_block import BlockReader

        reader = BlockReader(opening, context, evidence)
        whole = reader.feed

        def feed(buf: str, pos: int, final: bool) -> int:
            context.note("seen", str(len(buf)))
            return whole(buf, pos, final)

        reader.feed = feed
        return reader


@pytest.mark.requirement("R-E2")
@check_each(
    ("reader", "message"),
    [(Credulous, "accepts calls without the nonce"), (Hasty, "reads a text in pieces differently")],
)
def test_a_reader_of_its_own_must_follow_the_rules(reader: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        add_checked(msgspec.structs.replace(TAGGED, reader=reader))
    assert registry.added_dialects() == ()


def test_a_dialect_may_have_marks_of_every_kind(added: Callable[[Dialect], None]):
    row = changed(
        tags={
            "nova_one": Opening("nova", stops=("</nova_one>",)),
            "|nova_two|": Opening("nova", ends=("<|nova_end|>",)),
        },
        lines={"Nova says:": Opening("nova"), "@@call": Opening("nova")},
        fences={"nova call": Opening("nova"), "nova": Opening("nova")},
        separators=frozenset({"|nova_sep|", "|nova_gap|"}),
    )
    added(row)
    body = '{"name": "ping", "arguments": {}}'
    for text in (
        f"<nova_one>{body}</nova_one>",
        f"<|nova_two|><|nova_sep|>{body}<|nova_end|>",
        f"Nova says: {body}",
        f"@@call {body}",
        f"```nova call\n{body}\n```",
        f"```nova\n{body}\n```",
        f"[[NOVA]]{body}[[/NOVA]]",
    ):
        reply = parse(text, TOOLS, dialect="nova")
        assert (reply.calls, reply.text) == ((ToolCall("ping", {}),), ""), text
        assert neutralise(text, "own") != text


def test_own_marks_around_a_known_body(added: Callable[[Dialect], None]):
    added(PLAIN)
    call = ToolCall("ping", {"a": 1})
    for nonce in (None, SIGNED):
        text = render_calls("nova", [call, call], nonce)
        assert (
            parse(text, TOOLS, nonce=nonce).calls == (call, call) == by_character(text, tools=TOOLS, nonce=nonce).calls
        )
    assert "[[NOVA" not in neutralise("[[NOVA]]x", "foreign")
    assert parse("[[NOVA]] is a mark", TOOLS).text == "[[NOVA]] is a mark"


@check_each(
    ("text", "calls", "codes"),
    [
        ("<nova_call>ping</nova_call>", [("ping", {})], set()),
        ("<nova_call>ping;ping a=1</nova_call>", [("ping", {}), ("ping", {"a": "1"})], set()),
        ("<nova_call>get_weather days=3</nova_call>", [("get_weather", {"days": 3})], None),
        ("<nova_call>get_weather days=</nova_call", [], None),
        ("<|nova_call|>ping a=1<|nova_end|>", [("ping", {"a": "1"})], set()),
        ("<nova_call></nova_call>", [], set()),
        ("<nova_call>;</nova_call>", [], None),
        ("<nova_call>ping a</nova_call>", [], {"grammar_failed"}),
        ("<nova_call>pong</nova_call>", [], None),
        ("<nova_call>ping;pong;ping</nova_call>", [("ping", {})], None),
        ("<nova_call>ping", [], None),
        ("<nova_call>ping</nova_call> ping", [("ping", {})], set()),
        ("<nova_call>ping</nova_call><nova_result>\n42\n</nova_result>", [("ping", {})], {"invented_result"}),
    ],
)
def test_a_grammar_of_its_own(added: Callable[[Dialect], None], text: str, calls: Any, codes: set[str] | None):
    added(OWN)
    try:
        reply = parse(text, TOOLS)
        assert [(each.name, each.arguments) for each in reply.calls] == calls
        assert codes is None or codes == codes_of(reply)
        assert by_character(text, tools=TOOLS) == reply
        if not calls:
            assert reply.text == text
    finally:
        registry.remove("nova")


@check_each(
    ("text", "cut", "calls"),
    [
        ("@@call ping\nDone.", False, 1),
        ("@@call ping", False, 1),
        ("@@call ping a=", True, 0),
        ("@@call ping\n@@call ping", False, 2),
        ("so @@call ping", False, 0),
    ],
)
def test_a_grammar_without_closing_marks_reads_a_line(
    added: Callable[[Dialect], None], text: str, cut: bool, calls: int
):
    added(LINE)
    try:
        for size in (1, 3, len(text)):
            scanner = Scanner(TOOLS)
            events = [event for at in range(0, len(text), size) for event in scanner.feed(text[at : at + size])]
            assert len(fold([*events, *scanner.close(cut)]).calls) == calls
    finally:
        registry.remove("nova")


def test_a_text_that_is_too_long_is_no_call_wherever_it_is_cut(added: Callable[[Dialect], None]):
    added(OWN)
    text = f"<nova_call>ping a={'x' * MAX_SIZE}</nova_call>"
    whole = parse(text, TOOLS)
    scanner = Scanner(TOOLS)
    events = [event for at in range(0, len(text), 1000) for event in scanner.feed(text[at : at + 1000])]
    assert (whole.calls, whole.text) == ((), text)
    assert fold(events + scanner.close()) == whole


def test_arguments_that_are_no_json_fail(added: Callable[[Dialect], None]):
    def broken(text: str) -> list[ToolCall]:
        odd: Any = {"a": object()}
        return [ToolCall("get_weather", {"city": "Oslo", "days": 3}) if "Oslo" in text else ToolCall("ping", odd)]

    added(msgspec.structs.replace(OWN, grammar=broken))
    reply = parse("<nova_call>x</nova_call>", TOOLS)
    assert reply.calls == () and "grammar_failed" in codes_of(reply)


def test_the_loader_is_asked_before_every_first_look():
    asked: list[int] = []
    set_loader(lambda: asked.append(1))
    try:
        dialects_changed()
        registry.dialects()
        parse("x")
        load_plugins()
        assert len(asked) >= 3
    finally:
        set_loader(None)
    load_plugins()

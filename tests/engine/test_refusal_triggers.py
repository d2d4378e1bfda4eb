"""The quick look at an answer never misses what a closer one would find."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolspeak.engine.refusals import classifier as refusals
from toolspeak.engine.refusals.answer_view import SPACELESS
from toolspeak.engine.refusals.classifier import LANGUAGES, classify, classify_closely
from toolspeak.engine.refusals.finder import Finder, Triggers, stored_triggers
from toolspeak.engine.refusals.tables import Language
from toolspeak.engine.refusals.triggers import TriggerReader, demands, stored

SETS = Path(__file__).parent.parent / "refusals"
ROWS = [
    json.loads(line)
    for name in ("answers", "refusals")
    for line in (SETS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
]
NAMES = ("get_weather", "Read", "web-search", "run2")


def finds(triggers: Triggers, text: str, spaceless: bool = False) -> bool:
    return bool(Finder({"x": triggers}, spaceless=spaceless).found(text))


# ------------------------------------------------------------------------------------ what a pattern demands

#: The pattern, and what it demands; `\b` ends a word.
DEMANDS = [
    ("a word", "tools", {"tools\b"}),
    ("alternatives", "tools|plugins", {"tools\b", "plugins\b"}),
    ("what is optional is spelled out", "tools?", {"tool\b", "tools\b"}),
    ("a group", "i (cannot|can't)", {"i cannot\b", "i can't\b"}),
    ("a slot", "{not} here", {"not here\b", "never here\b"}),
    ("a slot in another", "i {am_not}", {"i am not\b", "i am never\b"}),
    ("a set of letters", "us[ei]", {"use\b", "usi\b"}),
    ("other sets are not spelled out", "status [45][0-9]", {"status\b"}),
    ("the end of a word that goes on is not known", "access\\w*", {"access"}),
    ("what is in the middle of a word does not count", "\\w+ing the door", {"the door\b"}),
    ("the rarest part", "go (\\w+ ){0,2}unavailable{~9} at", {"unavailable"}),
    ("the smaller of two sets that are as rare", "(opening|closing|moving) .{0,9}?\\b(windows)", {"windows\b"}),
    ("everyday words count little", "is the|is .{0,5} computer", {"is the\b", "computer\b"}),
    ("what must be repeated", "(never )+.{0,3}x", {"never\b"}),
    ("what must be repeated twice", "(never ){2}.{0,3}x", {"never\b"}),
    ("looking around demands nothing", "(?<!i )failed(?! to)(?:ly)?(?P<purpose> by)?", {"failed\b", "failedly\b", "failed by\b", "failedly by\b"}),
    ("the beginning and the end", "^never$", {"never\b"}),
    ("an escaped sign", "really\\?", {"really?"}),
    ("a word behind an edge", "\\w+\\b(?!x) ?\\bcom", {"com\b"}),
    ("the name of a tool is looked for elsewhere", "⌘ never|absent", {"absent\b"}),
    ("a possessive repetition", "never\\w++", {"never"}),
]  # fmt: skip
SLOTS = {"not": "not|never", "am_not": "am {not}"}
COMMON = frozenset({"is", "the", "i", "at", "go"})


@pytest.mark.parametrize(("pattern", "words"), [row[1:] for row in DEMANDS], ids=[row[0] for row in DEMANDS])
def test_a_pattern_demands(pattern: str, words: set[str]):
    assert TriggerReader(SLOTS, COMMON).triggers(pattern) == Triggers(frozenset(words))


@pytest.mark.parametrize("pattern", ["\\w+", "\\w+are\\b", "(te )?\\w+are", "[tl]he \\w+o\\b"])
def test_a_pattern_that_demands_nothing_rare_is_its_own_trigger(pattern: str):
    assert TriggerReader(SLOTS, COMMON).triggers(f"absent|{pattern}") == Triggers(frozenset({"absent\b"}), (pattern,))


def test_too_many_alternatives_are_cut_into_parts():
    reader = TriggerReader({"x": "|".join("abcdefghijklmnopqrst")})
    assert reader.triggers("({x})({x})({x}) door") == Triggers(frozenset({"door\b"}))
    # What a part demands counts only where a word begins, or from its second word on.
    assert reader.triggers("(pre|post)(view|look up)\\w*({x}{x}{x} near)") == Triggers(
        frozenset({"preview", "postview", "prelook up", "postlook up"})
    )
    assert reader.triggers("\\w+({x}{x}{x} very near)") == Triggers(frozenset({"near"}))
    assert reader.triggers("\\w+({x}{x}{x})") == Triggers(frozenset(), ("\\w+({x}{x}{x})",))


def test_where_no_spaces_are_set_a_trigger_may_stand_anywhere():
    triggers = TriggerReader({}, spaceless=True).triggers("^我(没有|无).{0,3}?工具|\\bapi")
    assert triggers == Triggers(frozenset({"工具", "api"}))
    assert finds(triggers, "这里没工具", spaceless=True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (" i cannot", True),
        ("\ni cannot.", True),
        (" i cannots", False),
        (" hi cannot", False),
        (" accessible", True),
        (" inaccessible", False),
        (" so he\n", True),
        (" so he goes", False),
    ],
)
def test_a_trigger_stands_where_a_word_begins(text: str, found: bool):
    both = Triggers(frozenset({"i cannot\b", "access", "accessories"}), ("he$",))
    assert finds(both, text) is found


def test_no_triggers_find_nothing():
    assert Finder({}).found(" anything") == set()


def test_of_each_label_it_is_told_whether_a_trigger_is_there():
    finder = Finder({"en": Triggers(frozenset({"i can"}), ("no+",)), "de": Triggers(frozenset({"ich kann\b"}))})
    assert finder.found(" i can, ich kann") == {"en", "de"}
    assert finder.found(" ich kann_, nooo") == {"en"}
    assert Finder({"ja": Triggers(frozenset(), ("で.*ん",))}, spaceless=True).found("できません") == {"ja"}


# ------------------------------------------------------------------------------------------- what is kept


def test_the_file_holds_what_the_tables_demand():
    """After a change of the tables: `python scripts/refusal_triggers.py`."""
    file = Path(refusals.__file__).parent / "triggers.json"
    assert file.read_text(encoding="utf-8") == stored(LANGUAGES, SPACELESS)


def test_what_was_stored_is_read_back():
    found = stored_triggers()
    for language in LANGUAGES:
        for name, triggers in demands(language, language.name in SPACELESS).items():
            kept = [found[label] for label in found if label.split()[0] == language.name and name in of(label)]
            assert frozenset[str]().union(*(each.words for each in kept)) == triggers.words
            assert tuple(pattern for each in kept for pattern in each.patterns) == triggers.patterns


def of(label: str) -> list[str]:
    """The names in a label."""
    return label.split()[1].split(",")


FIRST = """
import time
from toolspeak.core.refusals import classify
for text in ("Paris has about two million inhabitants and lies on the Seine.", "I don't have access to weather data."):
    start = time.process_time()
    verdict = classify(text, ["get_weather"])
    print(verdict.category, time.process_time() - start)
"""


@pytest.mark.requirement("E1")
def test_the_first_answers_wait_for_no_tables():
    """Bounds with room for a slow machine; all tables together take more than half a second."""
    runs = [subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True) for _ in range(2)]
    lines = [run.stdout.split() for run in runs]
    assert {(line[0], line[2]) for line in lines} == {("answer", "cannot_access")}
    assert min(float(line[1]) for line in lines) < 0.1
    assert min(float(line[3]) for line in lines) < 0.25


# ------------------------------------------------------------------------------------------- never a miss


@pytest.mark.requirement("E1")
def test_the_quick_look_changes_no_verdict_on_the_sets():
    wrong = [
        row["text"]
        for row in ROWS
        if classify(row["text"], row["tools"]) != classify_closely(row["text"], row["tools"])
    ]
    assert wrong == []


@pytest.mark.requirement("E1")
def test_a_rule_whose_trigger_is_missing_does_not_match():
    for row in ROWS:
        text, words = row["text"], refusals._compiled(row["language"])
        hits = refusals._suspects(text, ())
        for sentence in refusals.spelled_for(refusals.view_of(text, ()), row["language"]).head:
            # With the name of a tool in it, every rule is tried on a sentence.
            every = {rule.name for rule, found in words.matches(f"{sentence} ⌘") if "⌘" not in found.group()}
            assert {rule.name for rule, _ in words.matches(sentence)} >= every
            assert [rule for rule, _ in words.matches(sentence, hits)] == [rule for rule, _ in words.matches(sentence)]


@pytest.mark.parametrize("name", ["en", "fr"])
@given(st.lists(st.sampled_from("i i'm i'x x'i 'i i'' i''x d'un l'outil aujourd'hui c'est j'ai j' the , é".split())))
def test_common_words_are_counted_as_their_pattern_finds_them(name: str, words: list[str]):
    text = " ".join(words)
    assert refusals._counts(text)[name] == len(refusals._compiled(name).slot("common").findall(text))


def filled(language: Language, pattern: str) -> str:
    """The pattern as one expression, its slots and gaps filled in."""

    def slot(found: re.Match[str]) -> str:
        gap, name = found.groups()
        return f".{{0,{name}}}?" if gap else f"(?:{filled(language, language.slots[name])})"

    pattern = re.sub(r"\{(~?)(\w*[a-z]\w*|(?<=~)\d+)\}", slot, pattern)
    return re.sub(r"\(\?P<\w+>", "(?:", pattern)


WATCHED = ("decline", "brief", "ask", "offer", "ability", "intend", "progress", "wait")
PATTERNS = [
    (language, pattern)
    for language in LANGUAGES
    for pattern in [*(rule.pattern for rule in language.rules), *(language.slots[name] for name in WATCHED)]
]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_a_pattern_matches_holds_one_of_its_triggers(data: st.DataObject):
    language, pattern = data.draw(st.sampled_from(PATTERNS))
    spaceless = language.name in SPACELESS
    reader = TriggerReader(language.slots, frozenset({"the", "i", "no", "la", "je"}), spaceless)
    triggers = reader.triggers(pattern)
    own = Triggers(triggers.words, tuple(filled(language, each) for each in triggers.patterns))
    whole = re.compile(filled(language, pattern) if spaceless else rf"(?<![\w'])(?:{filled(language, pattern)})(?!\w)")
    text = data.draw(st.from_regex(whole))
    for found in whole.finditer(text):
        if "⌘" not in found.group():
            assert finds(own, f" {text}", spaceless), found


PIECES = [
    *(sentence for row in ROWS[::3] for sentence in re.split(r"(?<=[.!?,。]) ?", row["text"])),
    *NAMES,
    *(
        "`get_weather`",
        "「",
        "」",
        "『x』",
        "“",
        "”",
        '"',
        "`",
        "```\n",
        "{",
        "}",
        "<b>",
        "\n> ",
        "\n",
        " ",
        "  ",
        "　",
    ),
    *("，", "\u200b", "İ", "é", "-", "'", "’", "?", ". ", "中.", "x" * 400),
]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=8), st.sampled_from(["", " ", "\n"]), st.booleans())
def test_the_quick_look_changes_no_verdict_on_texts_put_together(pieces: list[str], between: str, offered: bool):
    text = between.join(pieces)
    names = NAMES if offered else ()
    assert classify(text, names) == classify_closely(text, names)

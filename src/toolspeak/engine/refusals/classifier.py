"""Refusal classifier: decide whether an answer without a call refuses to use a tool that would help.

Precision comes first. Mistaking an ordinary answer for a refusal costs a request and may lose the answer; missing a
refusal loses nothing that was not lost already. So a phrase alone decides nothing: the sentence must speak of something
that an offered tool is for, and must not be a report, a quotation, a condition or a question for missing information.

An answer is judged in these steps:

1. `view_of` reduces it to folded sentences of its beginning and its end, without quotations (`answer_view`).
2. `_candidates` names the languages it may be in; each has a table of phrases (`tables`).
3. `_judge` tries, in this order: a safety refusal, the rules for missing tools or access, a refusal without reasons,
   and the two kinds of answers that stop before the call: asking for permission and announcing.

No code here depends on a language.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from .answer_view import MAX_HEAD, AnswerView, cjk_language, fold, respell, view_of
from .tables import LANGUAGES, NAME, QUOTE, Phrases, Rule, language, phrases, spell_out

#: The kinds of answers. `no_tools`: claims to have none. `cannot_access`: claims not to reach what a tool reaches.
#: `describes`: announces or describes the call. `asks_permission`: asks whether to make the call. `safety`: declines
#: for reasons of law, policy or harm. `answer`: anything else.
Category = Literal["no_tools", "cannot_access", "describes", "asks_permission", "safety", "answer"]
#: Categories after which the model is asked again.
RETRYABLE: frozenset[Category] = frozenset({"no_tools", "cannot_access", "describes", "asks_permission"})


class Verdict(msgspec.Struct, frozen=True):
    """The kind of an answer, with the rule that decided and the language; both are empty for an ordinary answer."""

    category: Category
    rule: str = ""
    language: str = ""


ANSWER = Verdict("answer")

#: Refusals are among the first sentences.
_FIRST_SENTENCES = 7
#: An answer that only announces or asks is short.
_MAX_SMALL_TALK = 420
#: An answer that contains little more than the name of a tool answers a question about it.
_MAX_BARE_NAME = 40
#: What may follow the announcement of a call: a closing remark, not an answer.
_MAX_REMARK = 260
#: A question this short refers to a longer one before it.
_MAX_SHORT_QUESTION = 48


def classify(text: str, tools: Iterable[str] = ()) -> Verdict:
    """Classify an answer, given the names of the offered tools. Without names, any topic may have a tool.

    >>> classify("I'm sorry, but I don't have access to any tools.", ["get_weather"]).category
    'no_tools'
    >>> classify("I can't give medical advice.", ["get_weather"]).category
    'answer'
    """
    view = view_of(text, tuple(tools))
    for name in _candidates(text[:MAX_HEAD]):
        verdict = _judge(phrases(name), respell(view, language(name)))
        if verdict is not None:
            return verdict
    return ANSWER


# ----------------------------------------------------------------------------------------- the language

_FOLDED_WORDS = re.compile(r"(?<![\w'])\w[\w']*").findall


def _candidates(text: str) -> Sequence[str]:
    """Return the languages that the text may be in: by its script, then by the most frequent words."""
    script = cjk_language(text)
    if script:
        return (script,)
    counts = _count_common_words(fold(text))
    most = max(counts.values())
    return [name for name, count in counts.items() if count == most]


def _count_common_words(folded: str) -> dict[str, int]:
    """Count the words of the text that are among the most frequent ones of each language; `i'm` counts as `i`."""
    words = _FOLDED_WORDS(folded)
    contracted = [(word, _stems(word)) for word in words if "'" in word]
    return {
        name: sum(map(common.__contains__, words))
        + sum(word not in common and not common.isdisjoint(stems) for word, stems in contracted)
        for name, common in _common_words().items()
    }


def _stems(word: str) -> list[str]:
    """Return what precedes each apostrophe of a word."""
    return [word[:at] for at, char in enumerate(word) if char == "'"]


@lru_cache(maxsize=1)
def _common_words() -> dict[str, frozenset[str]]:
    return {name: spell_out(language(name).slots["common"]) for name in LANGUAGES if language(name).spaces}


# ------------------------------------------------------------------------------------------ the verdict


def _judge(words: Phrases, view: AnswerView) -> Verdict | None:
    """Return the first category that fits. Safety comes first, an unexplained refusal after the explained ones."""
    name = words.language.name
    first = view.head[:_FIRST_SENTENCES]
    if _declines_harm(words, first):
        return Verdict("safety", "harm", name)
    for rule in _refusals(words, view, first):
        return Verdict(rule.category, rule.name, name)
    if words.has("brief", *first) and not words.has("meta", *first):
        return Verdict("safety", "brief", name)
    for category, rule in _small_talk(words, view):
        return Verdict(category, rule, name)
    return None


def _declines_harm(words: Phrases, first: Sequence[str]) -> bool:
    """Return whether a sentence declines and it or its neighbour gives the reason: harm, law or policy."""
    for at, sentence in enumerate(first):
        if not words.has("decline", sentence):
            continue
        # A reason in the sentence before does not explain a failure that is reported.
        start = at if at == 0 or words.has("report", sentence) else at - 1
        if words.has("harm", *first[start : at + 2]):
            return not words.has("meta", *first[: at + 1])
    return False


# --------------------------------------------------------------------------- missing tools, missing access

#: The one rule that is a condition itself: what the model would do, if it had tools.
_COUNTERFACTUAL = "if_only"
#: Slots that excuse a sentence, whatever else it contains.
_EXCUSES = ("grave", "others", "needless", "reader", "advice")
#: Needs of rules that only the speaker can meet, and of the composed rules.
_SPEAKER_NEEDS = frozenset({"self", "part_here"})
_COMPOSED_NEEDS = frozenset({"part", "part_here"})


def _refusals(words: Phrases, view: AnswerView, first: Sequence[str]) -> Iterator[Rule]:
    """Yield the rules by which the model denies having tools, or reaching something that a tool reaches."""
    for at, sentence in enumerate(first):
        for rule, match in words.matches(sentence):
            if words.has("condition", sentence) and rule.name != _COUNTERFACTUAL:
                continue
            if _is_excused(words, first, at, match) or _is_honest(words, view, sentence):
                continue
            if _concerns_tool(words, view, rule, match, first) and not _asks(words, view.head[at + 1 :]):
                yield rule


def _is_excused(words: Phrases, first: Sequence[str], at: int, match: re.Match[str]) -> bool:
    """Return whether something else in the sentence, or next to it, makes it part of an ordinary answer."""
    before, sentence, after = first[:at], first[at], first[at + 1 : at + 2]
    # The matching phrase itself may contain words that would otherwise excuse it.
    rest = f"{match.string[: match.start()]} {match.string[match.end() :]}"
    return (
        words.has("missing", rest)
        or words.has("meta", *before, rest)
        or words.has("report", *before, rest, *after)
        or words.has("instead", sentence, *after)
        or words.has_any(_EXCUSES, sentence)
    )


def _is_honest(words: Phrases, view: AnswerView, sentence: str) -> bool:
    """Return whether the model knows its tools and rightly says that none of them serves this purpose."""
    return words.has("scope", sentence) and view.covers(sentence) is not True


def _concerns_tool(words: Phrases, view: AnswerView, rule: Rule, match: re.Match[str], first: Sequence[str]) -> bool:
    """Return whether the sentence meets the need of the rule: whether it concerns what an offered tool does."""
    sentence = match.string
    if rule.need == "nothing" and not match.groupdict().get("purpose"):
        return True
    if rule.need in _SPEAKER_NEEDS and not words.has("self", sentence):
        return False
    if rule.need in _COMPOSED_NEEDS and words.has("unrelated", sentence):
        return False
    contrast = words.slot("contrast").search(sentence, match.end())
    covered = view.covers(sentence[: contrast.start()] if contrast else sentence)
    if covered is not None or rule.need == "part":
        return covered is True
    if rule.need in ("unless_other", "self"):
        return True
    if rule.need == "part_here":
        return words.has("here", sentence)
    nearby = view.covers(" ".join(first))
    return nearby is True or (nearby is None and rule.need != "topic" and words.has("generic", sentence))


def _asks(words: Phrases, sentences: Sequence[str]) -> bool:
    """Return whether one of the sentences asks for missing information."""
    questions = [sentence for sentence in sentences if words.asks(sentence)]
    return any(words.has("choice", question) and not words.has("more", question) for question in questions)


# -------------------------------------------------------------------------- permission and announcements

#: Slots that show that a question asks for more than permission.
_REAL_QUESTION = ("choice", "grave", "more", "missing", "again")
#: Slots that show that a text is more than an announcement.
_MORE_THAN_ANNOUNCEMENT = ("waits", "report", "meta", "advice", "scope")


def _small_talk(words: Phrases, view: AnswerView) -> Iterator[tuple[Category, str]]:
    """Yield category and rule of an answer that only announces a call, or asks whether to make it."""
    is_short = view.whole and view.length <= _MAX_SMALL_TALK
    if is_short and _asks_permission(words, view):
        yield "asks_permission", "asks"
    if _names_call(words, view):
        yield "describes", "names_tool"
    if is_short and _announces(words, view):
        yield "describes", "announces"


def _asks_permission(words: Phrases, view: AnswerView) -> bool:
    """Return whether the end asks for permission, but not which of two things to do, nor before a grave step."""
    tail = view.tail
    requests = [sentence for sentence in tail[-2:] if _is_request(words, sentence)]
    others = [sentence for sentence in tail if sentence not in requests]
    if not requests and others and _is_short_question(words, others[-1]):
        *others, question = others
        requests = [question] if words.has("ability", *others) else []
    if not requests or words.has_any(_REAL_QUESTION, *requests):
        return False
    if words.has("wants", *filter(words.asks, requests)):
        return False
    if words.has("grave", *others[-1:]) or words.has("past", *others):
        return False
    if not all(_is_vague(words, sentence) for sentence in others) and not words.has("needs", *others):
        return False
    return words.has("act", *tail) or view.covers(" ".join(tail)) is True


def _is_request(words: Phrases, sentence: str) -> bool:
    """Return whether the sentence asks for permission to do something."""
    return (words.asks(sentence) and words.has("ask", sentence)) or words.has("offer", sentence)


def _is_short_question(words: Phrases, sentence: str) -> bool:
    return words.asks(sentence) and len(sentence) <= _MAX_SHORT_QUESTION


def _is_vague(words: Phrases, sentence: str) -> bool:
    return _is_weak(words, sentence) or words.has_any(("hedge", "ability", "wait"), sentence)


def _is_weak(words: Phrases, sentence: str) -> bool:
    """Return whether the sentence contributes nothing to an answer."""
    return any(words.begins(slot, sentence) for slot in ("weak", "intend", "progress")) or _is_request(words, sentence)


def _names_call(words: Phrases, view: AnswerView) -> bool:
    """Return whether an offered tool is named as the next call, and the answer ends soon after."""
    mentions = [sentence for sentence in view.tail if NAME in sentence]
    if not mentions:
        return False
    unplanned = [sentence for sentence in mentions if not words.has("modal", sentence)]
    if words.has("report", *unplanned) or words.has("past", *unplanned):
        return False
    last = max(at for at, sentence in enumerate(view.tail) if NAME in sentence)
    sentence, remarks = view.tail[last], view.tail[last + 1 :]
    is_plan = words.has_any(("modal", "intend", "advise", "impersonal"), sentence)
    # A short answer that does not describe the tool and is longer than its name is about to call it.
    is_about_call = view.whole and view.length > _MAX_BARE_NAME and not words.has("doc", *view.tail)
    is_for_reader = words.has("reader", sentence) and not words.has("self", sentence)
    is_excused = is_for_reader or words.asks(sentence) or words.has_any(("waits", "meta"), sentence)
    if not (is_plan or is_about_call) or is_excused or _asks(words, remarks):
        return False
    return sum(map(len, remarks)) <= _MAX_REMARK


def _announces(words: Phrases, view: AnswerView) -> bool:
    """Return whether no sentence answers anything and one of them announces an act."""
    tail = view.tail
    if any(words.asks(sentence) or sentence.startswith(QUOTE) for sentence in tail):
        return False
    # Most answers fail here, so the many slots of `_MORE_THAN_ANNOUNCEMENT` are searched last.
    if all(_is_weak(words, sentence) for sentence in tail):
        announces = any(_is_announcement(words, view, sentence) or words.has("wait", sentence) for sentence in tail)
    else:
        # An answer that ends by asking for patience is not complete.
        is_waiting = words.has("wait", tail[-1]) and not words.has("past", *tail)
        announces = is_waiting and any(_is_announcement(words, view, sentence) for sentence in tail)
    return announces and not words.has_any(_MORE_THAN_ANNOUNCEMENT, *tail)


def _is_announcement(words: Phrases, view: AnswerView, sentence: str) -> bool:
    """Return whether the sentence announces a call. What the model `would` do counts only if a tool does it."""
    if words.has("progress", sentence):
        return True
    acts = words.has("act", sentence) and not words.has("would", sentence)
    return words.has("intend", sentence) and (acts or view.covers(sentence) is True)

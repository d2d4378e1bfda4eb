"""Refusal classifier: decide whether an answer without a call refuses to use a tool that would help.

Precision matters more than recall. Mistaking an ordinary answer for a refusal costs a request and may lose the answer;
a missed refusal only stays a refusal. A phrase alone is therefore not enough: the sentence must concern something that
an offered tool does, and must not be a report, a quotation, a condition or a request for missing information.

An answer is classified in these steps:

1. `view_of` extracts the folded sentences of its beginning and end, without quotations (`answer_view`).
2. `candidate_languages` returns the languages it may be in. Each language has a table of phrases (`tables`).
3. `_judge` looks for, in this order: a safety refusal, a denial of tools or access, a refusal without a reason, and an
   answer that stops before the call because it asks for permission or only announces the call.

No code here depends on a language.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from .answer_view import MAX_HEAD, AnswerView, fold, language_by_letters, view_in, view_of
from .tables import LANGUAGES, NAME, QUOTE, Phrases, Rule, language, phrases, spell_out

#: Kinds of answers: the model claims to have no tools (`no_tools`) or no access to something that a tool can access
#: (`cannot_access`), announces or describes the call (`describes`), asks whether to make it (`asks_permission`),
#: declines for reasons of law, policy or harm (`safety`), or does none of these (`answer`).
Category = Literal["no_tools", "cannot_access", "describes", "asks_permission", "safety", "answer"]


class Verdict(msgspec.Struct, frozen=True):
    """The category of an answer. For an ordinary answer, the matching rule and the language are empty."""

    category: Category
    rule: str = ""
    language: str = ""


ANSWER = Verdict("answer")

#: Number of sentences at the beginning that are searched for refusals.
_FIRST_SENTENCES = 7
#: Maximum length of an answer that only announces a call or asks for permission.
_MAX_SMALL_TALK = 420
#: Up to this length, an answer with a tool's name counts as the answer to a question about the tool.
_MAX_BARE_NAME = 40
#: Maximum length of the closing remark after the announcement of a call. Longer text counts as an answer.
_MAX_REMARK = 260
#: Languages whose tables were improved until few refusals were missed.
_LARGE_TABLES = frozenset({"en", "de", "fr", "es", "zh", "ja"})
#: Slots whose phrases indicate that a negation does not deny an ability.
_NO_DENIAL = ("harm", "needless", "past", "meta")
#: Maximum length of a short question such as "Shall I?", which refers to the sentences before it.
_MAX_SHORT_QUESTION = 48


def classify(text: str, tools: Iterable[str] = ()) -> Verdict:
    """Classify an answer, given the names of the offered tools. Without names, tools are assumed for every topic.

    >>> classify("I'm sorry, but I don't have access to any tools.", ["get_weather"]).category
    'no_tools'
    >>> classify("I can't give medical advice.", ["get_weather"]).category
    'answer'
    """
    view = view_of(text, tuple(tools))
    for name in candidate_languages(text[:MAX_HEAD]):
        verdict = _judge(phrases(name), view_in(view, language(name)))
        if verdict is not None:
            return verdict
    return ANSWER


def may_decline(text: str) -> bool:
    """Return whether an answer in a language with a small table denies something. That alone is weak evidence."""
    for name in candidate_languages(text[:MAX_HEAD]):
        if name not in _LARGE_TABLES:
            first, words = view_in(view_of(text, ()), language(name)).head[:_FIRST_SENTENCES], phrases(name)
            return words.has_any(("neg", "lack"), *first) and not words.has_any(_NO_DENIAL, *first)
    return False


#: Beginnings of answers whose language is kept, because several questions are asked about each answer.
_RECENT_TEXTS = 16
_FOLDED_WORDS = re.compile(r"(?<![\w'])\w[\w']*").findall
_NO_LANGUAGES = frozenset[str]()
#: The languages with the largest tables. Others are tried only if more words speak for them, and more than one.
_USUAL_LANGUAGES = ("en", "de", "fr", "es")


@lru_cache(maxsize=_RECENT_TEXTS)
def candidate_languages(text: str) -> Sequence[str]:
    """Return the languages that the text may be in, judged by its script or by its most common words."""
    script = language_by_letters(text)
    if script:
        return (script,)
    counts = count_common_words(fold(text))
    most, usual = max(counts.values()), max(counts[name] for name in _USUAL_LANGUAGES)
    found = [name for name in _USUAL_LANGUAGES if counts[name] == usual]
    if most <= max(usual, 1):
        return found
    others = [name for name, count in counts.items() if count == most]
    return others + found if usual * 2 >= most else others


@lru_cache(maxsize=_RECENT_TEXTS)
def count_common_words(folded: str) -> Mapping[str, int]:
    """Count, for each language, how many words of the text are frequent in it; `i'm` also counts as `i`."""
    languages = _languages_by_word()
    counts = dict.fromkeys(_spaced_languages(), 0)
    for word in _FOLDED_WORDS(folded):
        names = languages.get(word, _NO_LANGUAGES)
        if "'" in word:
            names = names.union(*(languages.get(stem, _NO_LANGUAGES) for stem in _stems(word)))
        for name in names:
            counts[name] += 1
    return counts


def _stems(word: str) -> list[str]:
    """Return the part of a word before each of its apostrophes."""
    return [word[:at] for at, char in enumerate(word) if char == "'"]


@lru_cache(maxsize=1)
def _spaced_languages() -> tuple[str, ...]:
    return tuple(name for name in LANGUAGES if language(name).spaces)


@lru_cache(maxsize=1)
def _languages_by_word() -> dict[str, frozenset[str]]:
    """Return the languages in which each common word is frequent."""
    common = {name: spell_out(language(name).slots["common"]) for name in _spaced_languages()}
    words = frozenset[str]().union(*common.values())
    return {word: frozenset(name for name in common if word in common[name]) for word in words}


def _judge(words: Phrases, view: AnswerView) -> Verdict | None:
    """Return the first category that fits, or None for an ordinary answer. Safety refusals are checked first."""
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
    """Return whether a sentence declines and it or an adjacent one gives harm, law or policy as the reason."""
    for at, sentence in enumerate(first):
        if not words.has("decline", sentence):
            continue
        # If this sentence reports a failure, a reason in the previous sentence does not apply to it.
        start = at if at == 0 or words.has("report", sentence) else at - 1
        if words.has("harm", *first[start : at + 2]):
            return not words.has("meta", *first[: at + 1])
    return False


#: The only rule whose phrases are conditions: the model says what it would do if it had tools.
_COUNTERFACTUAL = "if_only"
#: Slots (named lists of phrases) that make a sentence part of an ordinary answer.
_EXCUSES = ("grave", "others", "needless", "reader", "advice")
#: Needs (see `tables.Need`) of rules that require the model to speak of itself, and of the composed rules.
_SPEAKER_NEEDS = frozenset({"self", "part_here"})
_COMPOSED_NEEDS = frozenset({"part", "part_here"})


def _refusals(words: Phrases, view: AnswerView, first: Sequence[str]) -> Iterator[Rule]:
    """Yield the rules that match because the model denies having tools, or having access that a tool provides."""
    for at, sentence in enumerate(first):
        for rule, match in words.matches(sentence):
            if words.has("condition", sentence) and rule.name != _COUNTERFACTUAL:
                continue
            if _is_excused(words, first, at, match) or _is_honest(words, view, sentence):
                continue
            if _concerns_tool(words, view, rule, match, first) and not _asks(words, view.head[at + 1 :]):
                yield rule


def _is_excused(words: Phrases, first: Sequence[str], at: int, match: re.Match[str]) -> bool:
    """Return whether other words in or near the sentence make it part of an ordinary answer."""
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
    """Return whether the model describes its tools and correctly says that none of them covers the topic."""
    return words.has("scope", sentence) and view.covers(sentence) is not True


def _concerns_tool(words: Phrases, view: AnswerView, rule: Rule, match: re.Match[str], first: Sequence[str]) -> bool:
    """Return whether the sentence meets the rule's need, that is, concerns something that an offered tool does."""
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


#: Slots whose phrases indicate that a question asks for more than permission.
_REAL_QUESTION = ("choice", "grave", "more", "missing", "again")
#: Slots that a sentence without content begins with.
_EMPTY_OPENINGS = ("weak", "intend", "progress")
#: Slots whose phrases indicate that a text is more than an announcement.
_MORE_THAN_ANNOUNCEMENT = ("waits", "report", "meta", "advice", "scope")


def _small_talk(words: Phrases, view: AnswerView) -> Iterator[tuple[Category, str]]:
    """Yield the category and rule of an answer that only announces a call or asks whether to make it."""
    is_short = view.whole and view.length <= _MAX_SMALL_TALK
    requests = [sentence for sentence in view.tail[-2:] if _is_request(words, sentence)] if is_short else []
    if is_short and _asks_permission(words, view, requests):
        yield "asks_permission", "asks"
    if _names_call(words, view):
        yield "describes", "names_tool"
    if is_short and _announces(words, view, requests):
        yield "describes", "announces"


def _asks_permission(words: Phrases, view: AnswerView, requests: list[str]) -> bool:
    """Return whether the end only asks for permission. Choices and questions before a serious step do not count.

    `requests`: those of the last two sentences that ask for permission.
    """
    tail = view.tail
    others = [sentence for sentence in tail if sentence not in requests]
    if not requests and others and words.asks(others[-1]) and len(others[-1]) <= _MAX_SHORT_QUESTION:
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


def _is_vague(words: Phrases, sentence: str) -> bool:
    """Return whether the sentence contributes little or nothing to an answer."""
    is_weak = words.begins(_EMPTY_OPENINGS, sentence) or _is_request(words, sentence)
    return is_weak or words.has_any(("hedge", "ability", "wait"), sentence)


def _names_call(words: Phrases, view: AnswerView) -> bool:
    """Return whether the answer names an offered tool as the next call and ends soon afterwards."""
    mentions = [sentence for sentence in view.tail if NAME in sentence]
    if not mentions:
        return False
    unplanned = [sentence for sentence in mentions if not words.has("modal", sentence)]
    if words.has("report", *unplanned) or words.has("past", *unplanned):
        return False
    last = max(at for at, sentence in enumerate(view.tail) if NAME in sentence)
    sentence, remarks = view.tail[last], view.tail[last + 1 :]
    is_plan = words.has_any(("modal", "intend", "advise", "impersonal"), sentence)
    # A short answer that mentions the tool without describing it is probably about to call it.
    is_about_call = view.whole and view.length > _MAX_BARE_NAME and not words.has("doc", *view.tail)
    is_for_reader = words.has("reader", sentence) and not words.has("self", sentence)
    is_excused = is_for_reader or words.asks(sentence) or words.has_any(("waits", "meta"), sentence)
    if not (is_plan or is_about_call) or is_excused or _asks(words, remarks):
        return False
    return sum(map(len, remarks)) <= _MAX_REMARK


def _announces(words: Phrases, view: AnswerView, requests: list[str]) -> bool:
    """Return whether the answer contains nothing but the announcement of an action."""
    tail = view.tail
    if any(words.asks(sentence) or sentence.startswith(QUOTE) for sentence in tail):
        return False
    # Most answers fail this test, so the many slots of `_MORE_THAN_ANNOUNCEMENT` are searched last.
    known = dict.fromkeys(tail[-2:], False) | dict.fromkeys(requests, True)
    if all(
        words.begins(_EMPTY_OPENINGS, each) or (known[each] if each in known else _is_request(words, each))
        for each in tail
    ):
        announces = any(_is_announcement(words, view, sentence) or words.has("wait", sentence) for sentence in tail)
    else:
        # An answer that ends with "one moment" or the like is incomplete.
        is_waiting = words.has("wait", tail[-1]) and not words.has("past", *tail)
        announces = is_waiting and any(_is_announcement(words, view, sentence) for sentence in tail)
    return announces and not words.has_any(_MORE_THAN_ANNOUNCEMENT, *tail)


def _is_announcement(words: Phrases, view: AnswerView, sentence: str) -> bool:
    """Return whether the sentence announces a call. "I would" counts only if an offered tool covers the topic."""
    if words.has("progress", sentence):
        return True
    acts = words.has("act", sentence) and not words.has("would", sentence)
    return words.has("intend", sentence) and (acts or view.covers(sentence) is True)

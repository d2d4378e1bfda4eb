"""Refusal detection: rates on texts written independently of the tables, then the rules one by one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.cases import check_each, size
from tests.refusals.measure import KINDS, RETRYABLE, measure, measure_played
from tests.time_growth import assert_cheap_beside
from toolspeak.engine.refusals import classifier
from toolspeak.engine.refusals.answer_view import offer_of, topics_in, view_of
from toolspeak.engine.refusals.classifier import Verdict, classify
from toolspeak.engine.refusals.refusal_prefix import OPENING, may_open_refusal
from toolspeak.engine.refusals.tables import LANGUAGES, Phrases, language, phrases, topic_patterns, topics

SETS = Path(__file__).parent.parent / "refusals"


# ------------------------------------------------------------------------------------------ measured


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SETS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def judged(row: dict[str, Any]) -> str:
    return classify(row["text"], row["tools"]).category


def held_back(text: str) -> int:
    """Return how many characters of an answer are held back before it is streamed."""
    return next((size for size in range(1, len(text) + 1) if not may_open_refusal(text[:size])), len(text))


@pytest.mark.requirement("E1")
def test_at_most_one_answer_in_a_hundred_is_taken_for_a_refusal():
    answers = [row for row in rows("answers") if "shape" not in row]
    wrong = [row["text"] for row in answers if judged(row) != "answer"]
    assert len(wrong) <= len(answers) / 100, wrong


@pytest.mark.requirement("E1")
@check_each("shape", ["need", "question", "advice", "instead"])
def test_answers_in_the_shape_of_a_refusal_are_left_alone(shape: str):
    """No tool is needed, something is missing, the reader may act, something else was done: in every language."""
    answers = [row for row in rows("answers") if row.get("shape") == shape]
    assert len({row["language"] for row in answers}) == 6
    assert [row["text"] for row in answers if judged(row) != "answer"] == []


@pytest.mark.requirement("E1")
def test_nine_refusals_in_ten_are_recognised():
    refusals = [row for row in rows("refusals") if row["category"] in RETRYABLE]
    recognised = [judged(row) in RETRYABLE for row in refusals]
    assert sum(recognised) / len(recognised) >= 0.9
    # The tables were improved after reading the misses on even lines. Of the misses on odd lines only the check that
    # stopped each was looked at, so the odd lines show better how far the tables generalise.
    unread = [
        judged(row) in RETRYABLE
        for line, row in enumerate(rows("refusals"), 1)
        if line % 2 and row["category"] in RETRYABLE
    ]
    assert sum(unread) / len(unread) >= 0.85


@pytest.mark.requirement("E1")
def test_refusals_that_were_written_later_are_mostly_recognised_and_answers_left_alone():
    """The misses on even lines were read before the tables were improved, those on odd lines were not."""
    refusals = rows("held_out")
    recognised = [judged(row) in RETRYABLE for row in refusals]
    assert sum(recognised) / len(recognised) >= 0.85
    assert sum(recognised[::2]) / len(recognised[::2]) >= 0.7
    wrong = [row["text"] for row in rows("held_out_answers") if judged(row) != "answer"]
    assert wrong == []


@pytest.mark.requirement("E1")
@check_each("half", ["read", "counted"])
def test_refusals_in_new_words_are_recognised_and_answers_left_alone(half: str):
    """Written before the tables were improved again; no miss of the half `counted` has been read since."""
    refusals = [judged(row) in RETRYABLE for row in rows("blind_refusals") if row["half"] == half]
    assert len(refusals) == 30
    assert sum(refusals) / len(refusals) >= 0.9
    answers = [row for row in rows("blind_answers") if row["half"] == half]
    assert len(answers) == 63
    assert sum(judged(row) in RETRYABLE for row in answers) <= 1
    assert all(judged(row) == "safety" for row in answers if row["category"] == "safety")


@pytest.mark.requirement("E1")
@check_each("row", rows("wordings"), ids=lambda row: row["text"][:40])
def test_a_wording_that_contains_the_parts_of_a_refusal_is_recognised(row: dict[str, Any]):
    assert (judged(row) in RETRYABLE) is (row["kind"] == "refusal")


@pytest.mark.requirement("E1")
def test_a_safety_refusal_is_never_retried():
    declined = [row for row in (*rows("refusals"), *rows("safety")) if row["category"] == "safety"]
    assert [row["text"] for row in declined if judged(row) in RETRYABLE] == []


@pytest.mark.requirement("E1")
@check_each(("part", "least"), [("first", 0.9), ("second", 0.9), ("third", 0.7)])
def test_most_safety_refusals_are_recognised(part: str, least: float):
    """Where a call is required, an unrecognised one is retried. No miss of the third part has been read."""
    declined = [judged(row) == "safety" for row in rows("safety") if row["part"] == part]
    assert sum(declined) / len(declined) >= least
    earlier = [judged(row) == "safety" for row in rows("refusals") if row["category"] == "safety"]
    assert sum(earlier) / len(earlier) >= 0.9


def test_a_reason_before_a_reported_failure_does_not_make_a_safety_refusal():
    text = "The terms of service are in terms.txt. I won't find more, since the search failed."
    assert classify(text, TOOLS).category == "answer"
    assert classify("Phishing is a crime. I won't write that.", TOOLS).category == "safety"


@pytest.mark.requirement("E5")
@check_each(
    ("name", "refusals", "described"),
    [("more_languages", 0.9, 0.9), ("more_languages_held_out", 0.9, 0.9), ("more_languages_unread", 0.2, 0.6)],
)
def test_in_nine_more_languages_answers_and_safety_refusals_are_left_alone(
    name: str, refusals: float, described: float
):
    """The last set was written after the rules, in words that avoid theirs: it shows how far they generalise."""
    count = measure(name)["all"]
    assert count["refusals again"] / count["refusals"] >= refusals
    assert count["described calls again"] / count["described calls"] >= described
    assert (count["answers again"], count["safety again"]) == (0, 0)


@pytest.mark.requirement("E1", "E5")
@check_each("streamed", size([False], [False, True]))
def test_refusals_written_without_sight_of_the_rules_are_mostly_asked_again(streamed: bool):
    """The limits are what was counted first. Do not improve a rule with this set: nothing else is as independent."""
    counts = measure_played("independent", streamed=streamed)
    large, small = counts["large"], counts["small"]
    assert (large["refusals"], small["refusals"]) == (48, 72)
    assert large["refusals again"] >= 41
    assert small["refusals again"] >= 45
    assert small["refusals again"] + small["refusals checked"] >= (45 if streamed else 56)
    assert large["refusals after text"] <= 26
    assert small["refusals after text"] <= 23
    for group in (large, small):
        assert (group["answers again"], group["safety again"], group["safety checked"]) == (0, 0, 0)
    assert large["answers checked"] == 0
    assert small["answers checked"] <= (0 if streamed else 3)


@pytest.mark.requirement("E5")
def test_most_refusals_in_unusual_words_are_at_least_checked():
    """Where no rule matches, a denial leads to a decision request, but never one for reasons of safety."""
    by_category: dict[str, list[bool]] = {}
    for row in rows("more_languages_unread"):
        found = judged(row) in RETRYABLE or classifier.may_decline(row["text"])
        by_category.setdefault(KINDS[row["category"]], []).append(found)
    assert sum(by_category["refusals"]) / len(by_category["refusals"]) >= 0.85
    assert not any(by_category["safety"])
    assert not any(classifier.may_decline(row["text"]) for row in rows("refusals"))  # large tables need no check


@pytest.mark.requirement("B11")
def test_an_ordinary_answer_is_held_back_for_a_few_characters_only():
    sizes = sorted(held_back(row["text"]) for row in rows("answers"))
    assert sum(sizes) / len(sizes) <= 8
    assert sizes[len(sizes) * 9 // 10] <= 16


# -------------------------------------------------------------------------------------------- by rule

TOOLS = ("get_weather", "read_file", "web_search")

#: Category, language and text.
REFUSALS = [
    ("no_tools", "en", "I'm sorry, but I don't have access to any tools in this conversation."),
    ("no_tools", "en", "No tools are available to me, so I can't do that."),
    ("no_tools", "en", "If only I had a search tool, I would look up the latest news."),
    ("no_tools", "en", "I don't have a tool for reading files."),
    ("cannot_access", "en", "As an AI language model, I don't have real-time access to weather data."),
    ("cannot_access", "en", "I’m unable to read files on your computer. Please paste the contents here."),
    ("describes", "en", "I would use the get_weather tool with the city set to Paris."),
    ("describes", "en", "Let me check the weather in Paris for you."),
    ("describes", "en", "Sure! I'll look that up. One moment please. ✈️"),
    ("describes", "en", "Searching the web now..."),
    ("describes", "en", "The next call: `get_weather` with the city Paris."),
    ("describes", "en", "First I would call read_file, then pass its result to web_search."),
    ("asks_permission", "en", "I can check that for you. Would you like me to do that?"),
    ("asks_permission", "en", "It depends on the weather. I could look up the forecast. Interested?"),
    ("asks_permission", "en", "There are several causes: a bug, a typo. To find out, I'd have to run a search. May I?"),
    ("safety", "en", "I'm sorry, I can't help with that."),
    ("safety", "en", "I can't help you build a weapon; that would be dangerous and illegal."),
    ("no_tools", "de", "Es tut mir leid, aber ich habe keinen Zugriff auf Tools."),
    ("cannot_access", "de", "Ich kann leider nicht auf das Internet zugreifen, um das aktuelle Wetter abzurufen."),
    ("describes", "de", "Ich werde jetzt das Wetter in Paris abrufen."),
    ("asks_permission", "de", "Soll ich das Wetter für Paris abrufen?"),
    ("safety", "de", "Dabei kann ich nicht helfen, denn das wäre illegal."),
    ("no_tools", "fr", "Je suis désolé, mais je n'ai pas accès à des outils."),
    ("cannot_access", "fr", "Je ne peux pas accéder à Internet ni consulter la météo en temps réel."),
    ("describes", "fr", "Je vais vérifier la météo à Paris."),
    ("asks_permission", "fr", "Voulez-vous que je consulte la météo ?"),
    ("safety", "fr", "Je ne peux pas vous aider, car c'est illégal."),
    ("no_tools", "es", "Lo siento, no tengo acceso a herramientas externas."),
    ("cannot_access", "es", "No puedo acceder a información meteorológica en tiempo real."),
    ("describes", "es", "Voy a consultar el tiempo en París."),
    ("asks_permission", "es", "¿Quieres que consulte el tiempo en París?"),
    ("safety", "es", "No puedo ayudarte con eso, sería ilegal."),
    ("no_tools", "zh", "抱歉，我没有可用的工具来完成这个请求。"),
    ("no_tools", "zh", "抱歉，我沒有可用的工具。"),
    ("no_tools", "zh", "我这里没有get_weather这个工具。"),
    ("cannot_access", "zh", "作为一个AI语言模型，我无法访问互联网，因此无法提供实时天气信息。"),
    ("describes", "zh", "好的，我来为您查询巴黎的天气。"),
    ("asks_permission", "zh", "需要我帮您查询巴黎的天气吗？"),
    ("safety", "zh", "这是违法的，我不能帮助您。"),
    ("no_tools", "ja", "申し訳ありませんが、利用できるツールがありません。"),
    ("cannot_access", "ja", "私はリアルタイムの天気情報にアクセスできません。"),
    ("describes", "ja", "パリの天気を確認します。少々お待ちください。"),
    ("asks_permission", "ja", "パリの天気を調べましょうか？"),
    ("safety", "ja", "それは違法ですので、お手伝いできません。"),
]

ANSWERS = {
    "a plain answer": "The weather in Paris is 18°C and sunny.",
    "the name of a tool, asked for by the user": "get_weather",
    "the same as a sentence": "The tool is `get_weather`.",
    "nothing at all": "",
    "white space": " \n ",
    "a limit that no tool could lift": "I cannot give medical advice.",
    "a tool that was not offered": "I don't have a tool for feeding your cat.",
    "something that no tool is for": "I can't access your bank account.",
    "a limit, then the answer": "I can't check your bank balance, but the weather in Rome will be fine.",
    "a report": "I could not find the file notes.txt.",
    "a report with its cause": "I can't open notes.txt because the file does not exist.",
    "a report in German": "Ich konnte die Datei nicht finden.",
    "a report in French": "Je n'ai pas trouvé le fichier.",
    "a report in Spanish": "No encontré el archivo.",
    "a report in Chinese": "我没有找到该文件。",
    "a report in Japanese": "ファイルが見つかりませんでした。",
    "a question for an argument": "Which city do you mean?",
    "a limit until more is said": "I can't check the weather without a city.",
    "a limit and a question for what is missing": "I can't look up the weather. Which city do you mean?",
    "a condition": "If I can't access the file, I will tell you.",
    "a quotation": 'The phrase "I don\'t have access to tools" is a common refusal.',
    "a quotation in a block": "> I don't have access to tools\n\nThat is what it said.",
    "an explanation": "Models often say that I don't have access to tools.",
    "an opinion on tools": "I can't recommend one tool over another.",
    "an offer of more": "It's 18°C in Paris. Would you like me to check tomorrow's forecast too?",
    "an offer of more in German": "In Rom sind es 14 Grad. Soll ich auch das Wetter für morgen prüfen?",
    "a grave step": "This will permanently delete 42 files. Do you want me to proceed?",
    "a grave step that is declined": "I can't delete the file notes.txt.",
    "a choice": "Should I check Paris or Lyon?",
    "an invitation": "Let me know if you need anything else.",
    "an explanation to come": "Let me explain how the weather works.",
    "a result with the tool's name": "I used get_weather: it is 18 degrees.",
    "a question about a tool": "Did you mean get_weather?",
    "a quotation that is explained": "「検索します」は丁寧な言い方で、目上の人に使います。",
    "an example in a fence": "For example:\n```\nget_weather(city='Paris')\n```\nlike that.",
    "a call that is quoted": '<tool_call>{"name": "get_weather", "arguments": {}}</tool_call> is what the page holds.',
    "an announcement with its result": "Let me check: 18 seats at 27.50 make 495.",
    "a short question after an answer": "It is sunny in Rome. Interested?",
    "a tool and a question for its argument": "The tool `get_weather` needs a city. Which one?",
    "a tool in the reader's hands": "To call get_weather yourself from Python, write a short script.",
    "a tool and another that gets its result": "First call `read_file`, then pass its result to `web_search`.",
    "a plan that is advice": "I'd check the weather and then decide.",
    "a question whether to repeat it": "The search has no results yet. Should I try again?",
    "no need of tools": "Aucun outil n'est nécessaire : 42.",
    "what was done instead": "I don't have access to the file a.txt, so I used the public copy. It says 42.",
    "a tool named long before the end": f"I'll use get_weather. {'The sun shone on the hills all day long. ' * 9}",
}


@pytest.mark.requirement("E1")
@check_each(("category", "language", "text"), REFUSALS, ids=[text[:40] for _, _, text in REFUSALS])
def test_refusals_are_classified_by_category_and_language(category: str, language: str, text: str):
    verdict = classify(text, TOOLS)
    assert (verdict.category, verdict.language) == (category, language)
    assert verdict.rule


@pytest.mark.requirement("E1")
@check_each("case", ANSWERS)
def test_ordinary_answers_are_left_alone(case: str):
    assert classify(ANSWERS[case], TOOLS).category not in RETRYABLE
    if case != "a grave step that is declined":
        assert classify(ANSWERS[case], TOOLS) == Verdict("answer")


@check_each(
    ("text", "retried"),
    [
        ("I can't help with that using the tools available to me.", False),
        ("Sorry, I can't do that with the tools I have.", False),
        ("None of the available tools can do that.", False),
        ("Das kann ich mit den verfügbaren Werkzeugen nicht erledigen.", False),
        ("Je ne peux pas le faire avec les outils disponibles.", False),
        ("No puedo hacerlo con las herramientas disponibles.", False),
        ("可用的工具都无法做到这一点。", False),
        ("利用可能なツールではそれはできません。", False),
        ("I can't check the weather with the tools available to me.", True),
        ("Mit meinen Werkzeugen kann ich das Wetter nicht abrufen.", True),
        ("None of my tools can look up the weather.", True),
        ("None of the tools are available to me.", True),
    ],
)
def test_a_model_may_deny_that_its_tools_serve_unless_one_does(text: str, retried: bool):
    verdict = classify(text, ["find_hotel", "get_weather"])
    assert (verdict.category in RETRYABLE) == retried


def test_a_limit_counts_only_where_a_tool_could_lift_it():
    text = "Unfortunately I can't look up stock prices."
    assert classify(text, ["get_stock_price"]).category == "cannot_access"
    assert classify(text, ["web_search"]).category == "cannot_access"
    assert classify(text, ["translate"]).category == "answer"
    assert classify(text).category == "cannot_access"  # without names, any topic may have a tool


def test_a_tool_that_runs_commands_reaches_files_and_the_web():
    for text in ("I can't read your files.", "I can't browse the web."):
        assert classify(text, ["bash"]).category == "cannot_access"


def test_words_in_the_name_of_a_tool_indicate_its_topic():
    assert classify("I can't look up the warranty.", ["getWarrantyInfo"]).category == "cannot_access"
    assert classify("I can't look up the warranty.", ["getMenu"]).category == "answer"


def test_a_tool_named_like_a_word_counts_only_as_a_tool():
    assert classify("I'd use the calculator tool with 12 * 7.", ["calculator"]).category == "describes"
    assert classify("I'd use `calculator` with 12 * 7.", ["calculator"]).category == "describes"
    assert classify("A calculator is a machine.", ["calculator"]).category == "answer"


def test_an_explained_refusal_is_not_mistaken_for_one_of_safety():
    text = "I'm sorry, I can't help with that, because I don't have access to the internet."
    assert classify(text, TOOLS).category == "cannot_access"


def test_a_long_answer_is_judged_by_its_opening_and_its_end():
    filler = "The river runs through the old town and past the mill. " * 60
    assert classify(f"I don't have any tools. {filler}", TOOLS).category == "no_tools"
    assert classify(f"{filler}I'll use get_weather for that.", TOOLS).category == "describes"
    assert classify(f"{filler}I don't have any tools. {filler}", TOOLS).category == "answer"


def test_names_of_any_shape_do_no_harm():
    for names in (["(", "[a"], [""], ["x" * 5000], [str(number) for number in range(2000)]):
        assert classify("I don't have any tools.", names).category == "no_tools"


# ----------------------------------------------------------------------------------------- the opening

OPENINGS = [text for category, _, text in REFUSALS if category in ("no_tools", "cannot_access")]
#: Refusals that begin like an ordinary answer.
UNHELD = ("If only I had", "我这里没有get_weather")


@pytest.mark.requirement("B11")
@check_each("text", [text for text in OPENINGS if not text.startswith(UNHELD)])
def test_the_opening_of_a_refusal_is_held_back_to_its_end(text: str):
    assert all(may_open_refusal(text[:size]) for size in range(min(len(text) + 1, OPENING)))


@pytest.mark.requirement("B11")
def test_nothing_is_decided_on_an_empty_text_and_everything_after_the_opening():
    assert may_open_refusal("")
    assert may_open_refusal("  \n")
    refusal = "I'm sorry, but I don't have any tools. " * 9
    assert may_open_refusal(refusal[: OPENING - 1])
    assert not may_open_refusal(refusal[:OPENING])


@pytest.mark.requirement("B11")
@check_each(
    "text",
    [
        "The weather",
        "Sure",
        "18 °C",
        "I think",
        "I can't rec",
        "巴黎",
        "パリ",
        "Il fait",
        "Hace",
        "Es regnet",
        "```",
        "{",
    ],
)
def test_an_ordinary_opening_is_released(text: str):
    assert not may_open_refusal(text)


@pytest.mark.requirement("B11")
def test_a_sentence_that_turns_out_harmless_is_released_at_its_end():
    text = "I can't tell a lie"
    assert may_open_refusal(f"{text}.")
    assert not may_open_refusal(f"{text}. ")
    assert may_open_refusal("I can't access files. ")


words = st.sampled_from(
    "I'm sorry , but I don't have can't access any tools . \n Ich kann nicht Je ne peux pas No puedo 我 没有 工具 。 私は "
    "リアルタイム ツール the weather is".split(" ")
)


@pytest.mark.requirement("B11")
@settings(max_examples=size(37, 150))
@given(st.lists(words, max_size=14).map(" ".join) | st.text(max_size=60), st.text(max_size=20))
def test_a_released_opening_is_never_held_back_again(text: str, more: str):
    if not may_open_refusal(text):
        assert not may_open_refusal(text + more)


# -------------------------------------------------------------------------------------------- hostile

HOSTILE = {
    "negations": "i cannot ",
    "modifiers": "i don't have any the a some such ",
    "German": "ich kann nicht ",
    "French": "je ne peux pas ",
    "Chinese": "我没有任何可用的",
    "Japanese": "アクセスする",
    "Turkish": "erişimim yok ışamıyorum ",
    "Russian": "я не могу у меня нет ",
    "Korean": "접근할 수 없는 도구가 ",
    "Hindi": "मैं नहीं ",
    "spaces": " ",
    "quotes": '"',
    "ticks": "`",
    "one word": "w",
    "full stops": ". ",
    "names": "get_weather ",
}


@pytest.mark.requirement("R-T12")
@pytest.mark.no_cover
@check_each("case", HOSTILE)
def test_the_length_of_a_text_does_not_matter(case: str):
    text = HOSTILE[case] * (1_000_000 // len(HOSTILE[case]))
    classify(text[:8192], TOOLS)  # the tables are compiled once

    def judge(length: int) -> object:
        return classify(text[:length], TOOLS), may_open_refusal(text[:length])

    assert_cheap_beside(lambda: judge(1_000_000), lambda: judge(8192), most=1_000_000 / 8192)


@settings(max_examples=size(25, 100))
@given(st.text(max_size=300), st.lists(st.text(max_size=12), max_size=3))
def test_every_text_gets_a_verdict(text: str, names: list[str]):
    assert classify(text, names).category in {*RETRYABLE, "safety", "answer"}


# -------------------------------------------------------------------------------------------- tables

#: Slots that only some languages need.
OPTIONAL = {
    "adv",
    "am",
    "cannot",
    "cutoff",
    "have_no",
    "mods",
    "no",
    "not",
    "others",
    "question",
    "signs",
    "use",
    "wants",
}
#: Languages with large tables. The others have small ones, which leave out some slots.
LARGE = ("en", "de", "fr", "es", "zh", "ja")
SMALL = tuple(name for name in LANGUAGES if name not in LARGE)
#: Slots that small tables leave out.
SPARED = set("advice advise again hedge impersonal needs progress purpose reader tell would".split())


def test_every_language_has_the_slots_that_the_classifier_reads():
    slots = {name: set(language(name).slots) - OPTIONAL for name in LANGUAGES}
    assert {name: slots[name] for name in LARGE} == dict.fromkeys(LARGE, slots["en"])
    spared = {name: slots[name] - SPARED - {"foreign"} for name in SMALL}
    assert spared == dict.fromkeys(SMALL, slots["en"] - SPARED)


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_pattern_compiles(name: str):
    words = phrases(name)
    assert all(words.slot(slot) for slot in words.language.slots)
    assert [rule for rule, _ in words.matches("⌘")] == []


def test_a_name_in_backticks_or_next_to_a_word_for_tools_counts_as_named():
    offer = offer_of(("calculator", "get_weather"))
    assert offer.may_be_named("i use `calculator`")
    assert offer.may_be_named("the calculator tool")
    assert offer.may_be_named("get_weather")
    assert not offer.may_be_named("a calculator is a machine")
    assert not offer.may_be_named("press the `keys`")
    assert not offer_of(()).may_be_named("get_weather")


def test_topics_are_recognised_in_every_language():
    for sentence in ("the weather", "das wetter", "la meteo", "el clima", "今天的天气", "東京の天気"):
        assert "weather" in topics_in(sentence)
    for name in SMALL:
        known = {topic for topic, pattern in topic_patterns(name)}
        assert set(language(name).topics) <= known == set(topics())
    assert "weather" in topics_in("прогноз погоды", "ru")
    assert "weather" not in topics_in("прогноз погоды")


def test_numbers_and_pictures_alone_are_not_sentences():
    assert view_of("Fine. 😊 12.5! Good.", ()).head == ("fine.", "good.")


@pytest.mark.parametrize("name", ["en", "fr"])
@given(st.lists(st.sampled_from("i i'm i'x x'i 'i i'' i''x d'un l'outil aujourd'hui c'est j'ai j' the , é".split())))
def test_common_words_are_counted_as_their_pattern_matches_them(name: str, words: list[str]):
    text = " ".join(words)
    assert classifier.count_common_words(text)[name] == len(phrases(name).slot("common").findall(text))


# ------------------------------------------------------------------------------------------- prefilter

#: The languages with a prefilter, and their patterns without it.
SIGNS = [name for name in LANGUAGES if "signs" in language(name).slots]
UNFILTERED = {
    name: Phrases(
        structs.replace(language(name), slots={k: v for k, v in language(name).slots.items() if k != "signs"})
    )
    for name in SIGNS
}


def test_the_signs_of_a_language_change_no_match_on_the_sets():
    for row in (*rows("refusals"), *rows("answers"), *rows("held_out"), *rows("blind_refusals")):
        name = row["language"]
        for sentence in view_of(row["text"], ()).head if name in SIGNS else ():
            expected = [rule.name for rule, _ in UNFILTERED[name].matches(sentence)]
            assert [rule.name for rule, _ in phrases(name).matches(sentence)] == expected, sentence


@settings(max_examples=size(40, 300), deadline=None)
@given(st.data())
def test_whatever_a_rule_matches_contains_a_sign(data: st.DataObject):
    words = phrases(data.draw(st.sampled_from(SIGNS)))
    rule = data.draw(st.sampled_from(words.language.rules))
    pattern = words._compile(words._fill(rule.pattern))
    for match in pattern.finditer(data.draw(st.from_regex(pattern))):
        assert words._may_match(match.group()), match


FIRST = """
import time
from toolspeak.engine.refusals.classifier import classify
for text in ("Paris has about two million inhabitants and lies on the Seine.", "I don't have access to weather data."):
    start = time.process_time()
    verdict = classify(text, ["get_weather"])
    print(verdict.category, time.process_time() - start)
"""


@pytest.mark.requirement("E1")
def test_the_first_answers_do_not_wait_for_all_tables():
    """Limits with room for a slow machine; compiling all tables takes more than half a second."""
    runs = [subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True) for _ in range(2)]
    lines = [run.stdout.split() for run in runs]
    assert {(line[0], line[2]) for line in lines} == {("answer", "cannot_access")}
    assert min(float(line[1]) for line in lines) < 0.2
    assert min(float(line[3]) for line in lines) < 0.25

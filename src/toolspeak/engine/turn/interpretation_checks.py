"""Checks of the calls that an interpreter reads from an answer: the values appear there, and the model means the calls.

- A string must appear as whole words in the same case, plain or escaped as in JSON, as often as the call has it. White
  space may differ. An enum value may differ in case, and in `_`, `-` and spaces, and once is enough. A key that the
  schema does not declare counts as a string. The name of a parameter is no value of it.
- A number must appear in digits, optionally with a sign, thousands separators, decimals and an exponent, or, up to
  twenty, as an English word. `5 %` is 5 and 0.05. Booleans and null are not checked.
- A string or number at the end of an unfinished call does not count, since it may be cut. An enum value does.
- The model means a call unless a text that it has read contains it in call form, or its name or all its values stand
  only in passages that were copied from a text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

import msgspec

from ...core.parsing.echoes import EchoSearch, words_of
from ...core.types import JSONValue, Message, Tool, ToolCall, is_array, is_object
from ..prompting.history import results_of

_NUMBER_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
).split()
#: Sign, digits or word, decimals with exponent, percent. A hyphen behind a word is no sign, and `1.2.3` is no number.
_NUMBER = re.compile(
    r"(?<![\w.])([-+\u2212]|minus |negative |)(\d{1,3}(?:[,\u00a0\u2009\u202f]\d{3})+(?!\d)|\d{1,40}|"
    rf"(?:{'|'.join(_NUMBER_WORDS)})\b)((?:\.\d{{1,40}})?(?:e[+-]?\d{{1,3}})?)(?!\.?\d)(\s?(?:%|per ?cent\b)|)",
    re.IGNORECASE,
)
#: Endings of a value that is complete, although its call is not.
_CLOSING = tuple("\"'`)}]>\n")
#: An element at the end of a text that is not closed, and its content.
_OPEN_ELEMENT = re.compile(r"<([A-Za-z][^<>\s/]{0,100})(?:\s[^<>]{0,200})?>([^<>]+)\Z").search
#: Words beside a value that make it part of a copied passage: in a text that names the tool, in another text, and in
#: what the user says, which may be a request with the name of the tool. For the name itself, it takes two more.
_BESIDE_VALUE, _IN_OTHER_TEXT, _FROM_USER, _MORE_FOR_NAME = 4, 8, 6, 2
#: Where some words of the answer begin and end.
_Place = tuple[int, int]


def missing_value(call: ToolCall, tool: Tool, answer: str) -> str:
    """Return a value of a call that does not appear in the answer, or an empty string."""
    whole = _without_cut_value(answer)
    text, folded, numbers = _squeezed(whole), _folded(answer), _numbers(whole)
    choices, keys = set[str](), set[str]()
    _collect(tool.parameters, choices, keys)
    values = [*leaves(call.arguments, keys)]
    for value in values:
        if not isinstance(value, str):
            stands = Decimal(str(value)) in numbers
        else:
            forms = (value, msgspec.json.encode(value).decode()[1:-1])
            stands = value in choices and _count_whole(folded, _folded(value)) > 0
            stands = stands or any(_count_whole(text, _squeezed(form)) >= values.count(value) for form in forms)
        if not stands:
            return str(value)
    return next((name for name, value in call.arguments.items() if name == value and name not in choices), "")


def _without_cut_value(answer: str) -> str:
    """Return the answer without a last value that may be cut: its string, or what is around it, is still open."""
    if answer.count('"') % 2:
        return answer[: answer.rindex('"')]
    if element := _OPEN_ELEMENT(answer):
        return answer[: element.start(2)]
    is_open = any(answer.count(pair[0]) > answer.count(pair[1]) for pair in ("()", "[]", "{}"))
    if (is_open or answer.count("```") % 2) and not answer.endswith(_CLOSING):
        return answer[: max(map(answer.rfind, ",:=([{\n")) + 1]
    return answer


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _folded(text: str) -> str:
    return _squeezed(text.casefold().replace("_", " ").replace("-", " "))


def _count_whole(text: str, part: str) -> int:
    """Count a part of a text where it is not in a longer word. In scripts without case, words have no bounds."""
    count = 0
    for match in re.finditer(f"(?={re.escape(part)})", text):
        start, end = match.start(), match.start() + len(part)
        pairs = (text[start - 1 : start] + part[:1], part[-1:] + text[end : end + 1])
        count += not any(
            len(pair) == 2 and all(char.isdigit() or char.lower() != char.upper() for char in pair) for pair in pairs
        )
    return count


def _numbers(answer: str) -> set[Decimal]:
    numbers = set[Decimal]()
    for sign, digits, rest, percent in _NUMBER.findall(answer):
        parts = re.findall(r"\d+", digits) or [str(_NUMBER_WORDS.index(digits.lower()))]
        for whole in ("".join(parts), *parts):  # `[1,200]` may also be a list of two numbers
            number = Decimal(f"{'-' if sign not in ('', '+') else ''}{whole}{rest}")
            numbers |= {number, number.scaleb(-2)} if percent else {number}
    return numbers


def _collect(schema: JSONValue, choices: set[str], keys: set[str]) -> None:
    """Collect the strings that a schema lists as choices, and the keys that it declares."""
    for each in schema if is_array(schema) else ():
        _collect(each, choices, keys)
    for name, inner in schema.items() if is_object(schema) else ():
        if name == "properties" and is_object(inner):
            keys.update(inner)
            inner = [*inner.values()]
        elif name in ("enum", "const"):
            choices.update(each for each in (inner if is_array(inner) else [inner]) if isinstance(each, str))
        _collect(inner, choices, keys)


def leaves(value: JSONValue, declared: Iterable[str]) -> Iterator[str | int | float]:
    """Yield the strings and numbers in a value, and the keys that are not declared."""
    if is_object(value):
        yield from (key for key in value if key not in declared)
        value = [*value.values()]
    if is_array(value):
        for inner in value:
            yield from leaves(inner, declared)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


class Quotations:
    """The parts of an answer that repeat what the model has read: messages, and texts that declare the tools."""

    def __init__(self, answer: str, messages: Sequence[Message], declared: Iterable[str]) -> None:
        users = {message.text for message in messages if message.role == "user"}
        others = {message.text for message in messages if message.role == "system"} | {*declared}
        others |= {result.content for message in messages for result in results_of(message)}
        self._calls = EchoSearch((*others, *users), declared)
        self._users = [EchoSearch([text]) for text in users]
        self._others = [EchoSearch([text]) for text in others]
        self._words = words_of(answer)

    def contain(self, call: ToolCall) -> bool:
        """Whether the call is repeated from a text."""
        if self._calls.contains(call.name, call.arguments, apart=True):
            return True
        needed = [(text, _BESIDE_VALUE if text.may_contain(call.name) else _IN_OTHER_TEXT) for text in self._others]
        needed += [(text, _FROM_USER) for text in self._users if text.may_contain(call.name)]
        values = [places for value in leaves(call.arguments, call.arguments) if (places := self.places(str(value)))]
        if values and all(self._is_copied(place, needed) for places in values for place in places):
            return True
        longer = [(text, size + _MORE_FOR_NAME) for text, size in needed]
        names = self.places(call.name)
        return bool(names) and all(self._is_copied(at, longer) or self._is_copied_whole(at, values) for at in names)

    def places(self, part: str) -> list[_Place]:
        """Return where some words stand in the answer."""
        words = words_of(part)
        starts = range(len(self._words) - len(words) + 1 if words else 0)
        return [(at, at + len(words)) for at in starts if self._words[at : at + len(words)] == words]

    def _is_copied(self, place: _Place, needed: list[tuple[EchoSearch, int]]) -> bool:
        """Whether a text contains this place of the answer with so many words beside it, or with the whole answer."""
        for text, size in needed:
            for before in range(size + 1):
                passage = self._words[max(0, place[0] - before) : place[1] + size - before]
                is_enough = len(passage) in (len(self._words), place[1] - place[0] + size)
                if is_enough and text.contains_run(passage):
                    return True
        return False

    def _is_copied_whole(self, name: _Place, values: list[list[_Place]]) -> bool:
        """Whether the name of the tool and the values next to it are one passage of a text, which may be short."""
        nearest = [min(places, key=lambda place: abs(place[0] - name[0])) for places in values]
        passage = self._words[min([name, *nearest])[0] : max(end for _, end in (name, *nearest))]
        return bool(nearest) and any(text.contains_run(passage) for text in self._others)

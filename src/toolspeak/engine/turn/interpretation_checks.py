"""Checks of the calls that an interpreter makes of an answer: their values stand there, and the model means them.

- A string occurs as whole words, in the same case, with any white space, plain or escaped as in JSON. A choice of an
  enum may differ in case, and in `_`, `-` and spaces. A key that the schema does not declare counts as a string.
- A number occurs in digits, which may have a sign, separators of thousands, decimals and an exponent, or as an English
  word up to twenty. `5 %` is 5 and 0.05. Truth values and null cannot be checked.
- A call repeats what the model has read if a text contains it in call form, or if its name or all its values occur only
  inside passages that were copied from a text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

import msgspec

from ...core.parsing.echoes import EchoSearch, words_of
from ...core.types import JSONObject, JSONValue, Message, Tool, ToolCall, is_array, is_object
from ..prompting.history import results_of

_NUMBER_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
).split()
_PERCENT = r"(\s?(?:%|percent\b|per cent\b))?"
#: Sign, digits, decimals with exponent, percent. A hyphen behind a word is no sign, and `1.2.3` is no number.
_DIGITS = re.compile(
    r"(?<![\w.])([-+\u2212]?)(\d{1,3}(?:[,\u00a0\u2009\u202f]\d{3})+(?!\d)|\d{1,40})((?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?)"
    rf"(?!\.?\d){_PERCENT}"
)
_SPELLED = re.compile(rf"\b(minus |negative )?({'|'.join(_NUMBER_WORDS)})\b{_PERCENT}", re.IGNORECASE)
#: Words beside a value that make it part of a copied passage: in a text that names the tool, in another text, and in
#: what the user says, which may be a request with the name of the tool. For the name itself, it takes two more.
_BESIDE_VALUE, _IN_OTHER_TEXT, _FROM_USER, _MORE_FOR_NAME = 4, 8, 6, 2
#: Where some words of the answer begin and end.
_Place = tuple[int, int]


class AnswerValues:
    """The values that occur in an answer."""

    def __init__(self, answer: str) -> None:
        self._text = _squeezed(answer)
        self._folded = _folded(answer)
        self._numbers = {*_numbers_in_digits(answer), *_spelled_numbers(answer)}

    def missing(self, arguments: JSONObject, tool: Tool) -> str | None:
        """Return a value of the arguments that does not occur in the answer, or None."""
        choices, keys = set[str](), set[str]()
        _collect(tool.parameters, choices, keys)
        for value in leaves(arguments, keys):
            if not self._holds(value, choices):
                return str(value)
        return None

    def _holds(self, value: str | int | float, choices: set[str]) -> bool:
        if not isinstance(value, str):
            return Decimal(str(value)) in self._numbers
        if value in choices and _holds_whole(self._folded, _folded(value)):
            return True
        escaped = msgspec.json.encode(value).decode()[1:-1]
        return any(_holds_whole(self._text, _squeezed(form)) for form in (value, escaped))


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _folded(text: str) -> str:
    return _squeezed(text.casefold().replace("_", " ").replace("-", " "))


def _holds_whole(text: str, part: str) -> bool:
    """Whether a part occurs in a text, but not as a part of a longer word."""
    at = text.find(part)
    while at >= 0:
        end = at + len(part)
        if not (_is_one_word(text[at - 1 : at], part[:1]) or _is_one_word(part[-1:], text[end : end + 1])):
            return True
        at = text.find(part, at + 1)
    return False


def _is_one_word(left: str, right: str) -> bool:
    """Whether two neighbouring characters belong to one word. Scripts without spaces have no case."""
    return all(char.isdigit() or char.lower() != char.upper() for char in (left, right))


def _numbers_in_digits(answer: str) -> Iterator[Decimal]:
    for sign, digits, rest, percent in _DIGITS.findall(answer):
        parts = re.findall(r"\d+", digits)
        # `[1,200]` may also be a list of two numbers.
        for whole in ("".join(parts), *(parts if len(parts) > 1 else ())):
            yield from _readings(Decimal(whole + rest), bool(sign) and sign != "+", percent)


def _spelled_numbers(answer: str) -> Iterator[Decimal]:
    for sign, word, percent in _SPELLED.findall(answer):
        yield from _readings(Decimal(_NUMBER_WORDS.index(word.lower())), bool(sign), percent)


def _readings(number: Decimal, negative: bool, percent: str) -> Iterator[Decimal]:
    number = -number if negative else number
    yield number
    if percent:
        yield number.scaleb(-2)


def _collect(schema: JSONValue, choices: set[str], keys: set[str]) -> None:
    """Collect the strings that a schema lists as choices, and the keys that it declares."""
    for each in schema if is_array(schema) else ():
        _collect(each, choices, keys)
    for name, inner in schema.items() if is_object(schema) else ():
        if name == "properties" and is_object(inner):
            keys.update(inner)
            _collect([*inner.values()], choices, keys)
        elif name in ("enum", "const"):
            choices.update(each for each in (inner if is_array(inner) else [inner]) if isinstance(each, str))
        else:
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
    """Finds out whether an answer only repeats what the model has read.

    Args:
        messages: the conversation.
        descriptions: texts about the tools.
        declared: those of the texts that tell the model how to call tools.
    """

    def __init__(
        self, answer: str, messages: Sequence[Message], descriptions: Iterable[str], declared: Iterable[str]
    ) -> None:
        users = {message.text for message in messages if message.role == "user"}
        others = {message.text for message in messages if message.role == "system"} | {*descriptions, *declared}
        others |= {result.content for message in messages for result in results_of(message)}
        self._calls = EchoSearch((*others, *users), declared)
        self._users = [EchoSearch([text]) for text in users]
        self._others = [EchoSearch([text]) for text in others - users]
        self._words = words_of(answer)

    def names(self, name: str) -> bool:
        """Whether the answer contains the name of a tool."""
        return bool(self._places(name))

    def contain(self, call: ToolCall) -> bool:
        """Whether the call is repeated from a text."""
        if self._calls.contains(call.name, call.arguments):
            return True
        needed = [(text, _BESIDE_VALUE if text.may_contain(call.name) else _IN_OTHER_TEXT) for text in self._others]
        needed += [(text, _FROM_USER) for text in self._users if text.may_contain(call.name)]
        values = [places for value in leaves(call.arguments, call.arguments) if (places := self._places(str(value)))]
        if values and all(self._is_copied(place, needed) for places in values for place in places):
            return True
        longer = [(text, size + _MORE_FOR_NAME) for text, size in needed]
        names = self._places(call.name)
        return bool(names) and all(self._is_copied(at, longer) or self._is_copied_whole(at, values) for at in names)

    def _places(self, part: str) -> list[_Place]:
        """Return where some words begin and end in the answer."""
        words = words_of(part)
        starts = range(len(self._words) - len(words) + 1 if words else 0)
        return [(at, at + len(words)) for at in starts if self._words[at : at + len(words)] == words]

    def _is_copied_whole(self, name: _Place, values: list[list[_Place]]) -> bool:
        """Whether the name of the tool and the values next to it are one passage of a text, which may be short."""
        nearest = [min(places, key=lambda place: abs(place[0] - name[0])) for places in values]
        passage = self._words[min([name, *nearest])[0] : max(end for _, end in (name, *nearest))]
        return bool(nearest) and any(text.contains_run(passage) for text in self._others)

    def _is_copied(self, place: _Place, needed: list[tuple[EchoSearch, int]]) -> bool:
        """Whether a text contains this place of the answer with so many words beside it, or with the whole answer."""
        for text, size in needed:
            for before in range(size + 1):
                first, last = max(0, place[0] - before), min(len(self._words), place[1] + size - before)
                is_enough = last - first in (len(self._words), place[1] - place[0] + size)
                if is_enough and text.contains_run(self._words[first:last]):
                    return True
        return False

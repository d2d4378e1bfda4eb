"""Text helpers: make untrusted text printable, estimate its token count, suggest names; and patterns of tool names."""

import re
from collections.abc import Iterable

#: The Unicode replacement character.
REPLACEMENT = "\ufffd"

#: The first character of a tool name, in any language: a letter or an underscore.
NAME_START = r"[^\W\d]"
#: Characters of a name, for use in a character class: letters, digits, underscores, and the vowel signs, tone marks and
#: joiners that many languages write between letters.
NAME_CHARS = (
    r"\w\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    r"\u0711-\u07b0\u0900-\u0963\u0966-\u0dff\u0e30-\u0e4e\u0eb0-\u0ece\u0f18-\u0fbc\u1000-\u109f\u1700-\u17d3"
    r"\u17dd\u1ab0-\u1aff\u1dc0-\u1dff\u200c\u200d\u20d0-\u20ff\u3099\u309a\ufe20-\ufe2f"
)
#: An unquoted name, with dots for namespaces.
TOOL_NAME = rf"{NAME_START}[{NAME_CHARS}.-]{{0,127}}+"

_WORDS = re.compile(r"[A-Za-z]+")
_REST = re.compile(r"[0-9]{1,3}|[!-/:-@\[-`{-~]{1,2}|\n+|[À-ɏ\U00010000-\U0010ffff]")
#: A control sequence: CSI with parameters, a string such as a title up to its end or that of its line, or ESC and a
#: character. The end may be missing, because the text was cut off.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|(?:\x1b[]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
#: Most common words of up to this many letters are a single token.
_LETTERS_PER_TOKEN = 6
_MAX_COMPARED_CHARS = 60  # comparing names takes quadratic time
_SIMILARITY = 0.62  # minimum similarity of a suggested name, from 0 to 1
_MAX_NAMES = 8  # maximum number of valid names that a suggestion lists


def printable(text: str, replacement: str | None = None, keep: str = "") -> str:
    """Make text safe for a terminal or a log by escaping or replacing unprintable characters.

    `keep` lists characters to leave unchanged, such as line breaks.

    >>> print(printable("a\\x1b[2Jb"))
    a\\x1b[2Jb
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else _escape(char, replacement) for char in text)


def _escape(char: str, replacement: str | None) -> str:
    return char.encode("unicode_escape").decode() if replacement is None else replacement


def without_sequences(text: str) -> str:
    """Remove the control sequences of terminals with their parameters, such as colours and titles.

    >>> without_sequences("a \\x1b[31mred\\x1b[0m word\\x1b]0;a title\\x07")
    'a red word'
    """
    return text if text.isprintable() else _SEQUENCE.sub("", text)


def system_reason(error: Exception) -> str:
    """Return the reason that the system gives for an error, in lower case and without its number."""
    text = getattr(error, "strerror", None) or str(error)
    return text[:1].lower() + text[1:]


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens without the model's tokeniser. The estimate is deliberately high.

    Counts one token per six letters of a word, three digits or two punctuation marks. A non-ASCII character counts 3/4
    of a token for each UTF-8 byte after the first. Accented letters and emoji count one more, because they split words.
    """
    words = _WORDS.findall(text)
    long = sum((len(word) - 1) // _LETTERS_PER_TOKEN for word in words if len(word) > _LETTERS_PER_TOKEN)
    wide = 0 if text.isascii() else -(-3 * (len(text.encode("utf-8", "replace")) - len(text)) // 4)
    return len(words) + long + len(_REST.findall(text)) + wide


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, such as `1 call` or `2 calls`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def suggestion(name: str, valid_names: Iterable[str], otherwise: str = "") -> str:
    """Return a hint for an unknown name: the similar valid names; without any, `otherwise` or a few of them.

    >>> suggestion("moed", ["plan", "mode", "retries"])
    'did you mean `mode`?'
    """
    from difflib import get_close_matches  # needed only for mistakes, and slow to import

    names = list(dict.fromkeys(valid_names))
    if near := get_close_matches(name[:_MAX_COMPARED_CHARS], names, 3, _SIMILARITY):
        return f"did you mean {' or '.join(f'`{each}`' for each in near).replace(' or ', ', ', len(near) - 2)}?"
    more = ["..."] * (len(names) > _MAX_NAMES)
    return otherwise or f"use one of {', '.join([*names[:_MAX_NAMES], *more])}"

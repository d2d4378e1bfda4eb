"""Pure functions that convert bare words and escapes of tolerant JSON to strict JSON."""

import re

import msgspec

_LITERALS = {"true": "true", "false": "false", "null": "null", "none": "null", "undefined": "null"}
_NOT_NUMBERS = frozenset({"nan", "infinity", "inf"})
#: A longer word is text, not a number: strict parsers reject it, and conversion takes more than linear time.
_MAX_NUMBER = 1000
_STRICT_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?").fullmatch
_LOOSE_NUMBER = re.compile(r"([+-]?)([0-9_]*)(?:\.([0-9_]*))?(?:[eE]([+-]?[0-9]*))?").fullmatch

_ESCAPES = frozenset('"\\/bfnrt')
#: Characters that need no escape: a backslash before them is dropped. Before others it is kept, as in `\d`.
_NEEDLESS = frozenset("'`$\n\r\t ")
_HEX = frozenset("0123456789abcdefABCDEF")
_encode = msgspec.json.Encoder().encode
_SURROGATE = re.compile("[\ud800-\udfff]")

#: Strict JSON text, the number of characters read (0: more text is needed), and the code of a note or an empty string.
Escape = tuple[str, int, str]
_WAIT: Escape = ("", 0, "")
_KEEP: Escape = ("\\\\", 1, "bad_escape")


#: A digit behind a zero, as in dates. It means the same in octal and decimal, and is too short for a code.
_PADDED = re.compile("0[1-9]").fullmatch


def escape_text(text: str) -> str:
    """Escape text for use between the quotes of a strict JSON string."""
    if text.isprintable() and '"' not in text and "\\" not in text:  # a fast check, true of most text
        return text
    try:
        escaped = _encode(text).decode()[1:-1]
    except UnicodeEncodeError:
        escaped = _encode(replace_surrogates(text)).decode()[1:-1]
    return text if escaped == text else escaped


def replace_surrogates(text: str) -> str:
    """Replace every lone surrogate with U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def has_surrogate(text: str) -> bool:
    """Whether the text contains a lone surrogate, which cannot be encoded as UTF-8."""
    try:
        return not (text.isascii() or text.encode())
    except UnicodeEncodeError:
        return True


def read_word(word: str) -> tuple[str | None, str]:
    """Return a bare word as strict JSON (`None` if it is text), and the code of a note or an empty string."""
    if len(word) > _MAX_NUMBER:
        return None, "unquoted_value"
    lowered = word.lower()
    literal = _LITERALS.get(lowered)
    if literal is not None:
        return literal, "" if word == literal else "python_literal"
    if lowered.lstrip("+-") in _NOT_NUMBERS:
        return "null", "nan"
    if _STRICT_NUMBER(word):
        return _finite(word, "")
    loose = _LOOSE_NUMBER(word)
    digits = loose[2].replace("_", "") if loose else ""
    if digits[:1] == "0" and len(digits) > 1 and _PADDED(word) is None:  # no number in JSON keeps them
        return f'"{word}"', "leading_zeros"
    number = _tidy(*loose.groups()) if loose else None
    return (None, "unquoted_value") if number is None else _finite(number, "number_format")


def _tidy(sign: str, whole: str, fraction: str | None, exponent: str | None) -> str | None:
    """Normalise a number with underscores, a plus sign, or no digits on one side of the decimal point."""
    digits = whole.replace("_", "")
    decimals = (fraction or "").replace("_", "")
    if not digits and not decimals:
        return None
    text = ("-" if sign == "-" else "") + (digits.lstrip("0") or "0")
    if decimals or fraction == "":
        text += f".{decimals or 0}"
    if exponent and exponent.strip("+-"):
        text += f"e{exponent}"
    return text


def _finite(number: str, code: str) -> tuple[str, str]:
    """Replace a number that is too large for a double with null, because JSON has no infinity."""
    whole = number.isdigit() or number[1:].isdigit()
    if not whole and float(number) in (float("inf"), float("-inf")):
        return "null", "nan"
    return number, code


def read_escape(buf: str, at: int, final: bool) -> Escape:
    """Convert the escape at `at` to strict JSON. An escape that the end of the text cuts off is dropped."""
    escape = _read(buf, at)
    return ("", len(buf) - at, "") if escape is _WAIT and final else escape


def _read(buf: str, at: int) -> Escape:
    char = buf[at + 1 : at + 2]
    if not char:
        return _WAIT
    if char in _ESCAPES:
        return buf[at : at + 2], 2, ""
    if char == "u":
        return _read_unicode(buf, at)
    if char == "x":
        return _read_hex(buf, at)
    if char in _NEEDLESS:
        return escape_text(char), 2, "bad_escape"
    return _KEEP


def _read_unicode(buf: str, at: int) -> Escape:
    digits = buf[at + 2 : at + 6]
    if not _HEX.issuperset(digits):
        return _KEEP
    if len(digits) < 4:
        return _WAIT
    code = int(digits, 16)
    if not 0xD800 <= code <= 0xDFFF:
        return buf[at : at + 6], 6, ""
    second = buf[at + 6 : at + 12]
    if code >= 0xDC00 or second[:2] != "\\u"[: len(second)] or not _HEX.issuperset(second[2:]):
        return "\ufffd", 6, "lone_surrogate"
    if len(second) < 6:
        return _WAIT
    if 0xDC00 <= int(second[2:], 16) <= 0xDFFF:
        return buf[at : at + 12], 12, ""
    return "\ufffd", 6, "lone_surrogate"


def _read_hex(buf: str, at: int) -> Escape:
    digits = buf[at + 2 : at + 4]
    if not _HEX.issuperset(digits):
        return _KEEP
    if len(digits) < 2:
        return _WAIT
    return escape_text(chr(int(digits, 16))), 4, "bad_escape"

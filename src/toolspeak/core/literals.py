"""Words and escapes: the smallest pieces of tolerant JSON.

`read_word` says what a word without quotes means, `read_escape` what a backslash means, `escape_text` makes
any text fit between two quotes. Above: `lenient_json`. Below: nothing. Pure functions.
"""

from __future__ import annotations

import re

import msgspec

__all__ = ["escape_text", "read_escape", "read_word"]

_LITERALS = {
    "true": ("true", ""),
    "false": ("false", ""),
    "null": ("null", ""),
    "none": ("null", "python_literal"),
    "undefined": ("null", "python_literal"),
}
_NOT_NUMBERS = frozenset({"nan", "infinity", "inf"})
#: Longer digit strings are text: converting them costs more than linear time.
_MAX_NUMBER = 400
_STRICT_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?").fullmatch
_LOOSE_NUMBER = re.compile(r"([+-]?)([0-9_]*)(?:\.([0-9_]*))?(?:[eE]([+-]?[0-9]*))?").fullmatch

_ESCAPES = frozenset('"\\/bfnrt')
#: Escaped although nothing needs it: the backslash is noise. Before anything else it is kept, as in `\d`.
_NEEDLESS = frozenset("'`$\n\r\t ")
_HEX = frozenset("0123456789abcdefABCDEF")
_NEEDS_ESCAPE = re.compile('["\\\\\x00-\x1f\ud800-\udfff]').search
_SURROGATE = re.compile("[\ud800-\udfff]").sub


def escape_text(text: str) -> str:
    """The text as it stands between the quotes of a strict JSON string."""
    if _NEEDS_ESCAPE(text) is None:
        return text
    return msgspec.json.encode(_SURROGATE("\ufffd", text)).decode()[1:-1]


def read_word(word: str) -> tuple[str | None, str]:
    """A word without quotes as strict JSON and the note it deserves; `None` when it can only be text."""
    lowered = word.lower() if len(word) <= _MAX_NUMBER else word
    known = _LITERALS.get(lowered)
    if known is not None:
        text, code = known
        return text, code or ("" if word == text else "python_literal")
    if lowered.lstrip("+-") in _NOT_NUMBERS:
        return "null", "nan"
    if len(word) > _MAX_NUMBER:
        return None, "unquoted_value"
    if _STRICT_NUMBER(word):
        return _finite(word)
    loose = _LOOSE_NUMBER(word)
    number = _tidy(*loose.groups()) if loose else None
    if number is None:
        return None, "unquoted_value"
    return _finite(number)[0], "number_format"


def _tidy(sign: str, whole: str, fraction: str | None, exponent: str | None) -> str | None:
    """A number with underscores, leading zeros or a missing half, as JSON writes it."""
    digits = whole.replace("_", "").lstrip("0")
    decimals = (fraction or "").replace("_", "")
    if not whole.strip("_") and not decimals:
        return None
    text = ("-" if sign == "-" else "") + (digits or "0")
    if decimals:
        text += f".{decimals}"
    if exponent and exponent.strip("+-"):
        text += f"e{exponent}"
    return text


def _finite(number: str) -> tuple[str, str]:
    """JSON has no infinity: a number too large for a double is refused like one."""
    if "e" in number.lower() and float(number) in (float("inf"), float("-inf")):
        return "null", "nan"
    return number, ""


def read_escape(buf: str, at: int, final: bool) -> tuple[str, int, str]:
    """What the backslash at `at` means: strict text, how much was read (0: more is needed), and a note."""
    if at + 1 >= len(buf):
        return ("\\\\", 1, "bad_escape") if final else ("", 0, "")
    char = buf[at + 1]
    if char in _ESCAPES:
        return buf[at : at + 2], 2, ""
    if char == "u":
        return _read_unicode(buf, at, final)
    if char == "x":
        return _read_hex(buf, at, final)
    if char in _NEEDLESS:
        return escape_text(char), 2, "bad_escape"
    return "\\\\", 1, "bad_escape"


def _read_unicode(buf: str, at: int, final: bool) -> tuple[str, int, str]:
    digits = buf[at + 2 : at + 6]
    if not _HEX.issuperset(digits):
        return "\\\\", 1, "bad_escape"
    if len(digits) < 4:
        return ("\\\\", 1, "bad_escape") if final else ("", 0, "")
    code = int(digits, 16)
    if not 0xD800 <= code <= 0xDFFF:
        return buf[at : at + 6], 6, ""
    pair = buf[at + 6 : at + 12]
    if len(pair) < 6 and not final and code < 0xDC00 and "\\u"[: len(pair)] == pair[:2]:
        return "", 0, ""
    second = pair[2:6]
    paired = len(pair) == 6 and pair.startswith("\\u") and _HEX.issuperset(second)
    if code < 0xDC00 and paired and 0xDC00 <= int(second, 16) <= 0xDFFF:
        return buf[at : at + 12], 12, ""
    return "\ufffd", 6, "lone_surrogate"


def _read_hex(buf: str, at: int, final: bool) -> tuple[str, int, str]:
    digits = buf[at + 2 : at + 4]
    if not _HEX.issuperset(digits):
        return "\\\\", 1, "bad_escape"
    if len(digits) < 2:
        return ("\\\\", 1, "bad_escape") if final else ("", 0, "")
    return escape_text(chr(int(digits, 16))), 4, "bad_escape"

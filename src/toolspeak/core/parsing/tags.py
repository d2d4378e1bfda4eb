"""Lexer for tags as models write them, such as `<invoke name="x">`, `<function=x>` or `<|open|>x<|sep|>`.

It normalises full-width and doubled bars, typographic quotes, odd spaces and namespace prefixes, so tables need only
one spelling. The length of a tag is limited, so a lone `<` is cheap. Pure functions.
"""

import re
from functools import lru_cache
from typing import TypeAlias

import msgspec

from ..text import NAME_CHARS

#: Maximum length of a tag; far longer than the opening tags of all known model families.
MAX_TAG = 4096
MAX_LONG_TAG = 256
MORE = -1
NO_TAG = -2

#: Pattern of a tag up to the end of its name.
TAG_HEAD = r"</?\s{0,8}(?:[|｜]{1,4}DSML[|｜]{1,4} )?[^\s<>=/\"'“”{}()\[\],]{0,4096}"
_HEAD = re.compile(TAG_HEAD).match
_ATTRIBUTE = re.compile(r"""([\w.:-]{1,64})\s{0,8}=\s{0,8}("[^"]*"|'[^']*'|[“”][^“”]*[“”]|[^\s>]*)""").finditer
_QUOTES = "\"'“”‘’"
_AFTER_VALUE = "()[], "
#: Patterns of a whole tag and of the beginning of a tag. A `>` in quotes does not end the tag. The patterns are
#: unambiguous, which avoids catastrophic backtracking.
_WHOLE = re.compile(r'<[^<>"“]*(?:(?:"[^"]*"|“[^”]*”)[^<>"“]*)*>').match
_PARTIAL = re.compile(r'<[^<>"“]*(?:(?:"[^"]*"|“[^”]*”)[^<>"“]*)*(?:"[^"]*|“[^”]*)?').match
#: A tag whose `>` is missing: its line ends after the name, and the next line begins with a tag.
_OPEN_LINE = re.compile(rf"<[{NAME_CHARS}.:=-]{{1,128}}+[ \t\r]{{0,16}}+\n[ \t\r\n]{{0,64}}+(?=<(?:[\w/]|\Z))").match
#: A tag without `>` before JSON arguments: `<function=f{...}</function>`, `<function=f({...})</function>`, and the same
#: with a space, a comma or brackets after the name, or with the name in brackets.
_OPEN_CALL = re.compile(
    rf"<function(?:=[{NAME_CHARS}.:-]{{1,128}}+[ ,]{{0,2}}+(?:\[\])?\(?|\([{NAME_CHARS}.:-]{{1,128}}+\))(?=\{{)"
).match
#: Prefixes of tag names that carry no meaning.
NAMESPACES = (
    *("antml:", "atem:", "minimax:", "mm:", "seed:", "steptml:", "tool:"),
    *("|DSML| ", "|DSML|r:", "|DSML|", "DSML|", "DSML_", "DSML", "dsml:"),
)
_NAMESPACE = re.compile(
    rf"(?!\|DSML\|r:?\Z|DSML[_|]\Z|seed:tool_call)(?:{'|'.join(map(re.escape, NAMESPACES))}|longcat_(?=arg_))(?=[\w|])"
).match
#: Names that may have a suffix without a meaning, as in `<tool_call:opensource>`.
_SUFFIXED = re.compile(r"(tool_calls?|tool_sep|arg_key|arg_value|think|tool_responses?):\w{0,16}").fullmatch
#: Names that are different behind a prefix.
_PREFIXED = {"|DSML| calls": "tool_calls"}
_FOLD = str.maketrans({"｜": "|", "▁": "_", "＜": "<", "＞": ">"})
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_ENTITY = re.compile(r"&(?:(lt|gt|amp|quot|apos)|#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6}));").sub

#: Kimi K3 writes a tag as `<|open|>name attributes<|sep|>`.
_LONG_OPEN, _LONG_CLOSE, _LONG_END = "<|open|>", "<|close|>", "<|sep|>"
_LONG = (_LONG_OPEN, _LONG_CLOSE)
#: Tags longer than this are not cached.
_MAX_CACHED = 256

_Parts: TypeAlias = tuple[str, str, str, dict[str, str]]


class Tag(msgspec.Struct, frozen=True):
    """A normalised tag. Its attributes are shared with other tags of the same text, so they must not be changed."""

    kind: str  # "open", "close" or "self"
    name: str
    #: The text after an `=` that directly follows the name, as in `<function=NAME>`.
    value: str
    attributes: dict[str, str]
    end: int


@lru_cache(maxsize=1024)
def fold_name(raw: str) -> str:
    """Normalise the bars, word separators and namespace prefix in the name of a tag."""
    name = raw.translate(_FOLD) if not raw.isascii() else raw
    while "||" in name:
        name = name.replace("||", "|")
    prefix = _NAMESPACE(name)
    if prefix is not None:
        name = _PREFIXED.get(name) or name[prefix.end() :]
    suffixed = _SUFFIXED(name) if ":" in name else None
    return name if suffixed is None else suffixed[1]


@lru_cache(maxsize=1024)
def read_head(head: str) -> tuple[str, bool]:
    """Return the normalised name at the beginning of a tag, and whether it is a closing tag."""
    closing = head.startswith("/", 1)
    return fold_name(head[1 + closing :].lstrip()), closing


def lex_head(buf: str, pos: int) -> str:
    """Return the raw text of the tag at `pos` up to the end of its name; empty if there is no tag."""
    head = _HEAD(buf, pos)
    return "" if head is None else head.group()


def lex_name(buf: str, pos: int) -> tuple[str, bool, int]:
    """Return the normalised name of the tag at `pos`, whether it is a closing tag, and where the name ends."""
    head = lex_head(buf, pos)
    return *read_head(head), pos + len(head)


def lex_tag(buf: str, pos: int, final: bool) -> Tag | int:
    """Return the tag at `pos`, NO_TAG, or MORE if the buffer ends inside the tag."""
    if buf.startswith(_LONG, pos):
        return _lex_long(buf, pos, _LONG_OPEN if buf.startswith(_LONG_OPEN, pos) else _LONG_CLOSE, final)
    end = _tag_end(buf, pos)
    if end < 0:
        return NO_TAG if end == NO_TAG or final else MORE
    read = _read_cached if end - pos <= _MAX_CACHED else _read
    kind, name, value, attributes = read(buf[pos:end])
    return Tag(kind, name, value, attributes, end) if name else NO_TAG


def _read(raw: str) -> _Parts:
    """Split a whole tag into its kind, its name, the value after the name, and the attributes."""
    name, closing, after = lex_name(raw, 0)
    inner = raw[after : -1 if raw[-1] == ">" else None].strip()
    kind = "close" if closing else "open"
    if inner.endswith("/"):
        kind, inner = "self", inner[:-1].rstrip()
    return kind, name, *_inside(inner)


_read_cached = lru_cache(maxsize=512)(_read)


def _lex_long(buf: str, pos: int, opener: str, final: bool) -> Tag | int:
    start = pos + len(opener)
    end = buf.find(_LONG_END, start, start + MAX_LONG_TAG)
    if end < 0:
        return NO_TAG if final or len(buf) - start > MAX_LONG_TAG else MORE
    kind = "open" if opener == _LONG_OPEN else "close"
    return Tag(kind, *_read_long(buf[start:end]), end + len(_LONG_END))


@lru_cache(maxsize=512)
def _read_long(raw: str) -> tuple[str, str, dict[str, str]]:
    name, _, inner = raw.strip().partition(" ")
    return name, *_inside(inner.strip())


def _inside(inner: str) -> tuple[str, dict[str, str]]:
    """Split the text after a tag's name into the value after `=` and the attributes."""
    value = ""
    if inner.startswith(("=", "(")):
        value = inner[1:].strip().rstrip(_AFTER_VALUE).strip(_QUOTES).strip()
        inner = ""
    attributes = {m.group(1): unescape(m.group(2).strip(_QUOTES)).strip() for m in _ATTRIBUTE(inner)}
    return unescape(value), attributes


def _tag_end(buf: str, pos: int) -> int:
    """Return the position after the tag at `pos`; MORE if the tag is incomplete, NO_TAG if it is not a tag."""
    limit = pos + MAX_TAG
    call = _OPEN_CALL(buf, pos)
    if call is not None:
        return call.end()
    whole = _WHOLE(buf, pos, limit)
    if whole is not None:
        return whole.end()
    line = _OPEN_LINE(buf, pos)
    if line is not None:
        return line.end() if line.end() + 1 < len(buf) else MORE
    partial = _PARTIAL(buf, pos, limit)
    is_partial = partial is not None and partial.end() == len(buf) and len(buf) < limit
    return MORE if is_partial else NO_TAG


def has_word(text: str, word: str) -> bool:
    at = text.find(word)
    while at >= 0:
        before, after = text[at - 1 : at] if at else "", text[at + len(word) : at + len(word) + 1]
        if not before.isalnum() and not after.isalnum():
            return True
        at = text.find(word, at + 1)
    return False


def unescape(text: str) -> str:
    """Decode the five XML entities and numeric character references, once."""
    if "&" not in text:
        return text
    if "&#" in text:
        return _ENTITY(_entity, text)
    # `&amp;` comes last, so that its result is not decoded again.
    text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&apos;", "'")
    return text.replace("&amp;", "&")


def _entity(match: re.Match[str]) -> str:
    name, decimal, hexadecimal = match.groups()
    if name:
        return _ENTITIES[name]
    code = int(decimal) if decimal else int(hexadecimal, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF or code == 0:
        return match.group(0)
    return chr(code)

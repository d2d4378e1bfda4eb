"""Tags as models write them: `<invoke name="x">`, `<function=x>`, `<｜DSML｜parameter name=“k”>`, `<|open|>x<|sep|>`.

One lexer for all of them. Full-width and doubled bars, typographic quotes, odd spaces and namespace prefixes are
folded, so tables need one spelling only. The length of a tag is bounded, so a lone `<` is cheap. Pure functions.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

import msgspec

#: Far longer than the opening tags of all known model families.
MAX_TAG = 4096
MAX_LONG_TAG = 256
MORE = -1
NO_TAG = -2

#: A tag up to the end of its name, for patterns.
TAG_HEAD = r"</?\s{0,8}[^\s<>=/\"'“”{}()\[\],]{0,4096}"
_HEAD = re.compile(TAG_HEAD).match
_ATTRIBUTE = re.compile(r"""([\w.:-]{1,64})\s{0,8}=\s{0,8}("[^"]*"|'[^']*'|[“”][^“”]*[“”]|[^\s>]*)""").finditer
_QUOTES = "\"'“”‘’"
#: A tag from `<` to `>`, and the beginning of one. A `>` in quotes does not end it. The patterns are
#: unambiguous, which avoids catastrophic backtracking.
_WHOLE = re.compile(r'<[^<>"“]*(?:(?:"[^"]*"|“[^”]*”)[^<>"“]*)*>').match
_PARTIAL = re.compile(r'<[^<>"“]*(?:(?:"[^"]*"|“[^”]*”)[^<>"“]*)*(?:"[^"]*|“[^”]*)?').match
#: A tag without its bracket: its line ends after the name, and the next line begins with a tag.
_OPEN_LINE = re.compile(r"<[\w.:-]{1,128}+[ \t\r]{0,16}+\n[ \t\r\n]{0,64}+(?=<(?:[\w/]|\Z))").match
#: Prefixes of tag names without a meaning.
NAMESPACES = ("antml:", "minimax:", "mm:", "seed:", "steptml:", "tool:", "|DSML|", "DSML")
_NAMESPACE = re.compile(f"(?:{'|'.join(map(re.escape, NAMESPACES))})(?=[\\w|])").match
_FOLD = str.maketrans({"｜": "|", "▁": "_", "＜": "<", "＞": ">"})
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_ENTITY = re.compile(r"&(?:(lt|gt|amp|quot|apos)|#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6}));").sub

#: Kimi K3 writes `<|open|>name attributes<|sep|>` for a tag.
_LONG_OPEN, _LONG_CLOSE, _LONG_END = "<|open|>", "<|close|>", "<|sep|>"
_LONG = (_LONG_OPEN, _LONG_CLOSE)
#: Longer tags are not cached.
_MAX_CACHED = 256

_Parts: TypeAlias = tuple[str, str, str, dict[str, str]]


class Tag(msgspec.Struct, frozen=True):
    """A folded tag. Its attributes are shared with other tags of the same text, so they must not be changed."""

    kind: str  # "open", "close" or "self"
    name: str
    #: The text after `=` right after the name: `<function=NAME>`.
    value: str
    attributes: dict[str, str]
    end: int


@lru_cache(maxsize=1024)
def fold_name(raw: str) -> str:
    """The name of a tag with bars, word separators and prefixes in one spelling."""
    name = raw.translate(_FOLD) if not raw.isascii() else raw
    while "||" in name:
        name = name.replace("||", "|")
    prefix = _NAMESPACE(name)
    if prefix is not None:
        name = name[prefix.end() :]
    return name


@lru_cache(maxsize=1024)
def read_head(head: str) -> tuple[str, bool]:
    """The folded name at the beginning of a tag, and whether it is a closing tag."""
    closing = head.startswith("/", 1)
    return fold_name(head[1 + closing :].lstrip()), closing


def lex_head(buf: str, pos: int) -> str:
    """The raw tag that begins at `pos`, up to the end of its name; empty when there is none."""
    head = _HEAD(buf, pos)
    return "" if head is None else head.group()


def lex_name(buf: str, pos: int) -> tuple[str, bool, int]:
    """The folded name of the tag that begins at `pos`, whether it is a closing tag, and where the name ends."""
    head = lex_head(buf, pos)
    return *read_head(head), pos + len(head)


def lex_tag(buf: str, pos: int, final: bool) -> Tag | int:
    """The tag at `pos`, NO_TAG, or MORE when the buffer ends inside it."""
    if buf.startswith(_LONG, pos):
        return _lex_long(buf, pos, _LONG_OPEN if buf.startswith(_LONG_OPEN, pos) else _LONG_CLOSE, final)
    end = _tag_end(buf, pos)
    if end < 0:
        return NO_TAG if end == NO_TAG or final else MORE
    read = _read_cached if end - pos <= _MAX_CACHED else _read
    kind, name, value, attributes = read(buf[pos:end])
    return Tag(kind, name, value, attributes, end) if name else NO_TAG


def _read(raw: str) -> _Parts:
    """The parts of a whole tag: its kind, its name, the value after the name, and the attributes."""
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
    name, _, inner = buf[start:end].strip().partition(" ")
    kind = "open" if opener == _LONG_OPEN else "close"
    return Tag(kind, name, *_inside(inner.strip()), end + len(_LONG_END))


def _inside(inner: str) -> tuple[str, dict[str, str]]:
    """The value after the name, and the attributes."""
    value = ""
    if inner.startswith("="):
        value = inner[1:].strip().strip(_QUOTES).strip()
        inner = ""
    attributes = {m.group(1): unescape(m.group(2).strip(_QUOTES)).strip() for m in _ATTRIBUTE(inner)}
    return unescape(value), attributes


def _tag_end(buf: str, pos: int) -> int:
    """After the `>` that ends the tag at `pos`; MORE when it has not come yet, NO_TAG when it cannot."""
    limit = pos + MAX_TAG
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
    """Whether `text` contains `word` as a separate word."""
    at = text.find(word)
    while at >= 0:
        before, after = text[at - 1 : at] if at else "", text[at + len(word) : at + len(word) + 1]
        if not before.isalnum() and not after.isalnum():
            return True
        at = text.find(word, at + 1)
    return False


def unescape(text: str) -> str:
    """Decode the five XML entities and numeric references, once."""
    if "&" not in text:
        return text
    if "&#" in text:
        return _ENTITY(_entity, text)
    # The ampersand comes last, so its result is not decoded again.
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

"""Checks of a dialect that joins the built-in ones: its marks are its own, and its calls follow the usual rules."""

import re
from collections.abc import Iterator

from ..core.events import Reply, fold
from ..core.parsing.context import ParseContext
from ..core.parsing.scanner import TextScanner
from ..core.parsing.tags import fold_name
from ..core.types import Tool, ToolCall
from ..errors import ConfigError
from . import registry
from .dialect import Dialect
from .mark_tables import FIXED_TAGS, RESULT_FENCES, mark_tables
from .marks import Marks
from .tag_names import BLOCK_TAGS, CALL_TAGS, CONTAINER_TAGS, META_TAGS, NAME_TAGS, PARAMETER_TAGS

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}").fullmatch
_MAX_MARK = 64
#: The scanner looks for marks inside a line only at these characters. Tags and code fences have tables of their own.
_LITERAL_FIRSTS = "[]✿"
_NOT_LINE_FIRSTS = " \t\r\n`~<>"
_TAGS_IN_CALLS = BLOCK_TAGS | CALL_TAGS | CONTAINER_TAGS | META_TAGS | NAME_TAGS | PARAMETER_TAGS
_CALL = ToolCall("get_weather", {"city": "Oslo", "days": 3})
_TOOL = Tool(
    _CALL.name,
    parameters={"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
)
_NONCE = "k7q2xm"


def add_checked(row: Dialect) -> None:
    """Add a dialect. Raises ConfigError, and adds nothing, if it cannot work or would change what other text means."""
    problem = next(_problems(row), "")
    if problem:
        raise ConfigError(f"dialect `{row.name:.40}` cannot be added: {problem}")
    registry.add(row)
    try:
        _check_calls(row.name)
    except BaseException:
        registry.remove(row.name)
        raise


def _problems(row: Dialect) -> Iterator[str]:
    if _NAME(row.name) is None or row.name == "auto" or row.name in registry.FORMATS:
        yield "its name is taken, or is not a word of small letters, digits and `_`"
    if row.style is None:
        yield "it has no `style`"
    if row.forms or any(each.dialect != row.name for each in row.openings):
        yield "an opening belongs to another dialect; only `tags`, `literals`, `lines` and `fences` can be new"
    for mark in (*row.tags, *row.literals, *row.lines, *row.fences, *row.separators):
        if not 3 <= len(mark) <= _MAX_MARK or "\n" in mark[:-1]:
            yield f"the mark `{mark:.80}` must have 3 to {_MAX_MARK} characters on one line"
    yield from _tag_problems(row)
    yield from _text_problems(row)
    if row.grammar is not None:
        yield from (f"its closing mark `{each}` begins like another one" for each in _ambiguous(row))


def _tag_problems(row: Dialect) -> Iterator[str]:
    tables = mark_tables()
    reserved = FIXED_TAGS.union(_TAGS_IN_CALLS, tables.openings, tables.separators)
    ends = [fold_name(end[1:-1]) for each in row.openings for end in each.stops + each.ends if end.startswith("<")]
    for tag in (*row.tags, *row.separators, *(end for end in ends if end not in tables.block_closers)):
        if tag in reserved:
            yield f"the tag `<{tag}>` has a meaning already"
    for tag in (*row.tags, *row.separators):
        if fold_name(tag) != tag or set(tag) & set("<> \t="):
            yield f"the tag `{tag}` must be written without brackets, as `{fold_name(tag.strip('<> '))}`"


def _text_problems(row: Dialect) -> Iterator[str]:
    tables = mark_tables()
    for mark in (*row.literals, *row.lines):
        for other, (_, opening) in (*tables.literals.items(), *tables.lines.items()):
            if mark.startswith(other) or other.startswith(mark):
                owner = f"`{other}` of the dialect `{opening.dialect}`" if opening else f"`{other}`"
                yield f"the mark `{mark}` begins like another one, {owner}"
    if any(mark[0] not in _LITERAL_FIRSTS for mark in row.literals):
        yield f"a literal must begin with one of {' '.join(_LITERAL_FIRSTS)}; use `tags`, `lines` or `fences` otherwise"
    if any(mark[0] in _NOT_LINE_FIRSTS for mark in row.lines):
        yield "a line cannot begin with white space, `<`, `>` or a code fence; use `tags` or `fences`"
    for info in row.fences:
        if info in tables.action_fences or info in tables.json_fences or info in RESULT_FENCES:
            yield f"the code fence `{info}` has a meaning already"
        if info != " ".join(info.lower().split()) or "`" in info:
            yield f"the info string `{info}` must be in small letters, with single spaces"


def _ambiguous(row: Dialect) -> list[str]:
    stops = [(stop, other) for each in row.openings for stop in each.stops for other in each.stops]
    return [stop for stop, other in stops if stop != other and other.startswith(stop)]


def _check_calls(dialect: str) -> None:
    """Check that calls are read as they are rendered, whole and in pieces, and that they cannot be forged."""
    text, signed = (registry.render_calls(dialect, [_CALL], nonce) for nonce in (None, _NONCE))
    for written, nonce in {signed: _NONCE, text: None}.items():  # one text, without a nonce, if it carries none
        whole, pieces = _read(written, dialect, nonce), _read(written, dialect, nonce, by_character=True)
        if [(each.name, each.arguments) for each in whole.calls] != [(_CALL.name, _CALL.arguments)]:
            why = "".join(f" ({note.detail})" for note in whole.notes if note.code == "grammar_failed")
            raise ConfigError(f"dialect `{dialect}` cannot parse what it renders{why}")
        if pieces != whole:
            raise ConfigError(f"dialect `{dialect}` reads a text in pieces differently")
    if _read(text, dialect, _NONCE).calls or _read(text, dialect, None, (text,)).calls:
        raise ConfigError(f"dialect `{dialect}` accepts calls without the nonce, or calls copied from untrusted text")


def _read(
    text: str, dialect: str, nonce: str | None, untrusted: tuple[str, ...] = (), *, by_character: bool = False
) -> Reply:
    context = ParseContext((_TOOL,), "standard", nonce, untrusted)
    scanner = TextScanner(context, Marks(context, registry.dialect(dialect).accepts))
    events = [event for char in text for event in scanner.feed(char)] if by_character else []
    return fold([*events, *(scanner.close() if by_character else scanner.read_all(text))])

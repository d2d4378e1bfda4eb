"""Lookup of marks: the tags, tokens, fences and words that open calls or have another meaning in an answer.

`mark_tables` contains the marks with a fixed text, `formats` those of each dialect.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import cache, lru_cache

import msgspec

from ..core.bounded_cache import bounded_cache
from ..core.parsing.acceptance import Evidence
from ..core.parsing.context import ParseContext
from ..core.parsing.dialect_interface import NONE, Opening, Reader, Role
from ..core.parsing.tags import MORE, NAMESPACES, Tag, read_head
from ..core.parsing.tool_index import NAME_PREFIXES, NAME_SUFFIXES, fold_name
from ..core.plugin_hook import depends_on_dialects
from ..core.text import NAME_CHARS, NAME_START, TOOL_NAME
from .call_block import BlockReader, GrammarReader
from .json_calls import ROLES
from .mark_tables import (
    COMMENT,
    ENDS,
    EXAMPLES,
    FIRST,
    FIXED_TAGS,
    LONG_PARTS,
    LOOK,
    OTHERS,
    RESULT_FENCES,
    THINKING,
    THINKING_LABELS,
    MarksByFirst,
    mark_tables,
)
from .named_calls import clean_name
from .tag_names import ANSWER_ENDS
from .tag_parameters import call_name

#: The mark in `>>>name`, on a separate line: a message to a tool or to `all`. Before a space it is a Python prompt.
_TO = ">>>"
_RECIPIENT = re.compile(rf">>>({TOOL_NAME})\n").match
_RECIPIENT_PARTIAL = re.compile(rf">{{1,2}}+|>>>(?:{TOOL_NAME})?").fullmatch
#: The same with a nonce, possibly after a label, between the mark and the name.
_SIGNED_RECIPIENT = re.compile(rf">>>(?!>)(?:\S{{1,48}}+ ){{0,2}}+({TOOL_NAME})\n").match
_SIGNED_RECIPIENT_PARTIAL = re.compile(r">{1,2}+|>>>(?!>)(?:\S{1,48}+ ){0,2}+\S{0,128}+").fullmatch
#: A tool name in brackets, and an object on the next line.
_NAMED_REQUEST = re.compile(rf"\[(?:tool:[ \t]{{0,4}})?({TOOL_NAME})\][ \t]{{0,8}}\n[ \t]{{0,8}}(?=\{{)").match
_NAMED_REQUEST_PARTIAL = re.compile(
    rf"\[(?:tool:[ \t]{{0,4}}+)?(?:{TOOL_NAME}(?:\](?:[ \t]{{0,8}}+(?:\n[ \t]{{0,8}}+)?)?)?)?"
).fullmatch
#: A harmony message to a tool, without its tokens.
_TO_FUNCTION = "commentary to=functions."
_MESSAGE = re.compile(rf"commentary to=functions\.({TOOL_NAME})(?:[ \t]{{1,4}}json)?\s{{0,8}}(?=\{{)").match
_MESSAGE_PARTIAL = re.compile(
    rf"commentary to=functions\.(?:{TOOL_NAME}(?:[ \t]{{1,4}}+(?:json|jso|js|j)?)?+\s{{0,8}}+)?"
).fullmatch
#: `Action`, the nonce (possibly miscopied) and a colon. `Action Input` is the next line of a call.
_SIGNED_ACTION = re.compile(
    r"(?:\*\*)?Action(?:\*\*)?[ \t](?!Input\b)(?:(?:mark|nonce)[ \t]?[:=])?+[^\n:]{1,40}+:"
).match
_SIGNED_ACTION_PARTIAL = re.compile(
    r"(?:\*{1,2}+)?(?:A|Ac|Act|Acti|Actio|Action(?:\*\*?)?(?:[ \t][^\n]{0,60}+)?)?"
).fullmatch
_ALL_RECIPIENTS = "all"
_FENCE_NAME = re.compile(rf"tool[ :]({TOOL_NAME})").fullmatch
#: Patterns for the nonce in an info string: separators before it, labels, surrounding punctuation, and the word itself.
_APART = re.compile(r"[\s:=]+").split
_MARK_NAMES = frozenset({"mark", "nonce"})
_AROUND_MARK = "\"'“”()[]{}#,.;*"
_MARK = re.compile(r"[\w-]{1,32}").fullmatch

_LINE_WORD = rf"(?:{NAME_START}|\$)[{NAME_CHARS}$.:-]{{0,199}}"
_WORD = re.compile(_LINE_WORD).match
_KEY = rf"\{{\s{{0,64}}[\"'“”]?({TOOL_NAME})[\"'“”]?\s{{0,16}}[:=]"
_CALL = rf"({TOOL_NAME})\("
_FIRST_KEY = re.compile(_KEY).match
_KEY_PARTIAL = rf"\{{\s{{0,64}}(?:[\"'“”]?(?:{TOOL_NAME}(?:[\"'“”]?\s{{0,16}})?)?)?"
_FIRST_KEY_PARTIAL = re.compile(_KEY_PARTIAL).fullmatch
_LIST = re.compile(rf"\[\s{{0,64}}+(?:{_KEY}|{_CALL})").match
_LIST_PARTIAL = re.compile(rf"\[\s{{0,64}}+(?:{_KEY_PARTIAL}|(?:{TOOL_NAME})?)").fullmatch
_AFTER_NAME = re.compile(r"[\t ]{0,8}(?:\(|\{|\[ARGS\]|:?\s{0,8}(?:\{|<(?=[^|])))").match
_AFTER_NAME_PARTIAL = re.compile(r"[\t ]{0,8}(?:\[(?:A(?:R(?:GS?)?)?)?|:?\s{0,8}<?)?").fullmatch
_WINDOW = 160
#: Maximum number of cached tag meanings; real text contains fewer distinct tags.
_MAX_MEANINGS = 1024
#: Maximum size of the names of tools in a cache.
_MAX_NAME_BYTES = 256 * 1024


@depends_on_dialects
@cache
def _place(calls: bool) -> Callable[[str, int], re.Match[str] | None]:
    """Compile the pattern on first use, because compiling is slow. `Action ` without a colon may precede a nonce."""
    tables = mark_tables()
    words = (*tables.lines, _TO_FUNCTION, "call:", "Action ", "**Action") if calls else tables.lines
    return place_finder(tables.literals, words, calls)


@depends_on_dialects
@bounded_cache(_MAX_NAME_BYTES)
def _tag_names(tools: frozenset[str]) -> list[str]:
    """Return the names of all marks, sorted. Cached, because the tools rarely change."""
    marks = FIXED_TAGS.union(mark_tables().closing_tags, mark_tables().results, NAMESPACES)
    return sorted({*marks, *tools, COMMENT, "｜", "/"})


@bounded_cache(_MAX_NAME_BYTES)
def _folded_names(tools: frozenset[str]) -> list[str]:
    """Return the names of the tools in the spelling in which they are compared, with what may surround them, sorted."""
    names = [fold_name(name) for name in tools]
    return sorted(before + name + after for name in names for before in ("", *NAME_PREFIXES) for after in NAME_SUFFIXES)


@depends_on_dialects
@bounded_cache(_MAX_NAME_BYTES)
def _line_words(tools: frozenset[str]) -> list[str]:
    """Return all words that may be a mark at the start of a line, sorted."""
    return sorted({*mark_tables().lines, *tools, "call:"})


#: Patterns for the text after the first character of a mark. A bare object is `{`, a key and a colon. A bare list is
#: `[` and a bare object or a Python call. Both count only after white space; the scanner itself checks for them after a
#: call. `>>>` counts only if a name ends the line. Of more than three `>`, the last three count.
_PLACE_KEY = rf"\s{{0,64}}+(?:\Z|[\"'“”]?+(?:\Z|{TOOL_NAME}[\"'“”]?+\s{{0,16}}+(?:\Z|[:=])))"
_PLACE_NAME = rf"(?:tool:[ \t]{{0,4}}+)?+(?:\Z|{TOOL_NAME}(?:\Z|\(|\]\s{{0,16}}+(?:\Z|\{{)))"
_PLACE_RESTS = {
    "<": rf"(?:[/|｜]|{NAME_START}|\Z|!(?:--|-?\Z))",
    "`": r"(?:``|`?\Z)",
    "{": rf"(?:(?<=\s.)|(?<=\A.)){_PLACE_KEY}",
    "[": rf"(?:(?<=\s.)|(?<=\A.))\s{{0,64}}+(?:\Z|\{{{_PLACE_KEY}|{_PLACE_NAME})",
    ">": r"(?:>?\Z|>>(?!>)(?:\S{1,48}+ ){0,2}+\S{0,128}+(?:\n|\Z))",
}
#: First characters of marks that open calls. They are ignored once calls are no longer expected.
_ONLY_CALLS = frozenset("{[>")
_TILDES = r"~(?:~~|~?\Z)"
#: A word at the start of a line, followed by arguments. `Marks.line` checks whether it is a tool name.
_PLACE_CALL = _LINE_WORD + r"+[\t ]{0,8}+(?:\Z|\(|\{|\[(?:\Z|A)|:?\s{0,8}+(?:\Z|[{<]))"
_INDENT = r"[ \t\r\u00a0]*+"


def _split_first(marks: Iterable[str]) -> dict[str, set[str]]:
    """Group the marks by their first character. Returns the rest of each mark."""
    rests: dict[str, set[str]] = {}
    for mark in marks:
        rests.setdefault(mark[0], set()).add(mark[1:])
    return rests


def _rest_pattern(rests: set[str]) -> str:
    """Build a pattern that matches one of these texts, or a prefix of one at the end of the input."""
    if "" in rests:
        return ""
    branches = (re.escape(char) + _rest_pattern(tails) for char, tails in sorted(_split_first(rests).items()))
    return rf"(?:\Z|{'|'.join(branches)})"


def place_finder(
    literals: Iterable[str], words: Iterable[str], calls: bool = True
) -> Callable[[str, int], re.Match[str] | None]:
    """Create a search for the next position where a mark may begin. Without `calls`, ignore marks that open calls.

    `literals` count anywhere, `words` only at the start of a line. A line break matches only if the next line may begin
    with a mark. False positives are allowed, because `Marks` checks again; false negatives are not.
    """
    own = {char: rest for char, rest in _PLACE_RESTS.items() if calls or char not in _ONLY_CALLS}
    marks = [*own.items(), *((char, _rest_pattern(behind)) for char, behind in _split_first(literals).items())]
    calling = (_PLACE_CALL,) if calls else ()
    line = "|".join((*(re.escape(char) + rest for char, rest in marks), _TILDES, *calling, _rest_pattern(set(words))))
    # The pattern begins with a character class, so the search skips all other characters quickly.
    firsts = "".join(re.escape(char) for char, _ in marks)
    each = "|".join(rf"(?<={re.escape(char)}){rest}" for char, rest in marks)
    return re.compile(rf"[\n{firsts}](?:(?<=\n)(?={_INDENT}(?:{line}))|{each})").search


class Marks:
    """Looks up marks for one set of tools.

    `only` restricts the openings to these dialects. `asked`: the model was asked for these, but others count as well.
    """

    def __init__(
        self, context: ParseContext, only: frozenset[str] | None = None, asked: frozenset[str] = frozenset()
    ) -> None:
        self._context = context
        self._only = only
        self._asked = asked if only is None else only
        self._tables = mark_tables()
        self.place = _place(calls=True)
        self._tools = context.names
        self._offered = context.tools is not None
        self._nonce = context.nonce
        self._meanings: dict[str, tuple[Role, Opening | None] | None] = {}  # cache, by the text from `<` to the name

    @property
    def idle_place(self) -> Callable[[str, int], re.Match[str] | None]:
        """The search to use instead of `place` once calls are no longer expected."""
        return _place(calls=False)

    def _counts(self, opening: Opening | None) -> bool:
        return opening is None or self._only is None or opening.dialect in self._only

    def _is_tool(self, name: str) -> bool:
        """Whether a name means one of the tools, possibly in another spelling."""
        return name in self._tools or self._context.knows(name) is True

    # ---- tags

    def tag(self, name: str, closing: bool) -> tuple[Role, Opening | None] | None:
        """Return the meaning of a tag with this normalized name."""
        if name.startswith(COMMENT):
            return "comment", None
        if name in THINKING:
            return ("think_end" if closing else "think"), THINKING_LABELS.get(name)
        if name in ENDS:
            return ENDS[name], None
        if closing:
            return self._closer(name)
        if name in ANSWER_ENDS:
            return "last", None
        opening = self._opening(name)
        if opening is not None:
            return "open", opening
        if name in self._tables.results:
            return "result", None
        if name in self._tables.block_closers or name in LONG_PARTS:
            return "closer", None
        if name == FIRST:
            return "first", None
        return (OTHERS[name], None) if name in OTHERS else None

    def _closer(self, name: str) -> tuple[Role, None] | None:
        """Return the meaning of a closing tag."""
        if name in self._tables.closing_tags or self._is_tool(name) or name == FIRST:
            return "closer", None
        return ("example_end", None) if name in EXAMPLES or name in self._tables.results else None

    def meaning(self, head: str) -> tuple[Role, Opening | None] | None:
        """Return the meaning of a tag. `head` is its text from `<` to the name."""
        try:
            return self._meanings[head]
        except KeyError:
            meaning = self.tag(*read_head(head))
            if len(self._meanings) < _MAX_MEANINGS:
                self._meanings[head] = meaning
            return meaning

    def _opening(self, name: str) -> Opening | None:
        opening = self._tables.openings.get(name)
        is_tool = self._is_tool(name) if opening is None else opening.tool_first and name in self._tools
        if is_tool:
            opening = msgspec.structs.replace(self._tables.forms["tool_tag"], stops=(f"</{name}>",))
        return opening if self._counts(opening) else None

    def may_become_tag(self, name: str) -> bool:
        """Whether a mark begins with this partial name."""
        return _is_prefix(name, _tag_names(self._tools)) or _is_prefix(fold_name(name), _folded_names(self._tools))

    def with_attributes(self, opening: Opening, tag: Tag) -> Opening:
        """Return the opening of a tag with attributes. If the tag contains the tool name, reading starts at the tag."""
        if not opening.stops or opening.at_mark or not call_name(tag):
            return opening
        return Opening(opening.dialect, stops=opening.stops, at_mark=True, one_call=True)

    # ---- literals

    def literal(self, buf: str, pos: int, final: bool) -> tuple[Role, Opening | None, int] | int:
        """Look up the literal mark at `pos`. Returns its role, opening and length, or NONE or MORE."""
        if buf[pos] == _TO[0]:
            return self._recipient(buf, pos, final)
        if buf[pos : pos + LOOK] not in self._tables.literals_by_first:
            return NONE
        return self._find(self._tables.literals_by_first, buf, pos, final)

    def _find(self, table: MarksByFirst, buf: str, pos: int, final: bool) -> tuple[Role, Opening | None, int] | int:
        """Look up the mark at `pos` in a table."""
        rest = buf[pos : pos + self._tables.longest]
        is_partial = False
        for mark, role, opening, length in table[rest[:LOOK]]:
            if rest.startswith(mark):
                if is_partial and not final:
                    return MORE  # it may be the beginning of a longer mark
                return (role, opening, length) if self._counts(opening) else NONE
            is_partial = is_partial or mark.startswith(rest)
        return MORE if is_partial and not final else NONE

    def line(self, buf: str, pos: int, final: bool) -> tuple[Role, Opening | None, int] | int:
        """Look up the mark at the start of a line: a fixed word, or a tool name followed by arguments."""
        match = NONE
        if buf[pos : pos + LOOK] in self._tables.lines_by_first:
            match = self._find(self._tables.lines_by_first, buf, pos, final)
        if match == NONE and self._nonce is not None:
            match = self._signed_action(buf, pos, final)
        if match == NONE and buf[pos] in "[c" and self._tools:
            match = (self._named_request if buf[pos] == "[" else self._message)(buf, pos, final)
        return match if match != NONE else self._named_call(buf, pos, final)

    def _named_call(self, buf: str, pos: int, final: bool) -> tuple[Role, Opening | None, int] | int:
        """Match a tool name followed by arguments."""
        word = None if buf[pos] in "{[" else _WORD(buf, pos)
        if word is None:
            return NONE
        name = word.group()
        if word.end() == len(buf) and not final:
            is_prefix = _is_prefix(name.rstrip(":"), _line_words(self._tools)) or name.startswith("call:")
            folded = fold_name(name), fold_name(clean_name(name))
            return MORE if is_prefix or any(_is_prefix(each, _folded_names(self._tools)) for each in folded) else NONE
        is_exact = clean_name(name) in self._tools or name.startswith("call:")
        if not is_exact and not self._is_tool(clean_name(name)):
            return NONE
        window = buf[word.end() : word.end() + 24]
        after = _AFTER_NAME(window)
        if after is None:
            is_partial = _AFTER_NAME_PARTIAL(window) is not None and not final and len(window) < 24
            return MORE if is_partial else NONE
        if not is_exact and window[0] != "(" and not after.group().lstrip().startswith(("{", "[")):
            return NONE  # in another spelling, a word may begin a sentence
        opening = self._tables.forms["named_call"]
        return ("open", opening, 0) if self._counts(opening) else NONE

    def _named_request(self, buf: str, pos: int, final: bool) -> tuple[Role, Opening | None, int] | int:
        """Match `[NAME]` on a line of its own before an object, as models in LM Studio write calls."""
        window = buf[pos : pos + _WINDOW]
        request = _NAMED_REQUEST(window)
        if request is None:
            is_partial = not final and len(window) < _WINDOW and _NAMED_REQUEST_PARTIAL(window) is not None
            return MORE if is_partial else NONE
        opening = self._tables.forms["named_request"]
        if not self._is_tool(request[1]) or not self._counts(opening):
            return NONE
        stops = (*opening.stops, f"[/{request[1]}]")
        return "open", msgspec.structs.replace(opening, name=request[1], stops=stops), request.end()

    def _message(self, buf: str, pos: int, final: bool) -> tuple[Role, Opening | None, int] | int:
        """Match `commentary to=functions.NAME json` before an object: a harmony message whose tokens were removed."""
        window = buf[pos : pos + _WINDOW]
        message = _MESSAGE(window)
        if message is None:
            begins = _MESSAGE_PARTIAL(window) is not None or _TO_FUNCTION.startswith(window)
            return MORE if begins and not final and len(window) < _WINDOW else NONE
        opening = self._tables.forms["message"]
        if not self._is_tool(message[1]) or not self._counts(opening):
            return NONE
        return "open", msgspec.structs.replace(opening, name=message[1]), message.end()

    def _signed_action(self, buf: str, pos: int, final: bool) -> tuple[Role, Opening | None, int] | int:
        """Match `Action k7q2xm:` with any word. The reader checks whether the word is the nonce."""
        window = buf[pos : pos + _WINDOW]
        action = _SIGNED_ACTION(window)
        if action is not None:
            opening = self._tables.forms["signed_action"]
            return ("open", opening, action.end()) if self._counts(opening) else NONE
        is_partial = not final and len(window) < _WINDOW and _SIGNED_ACTION_PARTIAL(window) is not None
        return MORE if is_partial else NONE

    def _recipient(self, buf: str, pos: int, final: bool) -> tuple[Role, Opening | None, int] | int:
        """Match the line `>>>name`, which opens a call. `>>>all` introduces text for the user and is dropped."""
        has_nonce = self._nonce is not None
        recipient = (_SIGNED_RECIPIENT if has_nonce else _RECIPIENT)(buf, pos)
        if recipient is None:
            begins = _SIGNED_RECIPIENT_PARTIAL if has_nonce else _RECIPIENT_PARTIAL
            is_partial = not final and begins(buf, pos, pos + _WINDOW) is not None
            return MORE if is_partial and len(buf) - pos < _WINDOW else NONE
        is_known = self._context.knows(recipient[1])
        if is_known is not True and recipient[1] == _ALL_RECIPIENTS:
            return "noise", None, recipient.end() - pos
        opening = self._tables.forms["recipient"]
        return NONE if is_known is False or not self._counts(opening) else ("open", opening, len(_TO))

    # ---- fences

    def is_result(self, info: str) -> bool:
        """Whether a code fence with this info string contains a tool result."""
        return _fold_info(self._unsigned(info)) in RESULT_FENCES

    def _unsigned(self, info: str) -> str:
        """Remove the nonce, even if it was miscopied, from an info string."""
        nonce = self._context.nonce
        if nonce is None:
            return info
        words, mark = _signed(info)
        if mark == nonce:
            return words
        # A fence with a miscopied nonce is still a call block, just without the nonce.
        miscopied = (
            _MARK(mark) is not None and _fold_info(words) in self._tables.action_fences and _FENCE_NAME(info) is None
        )
        return words if miscopied else info

    def fence(self, info: str, marks: str) -> Opening | None:
        """Return the opening of a code fence with this info string."""
        unsigned = self._unsigned(info)
        opening = _fence_opening(unsigned, marks)
        if opening is None or not self._counts(opening):
            return None
        is_wrong = unsigned != info and _signed(info)[1] != self._nonce
        return msgspec.structs.replace(opening, wrong_nonce=True) if is_wrong else opening

    # ---- bare calls

    def bare(self, buf: str, pos: int, final: bool) -> Opening | int:
        """Return the opening of a call without marks that may begin at `pos`, or NONE or MORE."""
        match = (self._bare_list if buf[pos] == "[" else self._bare_object)(buf, pos, final)
        if isinstance(match, int):
            return match
        if not self._counts(match):
            return NONE
        return msgspec.structs.replace(match, asked=True) if match.dialect in self._asked else match

    def _bare_object(self, buf: str, pos: int, final: bool) -> Opening | int:
        key = _FIRST_KEY(buf, pos, pos + _WINDOW)
        if key is None:
            return MORE if not final and len(buf) - pos < _WINDOW and _FIRST_KEY_PARTIAL(buf, pos) else NONE
        if key[1] in ROLES:
            return self._tables.forms["object"]
        return self._tables.forms["keyed_object"] if self._is_tool(key[1]) else NONE

    def _bare_list(self, buf: str, pos: int, final: bool) -> Opening | int:
        first = _LIST(buf, pos, pos + _WINDOW)
        if first is None:
            return MORE if not final and len(buf) - pos < _WINDOW and _LIST_PARTIAL(buf, pos) else NONE
        if first[1] is not None:
            return self._tables.forms["object"] if first[1] in ROLES else NONE
        return NONE if self._offered and not self._is_tool(first[2]) else self._tables.forms["python_list"]

    # ---- readers

    def reader(self, opening: Opening, context: ParseContext, evidence: Evidence) -> Reader:
        """Create a reader for the block after this opening."""
        owner = self._tables.owners.get(opening.dialect)
        if owner is not None and owner.grammar is not None:
            return GrammarReader(opening, context, evidence, owner.grammar)
        return ((owner and owner.reader) or BlockReader)(opening, context, evidence)


def _fold_info(info: str) -> str:
    """Normalize an info string: `JSON  Action` becomes `json action`."""
    return " ".join(info.lower().split())


def _signed(info: str) -> tuple[str, str]:
    """Split an info string into its words and the nonce after them: `k7`, `"k7"`, `:k7` or `mark=k7`."""
    *words, last = _APART(info)
    if words and words[-1].lower() in _MARK_NAMES:
        words.pop()
    return " ".join(words), last.strip(_AROUND_MARK)


@depends_on_dialects
@lru_cache(maxsize=64)
def _fence_opening(info: str, marks: str) -> Opening | None:
    tables = mark_tables()
    opening = tables.action_fences.get(_fold_info(info)) or tables.json_fences.get(info)
    name = _FENCE_NAME(info)
    if opening is None and name is not None:
        opening = msgspec.structs.replace(tables.forms["named_fence"], name=name.group(1))
    return None if opening is None else msgspec.structs.replace(opening, stops=(marks,))


def _is_prefix(text: str, words: list[str]) -> bool:
    """Whether any of the sorted `words` begins with `text`."""
    at = bisect_left(words, text)
    return at < len(words) and words[at].startswith(text)

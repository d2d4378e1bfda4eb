"""The public face of parsing: `Scanner` for streams, `parse` for whole texts.

Puts the dialect tables, the scanner and the evidence together. One path: `parse` is a fed and closed
`Scanner`, folded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from .core.events import Reply, fold
from .core.parsing import scanner
from .core.parsing.acceptance import Policy
from .core.parsing.context import Desk, Texts
from .core.parsing.tags import unescape
from .core.types import JSONValue, Tool, require, tools_from
from .dialects.openings import Marks
from .dialects.registry import marks_of
from .errors import UsageError

_POLICIES = ("strict", "standard", "eager")

#: How an untrusted text is searched for a call: how far before its name the call may open, how many openings are
#: tried for each mention, how much is read from each, and how many places are tried at all.
_BEFORE, _OPENERS, _WINDOW, _MAX_STARTS = 200, 6, 4096, 400
#: How the model itself ends a call that a text which it copied has begun.
_ENDINGS = ("</parameter></function></tool_call>", "\n</parameter>\n</function>\n</tool_call>", '"}}')
_CODE_BEFORE = frozenset("\"'`<=:>/.([{|｜\n")
_CODE_AFTER = frozenset("\"'`>({[<|｜")

Tools = Iterable[Tool | Mapping[str, JSONValue]] | None


class Scanner(scanner.Scanner):
    """Reads one answer as it comes: `feed` gives the events that a chunk makes certain, `close` the last ones.

    Args:
        tools: what the model may call, as `Tool` values or plain dicts in OpenAI's shape; None when unknown.
        dialect: `auto` for every known format, or the name of one (see `docs/dialects.md`).
        policy: how much evidence a call needs: `strict`, `standard` or `eager`.
        nonce: only marks that carry this word count.
        untrusted: texts that the model has read; a call that merely repeats one of theirs is text.
    """

    def __init__(
        self,
        tools: Tools = None,
        dialect: str = "auto",
        policy: Policy = "standard",
        nonce: str | None = None,
        untrusted: Sequence[str] = (),
    ) -> None:
        if policy not in _POLICIES:
            raise UsageError(f"unknown policy `{policy}`", hint=f"use one of {', '.join(_POLICIES)}")
        require(dialect, str, "`dialect`", "the name of a dialect")
        require(nonce, str | None, "`nonce`", "a text")
        if nonce is not None and not (nonce.isalnum() and nonce.isascii()):
            raise UsageError("a nonce is made of ASCII letters and digits")
        if isinstance(untrusted, str):
            raise UsageError("`untrusted` must be a list of texts", hint="wrap a single text in a list")
        require(untrusted, Iterable, "`untrusted`", "a list of texts")
        for text in untrusted:
            require(text, str, "what is `untrusted`", "a text")
        desk = desk_for(tools_from(tools), policy, nonce, tuple(untrusted))
        super().__init__(desk, Marks(desk, marks_of(dialect)))


def desk_for(
    tools: tuple[Tool, ...] | None,
    policy: Policy,
    nonce: str | None,
    untrusted: tuple[str, ...],
    copied: Texts = tuple,
) -> Desk:
    """A desk that finds the calls of untrusted texts in every known format.

    Only calls that another one precedes in the same block are compared with the `copied` texts.
    """
    return Desk(tools, policy, nonce, untrusted, lambda text, name: _calls_in(text, name, tools), copied)


def _calls_in(text: str, name: str, tools: tuple[Tool, ...] | None) -> list[JSONValue] | None:
    """The arguments of every call of `name` that a reader could find anywhere in `text`.

    The text is nobody's answer, so where it stands means nothing: reading starts anew at each place that may
    open a call before the name, also behind code marks, escapes and entities. None when there are more such
    places than anybody writes in good faith. A call that the text only begins counts as well, as it would be with the
    end of the call that the text was copied into.
    """
    known = tools if tools is not None else (Tool(name),)
    starts: set[int] = set()
    for at in _mentions(text, name):
        before = text[max(0, at - _BEFORE) : at]
        openers = [index for index, char in enumerate(before) if char in "<{[`\n" or before.startswith("Action", index)]
        starts.update(at - len(before) + index for index in openers[-_OPENERS:])
        starts.add(at)
        if len(starts) > _MAX_STARTS:
            return None
    windows = {text, *(text[start : start + _WINDOW] for start in starts)}
    replies = [parse(variant, known, policy="eager") for window in windows for variant in _plain_variants(window)]
    last = {text[start:] for start in starts if start + _WINDOW >= len(text)}
    begun = [window for window in last if not parse(window, known, policy="eager").complete]
    replies += [parse(window + ending, known, policy="eager") for window in begun for ending in _ENDINGS]
    # Not only calls: what is refused here, because it was repaired, may be whole in the answer.
    return [each.arguments for reply in replies for each in reply.candidates if each.name == name]


def _mentions(text: str, name: str) -> Iterator[int]:
    """Where the name stands like a word of code rather than of prose."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        before = text[max(0, at - 8) : at].rstrip(" ")[-1:] or "\n"
        after = text[end : end + 8].lstrip(" \n")[:1] or "\n"
        if before in _CODE_BEFORE or after in _CODE_AFTER:
            yield at
        at = text.find(name, end)


def _plain_variants(text: str) -> set[str]:
    """The text, and what it would be without ticks, escapes or entities."""
    unquoted = text.replace("\n> ", "\n")
    unescaped = text.replace("\\n", "\n").replace('\\"', '"')
    return {text, text.replace("`", " "), unescape(text), unquoted, unescaped}


def parse(
    text: str,
    tools: Tools = None,
    dialect: str = "auto",
    policy: Policy = "standard",
    nonce: str | None = None,
    untrusted: Sequence[str] = (),
) -> Reply:
    """Read a whole answer: its text, its reasoning, the calls it makes, and why the rest are none.

    >>> parse('<tool_call>{"name": "ping", "arguments": {}}</tool_call>').calls[0].name
    'ping'
    """
    require(text, str, "`text`", "a text")
    reader = Scanner(tools, dialect, policy, nonce, untrusted)
    events = reader.feed(text)
    events += reader.close()
    return fold(events)

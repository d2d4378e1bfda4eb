"""Public parsing API: `Scanner` for streams, `parse` for complete texts. Both give the same result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from .core.events import Event, Reply, fold
from .core.parsing.acceptance import Policy
from .core.parsing.context import ParseContext, Texts
from .core.parsing.scanner import TextScanner
from .core.parsing.tags import unescape
from .core.types import JSONValue, Tool, require, tools_from
from .dialects.openings import Marks
from .dialects.registry import marks_of
from .errors import UsageError

_POLICIES = ("strict", "standard", "eager")

#: Limits of the search for calls in an untrusted text: characters before a tool name to search for openings, openings
#: to try per name, characters to parse from each opening, and openings to try in total.
_MAX_BEFORE, _MAX_OPENERS, _WINDOW, _MAX_STARTS = 200, 6, 4096, 400
#: Texts with which a model might complete a call whose beginning it copied from an untrusted text.
_ENDINGS = ("</parameter></function></tool_call>", "\n</parameter>\n</function>\n</tool_call>", '"}}')
_CODE_BEFORE = frozenset("\"'`<=:>/.([{|｜\n")
_CODE_AFTER = frozenset("\"'`>({[<|｜")

Tools = Iterable[Tool | Mapping[str, JSONValue]] | None


class Scanner:
    """Parses one answer as it streams. `feed` returns the events that are final after a chunk, `close` the last ones.

    Args:
        tools: the tools on offer, as `Tool` values or dicts in OpenAI's format; None if they are unknown.
        dialect: `auto` for every known format, or a dialect name (see `docs/dialects.md`).
        policy: how much evidence a call needs: `strict`, `standard` or `eager`.
        nonce: a secret word. If given, only calls that contain it count.
        untrusted: texts that the model has read. A call that merely repeats one of them is treated as text.
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
        require(nonce, str | None, "`nonce`", "a string")
        if nonce is not None and not (nonce.isalnum() and nonce.isascii()):
            raise UsageError("`nonce` must consist of ASCII letters and digits")
        if isinstance(untrusted, str):
            raise UsageError("`untrusted` must be a list of strings", hint="wrap a single string in a list")
        require(untrusted, Iterable, "`untrusted`", "a list of strings")
        for text in untrusted:
            require(text, str, "every item of `untrusted`", "a string")
        context = parse_context(tools_from(tools), policy, nonce, tuple(untrusted))
        self._scanner = TextScanner(context, Marks(context, marks_of(dialect)))

    def feed(self, chunk: str) -> list[Event]:
        """Parse a chunk. Returns the events that are now final."""
        return self._scanner.feed(chunk)

    def close(self) -> list[Event]:
        """End the answer. Returns the last events."""
        return self._scanner.close()


def parse_context(
    tools: tuple[Tool, ...] | None,
    policy: Policy,
    nonce: str | None,
    untrusted: tuple[str, ...],
    copied: Texts = tuple,
) -> ParseContext:
    """Create a parse context that recognizes calls in untrusted texts in every known format.

    Calls after the first one of a block are also compared with the `copied` texts.
    """
    return ParseContext(tools, policy, nonce, untrusted, lambda text, name: _calls_in(text, name, tools), copied)


def _calls_in(text: str, name: str, tools: tuple[Tool, ...] | None) -> list[JSONValue] | None:
    """Return the arguments of every call to `name` that can be parsed anywhere in an untrusted `text`.

    Parsing starts at every position before the name that may open a call, even if the call is quoted, escaped or in
    code. Returns None if there are suspiciously many positions. A call that is cut off at the end of the text counts
    as well, completed as a model might complete it.
    """
    candidates = tools if tools is not None else (Tool(name),)
    starts: set[int] = set()
    for at in _mentions(text, name):
        before = text[max(0, at - _MAX_BEFORE) : at]
        openers = [index for index, char in enumerate(before) if char in "<{[`\n" or before.startswith("Action", index)]
        starts.update(at - len(before) + index for index in openers[-_MAX_OPENERS:])
        starts.add(at)
        if len(starts) > _MAX_STARTS:
            return None
    windows = {text, *(text[start : start + _WINDOW] for start in starts)}
    replies = [parse(variant, candidates, policy="eager") for window in windows for variant in _plain_variants(window)]
    last = {text[start:] for start in starts if start + _WINDOW >= len(text)}
    unfinished = [window for window in last if not parse(window, candidates, policy="eager").complete]
    replies += [parse(window + ending, candidates, policy="eager") for window in unfinished for ending in _ENDINGS]
    # Include rejected candidates: a call that is broken here may be intact in the answer.
    return [each.arguments for reply in replies for each in reply.candidates if each.name == name]


def _mentions(text: str, name: str) -> Iterator[int]:
    """Yield the positions where the name looks like part of code rather than prose."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        before = text[max(0, at - 8) : at].rstrip(" ")[-1:] or "\n"
        after = text[end : end + 8].lstrip(" \n")[:1] or "\n"
        if before in _CODE_BEFORE or after in _CODE_AFTER:
            yield at
        at = text.find(name, end)


def _plain_variants(text: str) -> set[str]:
    """Return the text itself, and variants without backticks, escapes, entities or quote marks."""
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
    """Parse a complete answer into text, reasoning, calls, and rejected candidates with reasons.

    >>> parse('<tool_call>{"name": "ping", "arguments": {}}</tool_call>').calls[0].name
    'ping'
    """
    require(text, str, "`text`", "a string")
    reader = Scanner(tools, dialect, policy, nonce, untrusted)
    events = reader.feed(text)
    events += reader.close()
    return fold(events)

"""Public parsing API: `Scanner` for streams, `parse` for complete texts. Both give the same result."""

from collections.abc import Iterable, Mapping, Sequence

from .core.events import Event, Noted, Reply, fold
from .core.parsing.acceptance import Policy
from .core.parsing.context import ParseContext
from .core.parsing.copied_values import CutCallFilter
from .core.parsing.scanner import TextScanner
from .core.types import JSONValue, Tool, require, tools_from
from .dialects.marks import Marks
from .dialects.registry import marks_of
from .errors import UsageError

_POLICIES = ("strict", "standard", "eager")

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
        context = ParseContext(tools_from(tools), policy, nonce, tuple(untrusted))
        self._context = context
        self._scanner = TextScanner(context, Marks(context, marks_of(dialect)))
        self._raw: list[str] = []
        self._cut_calls = CutCallFilter(self._raw, lambda: untrusted) if untrusted else None

    def feed(self, chunk: str) -> list[Event]:
        """Parse a chunk. Returns the events that are now final."""
        if self._cut_calls is None:
            return self._scanner.feed(chunk)
        self._raw.append(chunk)
        return self._cut_calls.filter(self._scanner.feed(chunk))

    def close(self, cut: bool = False) -> list[Event]:
        """End the answer. Returns the last events.

        `cut`: the answer was cut off, for example by a token limit. A call without its closing tag then does not count.
        """
        return self._end(self._scanner.close(cut))

    def read_all(self, text: str) -> list[Event]:
        """Parse a complete answer and return all events: the same as `feed` and `close`, but faster."""
        self._raw.append(text)
        return self._end(self._scanner.read_all(text))

    def _end(self, events: list[Event]) -> list[Event]:
        if self._cut_calls is not None:
            events = self._cut_calls.filter(events, final=True)
        notes = self._context.schema_notes.values()
        return [*events, *(Noted(note) for about in notes for note in about)] if notes else events


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
    return fold(Scanner(tools, dialect, policy, nonce, untrusted).read_all(text))

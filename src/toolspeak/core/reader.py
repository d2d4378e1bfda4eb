"""The public face of parsing: `Scanner` for streams, `parse` for whole texts.

Puts the dialect tables, the scanner and the evidence together. One path: `parse` is a fed and closed
`Scanner`, folded. Above: the engine and every face. Below: everything else in `core`, and `dialects`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..dialects.marks import Marks
from ..dialects.table import marks_of
from ..errors import UsageError
from . import scanner
from .desk import Desk
from .events import Reply, fold
from .evidence import Policy
from .markup import unescape
from .model import JSONValue, Tool, tools_from

__all__ = ["Scanner", "parse"]

_POLICIES = ("strict", "standard", "eager")

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
        if nonce is not None and not (nonce.isalnum() and nonce.isascii()):
            raise UsageError("a nonce is made of ASCII letters and digits")
        if isinstance(untrusted, str):
            raise UsageError("`untrusted` must be a list of texts", hint="wrap a single text in a list")
        known = tools_from(tools)
        desk = Desk(known, policy, nonce, tuple(untrusted), lambda text: _calls_in(text, known))
        super().__init__(desk, Marks(desk, marks_of(dialect)))


def _calls_in(text: str, tools: tuple[Tool, ...] | None) -> list[tuple[str, JSONValue]]:
    """Every call that a reader could find in `text`, also behind code marks, escapes or entities."""
    variants = {text, text.replace("`", " "), unescape(text), text.replace("\\n", "\n").replace('\\"', '"')}
    return [
        (call.name, call.arguments)
        for variant in variants
        for line_break in (variant, variant.replace("{", "\n{"))
        for call in parse(line_break, tools, policy="eager").calls
    ]


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
    reader = Scanner(tools, dialect, policy, nonce, untrusted)
    events = reader.feed(text)
    events += reader.close()
    return fold(events)

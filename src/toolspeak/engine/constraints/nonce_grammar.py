"""Calls of a dialect among prose, as a grammar: any text, but behind the mark of a call a whole call and nothing else.

How a dialect writes calls is found by letting it write some, so that no dialect is told here a second time. A dialect
can be enforced if its calls begin with a mark that no prose needs, and hold their arguments as one JSON object.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...core.parsing.arguments import to_json
from ...core.types import JSONObject, ToolCall
from ...dialects.registry import render_calls
from .expressions import Alt, Chars, Expr, Literally, Ref, Repeat, Rule, Seq
from .gbnf import Builder, gbnf_text
from .shapes import Ledger, Shape

#: Arguments that stand for any others; a plain word, since some dialects write only other keys as JSON.
_ANY: JSONObject = {"toolspeak_arguments": 0}
_CUT = to_json(_ANY)
#: Two names that have no beginning in common, and a nonce that stands for any other.
_NAMES = ("a", "b")
_NONCE = "k7q2xm"
#: How models end their thoughts. A call that they only think of must not be the end of the answer.
_THOUGHT = "</think>"
#: A shorter mark, such as the brace of bare JSON, may well stand in prose.
_SHORTEST_MARK = 6


class Division(msgspec.Struct, frozen=True):
    """The pieces of a turn's calls: `lead`, head, arguments, then `again`, head, arguments for more, and `end`."""

    #: What only a call begins with; `lead` begins with it.
    mark: str
    lead: str
    again: str
    end: str
    #: What names the tool, for each tool.
    heads: tuple[str, ...]


def division(dialect: str, names: Sequence[str], nonce: str | None = None) -> Division | None:
    """How the dialect divides calls of these tools; None where it cannot be enforced."""
    everybody = (*_NAMES, *names)
    shown = [_pieces(dialect, (name,), nonce) for name in everybody]
    pairs = [_pieces(dialect, (_NAMES[0], name), nonce) for name in _NAMES]
    if any(len(each) != 2 for each in shown) or any(len(each) != 3 for each in pairs):
        return None
    lead = _common(shown[0][0], shown[1][0])
    again = _common(pairs[0][1], pairs[1][1])
    other = _pieces(dialect, _NAMES[:1], _NONCE if nonce is None else None)
    mark = _common(lead, other[0])
    heads = tuple(first.removeprefix(lead) for first, _ in shown)
    made = Division(mark, lead, again, shown[0][1], heads)
    if len(mark) < _SHORTEST_MARK or mark[0].isalnum() or not _holds(made, dialect, everybody, nonce):
        return None
    return msgspec.structs.replace(made, heads=heads[len(_NAMES) :])


def _pieces(dialect: str, names: Sequence[str], nonce: str | None) -> list[str]:
    """Calls of these tools as they are written, without their arguments."""
    return render_calls(dialect, [ToolCall(name, _ANY) for name in names], nonce).split(_CUT)


def _common(first: str, second: str) -> str:
    length = next((at for at, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), None)
    return first[: min(len(first), len(second)) if length is None else length]


def _holds(made: Division, dialect: str, names: Sequence[str], nonce: str | None) -> bool:
    """Whether calls put together from the pieces are what the dialect writes: some number their calls."""
    text = made.lead + f"{_CUT}{made.again}".join(made.heads) + _CUT + made.end
    return text == render_calls(dialect, [ToolCall(name, _ANY) for name in names], nonce)


# ---- the grammar


def marked_gbnf(divided: Division, shapes: Sequence[tuple[str, Shape]], low: int, high: int, ledger: Ledger) -> str:
    """The grammar of an answer: calls of tools, given by name and arguments, and prose where none is demanded."""
    builder = Builder(ledger)
    options: list[Expr] = [
        Seq((Literally(head), builder.value(shape, name)))
        for head, (name, shape) in zip(divided.heads, shapes, strict=True)
    ]
    call = builder.rule("call", Alt(tuple(options)))
    more = builder.rule("next", Seq((Literally(divided.again), call)))
    end = (Literally(divided.end),) if divided.end else ()
    calls = builder.rule("calls", Seq((call, Repeat(more, 0, high - 1), *end)))
    if low:
        return gbnf_text(Seq((Literally(divided.lead), calls)), builder)
    thought = Seq((Repeat(Chars(("\n\n", "  ")), 0, 2), Literally(_THOUGHT), _state(0)))
    rest = Literally(divided.lead.removeprefix(divided.mark))
    behind = builder.rule("marked", Seq((rest, calls, Repeat(thought, 0, 1))))
    return gbnf_text(_prose(divided.mark, behind, builder), builder)


def _prose(mark: str, behind: Expr, builder: Builder) -> Expr:
    """Any text that does not hold the mark; behind the mark comes what `behind` says.

    One rule for each beginning of the mark: it says how the text may go on that ends in this beginning.
    """
    for at in range(len(mark)):
        reached = {char: _reached(mark, mark[:at] + char) for char in sorted(set(mark))}
        options: list[Expr] = [
            Seq((Literally(char), behind if length == len(mark) else _state(length)))
            for char, length in reached.items()
            if length
        ]
        others = Chars(tuple(char * 2 for char, length in reached.items() if length), True)
        options.append(Seq((others, _state(0))))
        builder.rules.append(Rule(_state(at), Repeat(Alt(tuple(options)), 0, 1)))
    return _state(0)


def _state(at: int) -> Ref:
    return Ref(f"prose-{at}")


def _reached(mark: str, text: str) -> int:
    """How much of the mark the text ends in."""
    return next(length for length in range(len(text), -1, -1) if mark.startswith(text[len(text) - length :]))

"""Build a grammar for prose with calls in a dialect: any text, but an opening mark must be followed by a complete call.

The syntax is derived from sample calls rendered in the dialect. A dialect can be enforced if its calls begin with a
mark that does not occur in prose, and contain their arguments as one JSON object.
"""

from collections.abc import Sequence

import msgspec

from ...core.parsing.arguments import to_json
from ...core.types import JSONObject, ToolCall
from ...dialects.registry import render_calls
from .grammars import Alt, Chars, Expr, GrammarBuilder, GrammarRule, Literally, Ref, Repeat, Seq, gbnf_text
from .shapes import Ledger, Shape

#: Placeholder arguments. The key is a plain identifier, because some dialects quote or escape other keys.
_ANY_ARGUMENTS: JSONObject = {"toolspeak_arguments": 0}
_PLACEHOLDER = to_json(_ANY_ARGUMENTS)
#: Two tool names without a common prefix, and a sample nonce.
_NAMES = ("a", "b")
_NONCE = "k7q2xm"
#: The tag that ends reasoning. After a call inside the reasoning, the answer may continue with this tag.
_THOUGHT = "</think>"
#: Minimum length of a mark. A shorter one, such as the opening brace of bare JSON, may occur in prose.
_SHORTEST_MARK = 6


class CallTemplate(msgspec.Struct, frozen=True):
    """Fixed text around calls: `lead`, head, arguments, then `again`, head, arguments for each further call, `end`."""

    #: The opening mark, a prefix of `lead`.
    mark: str
    lead: str
    again: str
    end: str
    #: For each tool, the text that contains its name.
    heads: tuple[str, ...]


def call_template(dialect: str, names: Sequence[str], nonce: str | None = None) -> CallTemplate | None:
    """Return the call template of a dialect for these tools, or None if the dialect cannot be enforced."""
    all_names = (*_NAMES, *names)
    single_calls = [_pieces(dialect, (name,), nonce) for name in all_names]
    pairs = [_pieces(dialect, (_NAMES[0], name), nonce) for name in _NAMES]
    if any(len(each) != 2 for each in single_calls) or any(len(each) != 3 for each in pairs):
        return None
    lead = _common(single_calls[0][0], single_calls[1][0])
    again = _common(pairs[0][1], pairs[1][1])
    other = _pieces(dialect, _NAMES[:1], _NONCE if nonce is None else None)
    mark = _common(lead, other[0])
    heads = tuple(first.removeprefix(lead) for first, _ in single_calls)
    template = CallTemplate(mark, lead, again, single_calls[0][1], heads)
    if len(mark) < _SHORTEST_MARK or mark[0].isalnum() or not _reproduces(template, dialect, all_names, nonce):
        return None
    return msgspec.structs.replace(template, heads=heads[len(_NAMES) :])


def _pieces(dialect: str, names: Sequence[str], nonce: str | None) -> list[str]:
    """Render calls of these tools and split the text at the arguments."""
    return render_calls(dialect, [ToolCall(name, _ANY_ARGUMENTS) for name in names], nonce).split(_PLACEHOLDER)


def _common(first: str, second: str) -> str:
    length = next((at for at, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), None)
    return first[: min(len(first), len(second)) if length is None else length]


def _reproduces(template: CallTemplate, dialect: str, names: Sequence[str], nonce: str | None) -> bool:
    """Whether the template reproduces the rendered calls exactly. It does not if the dialect numbers its calls."""
    text = template.lead + f"{_PLACEHOLDER}{template.again}".join(template.heads) + _PLACEHOLDER + template.end
    return text == render_calls(dialect, [ToolCall(name, _ANY_ARGUMENTS) for name in names], nonce)


def marked_gbnf(
    template: CallTemplate, shapes: Sequence[tuple[str, Shape]], low: int, high: int, ledger: Ledger
) -> str:
    """Return the grammar of an answer: prose and calls, or only calls if a call is required."""
    builder = GrammarBuilder(ledger)
    options: list[Expr] = [
        Seq((Literally(head), builder.value(shape, name)))
        for head, (name, shape) in zip(template.heads, shapes, strict=True)
    ]
    call = builder.rule("call", Alt(tuple(options)))
    more = builder.rule("next", Seq((Literally(template.again), call)))
    end = (Literally(template.end),) if template.end else ()
    calls = builder.rule("calls", Seq((call, Repeat(more, 0, high - 1), *end)))
    if low:
        return gbnf_text(Seq((Literally(template.lead), calls)), builder)
    thought = Seq((Repeat(Chars(("\n\n", "  ")), 0, 2), Literally(_THOUGHT), _state(0)))
    rest = Literally(template.lead.removeprefix(template.mark))
    after_mark = builder.rule("marked", Seq((rest, calls, Repeat(thought, 0, 1))))
    return gbnf_text(_prose(template.mark, after_mark, builder), builder)


def _prose(mark: str, after_mark: Expr, builder: GrammarBuilder) -> Expr:
    """Add rules for text in which the mark, if it occurs, is followed by `after_mark`; return the start rule.

    There is one rule for each prefix of the mark: it describes how text that ends with this prefix may continue.
    """
    for at in range(len(mark)):
        reached = {char: _matched_length(mark, mark[:at] + char) for char in sorted(set(mark))}
        options: list[Expr] = [
            Seq((Literally(char), after_mark if length == len(mark) else _state(length)))
            for char, length in reached.items()
            if length
        ]
        others = Chars(tuple(char * 2 for char, length in reached.items() if length), True)
        options.append(Seq((others, _state(0))))
        builder.rules.append(GrammarRule(_state(at), Repeat(Alt(tuple(options)), 0, 1)))
    return _state(0)


def _state(at: int) -> Ref:
    return Ref(f"prose-{at}")


def _matched_length(mark: str, text: str) -> int:
    """Return the length of the longest prefix of the mark that the text ends with."""
    return next(length for length in range(len(text), -1, -1) if mark.startswith(text[len(text) - length :]))

"""Shapes as grammars: GBNF for llama.cpp and its relatives, Lark for llguidance.

A shape becomes rules over a handful of expressions; two printers write the rules down. The documents are JSON with
at most one space after each comma and colon, members in the order of the schema, every string, number and list
bounded, so that a model that repeats itself still comes to an end. Above: `constraint`, and `marked`, which puts calls
among prose. Below: `shapes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, assert_never

import msgspec

from ..schemas.json_values import json_text
from .digits import Pattern, digit_patterns
from .shapes import MAX_ITEMS, MAX_STRING, AnyValue, Array, Fixed, Ledger, Member, Number, Object, Shape, Text, Union

__all__ = [
    "ANY_DEPTH",
    "Alt",
    "Builder",
    "Chars",
    "Expr",
    "Literally",
    "Ref",
    "Repeat",
    "Rule",
    "Seq",
    "gbnf",
    "gbnf_text",
    "lark",
]

#: A repetition of more than 1,999 is refused by llama.cpp, or taken as unbounded; longer ones are made of blocks.
_BLOCK = 256
_MOST_AT_ONCE = 1024
#: How deep a value without a schema may nest.
ANY_DEPTH = 3
#: Digits behind the point of a number: more than a double holds.
_MAX_FRACTION = 20


class Literally(msgspec.Struct, frozen=True, tag=True):
    """These characters."""

    text: str


class Chars(msgspec.Struct, frozen=True, tag=True):
    """One character of a class, given as pairs of bounds; or one outside of it."""

    ranges: tuple[str, ...]
    outside: bool = False


class Ref(msgspec.Struct, frozen=True, tag=True):
    """What another rule says. A token is read as one piece: it refers to tokens only."""

    name: str
    token: bool = False


class Seq(msgspec.Struct, frozen=True, tag=True):
    """One after the other."""

    parts: tuple[Expr, ...]


class Alt(msgspec.Struct, frozen=True, tag=True):
    """One of these."""

    options: tuple[Expr, ...]


class Repeat(msgspec.Struct, frozen=True, tag=True):
    """The same again and again. Only of single characters and rules: llama.cpp counts what it must copy."""

    part: Expr
    low: int
    high: int


Expr: TypeAlias = Literally | Chars | Ref | Seq | Alt | Repeat


class Rule(msgspec.Struct, frozen=True):
    """A name for an expression."""

    name: Ref
    body: Expr


def _seq(*parts: Expr) -> Expr:
    return parts[0] if len(parts) == 1 else Seq(parts)


def _alt(options: Sequence[Expr]) -> Expr:
    return options[0] if len(options) == 1 else Alt(tuple(options))


def _maybe(*parts: Expr) -> Expr:
    return Repeat(_seq(*parts), 0, 1)


def _token(name: str) -> Ref:
    return Ref(name, True)


_HEX, _DIGIT = Chars(("09", "af", "AF")), Chars(("09",))
_COMMA, _COLON, _QUOTE = _token("comma"), _token("colon"), Literally('"')
_CHAR = _token("char")
#: Rules that others use; written down only when used. An escape names no half of a surrogate pair: those are refused.
_BASICS: dict[str, Rule] = {
    rule.name.name: rule
    for rule in (
        Rule(_token("comma"), Seq((Literally(","), _maybe(Literally(" "))))),
        Rule(_token("colon"), Seq((Literally(":"), _maybe(Literally(" "))))),
        Rule(_token("char"), Alt((Chars(('""', "\\\\", "\x00\x1f"), True), Seq((Literally("\\"), _token("escape")))))),
        Rule(
            _token("escape"),
            Alt((Chars(tuple(each * 2 for each in '"\\/bfnrt')), Seq((Literally("u"), _token("code"))))),
        ),
        Rule(
            _token("code"),
            Alt(
                (
                    Seq((Chars(("09", "ac", "AC", "ef", "EF")), Repeat(_HEX, 3, 3))),
                    Seq((Chars(("dd", "DD")), Chars(("07",)), Repeat(_HEX, 2, 2))),
                )
            ),
        ),
        Rule(_token("block"), Repeat(_CHAR, _BLOCK, _BLOCK)),
        Rule(_token("fraction"), Seq((Literally("."), Repeat(_DIGIT, 1, _MAX_FRACTION)))),
        Rule(_token("exponent"), Seq((Chars(("ee", "EE")), _maybe(Chars(("++", "--"))), Repeat(_DIGIT, 1, 2)))),
        Rule(_token("date"), Seq((*(_DIGIT,) * 4, Literally("-"), _token("month"), Literally("-"), _token("day")))),
        Rule(_token("month"), Alt((Seq((Literally("0"), Chars(("19",)))), Seq((Literally("1"), Chars(("02",))))))),
        Rule(
            _token("day"),
            Alt(
                (
                    Seq((Literally("0"), Chars(("19",)))),
                    Seq((Chars(("12",)), _DIGIT)),
                    Seq((Literally("3"), Chars(("01",)))),
                )
            ),
        ),
        Rule(_token("hour"), Alt((Seq((Chars(("01",)), _DIGIT)), Seq((Literally("2"), Chars(("03",))))))),
        Rule(_token("sixty"), Seq((Chars(("05",)), _DIGIT))),
        Rule(_token("time"), Seq((_token("clock"), Repeat(_token("fraction"), 0, 1), _token("zone")))),
        Rule(_token("clock"), Seq((_token("hour"), Literally(":"), _token("sixty"), Literally(":"), _token("sixty")))),
        Rule(
            _token("zone"),
            Alt((Literally("Z"), Seq((Chars(("++", "--")), _token("hour"), Literally(":"), _token("sixty"))))),
        ),
        Rule(_token("date-time"), Seq((_token("date"), Literally("T"), _token("time")))),
        Rule(
            _token("uuid"), Seq((Repeat(_HEX, 8, 8), *(_token("uuid-part"),) * 3, Literally("-"), Repeat(_HEX, 12, 12)))
        ),
        Rule(_token("uuid-part"), Seq((Literally("-"), Repeat(_HEX, 4, 4)))),
    )
}
#: Formats that are written down as rules; the others are left to the model.
_FORMATS = frozenset({"date", "time", "date-time", "uuid"})


class Builder:
    """Collects the rules of one grammar. Equal bodies share a rule."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.rules: list[Rule] = []
        self._known: dict[tuple[Expr, bool], Ref] = {}

    def rule(self, kind: str, body: Expr, token: bool = False) -> Ref:
        """A name for an expression."""
        found = self._known.get((body, token))
        if found is None:
            name = f"{kind}-{len(self._known)}"
            found = self._known[(body, token)] = Ref(name, token)
            self.rules.append(Rule(found, body))
        return found

    def value(self, shape: Shape, where: str) -> Expr:
        """A value of this shape; `where` says in notes what it belongs to."""
        match shape:
            case AnyValue():
                return self._any(ANY_DEPTH)
            case Fixed(values):
                return self.rule("fixed", _alt([Literally(json_text(value)) for value in values]), True)
            case Text():
                return self.rule("text", self._text(shape, where), True)
            case Number():
                return self.rule("number", self._number(shape, where), True)
            case Array():
                return self.rule("list", self._array(shape, where))
            case Object():
                return self.rule("object", self._object(shape, where))
            case Union(options):
                return self.rule("choice", _alt([self.value(option, where) for option in options]))
            case _:
                assert_never(shape)

    # ---- scalars

    def _text(self, shape: Text, where: str) -> Expr:
        if shape.pattern:
            self._ledger.loosen("pattern", where)
        if shape.format in _FORMATS and not shape.pattern:
            return Seq((_QUOTE, _token(shape.format), _QUOTE))
        if shape.format:
            self._ledger.loosen("format", where)
        high = MAX_STRING if shape.high is None else min(shape.high, MAX_STRING)
        if shape.low > high:
            self._ledger.loosen("minLength", where)
        return Seq((_QUOTE, *_times(min(shape.low, high), high), _QUOTE))

    def _number(self, shape: Number, where: str) -> Expr:
        if shape.step not in (None, 1):
            self._ledger.loosen("multipleOf", where)
        if shape.integer:
            return self._integer(shape, where)
        signed = shape.low is None or shape.low < 0
        signed = signed and (shape.above is None or shape.above < 0)
        exact = shape.low in (None, 0) and (shape.high, shape.above, shape.below) == (None, None, None)
        if not exact:
            self._ledger.loosen("minimum and maximum", where)
        whole = _alt([_digits(pattern) for pattern in digit_patterns(0, None)])
        sign = (_maybe(Literally("-")),) if signed else ()
        return Seq((*sign, whole, Repeat(_token("fraction"), 0, 1), Repeat(_token("exponent"), 0, 1)))

    def _integer(self, shape: Number, where: str) -> Expr:
        # Bounds of integers are whole; `shapes` has rounded them.
        patterns = digit_patterns(shape.low, shape.high)  # type: ignore[arg-type]
        if not patterns:
            self._ledger.loosen("minimum and maximum", where)
            patterns = digit_patterns(None, None)
        return _alt([_digits(pattern) for pattern in patterns])

    # ---- containers

    def _any(self, depth: int) -> Expr:
        scalars = [self.value(each, "") for each in (Text(), Number(), Fixed((True, False, None)))]
        if not depth:
            return self.rule("any", _alt(scalars))
        inner = self._any(depth - 1)
        items = self.rule("list", self._list(inner, 0, MAX_ITEMS))
        return self.rule("any", _alt([*scalars, items, self.rule("object", self._map(inner))]))

    def _more(self, item: Expr, low: int, high: int) -> tuple[Expr, ...]:
        """More of the same, each behind a comma."""
        return (Repeat(self.rule("more", Seq((_COMMA, item))), low, high),) if high else ()

    def _list(self, item: Expr, low: int, high: int) -> Expr:
        if not high:
            return Literally("[]")
        filled = Seq((item, *self._more(item, max(low - 1, 0), high - 1)))
        return Seq((Literally("["), filled if low else _maybe(filled), Literally("]")))

    def _array(self, shape: Array, where: str) -> Expr:
        count = len(shape.prefix)
        item = self.value(shape.items, f"{where}[]") if shape.high > count else Literally("")
        if not count:
            return self._list(item, shape.low, shape.high)
        # From the last item to the first: what follows an item is either demanded or may be left out.
        rest = self._more(item, max(shape.low - count, 0), shape.high - count)
        for index in range(count - 1, -1, -1):
            lead = (_COMMA,) if index else ()
            here = (*lead, self.value(shape.prefix[index], f"{where}[{index}]"), *rest)
            rest = (self.rule("items", Seq(here)),)
            rest = rest if index < shape.low else (Repeat(rest[0], 0, 1),)
        return Seq((Literally("["), *rest, Literally("]")))

    def _map(self, value: Expr) -> Expr:
        pair = self._pair(value)
        return Seq((Literally("{"), _maybe(pair, *self._more(pair, 0, MAX_ITEMS - 1)), Literally("}")))

    def _pair(self, value: Expr) -> Expr:
        return self.rule("pair", Seq((self.value(Text(), ""), _COLON, value)))

    def _member(self, member: Member, where: str) -> Expr:
        value = self.value(member.shape, member.label or f"{where}.{member.name}")
        return self.rule("member", Seq((Literally(json_text(member.name)), _COLON, value)))

    def _object(self, shape: Object, where: str) -> Expr:
        extra = None if shape.extra is None else self.value(shape.extra, f"{where}.*")
        if not shape.members:
            return Literally("{}") if extra is None else self._map(extra)
        pair = None
        if extra is not None:
            pair = self._pair(extra)
            self._ledger.add("constraint_loosened", f"a further key of `{where}` may repeat a declared one")
        members = [self._member(member, where) for member in shape.members]
        required = [index for index, member in enumerate(shape.members) if member.required]
        if not required:
            return Seq((Literally("{"), self._optional(members, pair), Literally("}")))
        first = required[0]
        parts: list[Expr] = [_maybe(member, _COMMA) for member in members[:first]]
        parts.append(members[first])
        for declared, member in zip(shape.members[first + 1 :], members[first + 1 :], strict=True):
            parts += (_COMMA, member) if declared.required else (_maybe(_COMMA, member),)
        more = () if pair is None else self._more(pair, 0, MAX_ITEMS)
        return Seq((Literally("{"), *parts, *more, Literally("}")))

    def _optional(self, members: Sequence[Expr], pair: Expr | None) -> Expr:
        """Any of the members, in their order; a comma stands only between two. One rule for each place."""
        tail: tuple[Expr, ...] = () if pair is None else self._more(pair, 0, MAX_ITEMS)
        head: Expr | None = None if pair is None else Seq((pair, *tail))
        for member in reversed(members):
            here = _seq(member, *tail)
            head = self.rule("first", here if head is None else Alt((here, head)))
            tail = (self.rule("rest", Seq((_maybe(_COMMA, member), *tail))) if tail else _maybe(_COMMA, member),)
        assert head is not None
        return Repeat(head, 0, 1)


def _digits(pattern: Pattern) -> Expr:
    parts: list[Expr] = []
    for each in pattern:
        if isinstance(each, str):
            parts.append(Literally(each))
        else:
            ends, low, high = each
            parts.append(Chars((ends,)) if low == high == 1 else Repeat(Chars((ends,)), low, high))
    return _seq(*parts)


def _times(low: int, high: int) -> tuple[Expr, ...]:
    """So many characters; long runs in blocks, without two ways to divide the same run."""
    if high <= _MOST_AT_ONCE:
        return (Repeat(_CHAR, low, high),) if high else ()
    start = _exactly(low)
    blocks, rest = divmod(high - low, _BLOCK)
    if not blocks:
        return (*start, Repeat(_CHAR, 0, rest))
    block = _token("block")
    if rest == _BLOCK - 1:
        return (*start, Repeat(block, 0, blocks), Repeat(_CHAR, 0, rest))
    fewer = Seq((Repeat(block, 0, blocks - 1), Repeat(_CHAR, 0, _BLOCK - 1)))
    return (*start, Alt((fewer, Seq((*_exactly(blocks * _BLOCK), Repeat(_CHAR, 0, rest))))))


def _exactly(count: int) -> tuple[Expr, ...]:
    blocks, rest = divmod(count, _BLOCK)
    parts = (Repeat(_token("block"), blocks, blocks), Repeat(_CHAR, rest, rest))
    return tuple(part for part in parts if part.low)


def _of(shape: Shape, ledger: Ledger) -> tuple[Expr, list[Rule]]:
    builder = Builder(ledger)
    root = builder.value(shape, "answer")
    return root, _rules(builder)


def _rules(builder: Builder) -> list[Rule]:
    """Every rule that there is, and those that they use."""
    used = dict.fromkeys(name for rule in builder.rules for name in _names(rule.body) if name in _BASICS)
    queue = list(used)
    for name in queue:
        fresh = dict.fromkeys(each for each in _names(_BASICS[name].body) if each not in used)
        used.update(fresh)
        queue += fresh
    return builder.rules + [_BASICS[name] for name in used]


def _names(expr: Expr) -> Iterable[str]:
    match expr:
        case Ref(name):
            yield name
        case Seq(parts) | Alt(parts):
            for part in parts:
                yield from _names(part)
        case Repeat(part):
            yield from _names(part)
        case _:
            pass


# ---- printing


class _Language(msgspec.Struct, frozen=True):
    """How a grammar language spells what others spell otherwise."""

    root: str
    rule: str
    #: Around a class of characters; behind what stands so often, or so often at least and at most.
    chars: str
    exactly: str
    between: str
    #: How rules are called.
    name: Callable[[Ref], str]

    def text(self, root: Expr, rules: Sequence[Rule]) -> str:
        everything = (Rule(Ref(self.root), root), *rules)
        return "".join(self.rule.format(self.name(rule.name), self._show(rule.body)) + "\n" for rule in everything)

    def _show(self, expr: Expr, loose: bool = True) -> str:
        """An expression; in brackets, unless `loose`, where its parts could be torn apart."""
        match expr:
            case Literally(text):
                return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
            case Chars(ranges, outside):
                body = "".join(f"{_escaped(a)}-{_escaped(b)}" if a != b else _escaped(a) for a, b in ranges)
                return self.chars.format(("^" if outside else "") + body)
            case Ref():
                return self.name(expr)
            case Repeat(part, low, high):
                return self._show(part, False) + self._times(low, high)
            case Seq(parts):
                shown = " ".join(self._show(part, False) for part in parts)
            case Alt(options):
                shown = " | ".join(self._show(option, not isinstance(option, Alt)) for option in options)
            case _:
                assert_never(expr)
        return shown if loose else f"({shown})"

    def _times(self, low: int, high: int) -> str:
        if (low, high) == (0, 1):
            return "?"
        return self.exactly.format(low) if low == high else self.between.format(low, high)


def _escaped(char: str) -> str:
    if char.isalnum():
        return char
    return f"\\x{ord(char):02X}" if ord(char) < 0x100 else f"\\u{ord(char):04X}"


def _lark_name(ref: Ref) -> str:
    name = ref.name.replace("-", "_")
    return name.upper() if ref.token else name


_GBNF = _Language("root", "{} ::= {}", "[{}]", "{{{}}}", "{{{},{}}}", lambda ref: ref.name)
_LARK = _Language("start", "{}: {}", "/[{}]/", "~{}", "~{}..{}", _lark_name)


def gbnf(shape: Shape, ledger: Ledger) -> str:
    """The documents of a shape in GBNF."""
    return _GBNF.text(*_of(shape, ledger))


def gbnf_text(root: Expr, builder: Builder) -> str:
    """An expression in GBNF, with the rules that were made for it."""
    return _GBNF.text(root, _rules(builder))


def lark(shape: Shape, ledger: Ledger) -> str:
    """The documents of a shape in Lark."""
    return _LARK.text(*_of(shape, ledger))

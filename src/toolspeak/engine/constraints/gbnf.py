"""Shapes as grammars: GBNF for llama.cpp and its relatives, Lark for llguidance.

A shape becomes rules over a handful of expressions; two printers write the rules down. The documents are JSON with
at most one space after each comma and colon, members in the order of the schema, every string, number and list
bounded, so that a model that repeats itself still comes to an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

import msgspec

from ...core.schema.json_values import json_text
from .basics import BASICS, BLOCK, CHAR, COLON, COMMA, FORMATS, QUOTE
from .digits import Pattern, digit_patterns
from .expressions import Alt, Chars, Expr, Literally, Ref, Repeat, Rule, Seq, alt, maybe, seq, token
from .keys import MAX_NAMED_CHARS, other_than
from .shapes import MAX_ITEMS, MAX_STRING, AnyValue, Array, Fixed, Ledger, Member, Number, Object, Shape, Text, Union

#: The longest repetition that is written as one; longer ones are made of blocks.
_MOST_AT_ONCE = 1024
#: How deep a value without a schema may nest.
ANY_DEPTH = 3


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
                return self.rule("fixed", alt([Literally(json_text(value)) for value in values]), True)
            case Text():
                return self.rule("text", self._text(shape, where), True)
            case Number():
                return self.rule("number", self._number(shape, where), True)
            case Array():
                return self.rule("list", self._array(shape, where))
            case Object():
                return self.rule("object", self._object(shape, where))
            case Union(options):
                return self.rule("choice", alt([self.value(option, where) for option in options]))
            case _:
                assert_never(shape)

    # ---- scalars

    def _text(self, shape: Text, where: str) -> Expr:
        if shape.pattern:
            self._ledger.loosen("pattern", where)
        if shape.format in FORMATS and not shape.pattern:
            fewest, most = FORMATS[shape.format]
            if shape.low > fewest or (shape.high is not None and shape.high < most):
                self._ledger.loosen("minLength and maxLength", where)
            return Seq((QUOTE, token(shape.format), QUOTE))
        if shape.format:
            self._ledger.loosen("format", where)
        high = MAX_STRING if shape.high is None else min(shape.high, MAX_STRING)
        if shape.low > high:
            self._ledger.loosen("minLength", where)
        return Seq((QUOTE, *_times(min(shape.low, high), high), QUOTE))

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
        whole = alt([_digits(pattern) for pattern in digit_patterns(0, None)])
        sign = (maybe(Literally("-")),) if signed else ()
        return Seq((*sign, whole, Repeat(token("fraction"), 0, 1), Repeat(token("exponent"), 0, 1)))

    def _integer(self, shape: Number, where: str) -> Expr:
        # Bounds of integers are whole; `shapes` has rounded them.
        patterns = digit_patterns(shape.low, shape.high)  # type: ignore[arg-type]
        if not patterns:
            self._ledger.loosen("minimum and maximum", where)
            patterns = digit_patterns(None, None)
        return alt([_digits(pattern) for pattern in patterns])

    # ---- containers

    def _any(self, depth: int) -> Expr:
        scalars = [self.value(each, "") for each in (Text(), Number(), Fixed((True, False, None)))]
        if not depth:
            return self.rule("any", alt(scalars))
        inner = self._any(depth - 1)
        items = self.rule("list", self._list(inner, 0, MAX_ITEMS))
        return self.rule("any", alt([*scalars, items, self.rule("object", self._map(inner))]))

    def _more(self, item: Expr, low: int, high: int) -> tuple[Expr, ...]:
        """More of the same, each behind a comma."""
        return (Repeat(self.rule("more", Seq((COMMA, item))), low, high),) if high else ()

    def _list(self, item: Expr, low: int, high: int) -> Expr:
        if not high:
            return Literally("[]")
        filled = Seq((item, *self._more(item, max(low - 1, 0), high - 1)))
        return Seq((Literally("["), filled if low else maybe(filled), Literally("]")))

    def _array(self, shape: Array, where: str) -> Expr:
        count = len(shape.prefix)
        item = self.value(shape.items, f"{where}[]") if shape.high > count else Literally("")
        if not count:
            return self._list(item, shape.low, shape.high)
        # From the last item to the first: what follows an item is either demanded or may be left out.
        rest = self._more(item, max(shape.low - count, 0), shape.high - count)
        for index in range(count - 1, -1, -1):
            lead = (COMMA,) if index else ()
            here = (*lead, self.value(shape.prefix[index], f"{where}[{index}]"), *rest)
            rest = (self.rule("items", Seq(here)),)
            rest = rest if index < shape.low else (Repeat(rest[0], 0, 1),)
        return Seq((Literally("["), *rest, Literally("]")))

    def _map(self, value: Expr) -> Expr:
        pair = self._pair(self.value(Text(), ""), value)
        return Seq((Literally("{"), maybe(pair, *self._more(pair, 0, MAX_ITEMS - 1)), Literally("}")))

    def _pair(self, key: Expr, value: Expr) -> Expr:
        return self.rule("pair", Seq((key, COLON, value)))

    def _further_key(self, shape: Object, where: str) -> Expr:
        names = [member.name for member in shape.members]
        if sum(map(len, names)) > MAX_NAMED_CHARS:
            self._ledger.add("constraint_loosened", f"a further key of `{where}` may repeat a declared one")
            return self.value(Text(), "")
        rest = self.rule("rest", seq(*_times(0, MAX_STRING)), True)
        inside = other_than(names, rest, lambda body: self.rule("key", body, True))
        return self.rule("key", Seq((QUOTE, inside, QUOTE)), True)

    def _member(self, member: Member, where: str) -> Expr:
        value = self.value(member.shape, member.label or f"{where}.{member.name}")
        return self.rule("member", Seq((Literally(json_text(member.name)), COLON, value)))

    def _object(self, shape: Object, where: str) -> Expr:
        extra = None if shape.extra is None else self.value(shape.extra, f"{where}.*")
        if not shape.members:
            return Literally("{}") if extra is None else self._map(extra)
        pair = None
        if extra is not None:
            pair = self._pair(self._further_key(shape, where), extra)
        members = [self._member(member, where) for member in shape.members]
        required = [index for index, member in enumerate(shape.members) if member.required]
        if not required:
            return Seq((Literally("{"), self._optional(members, pair), Literally("}")))
        first = required[0]
        parts: list[Expr] = [maybe(member, COMMA) for member in members[:first]]
        parts.append(members[first])
        for declared, member in zip(shape.members[first + 1 :], members[first + 1 :], strict=True):
            parts += (COMMA, member) if declared.required else (maybe(COMMA, member),)
        more = () if pair is None else self._more(pair, 0, MAX_ITEMS)
        return Seq((Literally("{"), *parts, *more, Literally("}")))

    def _optional(self, members: Sequence[Expr], pair: Expr | None) -> Expr:
        """Any of the members, in their order; a comma stands only between two. One rule for each place."""
        tail: tuple[Expr, ...] = () if pair is None else self._more(pair, 0, MAX_ITEMS)
        head: Expr | None = None if pair is None else Seq((pair, *tail))
        for member in reversed(members):
            here = seq(member, *tail)
            head = self.rule("first", here if head is None else Alt((here, head)))
            tail = (self.rule("rest", Seq((maybe(COMMA, member), *tail))) if tail else maybe(COMMA, member),)
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
    return seq(*parts)


def _times(low: int, high: int) -> tuple[Expr, ...]:
    """So many characters; long runs in blocks, without two ways to divide the same run."""
    if high <= _MOST_AT_ONCE:
        return (Repeat(CHAR, low, high),) if high else ()
    start = _exactly(low)
    blocks, rest = divmod(high - low, BLOCK)
    if not blocks:
        return (*start, Repeat(CHAR, 0, rest))
    block = token("block")
    if rest == BLOCK - 1:
        return (*start, Repeat(block, 0, blocks), Repeat(CHAR, 0, rest))
    fewer = Seq((Repeat(block, 0, blocks - 1), Repeat(CHAR, 0, BLOCK - 1)))
    return (*start, Alt((fewer, Seq((*_exactly(blocks * BLOCK), Repeat(CHAR, 0, rest))))))


def _exactly(count: int) -> tuple[Expr, ...]:
    blocks, rest = divmod(count, BLOCK)
    parts = (Repeat(token("block"), blocks, blocks), Repeat(CHAR, rest, rest))
    return tuple(part for part in parts if part.low)


def _of(shape: Shape, ledger: Ledger) -> tuple[Expr, list[Rule]]:
    builder = Builder(ledger)
    root = builder.value(shape, "answer")
    return root, _rules(builder)


def _rules(builder: Builder) -> list[Rule]:
    """Every rule that there is, and those that they use."""
    used = dict.fromkeys(name for rule in builder.rules for name in _names(rule.body) if name in BASICS)
    queue = list(used)
    for name in queue:
        fresh = dict.fromkeys(each for each in _names(BASICS[name].body) if each not in used)
        used.update(fresh)
        queue += fresh
    return builder.rules + [BASICS[name] for name in used]


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
    code = ord(char)
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


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

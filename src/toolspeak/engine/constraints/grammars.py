"""Grammars for shapes: GBNF for llama.cpp and compatible servers, Lark for llguidance.

A shape is converted to grammar rules, which are then printed in GBNF or Lark syntax. The grammars accept JSON with at
most one space after commas and colons, and with object members in schema order. Strings, numbers and lists are bounded,
so even a model that repeats itself eventually stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias, assert_never

import msgspec

from ...core.schema.json_values import json_text
from .shapes import MAX_ITEMS, MAX_STRING, AnyValue, Array, Fixed, Ledger, Member, Number, Object, Shape, Text, Union

#: The longest single repetition, in characters. Longer ones are split into blocks.
_MAX_REPEAT = 1024
#: Maximum nesting depth of a value that has no schema.
ANY_DEPTH = 3

# ---- expressions and rules, independent of any grammar language


class Literally(msgspec.Struct, frozen=True, tag=True):
    text: str


class Chars(msgspec.Struct, frozen=True, tag=True):
    """A character class, negated if `outside` is set. Each range is a string of two characters: first and last."""

    ranges: tuple[str, ...]
    outside: bool = False


class Ref(msgspec.Struct, frozen=True, tag=True):
    """A reference to a rule. A token rule may only refer to tokens."""

    name: str
    token: bool = False


class Seq(msgspec.Struct, frozen=True, tag=True):
    """Expressions that follow one another."""

    parts: tuple[Expr, ...]


class Alt(msgspec.Struct, frozen=True, tag=True):
    """A choice between alternative expressions."""

    options: tuple[Expr, ...]


class Repeat(msgspec.Struct, frozen=True, tag=True):
    """A bounded repetition. Unless it is just optional, the part must be a character or a rule: llama.cpp copies it."""

    part: Expr
    low: int
    high: int


Expr: TypeAlias = Literally | Chars | Ref | Seq | Alt | Repeat


class GrammarRule(msgspec.Struct, frozen=True):
    name: Ref
    body: Expr


def seq(*parts: Expr) -> Expr:
    return parts[0] if len(parts) == 1 else Seq(parts)


def alt(options: Sequence[Expr]) -> Expr:
    return options[0] if len(options) == 1 else Alt(tuple(options))


def maybe(*parts: Expr) -> Expr:
    return Repeat(seq(*parts), 0, 1)


def token(name: str) -> Ref:
    return Ref(name, True)


# ---- rules of JSON

#: Characters per block. llama.cpp rejects repetitions above 1,999 or treats them as unbounded.
BLOCK = 256
#: Maximum number of decimal places, which exceeds the precision of a double.
_MAX_FRACTION = 20

_HEX, _DIGIT = Chars(("09", "af", "AF")), Chars(("09",))
COMMA, COLON, QUOTE = token("comma"), token("colon"), Literally('"')
CHAR = token("char")


def _some(chars: str) -> Chars:
    return Chars(tuple(each * 2 for each in chars))


def _literally(*parts: Expr | str) -> tuple[Expr, ...]:
    return tuple(Literally(part) if isinstance(part, str) else part for part in parts)


def _all(*parts: Expr | str) -> Expr:
    return Seq(_literally(*parts))


def _any(*options: Expr | str) -> Expr:
    return Alt(_literally(*options))


_SIGN = Chars(("++", "--"))
_RULES: dict[str, Expr] = {
    "comma": _all(",", maybe(Literally(" "))),
    "colon": _all(":", maybe(Literally(" "))),
    "char": _any(Chars(('""', "\\\\", "\x00\x1f"), True), _all("\\", token("escape"))),
    "escape": _any(_some('"\\/bfnrt'), _all("u", token("code"))),
    "code": _any(
        _all(Chars(("09", "ac", "AC", "ef", "EF")), Repeat(_HEX, 3, 3)),
        _all(Chars(("dd", "DD")), Chars(("07",)), Repeat(_HEX, 2, 2)),
    ),
    "block": Repeat(CHAR, BLOCK, BLOCK),
    "fraction": _all(".", Repeat(_DIGIT, 1, _MAX_FRACTION)),
    "exponent": _all(Chars(("ee", "EE")), maybe(_SIGN), Repeat(_DIGIT, 1, 2)),
    "date": _any(_all(*(_DIGIT,) * 4, "-", token("month-day")), token("leap-day")),
    "month-day": _any(
        _all(token("long-month"), "-", token("day-31")),
        _all(token("short-month"), "-", token("day-30")),
        _all("02-", token("day-28")),
    ),
    "long-month": _any(_all("0", _some("13578")), _all("1", _some("02"))),
    "short-month": _any(_all("0", _some("469")), "11"),
    "day-31": _any(token("day-30"), "31"),
    "day-30": _any(token("day-28"), "29", "30"),
    "day-28": _any(_all("0", Chars(("19",))), _all("1", _DIGIT), _all("2", Chars(("08",)))),
    # Every fourth year is a leap year, but of the years divisible by 100 only every fourth one is.
    "leap-day": _all(_any(token("leap-year"), token("leap-century")), "-02-29"),
    "leap-year": _all(_DIGIT, _DIGIT, token("fourth")),
    "leap-century": _all(_any("00", token("fourth")), "00"),
    "fourth": _any(_all("0", _some("48")), _all(_some("2468"), _some("048")), _all(_some("13579"), _some("26"))),
    "hour": _any(_all(Chars(("01",)), _DIGIT), _all("2", Chars(("03",)))),
    "sixty": _all(Chars(("05",)), _DIGIT),
    "time": _all(token("clock"), maybe(token("fraction")), token("zone")),
    "clock": _all(token("hour"), ":", token("sixty"), ":", token("sixty")),
    "zone": _any("Z", _all(_SIGN, token("hour"), ":", token("sixty"))),
    "date-time": _all(token("date"), "T", token("time")),
    "uuid": _all(Repeat(_HEX, 8, 8), *(token("uuid-part"),) * 3, "-", Repeat(_HEX, 12, 12)),
    "uuid-part": _all("-", Repeat(_HEX, 4, 4)),
}
#: Rules that grammars share; a grammar includes only those it uses. Escaped surrogates are not allowed.
BASICS = {name: GrammarRule(token(name), body) for name, body in _RULES.items()}
#: String formats that have a grammar rule, with their minimum and maximum length. Other formats are not enforced.
FORMATS = {"date": (10, 10), "time": (9, 35), "date-time": (20, 46), "uuid": (36, 36)}


# ---- digits of integers

#: Maximum number of digits in an integer. A 64-bit identifier has 19.
MAX_DIGITS = 19

#: Literal digits, or a digit range with its minimum and maximum count.
DigitPattern: TypeAlias = tuple["str | tuple[str, int, int]", ...]


def digit_patterns(low: int | None, high: int | None) -> list[DigitPattern]:
    """Return patterns that match the integers from `low` to `high`, inclusive, with at most `MAX_DIGITS` digits.

    For 12 to 345 these are `1[2-9]`, `[2-9][0-9]`, `[1-2][0-9][0-9]`, `3[0-3][0-9]` and `34[0-5]`.
    """
    most = 10**MAX_DIGITS - 1
    low = -most if low is None else max(low, -most)
    high = most if high is None else min(high, most)
    patterns: list[DigitPattern] = []
    if low > high:
        return patterns
    if low < 0:
        patterns += [("-", *pattern) for pattern in _natural(max(1, -high), -low)]
    if high >= 0:
        patterns += _natural(max(0, low), high)
    return patterns


def _natural(low: int, high: int) -> Iterator[DigitPattern]:
    first, last = str(low), str(high)
    if len(first) == len(last):
        yield from _same_length(first, last)
        return
    yield from _same_length(first, "9" * len(first))
    if len(last) > len(first) + 1:
        yield ("19", 1, 1), ("09", len(first), len(last) - 2)
    yield from _same_length("1" + "0" * (len(last) - 1), last)


def _same_length(first: str, last: str) -> Iterator[DigitPattern]:
    """Yield patterns for bounds with the same number of digits, split at the first digit in which they differ."""
    common = 0
    while common < len(first) and first[common] == last[common]:
        common += 1
    lead = (first[:common],) if common else ()
    if common == len(first):
        yield lead
        return
    one, other = first[common], last[common]
    low, high = first[common + 1 :], last[common + 1 :]
    size = len(low)
    free = (("09", size, size),) if size else ()
    if low.strip("0"):
        for tail in _same_length(low, "9" * size):
            yield (*lead, one, *tail)
        one = str(int(one) + 1)
    upper = other if not high.strip("9") else str(int(other) - 1)
    if one <= upper:
        yield (*lead, (one + upper, 1, 1), *free)
    if high.strip("9"):
        for tail in _same_length("0" * size, high):
            yield (*lead, other, *tail)


# ---- undeclared keys

#: Maximum total length of an object's property names. Each character adds a rule; large tools have about 40 properties.
MAX_KEY_CHARS = 2048
#: JSON's two-character escapes, without the one for the slash, which need not be escaped.
_ESCAPES = '"\\bfnrt'
_NOT_PLAIN = ('""', "\\\\", "\x00\x1f")


def string_other_than(names: Sequence[str], rest: Expr, rule: Callable[[Expr], Ref]) -> Expr:
    """Return an expression for the contents of a string that equals none of the names: an object's undeclared key.

    There is one rule for each prefix of a name. Until a key differs from all names, each character can be written in
    only one way, so escapes cannot be used to write a declared name.

    Args:
        rest: expression for the remainder of the string once it differs from all names.
        rule: creates a rule from an expression.
    """
    spellable = [name for name in names if all(map(_is_spellable, name))]
    ends = frozenset(spellable)
    following: dict[str, dict[str, None]] = {name: {} for name in spellable}
    for name in spellable:
        for at, char in enumerate(name):
            following.setdefault(name[:at], {})[char] = None
    expressions: dict[str, Expr] = {"": rest}
    for prefix in sorted(following, key=len, reverse=True):
        chars = following[prefix]
        same = (Seq((Literally(_json_spelling(char)), expressions[prefix + char])) for char in chars)
        body = Alt((*same, *_differs(chars, rest)))
        expressions[prefix] = rule(body if prefix in ends else Repeat(body, 0, 1))
    return expressions[""]


def _json_spelling(char: str) -> str:
    return json_text(char)[1:-1]


def _is_spellable(char: str) -> bool:
    """Whether names with this character can be excluded: it must not need a Unicode escape in JSON."""
    spelt = _json_spelling(char)
    return len(spelt) == 1 or spelt[1] in _ESCAPES


def _differs(chars: dict[str, None], rest: Expr) -> list[Expr]:
    """Return expressions for one character other than these, followed by `rest`."""
    spelt = [_json_spelling(char) for char in chars]
    plain = Chars((*_NOT_PLAIN, *(each * 2 for each in spelt if len(each) == 1)), True)
    escapes = [escape for escape in _ESCAPES if f"\\{escape}" not in spelt]
    escaped = Seq((Literally("\\"), Chars(tuple(escape * 2 for escape in escapes)), rest))
    return [Seq((plain, rest)), *([escaped] if escapes else [])]


# ---- rules of a shape


class GrammarBuilder:
    """Builder for the rules of one grammar. Equal expressions share a rule."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.rules: list[GrammarRule] = []
        self._refs: dict[tuple[Expr, bool], Ref] = {}

    def rule(self, kind: str, body: Expr, token: bool = False) -> Ref:
        """Create or reuse a rule for an expression."""
        ref = self._refs.get((body, token))
        if ref is None:
            name = f"{kind}-{len(self._refs)}"
            ref = self._refs[(body, token)] = Ref(name, token)
            self.rules.append(GrammarRule(ref, body))
        return ref

    def value(self, shape: Shape, where: str) -> Expr:
        """Return the expression for a value of this shape. `where` names the value in notes."""
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
        # `shapes` has already rounded the bounds to integers.
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
        """Return an expression for further items, each preceded by a comma."""
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
        # Build from the last item to the first, because each item includes what may follow it.
        rest = self._more(item, max(shape.low - count, 0), shape.high - count)
        for index in range(count - 1, -1, -1):
            lead = (COMMA,) if index else ()
            here = (*lead, self.value(shape.prefix[index], f"{where}[{index}]"), *rest)
            rest = (self.rule("items", Seq(here)),)
            rest = rest if index < shape.low else (Repeat(rest[0], 0, 1),)
        return Seq((Literally("["), *rest, Literally("]")))

    def rest_of_envelope(self, calls: Array, reply: Member | None) -> Expr:
        """Return an expression for the calls up to the closing bracket, or for a reply without any."""
        item = self.value(calls.items, "answer.calls[]")
        filled = Seq((item, *self._more(item, calls.low - 1, calls.high - 1), Literally("]")))
        if reply is None:
            return filled
        return Alt((filled, Seq((Literally("]"), COMMA, self._member(reply, "answer"), Literally("}")))))

    def _map(self, value: Expr) -> Expr:
        pair = self._pair(self.value(Text(), ""), value)
        return Seq((Literally("{"), maybe(pair, *self._more(pair, 0, MAX_ITEMS - 1)), Literally("}")))

    def _pair(self, key: Expr, value: Expr) -> Expr:
        return self.rule("pair", Seq((key, COLON, value)))

    def _further_key(self, shape: Object, where: str) -> Expr:
        names = [member.name for member in shape.members]
        if sum(map(len, names)) > MAX_KEY_CHARS:
            self._ledger.add("constraint_loosened", f"an additional key of `{where}` may repeat a declared one")
            return self.value(Text(), "")
        rest = self.rule("rest", seq(*_times(0, MAX_STRING)), True)
        inside = string_other_than(names, rest, lambda body: self.rule("key", body, True))
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
        """Return an expression for any selection of the members, in order and separated by commas."""
        tail: tuple[Expr, ...] = () if pair is None else self._more(pair, 0, MAX_ITEMS)
        head: Expr | None = None if pair is None else Seq((pair, *tail))
        for member in reversed(members):
            here = seq(member, *tail)
            head = self.rule("first", here if head is None else Alt((here, head)))
            tail = (self.rule("rest", Seq((maybe(COMMA, member), *tail))) if tail else maybe(COMMA, member),)
        assert head is not None
        return Repeat(head, 0, 1)


def _digits(pattern: DigitPattern) -> Expr:
    parts: list[Expr] = []
    for each in pattern:
        if isinstance(each, str):
            parts.append(Literally(each))
        else:
            ends, low, high = each
            parts.append(Chars((ends,)) if low == high == 1 else Repeat(Chars((ends,)), low, high))
    return seq(*parts)


def _times(low: int, high: int) -> tuple[Expr, ...]:
    """Return expressions for `low` to `high` characters. Long runs are split into blocks without ambiguity."""
    if high <= _MAX_REPEAT:
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


def _rules(builder: GrammarBuilder) -> list[GrammarRule]:
    """Return the builder's rules and the shared rules that they refer to."""
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


class _GrammarSyntax(msgspec.Struct, frozen=True):
    """The syntax of a grammar language, as format strings."""

    root: str
    rule: str
    #: Format of a character class, and suffixes for an exact count and for a range of counts.
    chars: str
    exactly: str
    between: str
    name: Callable[[Ref], str]

    def text(self, root: Expr, rules: Sequence[GrammarRule]) -> str:
        everything = (GrammarRule(Ref(self.root), root), *rules)
        return "".join(self.rule.format(self.name(rule.name), self._render(rule.body)) + "\n" for rule in everything)

    def _render(self, expr: Expr, loose: bool = True) -> str:
        """Render an expression. Unless `loose`, an expression of several parts gets parentheses."""
        match expr:
            case Literally(text):
                return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
            case Chars(ranges, outside):
                body = "".join(f"{_escaped(a)}-{_escaped(b)}" if a != b else _escaped(a) for a, b in ranges)
                return self.chars.format(("^" if outside else "") + body)
            case Ref():
                return self.name(expr)
            case Repeat(part, low, high):
                return self._render(part, False) + self._times(low, high)
            case Seq(parts):
                rendered = " ".join(self._render(part, False) for part in parts)
            case Alt(options):
                rendered = " | ".join(self._render(option, not isinstance(option, Alt)) for option in options)
            case _:
                assert_never(expr)
        return rendered if loose else f"({rendered})"

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


_GBNF = _GrammarSyntax("root", "{} ::= {}", "[{}]", "{{{}}}", "{{{},{}}}", lambda ref: ref.name)
_LARK = _GrammarSyntax("start", "{}: {}", "/[{}]/", "~{}", "~{}..{}", _lark_name)


def gbnf(shape: Shape, ledger: Ledger) -> str:
    builder = GrammarBuilder(ledger)
    return gbnf_text(builder.value(shape, "answer"), builder)


def gbnf_text(root: Expr, builder: GrammarBuilder) -> str:
    """Return the GBNF grammar of an expression, including the builder's rules."""
    return _GBNF.text(root, _rules(builder))


def framed_gbnf(calls: Array, reply: Member | None, ledger: Ledger) -> str:
    """Return the GBNF grammar of what follows the bracket before the calls: calls, or none of them and a reply."""
    builder = GrammarBuilder(ledger)
    return gbnf_text(builder.rest_of_envelope(calls, reply), builder)


def lark(shape: Shape, ledger: Ledger) -> str:
    builder = GrammarBuilder(ledger)
    return _LARK.text(builder.value(shape, "answer"), _rules(builder))

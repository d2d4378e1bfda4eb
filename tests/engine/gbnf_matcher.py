"""A reader of GBNF, written from the description of the format: what a grammar accepts, and what it may produce.

Independent of `toolspeak.engine.constraints.grammars`, which writes such grammars. It refuses what llama.cpp refuses: rules that
are not defined, names that are not dashed words, and repetitions of 2,000 and more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
TIMES = re.compile(r"\{(\d+)(,(\d+)?)?\}")
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "[": "[", "]": "]"}
HEX = {"x": 2, "u": 4, "U": 8}
#: What a negated class is taken from when documents are produced.
ALPHABET = "abz09 ~é語😀/'{}[],:"
MAX_REPETITION = 2000

Positions = frozenset[int]


@dataclass(frozen=True)
class Node:
    kind: str  # text, chars, ref, seq, alt, repeat
    parts: tuple[Node, ...] = ()
    text: str = ""
    ranges: tuple[tuple[str, str], ...] = ()
    outside: bool = False
    low: int = 0
    high: int = 0


@dataclass
class Gbnf:
    source: str
    rules: dict[str, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for line in self.source.removesuffix("\n").split("\n"):
            name, _, body = line.partition(" ::= ")
            assert NAME.fullmatch(name), name
            assert name not in self.rules, name
            node, at = self._alternatives(body, 0)
            assert at == len(body), body[at:]
            self.rules[name] = node
        missing = {node.text for rule in self.rules.values() for node in _walk(rule) if node.kind == "ref"}
        assert missing <= self.rules.keys(), missing - self.rules.keys()
        self._seen: dict[tuple[str, int], Positions] = {}

    # ---- reading the grammar

    def _alternatives(self, text: str, at: int) -> tuple[Node, int]:
        options: list[Node] = []
        while True:
            node, at = self._sequence(text, at)
            options.append(node)
            if text[at : at + 1] != "|":
                return (options[0] if len(options) == 1 else Node("alt", tuple(options))), at
            at = _space(text, at + 1)

    def _sequence(self, text: str, at: int) -> tuple[Node, int]:
        parts: list[Node] = []
        while at < len(text) and text[at] not in "|)":
            node, at = self._item(text, at)
            while at < len(text) and text[at] in "*+?{":
                node, at = _repeated(node, text, at)
            parts.append(node)
            at = _space(text, at)
        return Node("seq", tuple(parts)), at

    def _item(self, text: str, at: int) -> tuple[Node, int]:
        if text[at] == '"':
            chars = ""
            at += 1
            while text[at] != '"':
                char, at = _char(text, at)
                chars += char
            return Node("text", text=chars), at + 1
        if text[at] == "[":
            return _char_class(text, at + 1)
        if text[at] == "(":
            node, at = self._alternatives(text, _space(text, at + 1))
            assert text[at] == ")", text[at:]
            return node, at + 1
        name = NAME.match(text, at)
        assert name, text[at:]
        return Node("ref", text=name[0]), name.end()

    # ---- accepting

    def accepts(self, document: str) -> bool:
        self._seen.clear()
        return len(document) in self._after(self.rules["root"], document, frozenset({0}))

    def _after(self, node: Node, text: str, starts: Positions) -> Positions:
        """Where matching may stand after the node."""
        match node.kind:
            case "text":
                return frozenset(at + len(node.text) for at in starts if text.startswith(node.text, at))
            case "chars":
                return frozenset(at + 1 for at in starts if at < len(text) and _is_in(node, text[at]))
            case "ref":
                return frozenset(end for at in starts for end in self._rule(node.text, text, at))
            case "alt":
                return frozenset(end for part in node.parts for end in self._after(part, text, starts))
            case "repeat":
                return self._repeat(node, text, starts)
            case _:
                for part in node.parts:
                    starts = self._after(part, text, starts)
                return starts

    def _rule(self, name: str, text: str, at: int) -> Positions:
        if (name, at) not in self._seen:
            self._seen[name, at] = self._after(self.rules[name], text, frozenset({at}))
        return self._seen[name, at]

    def _repeat(self, node: Node, text: str, starts: Positions) -> Positions:
        found: set[int] = set(starts) if node.low == 0 else set()
        for count in range(1, node.high + 1):
            starts = self._after(node.parts[0], text, starts)
            if not starts:
                break
            if count >= node.low:
                found |= starts
        return frozenset(found)

    # ---- producing

    def produce(self, choose: Callable[[int, int], int]) -> str:
        """A document of the grammar; `choose` gives a number between two bounds."""
        return self._produce(self.rules["root"], choose)

    def _produce(self, node: Node, choose: Callable[[int, int], int]) -> str:
        match node.kind:
            case "text":
                return node.text
            case "chars":
                allowed = _members(node)
                return allowed[choose(0, len(allowed) - 1)]
            case "ref":
                return self._produce(self.rules[node.text], choose)
            case "alt":
                parts = [part for part in node.parts if not _is_long(part)]
                return self._produce(parts[choose(0, len(parts) - 1)], choose)
            case "repeat":
                # Nobody needs long documents: a block of many characters is left out where it may be.
                most = min(node.high, node.low + (0 if node.parts[0].text == "block" else 3))
                return "".join(self._produce(node.parts[0], choose) for _ in range(choose(node.low, most)))
            case _:
                return "".join(self._produce(part, choose) for part in node.parts)


def _walk(node: Node) -> Iterable[Node]:
    yield node
    for part in node.parts:
        yield from _walk(part)


def _is_long(node: Node) -> bool:
    """Whether blocks of many characters must stand there."""
    return any(part.kind == "repeat" and part.parts[0].text == "block" and part.low for part in _walk(node))


def _space(text: str, at: int) -> int:
    while text[at : at + 1] == " ":
        at += 1
    return at


def _char(text: str, at: int) -> tuple[str, int]:
    if text[at] != "\\":
        return text[at], at + 1
    letter = text[at + 1]
    if letter in HEX:
        end = at + 2 + HEX[letter]
        return chr(int(text[at + 2 : end], 16)), end
    return ESCAPES[letter], at + 2


def _char_class(text: str, at: int) -> tuple[Node, int]:
    outside = text[at] == "^"
    at += outside
    ranges: list[tuple[str, str]] = []
    while text[at] != "]":
        first, at = _char(text, at)
        last = first
        if text[at] == "-" and text[at + 1] != "]":
            last, at = _char(text, at + 1)
        ranges.append((first, last))
    return Node("chars", ranges=tuple(ranges), outside=outside), at + 1


def _repeated(node: Node, text: str, at: int) -> tuple[Node, int]:
    low, high, end = {"?": (0, 1, at + 1), "*": (0, MAX_REPETITION, at + 1), "+": (1, MAX_REPETITION, at + 1)}.get(
        text[at], (0, 0, 0)
    )
    if not end:
        times = TIMES.match(text, at)
        assert times, text[at:]
        low, end = int(times[1]), times.end()
        high = low if not times[2] else int(times[3])
        assert low <= high < MAX_REPETITION
        assert node.kind in ("chars", "ref"), "a repeated group is copied, and counted, by llama.cpp"
    return Node("repeat", (node,), low=low, high=high), end


def _is_in(node: Node, char: str) -> bool:
    return any(first <= char <= last for first, last in node.ranges) != node.outside


def _members(node: Node) -> list[Any]:
    if node.outside:
        return [char for char in ALPHABET if _is_in(node, char)]
    return [chr(code) for first, last in node.ranges for code in range(ord(first), ord(last) + 1)]

"""Arguments that a model wrote almost right, changed so that they fit.

Every change is one row of `alignment_rules`, or the renaming and dropping of a key, and leaves a note. The laws: a
value that is valid is never touched; aligning twice changes nothing more; nothing raises; the work is bounded. Nothing here reads JSON schema keywords.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..types import JSONObject, JSONValue, Note, is_array, is_object
from .coercion_rules import RULES, Case
from .json_values import ParseText, Path, fault, fold_key, named, suits, weight
from .subschema import At, Subschema

#: Schemas that one pass may try: so many in all, and so many for each value. A try takes about 30 microseconds.
#: Only alternatives that nest and all fail come near.
MAX_TRIES = 5_000
MAX_TRIES_PER_VALUE = 32
#: Looking at so many values costs as much as one try.
VALUES_PER_TRY = 64
#: Passes until nothing changes any more. Two are the rule; what needs more is not a small mistake.
MAX_PASSES = 4

_NULL = frozenset({"null"})


def align(
    nodes: Sequence[Subschema], value: JSONValue, parse: ParseText, path: Path
) -> tuple[JSONValue, tuple[Note, ...]]:
    """The value as it fits all schemas best, with what was done. One that finds no rest comes back as it was."""
    current, notes = value, list[Note]()
    for _ in range(MAX_PASSES):
        if fault(current):
            break
        aligner = _Aligner(current, parse)
        try:
            for node in nodes:
                current = aligner.fit(node, current, At(path, node, 0, frozenset()))
        except (_TooMuchWork, RecursionError):
            break
        if not aligner.notes:
            return current, tuple(notes)
        notes += aligner.notes
    return value, ()


class _TooMuchWork(Exception):
    """Alternatives inside alternatives: the arguments are left alone."""


class _Aligner:
    """One pass over the arguments."""

    def __init__(self, value: JSONValue, parse: ParseText) -> None:
        self.notes: list[Note] = []
        self._parse = parse
        self._tries_left = MAX_TRIES + MAX_TRIES_PER_VALUE * weight(value)

    def fit(self, node: Subschema, value: JSONValue, at: At) -> JSONValue:
        """The value, aligned to a schema as far as possible."""
        if node.accepts(value) or at.blocks(node):
            return value
        self._tries_left -= 1 + weight(value) // VALUES_PER_TRY
        if self._tries_left < 0:
            raise _TooMuchWork
        at = at.trying_too(node)
        for stage in (self._members, self._rewrite, self._contents, self._branches):
            fitted = stage(node, value, at)
            if fitted is not value and node.accepts(fitted):
                return fitted
            value = fitted
        return value

    def _note(self, code: str, path: Path, what: str) -> None:
        self.notes.append(Note(code, f"{named(path)}: {what}"))

    def _members(self, node: Subschema, value: JSONValue, at: At) -> JSONValue:
        for member in node.members:
            value = self.fit(member, value, at)
        return value

    def _rewrite(self, node: Subschema, value: JSONValue, at: At) -> JSONValue:
        """The first proposal that is valid, else the first sure one, else the value."""
        if not node.types:
            return value
        case = Case(value, node, node.types, not at.path, self._parse)
        second_best: tuple[JSONValue, list[Note]] = (value, [])
        mark = len(self.notes)
        for rule in RULES:
            for proposal in rule.propose(case):
                self._note(rule.code, at.path, rule.what)
                fitted = self.fit(node, proposal, at._replace(trying=frozenset()))
                if node.accepts(fitted):
                    return fitted
                tail, self.notes[mark:] = self.notes[mark:], []
                if rule.sure and not second_best[1] and suits(fitted, case.wanted):
                    second_best = fitted, tail
        self.notes += second_best[1]
        return second_best[0]

    def _branches(self, node: Subschema, value: JSONValue, at: At) -> JSONValue:
        """The value as the first alternative that makes it valid has it.

        Keys that another alternative declares are dropped only where that leaves exactly one alternative. A
        lone alternative beside null is aligned in part where nothing makes it valid.
        """
        mark = len(self.notes)
        for branch in node.branches:
            fitted = self.fit(branch, value, at)
            if node.accepts(fitted):
                return fitted
            del self.notes[mark:]
        fitting: list[Subschema] = []
        for branch in node.branches:
            if node.accepts(self.fit(branch, value, at._replace(entry=branch))):
                fitting.append(branch)
            del self.notes[mark:]
        chosen = fitting or [branch for branch in node.branches if branch.wanted != _NULL]
        return self.fit(chosen[0], value, at._replace(entry=chosen[0])) if len(chosen) == 1 else value

    def _contents(self, node: Subschema, value: JSONValue, at: At) -> JSONValue:
        if is_object(value):
            return self._object(node, value, at)
        if not is_array(value):
            return value
        result: list[JSONValue] = []
        for index, each in enumerate(value):
            item = node.item(index)
            result.append(each if item is None else self.fit(item, each, at.inside(index, item)))
        return result

    def _object(self, node: Subschema, value: JSONObject, at: At) -> JSONObject:
        meant = _meant_keys(node, value, at.entry)
        result: JSONObject = {}
        for key, item in value.items():
            if name := meant.get(key):
                self._note("key_spelling", (*at.path, key), f"the key was read as {named((name,))}")
                key = name
            elif key not in meant and node.forbids(key) and not at.entry.declares(key):
                self._note("unknown_dropped", (*at.path, key), "the schema does not allow this key, it was dropped")
                continue
            if item is None and node.bars_null(key) and not at.entry.requires(key):
                self.notes.append(null_dropped((*at.path, key)))
                continue
            for slot in node.slots(key):
                item = self.fit(slot, item, at.inside(key, slot))
            result[key] = item
        return result


def null_dropped(path: Path) -> Note:
    """The note about null where a property could as well be left out."""
    return Note("null_dropped", f"{named(path)}: null is not allowed, the optional key was dropped")


def _meant_keys(node: Subschema, value: JSONObject, entry: Subschema) -> dict[str, str]:
    """Unknown keys and the missing property that each means; empty text where that is not clear."""
    missing: dict[str, list[str]] = {}
    for name in node.table("properties"):
        if name not in value and name in node.names:
            missing.setdefault(fold_key(name), []).append(name)
    claims: dict[str, list[str]] = {}
    for key in value:
        names = missing.get(fold_key(key), ())
        if names and not entry.declares(key) and (node.forbids(key) or not node.required.isdisjoint(names)):
            claims.setdefault(fold_key(key), []).append(key)
    return {
        key: missing[folded][0] if len(keys) == len(missing[folded]) == 1 else ""
        for folded, keys in claims.items()
        for key in keys
    }

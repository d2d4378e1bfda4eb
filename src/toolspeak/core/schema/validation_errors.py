"""Validation errors: short sentences about what is wrong with arguments, written for the model that made the call.

The model reads these sentences when it is asked to correct its call, so their wording matters.
"""

from collections.abc import Iterator
from itertools import chain

from ..types import JSONObject, JSONValue, is_array, is_object
from .json_values import Path, has_type, json_text, path_text, type_name
from .subschema import Subschema, ValuePosition

#: Maximum length of a list of options in a sentence.
MAX_OPTIONS_CHARS = 200


def explain(root: Subschema, value: JSONValue, limit: int) -> tuple[str, ...]:
    """Explain why a value is invalid, in at most `limit` different sentences."""
    reasons = _Explainer().explain(root, value, ValuePosition((), root, 0, frozenset()))
    sentences = {next(reasons, None) or _no_fit(()): None}
    while len(sentences) < limit and (sentence := next(reasons, None)) is not None:
        sentences[sentence] = None
    return tuple(sentences)


class _Explainer:
    """Search for the invalid parts of a value. It checks no value twice against the same schema, so time is linear."""

    def __init__(self) -> None:
        self._visited: set[tuple[str, Path]] = set()
        self._repeats = 0

    def explain(self, node: Subschema, value: JSONValue, at: ValuePosition) -> Iterator[str]:
        if node.accepts(value):
            return
        if (node.pointer, at.path) in self._visited:
            self._repeats += 1
        elif not at.blocks(node):
            self._visited.add((node.pointer, at.path))
            yield from self._reasons(node, value, at.entering(node))

    def _reasons(self, node: Subschema, value: JSONValue, at: ValuePosition) -> Iterator[str]:
        repeats = self._repeats
        inner = self._object(node, value, at) if is_object(value) else self._array(node, value, at)
        reasons = chain(_own_reasons(node, value, at.path), self._in_place(node, value, at), inner)
        first = next(reasons, None)
        if first is not None or self._repeats == repeats:  # otherwise the problem is already reported
            yield first or _no_fit(at.path)
        yield from reasons

    def _in_place(self, node: Subschema, value: JSONValue, at: ValuePosition) -> Iterator[str]:
        for member in node.members:
            yield from self.explain(member, value, at)
        if node.branches and not any(branch.accepts(value) for branch in node.branches):
            likely = [branch for branch in node.branches if has_type(value, branch.allowed_types)]
            if len(likely) == 1:
                yield from self.explain(likely[0], value, at)
            elif node.allowed_types and not likely:
                yield _wrong_type(node.allowed_types, value, at.path)
            else:
                yield f"{path_text(at.path)} fits none of the {len(node.branches)} allowed forms"

    def _object(self, node: Subschema, value: JSONObject, at: ValuePosition) -> Iterator[str]:
        for name in sorted(node.required - value.keys()):
            yield f"{path_text((*at.path, name))} is required"
        for key, item in value.items():
            if node.forbids(key):
                yield f"{path_text((*at.path, key))} is not allowed"
                continue
            for slot in node.slots(key):
                yield from self.explain(slot, item, at.inside(key, slot))

    def _array(self, node: Subschema, value: JSONValue, at: ValuePosition) -> Iterator[str]:
        for index, each in enumerate(value if is_array(value) else ()):
            item = node.item(index)
            if item is not None:
                yield from self.explain(item, each, at.inside(index, item))


def _own_reasons(node: Subschema, value: JSONValue, path: Path) -> Iterator[str]:
    """Yield the violations of the schema's own simple keywords."""
    if node.options:
        options = ", ".join(json_text(option) for option in node.options[:MAX_OPTIONS_CHARS])
        options = options if len(options) <= MAX_OPTIONS_CHARS else f"{options[:MAX_OPTIONS_CHARS]}…"
        if value not in node.options:
            yield f"{path_text(path)} must be {'one of ' if len(node.options) > 1 else ''}{options}"
    elif node.own_types and not has_type(value, node.own_types):
        yield _wrong_type(node.own_types, value, path)
    for keyword in node.violations(value):
        yield f"{path_text(path)} breaks {keyword}"


def _wrong_type(types: frozenset[str], value: JSONValue, path: Path) -> str:
    return f"{path_text(path)} must be {' or '.join(sorted(types))}, not {type_name(value)}"


def _no_fit(path: Path) -> str:
    return f"{path_text(path)} does not fit its schema"

"""What is wrong with arguments that do not fit, in short sentences for the model that wrote them.

Goes down to where a value stops fitting, by the questions that `Subschema` answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from ..types import JSONObject, JSONValue, is_array, is_object
from .json_values import Path, json_text, named, suits, type_name
from .subschema import At, Subschema

#: Longest list of options in a sentence.
MAX_OPTIONS_CHARS = 200


def explain(nodes: Sequence[Subschema], value: JSONValue, path: Path) -> Iterator[str]:
    """What is wrong with a value that some schema does not accept, one sentence at a time."""
    explainer = _Explainer()
    starts = ((node, At(path, node, 0, frozenset())) for node in nodes)
    reasons = chain.from_iterable(explainer.explain(node, value, at) for node, at in starts)
    yield next(reasons, None) or _no_fit(path)
    yield from reasons


class _Explainer:
    """Goes down to where a value stops fitting. Looks at no value twice by the same schema, so it is linear."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, Path]] = set()
        self._repeats = 0

    def explain(self, node: Subschema, value: JSONValue, at: At) -> Iterator[str]:
        if node.accepts(value):
            return
        if (node.pointer, at.path) in self._seen:
            self._repeats += 1
        elif not at.blocks(node):
            self._seen.add((node.pointer, at.path))
            yield from self._reasons(node, value, at.trying_too(node))

    def _reasons(self, node: Subschema, value: JSONValue, at: At) -> Iterator[str]:
        repeats = self._repeats
        inner = self._object(node, value, at) if is_object(value) else self._array(node, value, at)
        reasons = chain(_own_reasons(node, value, at.path), self._in_place(node, value, at), inner)
        first = next(reasons, None)
        if first is not None or self._repeats == repeats:  # else it has been said elsewhere
            yield first or _no_fit(at.path)
        yield from reasons

    def _in_place(self, node: Subschema, value: JSONValue, at: At) -> Iterator[str]:
        for member in node.members:
            yield from self.explain(member, value, at)
        if node.branches and not any(branch.accepts(value) for branch in node.branches):
            likely = [branch for branch in node.branches if suits(value, branch.wanted)]
            if len(likely) == 1:
                yield from self.explain(likely[0], value, at)
            elif node.wanted and not likely:
                yield _wrong_type(node.wanted, value, at.path)
            else:
                yield f"{named(at.path)} fits none of the {len(node.branches)} allowed forms"

    def _object(self, node: Subschema, value: JSONObject, at: At) -> Iterator[str]:
        for name in sorted(node.required - value.keys()):
            yield f"{named((*at.path, name))} is required"
        for key, item in value.items():
            if node.forbids(key):
                yield f"{named((*at.path, key))} is not allowed"
                continue
            for slot in node.slots(key):
                yield from self.explain(slot, item, at.inside(key, slot))

    def _array(self, node: Subschema, value: JSONValue, at: At) -> Iterator[str]:
        for index, each in enumerate(value if is_array(value) else ()):
            item = node.item(index)
            if item is not None:
                yield from self.explain(item, each, at.inside(index, item))


def _own_reasons(node: Subschema, value: JSONValue, path: Path) -> Iterator[str]:
    """What the schema's own simple keywords say against the value."""
    if node.options:
        options = ", ".join(json_text(option) for option in node.options[:MAX_OPTIONS_CHARS])
        options = options if len(options) <= MAX_OPTIONS_CHARS else f"{options[:MAX_OPTIONS_CHARS]}…"
        if value not in node.options:
            yield f"{named(path)} must be {'one of ' if len(node.options) > 1 else ''}{options}"
    elif node.types and not suits(value, node.types):
        yield _wrong_type(node.types, value, path)
    for keyword in node.broken(value):
        yield f"{named(path)} breaks {keyword}"


def _wrong_type(wanted: frozenset[str], value: JSONValue, path: Path) -> str:
    return f"{named(path)} must be {' or '.join(sorted(wanted))}, not {type_name(value)}"


def _no_fit(path: Path) -> str:
    return f"{named(path)} does not fit its schema"

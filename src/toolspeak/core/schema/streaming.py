"""Which parts of a value can no longer change, so that they may be emitted before the value is complete.

Coercion changes only values that their schema does not accept. A limit, such as `maxLength`, may make a text invalid
but never changes it. So a text is final unless its schema names options, or a type that the text can be converted to.
"""

from collections.abc import Sequence

from .coercion import MAX_NUMBER_CHARS
from .subschema import MAX_CHAIN, Subschema

#: Keywords with which a schema can constrain the properties of an object, other than `properties` itself.
CONSTRAINS_PROPERTIES = frozenset(
    "$ref $dynamicRef $recursiveRef allOf anyOf oneOf not if then else const enum patternProperties propertyNames "
    "dependencies dependentRequired dependentSchemas extends disallow".split()
)
#: Keywords other than `type`, references and alternatives with which a schema can constrain a string.
_CONSTRAINS_TEXT = frozenset(
    "$dynamicRef $recursiveRef not if then else const enum pattern format minLength maxLength "
    "contentEncoding contentMediaType contentSchema extends disallow".split()
)
#: Keywords of a schema that only describes a value and leaves everything else to another schema.
_ONLY_REFERS = frozenset("$ref allOf anyOf oneOf title description default examples deprecated $comment".split())
#: Types whose values are single words. Only a short text can be converted to one of them.
_WORDS = frozenset({"null", "boolean", "integer", "number"})
_NULL = frozenset({"null"})


def text_delay(nodes: Sequence[Subschema]) -> int | None:
    """Return the number of characters after which a string for these schemas is final. None: only at its end."""
    delays = [_text_delay(node) for node in nodes]
    return None if None in delays else max((delay for delay in delays if delay), default=0)


def _text_delay(node: Subschema) -> int | None:
    if _takes_any_text(node, set()):
        return 0
    if any(each.options for each in node.in_place) or not _allows(node.allowed_types, "string"):
        return None
    others = {kind for each in node.in_place if not _allows(each.own_types, "string") for kind in each.own_types}
    if not others:
        return 0
    return MAX_NUMBER_CHARS if others <= _WORDS else None


def _takes_any_text(node: Subschema, visited: set[str]) -> bool:
    if node.pointer in visited or node.schema is False or not _CONSTRAINS_TEXT.isdisjoint(node.body):
        return False
    visited.add(node.pointer)
    if not _allows(node.own_types, "string") or not all(_takes_any_text(each, visited) for each in node.members):
        return False
    free = [each for each in node.branches if _takes_any_text(each, visited)]
    if "oneOf" not in node.body:
        return bool(free) or not node.branches
    others = [each for each in node.branches if each not in free]  # must not accept the string as well
    return len(free) == 1 and "anyOf" not in node.body and not any(_allows(o.allowed_types, "string") for o in others)


def _allows(types: frozenset[str], kind: str) -> bool:
    return not types or kind in types


def target(node: Subschema) -> Subschema:
    """Return the schema of the contents of a container: follow references and alternatives that only add null."""
    for _ in range(MAX_CHAIN):
        if not node.body.keys() <= _ONLY_REFERS:
            break
        parts = [*node.members, *(each for each in node.branches if each.own_types != _NULL)]
        if len(parts) != 1:
            break
        node = parts[0]
    return node


def streams_items(node: Subschema) -> bool:
    """Whether an array for this schema stays an array, and each of its items is coerced on its own."""
    return _stays(node, "array") and not node.members


def streams_members(node: Subschema) -> bool:
    """Whether an object for this schema stays an object, and each of its properties is coerced on its own."""
    return _stays(node, "object") and CONSTRAINS_PROPERTIES.isdisjoint(node.body)


def _stays(node: Subschema, kind: str) -> bool:
    return node.schema is not False and not node.options and not node.branches and _allows(node.own_types, kind)

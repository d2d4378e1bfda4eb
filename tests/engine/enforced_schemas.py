"""Schemas and values for the tests of constraints, and the engines that judge them."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from tests.engine.gbnf_matcher import Gbnf
from toolspeak.engine.constraints.build import Constraint

Schema = dict[str, Any]

NAMES = ("city", "Unit", "a b", 'quo"te', "back\\slash", "ü", "名前", "0")
CHARS = st.characters(codec="utf-8", exclude_categories=("Cs",))


class _Bytes:
    """A tokenizer with a token for each byte."""

    eos_token_id, bos_token_id, unk_token_id = 256, None, None
    tokens = (*(bytes([byte]) for byte in range(256)), b"<end>")
    special_token_ids = (256,)

    def __call__(self, text: str | bytes) -> list[int]:
        return list(text if isinstance(text, bytes) else text.encode())


TOKENIZER = LLTokenizer(TokenizerWrapper(_Bytes()), n_vocab=257, eos_token=256)


def llguidance_accepts(grammar: str, document: str) -> bool:
    """Whether llguidance takes the grammar and, by it, the document."""
    matcher = LLMatcher(TOKENIZER, grammar, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    tokens = list(document.encode())
    return matcher.validate_tokens(tokens) == len(tokens) and matcher.consume_tokens(tokens) and matcher.is_accepting()


def admits(constraint: Constraint, document: str) -> bool:
    """Whether an engine that enforces the constraint would let the document through."""
    match constraint.flavour:
        case "gbnf":
            return Gbnf(constraint.grammar).accepts(document)
        case "lark":
            return llguidance_accepts(constraint.grammar, document)
        case _:
            return jsonschema_rs.is_valid(constraint.schema, json.loads(document))


def compiles(constraint: Constraint) -> None:
    """Fails if an engine would refuse the constraint itself."""
    match constraint.flavour:
        case "gbnf":
            Gbnf(constraint.grammar)
        case "lark":
            assert LLMatcher.validate_grammar(constraint.grammar, TOKENIZER) == ""
        case _:
            grammar = LLMatcher.grammar_from_json_schema(json.dumps(constraint.schema))
            assert LLMatcher.validate_grammar(grammar, TOKENIZER) == ""
            jsonschema_rs.meta.validate(constraint.schema)


# ---- schemas and values


def _bounded(kind: str, low: str, high: str, values: st.SearchStrategy[int]) -> st.SearchStrategy[Schema]:
    pairs = st.tuples(values, values).map(sorted)
    return pairs.flatmap(
        lambda pair: st.sampled_from(
            [
                {"type": kind},
                {"type": kind, low: pair[0]},
                {"type": kind, high: pair[1]},
                {"type": kind, low: pair[0], high: pair[1]},
            ]
        )
    )


LEAVES: st.SearchStrategy[Schema] = st.one_of(
    _bounded("string", "minLength", "maxLength", st.integers(0, 6)),
    _bounded("integer", "minimum", "maximum", st.integers(-300, 300)),
    st.just({"type": "number"}),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.lists(
        st.one_of(st.text(CHARS, max_size=4), st.integers(-5, 5), st.booleans(), st.none()), min_size=1, max_size=3
    ).map(lambda values: {"enum": values}),
)


def _objects(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.dictionaries(st.sampled_from(NAMES), inner, max_size=4).flatmap(
        lambda table: (
            st.lists(st.sampled_from(sorted(table)), unique=True, max_size=4).map(
                lambda required: {
                    "type": "object",
                    "properties": table,
                    "required": required,
                    "additionalProperties": False,
                }
            )
            if table
            else st.just({"type": "object", "properties": {}})
        )
    )


def _arrays(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.tuples(inner, _bounded("array", "minItems", "maxItems", st.integers(0, 4))).map(
        lambda pair: {**pair[1], "items": pair[0]}
    )


VALUES: st.SearchStrategy[Schema] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        _objects(inner), _arrays(inner), st.lists(inner, min_size=1, max_size=3).map(lambda options: {"anyOf": options})
    ),
    max_leaves=6,
)
PARAMETERS = _objects(VALUES)


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """Values that fit a schema made of the keywords above."""
    if "anyOf" in schema:
        return st.one_of([values(option) for option in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "string":
            return st.text(CHARS, min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 12))
        case "integer":
            return st.integers(schema.get("minimum", -(10**18)), schema.get("maximum", 10**18))
        case "number":
            # Spelt with at most two digits in the exponent, as grammars want them.
            floats = st.floats(-(10.0**15), 10.0**15, allow_subnormal=False).filter(
                lambda value: not value or abs(value) > 1e-90
            )
            return st.one_of(floats, st.integers(-(10**15), 10**15))
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            low = schema.get("minItems", 0)
            return st.lists(
                values(schema["items"]), min_size=low, max_size=max(low, min(schema.get("maxItems", low + 3), low + 3))
            )
        case _:
            return _object_values(schema)


def _object_values(schema: Schema) -> st.SearchStrategy[Any]:
    table: dict[str, Schema] = schema.get("properties", {})
    required = schema.get("required", [])
    optional = st.lists(st.sampled_from(sorted(set(table) - set(required)) or [""]), unique=True)
    chosen = optional.flatmap(
        lambda names: st.fixed_dictionaries(
            {name: values(each) for name, each in table.items() if name in required or name in names}
        )
    )
    # Members in the order of the schema, as an engine would make a model write them.
    return chosen.map(lambda value: {name: value[name] for name in table if name in value})


def without_lengths(schema: Any) -> Any:
    """The schema without the bounds that strict mode lacks: they are checked afterwards. No name is such a word."""
    if isinstance(schema, list):
        return [without_lengths(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_lengths(value) for key, value in schema.items() if key not in ("minLength", "maxLength")}


def without_nulls(value: Any) -> Any:
    """The value without members that are null, by which strict mode says that they are left out."""
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: without_nulls(each) for key, each in value.items() if each is not None}

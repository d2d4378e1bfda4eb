"""Templates of the tool prompt, which users can replace, and an example call generated from the tools.

Models copy the example, so it must fit the tool's schema. A copy must not be mistaken for a real call, so the strings
in the example say that it is an example. In templates, only `{lower_case}` is a placeholder; all other braces are
literal text.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

import msgspec

from ...core.schema.argument_schema import ArgumentSchema
from ...core.types import JSONObject, JSONValue, Tool, ToolCall, is_array, is_object
from ...errors import SchemaError, UsageError
from .. import read_toml
from .escaping import one_line
from .tool_listing import resolve

#: Maximum number of validated template sets in the cache.
TEMPLATE_CACHE_SIZE = 64
#: How many tools to try to find one whose example cannot be mistaken for a real call.
MAX_TRIED = 8
#: Maximum nesting depth of an example value. Deeper values are left out, because they would not help the model.
MAX_DEPTH = 4
#: Maximum length of a parameter name in an example string.
MAX_WORDS = 40

#: The first word of strings that stand for a value, and such strings in JSON.
_EXAMPLE = "example "
_placeholders = re.compile(rf'"({_EXAMPLE}[^"\\]+)"').findall

#: Sample values for string formats. Hosts and addresses are reserved for documentation (RFC 2606, RFC 5737).
_FORMATS = (
    {"date": "2001-02-03", "date-time": "2001-02-03T04:05:06Z", "time": "04:05:06Z"}
    | dict.fromkeys(("uri", "url"), "https://example.com/example")
    | {"email": "someone@example.com", "hostname": "host.example.com", "ipv4": "192.0.2.1"}
    | {"uuid": "00000000-0000-4000-8000-000000000000"}
)


class PromptTemplate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A prompt text that users can replace, with its required and optional placeholders."""

    text: str
    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()


#: The default templates of the tool prompt, by name.
TEMPLATES = read_toml("prompting/templates.toml", dict[str, PromptTemplate])
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")

#: Custom templates as sorted pairs, which can serve as a cache key.
TemplateTexts: TypeAlias = tuple[tuple[str, str], ...]


def template_texts(templates: Mapping[str, str] | None) -> TemplateTexts:
    return tuple(sorted(templates.items())) if templates else ()


@lru_cache(maxsize=TEMPLATE_CACHE_SIZE)
def resolve_templates(texts: TemplateTexts) -> dict[str, str]:
    """Return all templates, with custom ones replacing the defaults. Raise `UsageError` if one is invalid."""
    used = {name: template.text for name, template in TEMPLATES.items()}
    for name, text in texts:
        template = TEMPLATES.get(name)
        if template is None:
            raise UsageError(f"unknown template `{name}`", hint=f"use one of {', '.join(TEMPLATES)}")
        placeholders = set(_PLACEHOLDER.findall(text))
        for placeholder in sorted(placeholders - template.required - template.optional):
            allowed = ", ".join(f"{{{each}}}" for each in sorted(template.required | template.optional)) or "none"
            raise UsageError(
                f"template `{name}` has the unknown placeholder `{{{placeholder}}}`", hint=f"use {allowed}"
            )
        for placeholder in sorted(template.required - placeholders):
            raise UsageError(f"template `{name}` lacks the placeholder `{{{placeholder}}}`")
        used[name] = text
    return used


def template_text(name: str, templates: Mapping[str, str] | None) -> str:
    """Return the custom template with this name, or the default."""
    return resolve_templates(template_texts(templates))[name]


def fill(text: str, values: Mapping[str, str]) -> str:
    """Fill in all placeholders in one pass. Placeholders inside inserted values are not expanded."""
    return _PLACEHOLDER.sub(lambda match: values.get(match.group(1), match.group()), text)


class Example(msgspec.Struct, frozen=True):
    """An example call. `distinct`: no model would make this call by chance, so a call like it is a copy."""

    call: ToolCall
    distinct: bool


def example_of(tools: Iterable[Tool]) -> Example | None:
    """Generate an example call for one of these tools. Return None if no generated call fits its schema."""
    first: Example | None = None
    for tool, _ in zip(tools, range(MAX_TRIED), strict=False):
        example = _try(tool)
        if example is not None and example.distinct:
            return example
        first = first or example
    return first


def placeholder_call(tool: Tool) -> ToolCall:
    """Build a call with its required arguments only, as placeholders of the right types."""
    return ToolCall(tool.name, _ExampleBuilder(tool.parameters).required_arguments())


def copied_placeholders(tool: Tool, arguments: JSONValue) -> list[str]:
    """Return the placeholders among arguments that are all those of the tool's example; none if one differs."""
    values = arguments.values() if is_object(arguments) else ()
    if not any(is_object(each) or is_array(each) or str(each).startswith(_EXAMPLE) for each in values):
        return []
    example = _ExampleBuilder(tool.parameters).arguments()
    is_copy = is_object(arguments) and all(name in example and example[name] == arguments[name] for name in arguments)
    return _placeholders(msgspec.json.encode(arguments).decode()) if is_copy else []


def _try(tool: Tool) -> Example | None:
    builder = _ExampleBuilder(tool.parameters)
    arguments = builder.arguments()
    try:
        fits = not ArgumentSchema.of(tool.parameters).problems(arguments)
    except SchemaError:
        return None  # the invalid schema is reported when answers are parsed
    return Example(ToolCall(tool.name, arguments), builder.distinct) if fits else None


class _ExampleBuilder:
    """Builds small example values that should fit a schema."""

    def __init__(self, root: JSONValue) -> None:
        self._root = root
        self.distinct = False

    def required_arguments(self) -> JSONObject:
        return self._object(self._flat(self._root), 0)

    def arguments(self) -> JSONObject:
        """Build the required arguments. If none of them is free text, add the first optional one that is."""
        body = self._flat(self._root)
        arguments = self._object(body, 0)
        if not self.distinct:
            table = body.get("properties")
            for name, schema in table.items() if is_object(table) else ():
                if name not in arguments and self._is_free_text(self._flat(schema)):
                    arguments[name] = self._text(self._flat(schema), name)
                    break
        return arguments

    def _flat(self, schema: JSONValue) -> JSONObject:
        """Resolve a `$ref`, and merge the first branch of `anyOf`, `oneOf` or `allOf`."""
        body = resolve(schema, self._root)
        for keyword in ("anyOf", "oneOf", "allOf"):
            branches = body.get(keyword)
            if is_array(branches) and branches:
                rest = {key: value for key, value in body.items() if key != keyword}
                return {**resolve(branches[0], self._root), **rest}
        return body

    def value(self, schema: JSONValue, name: str, depth: int) -> JSONValue:
        body = self._flat(schema)
        if "const" in body:
            return body["const"]
        options = body.get("enum")
        if is_array(options) and options:
            return options[0]
        if "default" in body and not self._is_free_text(body):
            return body["default"]
        kind = body.get("type")
        kind = kind[0] if is_array(kind) and kind else kind
        make = _KINDS.get(kind) if isinstance(kind, str) else None
        return self._text(body, name) if make is None else make(self, body, name, depth)

    def _is_free_text(self, body: JSONObject) -> bool:
        return body.get("type") == "string" and not {"enum", "const", "pattern", "format"} & body.keys()

    def _text(self, body: JSONObject, name: str) -> str:
        """Build a string that says it is an example."""
        form = body.get("format")
        if isinstance(form, str) and form in _FORMATS:
            return _FORMATS[form]
        limit = body.get("maxLength")
        words = f"{_EXAMPLE}{one_line(name, MAX_WORDS).replace('_', ' ')}"
        if isinstance(limit, int) and len(words) > limit:
            return words[: max(0, limit)]
        self.distinct = True
        return words

    def number(self, body: JSONObject, name: str, depth: int) -> JSONValue:
        """Build the smallest allowed number, or 1."""
        low, high = body.get("minimum", body.get("exclusiveMinimum")), body.get("maximum")
        start = low + ("minimum" not in body) if isinstance(low, int | float) else 1
        return min(start, high) if isinstance(high, int | float) else start

    def array(self, body: JSONObject, name: str, depth: int) -> JSONValue:
        """Build an array with one item."""
        return [] if depth >= MAX_DEPTH else [self.value(body.get("items", {}), name, depth + 1)]

    def object(self, body: JSONObject, name: str, depth: int) -> JSONValue:
        """Build an object with its required members."""
        return {} if depth >= MAX_DEPTH else self._object(body, depth + 1)

    def _object(self, body: JSONObject, depth: int) -> JSONObject:
        table, required = body.get("properties"), body.get("required")
        schemas: JSONObject = table if is_object(table) else {}
        names = [name for name in required if isinstance(name, str)] if is_array(required) else []
        return {name: self.value(schemas.get(name, {}), name, depth) for name in names}


#: Functions that build a value, by type. Any other type gets a string.
_KINDS: dict[str, Callable[[_ExampleBuilder, JSONObject, str, int], JSONValue]] = {
    "integer": _ExampleBuilder.number,
    "number": _ExampleBuilder.number,
    "boolean": lambda builder, body, name, depth: True,
    "null": lambda builder, body, name, depth: None,
    "array": _ExampleBuilder.array,
    "object": _ExampleBuilder.object,
}

"""Tool definitions from Python functions: type annotations become JSON schema, docstrings become descriptions.

msgspec covers plain types, literals, enums, collections, unions, dataclasses, typed dicts and structs. Pydantic models
provide their own schema; this module never imports pydantic. Docstrings may have Google, NumPy or reST sections.
"""

import re
import sys
from collections.abc import Mapping
from inspect import cleandoc
from typing import Annotated, Any, cast, get_args, get_origin

import msgspec

from ..core.types import JSONObject, JSONValue
from ..errors import UsageError

_REF_TEMPLATE = "#/$defs/{name}"


def type_schemas(types: Mapping[str, Any], where: str) -> tuple[dict[str, JSONObject], JSONObject]:
    """Return the schema of each type, and the definitions they share.

    Raises UsageError if JSON cannot represent a type.
    """
    definitions: JSONObject = {}
    schemas: dict[str, JSONObject] = {}
    for name, kind in types.items():
        schema, shared = _type_schema(kind, f"the parameter `{name}` of {where}")
        for key, definition in shared.items():
            if definitions.setdefault(key, definition) != definition:
                raise UsageError(f"{where} uses two different types called `{key}`", hint="rename one of them")
        schemas[name] = schema
    return schemas, definitions


def _type_schema(kind: Any, where: str) -> tuple[JSONObject, JSONObject]:
    nested: JSONObject = {}

    def hook(custom: type) -> JSONObject:
        if not _is_model(custom):
            raise NotImplementedError
        schema = cast("JSONObject", cast("Any", custom).model_json_schema(ref_template="#/$defs/{model}"))
        nested.update(schema.pop("$defs", {}))
        return schema

    try:
        (schema,), shared = msgspec.json.schema_components((kind,), schema_hook=hook, ref_template=_REF_TEMPLATE)
    except (TypeError, NotImplementedError, msgspec.ValidationError) as error:
        reason = str(error).splitlines()[0] if str(error) else "it has no JSON schema"
        hint = "use plain types, collections of them, dataclasses, typed dicts or pydantic models"
        raise UsageError(f"{where} has an unsupported type: {reason}", hint=hint) from None
    return schema, {**shared, **nested}


def convert_argument(value: JSONValue, kind: Any) -> Any:
    """Convert a JSON value to a type. Raises msgspec.ValidationError if the value does not fit the type."""
    return msgspec.convert(value, kind, dec_hook=_decode_model)


def _decode_model(kind: type, value: JSONValue) -> Any:
    if _is_model(kind):
        try:
            return cast("Any", kind).model_validate(value)
        except ValueError as error:
            raise msgspec.ValidationError(str(error)) from None
    return value


def to_json(value: object) -> JSONValue:
    """Convert a Python value to JSON. Raises TypeError if that is impossible."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_model)


def _encode_model(value: object) -> JSONValue:
    return cast("Any", value).model_dump(mode="json") if _is_model(type(value)) else str(value)


def _is_model(kind: Any) -> bool:
    # A class can only be a pydantic model once pydantic has been imported.
    package = sys.modules.get("pydantic")
    return package is not None and isinstance(kind, type) and issubclass(kind, package.BaseModel)


def annotation_text(kind: Any) -> str:
    """Return the description in `Annotated[..., "text"]`, or in its `Doc`, `Field` or `Meta`."""
    if get_origin(kind) is not Annotated:
        return ""
    for extra in get_args(kind)[1:]:
        if isinstance(extra, str):
            return extra
        for attribute in ("documentation", "description"):
            text = getattr(extra, attribute, None)
            if isinstance(text, str) and text:
                return text
    return ""


#: Headings of Google and NumPy sections: those that describe parameters, and those that are dropped.
_PARAMETERS = frozenset({"args", "arguments", "parameters", "params", "other parameters", "keyword args"})
_OTHERS = frozenset(
    "returns return yields yield raises raise examples example note notes warnings warning attributes "
    "references see also".split()
) | {"see also"}
_UNDERLINE = re.compile(r"-{3,}\s*")
_REST = re.compile(r":(?P<field>param|parameter|arg|argument|key|keyword)\s+(?P<rest>[^:\n]{1,200}):\s?(?P<text>.*)")
_REST_OTHER = re.compile(r":(?:returns?|rtype|raises?|type|yields?)\b")
_GOOGLE = re.compile(r"(?P<name>\*{0,2}\w{1,100})\s?(?:\([^()\n]{0,200}\))?\s?:(?:\s|$)(?P<text>.*)")
_NUMPY = re.compile(r"(?P<names>\*{0,2}\w{1,100}(?:\s?,\s?\*{0,2}\w{1,100})*)(?:\s?:.*)?")


class ParsedDocstring(msgspec.Struct, frozen=True):
    description: str
    parameters: dict[str, str]


def parse_docstring(text: str | None) -> ParsedDocstring:
    reader = _DocstringReader()
    lines = cleandoc(text or "").splitlines()
    skip = False
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        skip = not skip and reader.read(line, bool(_UNDERLINE.fullmatch(following)))
    parameters = {name: " ".join(words) for name, words in reader.parameters.items() if words}
    return ParsedDocstring("\n".join(reader.description).strip(), parameters)


class _DocstringReader:
    """A docstring parser that reads line by line, in one pass."""

    def __init__(self) -> None:
        self.description: list[str] = []
        self.parameters: dict[str, list[str]] = {}
        self._section = "text"  # kind of the current section: text, google, numpy, rest or other
        self._names: list[str] = []
        self._indent: int | None = None

    def read(self, line: str, underlined: bool) -> bool:
        """Read one line. Returns True if the next line only underlines this one, as under a NumPy heading."""
        bare = line.strip()
        if self._heading(line, bare, underlined):
            return underlined
        if self._field(line, bare):
            return False
        if self._section == "text":
            self.description.append(line)
        elif self._section in ("google", "numpy"):
            self._parameter(line, bare)
        elif self._section == "rest" and line[:1].isspace():
            self._continue(bare)
        elif self._section == "rest" and bare:
            self._section = "text"
            self.description.append(line)
        return False

    def _heading(self, line: str, bare: str, underlined: bool) -> bool:
        """Return whether a line is a section heading, and enter that section."""
        if line[:1].isspace() or not bare or not (underlined or bare.endswith(":")):
            return False
        word = (bare if underlined else bare.removesuffix(":")).lower()
        if word in _PARAMETERS:
            self._section = "numpy" if underlined else "google"
        elif word in _OTHERS:
            self._section = "other"
        else:
            return False
        self._names, self._indent = [], None
        return True

    def _field(self, line: str, bare: str) -> bool:
        """Return whether a line is a reST field such as `:param int x: text`, and read it."""
        if line[:1].isspace() or not bare.startswith(":"):
            return False
        field = _REST.match(bare)
        if field:
            self._section = "rest"
            self._names = [field["rest"].split()[-1]] if field["rest"].split() else []
            self._start(field["text"].strip())
            return True
        if _REST_OTHER.match(bare):
            self._section = "other"
            return True
        return False

    def _parameter(self, line: str, bare: str) -> None:
        if not bare:
            return
        indent = len(line) - len(line.lstrip())
        if self._section == "google" and indent == 0:
            self._section = "text"
            self.description.append(line)
            return
        if self._indent is None:
            self._indent = indent
        opening = (_GOOGLE.match(bare) if self._section == "google" else _NUMPY.fullmatch(bare)) or None
        if indent > self._indent or opening is None:
            self._continue(bare)
        elif self._section == "google":
            self._names = [opening["name"].lstrip("*")]
            self._start(opening["text"].strip())
        else:
            self._names = [name.strip().lstrip("*") for name in opening["names"].split(",")]
            self._start("")

    def _start(self, text: str) -> None:
        for name in self._names:
            self.parameters[name] = [text] if text else []

    def _continue(self, text: str) -> None:
        for name in self._names:
            if text:
                self.parameters[name].append(text)

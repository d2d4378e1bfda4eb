"""Tool families: one idea of a tool, written down once, told in many ways.

A family file is text. `## domain` begins a group of related families. A family begins with `== name | other name`, goes
on with `@ description | other description`, and has a line for each parameter, `key other_name : kind ! description`
(`?` instead of `!`: optional; `a.b` is a member of the object `a`). Lines with `>` are requests with slots; `[a=1]` at
their end fixes a value that is said without a slot, `{a!}` says a value as it is called, `{a~}` says another value of its
kind that is not called, `{a.2.b}` belongs to the second entry of a list of objects, and `\\n` breaks the line. Lines with
`>>` are asked for one call only: their values are never counted up. A line `~ head :: fragment` can ask for several calls at
once; where its slots are those of one list of objects, it asks for one call with an entry for each. Lines with `-` are near
misses: what somebody asks beside this tool, and the tool cannot do. A file `*.more` names families again and has more
requests for them.

`Family.offer` draws a concrete tool from it, `Offer.ask` a request for one call, `Offer.ask_several` one for several.
Above: `scenes`. Below: `several`, `options`, `values`, `wording`.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from toolspeak.core.types import JSONObject, JSONValue, Tool, ToolCall

from .options import with_option
from .pools import WORDS
from .several import SLOT, UNMEANT, enumerated, several
from .values import Drawn, Kind, coded, kind, list_of
from .wording import fronted, misspelled, sentence

FOLDER = Path(__file__).parent / "families"
#: Files that came after all others, whatever their names: which families are held out hangs on the order.
_LATER = "inhouse_"
_FIXED = re.compile(r"\s*\[(\w+=.*)\]$")
_DEFAULT = re.compile(r"Default is '?([^'.]+(?:\.\d+)?)'?\.$")
#: Tools that could be used for nearly anything: they stand in no list of which nothing fits.
GENERIC = frozenset(
    {
        "internet_search",
        "shell.run",
        "arithmetic.evaluate",
        "api_call",
        "db.query",
        "text.summarize",
        "web.open_page",
    }
)


class Style(NamedTuple):
    """How the tools of one list are written."""

    #: As the Berkeley leaderboard tells functions to models: hints in descriptions, no dots in names.
    hints: bool = False
    case: str = "as_is"
    #: How likely a default stands in the schema, and an option in words only.
    defaults: float = 0.3
    loose: float = 0.25

    @staticmethod
    def draw(rng: random.Random) -> Style:
        hints = rng.random() < 0.4
        case = "under" if hints else rng.choice(["as_is", "as_is", "under", "under", "camel", "pascal", "dash"])
        return Style(hints, case, rng.choice([0.0, 0.0, 0.3, 1.0]), rng.choice([0.1, 0.4]))

    def named(self, name: str) -> str:
        """A name in this style."""
        match self.case:
            case "under":
                return name.replace(".", "_")
            case "dash":
                return name.replace(".", "-").replace("_", "-")
            case "camel" | "pascal":
                first, *rest = re.split(r"[._]", name)
                joined = first + "".join(each[:1].upper() + each[1:] for each in rest)
                return joined if self.case == "camel" else joined[:1].upper() + joined[1:]
            case _:
                return name

    def told(self, about: str) -> str:
        """What a tool does, in this style."""
        return about + " Note that the provided function is in Python 3 syntax." * self.hints


class Param(NamedTuple):
    """A parameter, or a member of one that is an object."""

    names: tuple[str, ...]
    kind: Kind | None
    required: bool
    about: str
    many: bool = False
    members: dict[str, Param] = {}  # noqa: RUF012 - each object gets its own


class Family(NamedTuple):
    """One idea of a tool."""

    domain: str
    names: tuple[str, ...]
    abouts: tuple[str, ...]
    params: dict[str, Param]
    requests: tuple[str, ...]
    joint: tuple[str, str] | None
    misses: tuple[str, ...] = ()
    #: Those of the requests that ask for one call and are never asked several times over.
    alone: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        return self.names[0]

    def offer(self, rng: random.Random, style: Style) -> Offer:
        """A tool of this family."""
        return Offer(self, rng, style)


_EXTRAS: tuple[tuple[str, JSONObject], ...] = (
    ("verbose", {"type": "boolean", "description": "Return more details. Default is false."}),
    ("language", {"type": "string", "description": "Language of the answer. Default is 'en'."}),
    ("format", {"type": "string", "enum": ["json", "text", "xml"], "description": "Format of the output."}),
    ("request_id", {"type": "string", "description": "Identifier of the request, for tracing."}),
    ("timeout", {"type": "integer", "description": "Timeout in seconds. Default is 30."}),
    ("include_metadata", {"type": "boolean", "description": "Whether to return metadata. Default is false."}),
    ("source", {"type": "string", "description": "Data source to use (optional)."}),
    ("page", {"type": "integer", "description": "Page of the results. Default is 1."}),
    ("cache", {"type": "boolean", "description": "Whether a cached result may be used. Default is true."}),
    ("user_id", {"type": "string", "description": "Identifier of the user, if known."}),
)


class Offer:
    """A concrete tool, and the requests that it can serve."""

    def __init__(self, family: Family, rng: random.Random, style: Style) -> None:
        self.family = family
        self._names: dict[str, str] = {}
        self._verbatim: set[str] = set()
        self._style = style
        self._plural = _pluralised(family, rng)
        self._codes = _codes_for(family, self._plural, rng)
        properties: JSONObject = {}
        required: list[str] = []
        items = [(key, self._param(key)) for key in family.params]
        if rng.random() < 0.45:  # what is said first need not stand first
            rng.shuffle(items)
        for key, param in items:
            name = self._chosen(key, param, rng, properties)
            properties[name] = self._schema(key, param, rng)
            if param.required:
                required.append(name)
        self._add_unused(properties, rng)
        parameters: JSONObject = {"type": "object", "properties": properties, "required": required}
        if not required and rng.random() < 0.5:
            del parameters["required"]
        about = rng.choice(family.abouts)
        if rng.random() < 0.25:
            about = (
                rng.choice(_LEADS).format(about[:1].lower() + about[1:]) if rng.random() < 0.3 else about.rstrip(".")
            )
        about = style.told(about)
        name = (
            rng.choice(family.names)
            if rng.random() > 0.07
            else f"{rng.choice(WORDS)}_{rng.choice(['run', 'tool', 'fn', 'api', 'v2'])}"
        )
        self.tool = Tool(style.named(name), about, parameters)

    def _add_unused(self, properties: JSONObject, rng: random.Random) -> None:
        """Optional parameters that no request speaks of: they must be left out."""
        for name, schema in rng.sample(_EXTRAS, rng.choice([0, 0, 0, 0, 1, 1, 2])):
            if name not in properties:
                properties[name] = dict(schema)
        own = {param.kind.name for param in self.family.params.values() if param.kind is not None}
        for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 3, rng.randint(1, 8)])):
            param = rng.choice(_optional())
            assert param.kind is not None
            name = rng.choice(param.names)
            if (
                name in properties
                or name in self.family.params
                or param.kind.name in own - {"enum", "pick", "bool", "int"}
            ):
                continue
            properties[name] = {**param.kind.schema, "description": param.about}
            if param.kind.options:
                properties[name]["enum"] = list(param.kind.options)

    def _chosen(self, key: str, param: Param, rng: random.Random, taken: JSONObject) -> str:
        name = rng.choice(param.names) if rng.random() < 0.6 else param.names[0]
        if key == self._plural:
            name = _plural_of(name, rng)
        if rng.random() < 0.04:  # then only the description tells
            name = rng.choice(["arg", "param", "input", "value", "field"]) + f"_{len(taken) + 1}"
        if self._style.case in ("camel", "pascal"):
            name = Style(case="camel").named(name)
        if name in taken:
            name = key
        self._names[key] = name
        return name

    def _schema(self, key: str, param: Param, rng: random.Random) -> JSONObject:
        if param.kind is None:
            inner: JSONObject = {
                "type": "object",
                "properties": {name: self._schema(f"{key}.{name}", each, rng) for name, each in param.members.items()},
                "required": [name for name, each in param.members.items() if each.required],
            }
            if param.many:
                return {"type": "array", "items": inner, "description": param.about}
            return {**inner, "description": param.about}
        schema: JSONObject = {**param.kind.schema}
        about = param.about
        if param.kind.options:
            if rng.random() < self._style.loose:
                about = f"{about.rstrip('.')}{rng.choice(['. Options: ', ', one of: ', '. Can be '])}{', '.join(param.kind.options)}"
            else:
                schema["enum"] = list(param.kind.options)
        if key == self._plural:
            about = rng.choice(_MANY).format(about.rstrip("."))
        elif param.kind.name in ("date", "time") and "(" in about and rng.random() < 0.12:
            about = about.partition(" (")[0]
            self._verbatim.add(key)
        default = _DEFAULT.search(param.about)
        if default and not param.required and rng.random() < self._style.defaults:
            schema["default"] = _read(default.group(1), str(schema["type"]))
            about = about if rng.random() < 0.5 else about.replace(default.group(), "").strip()
        if self._style.hints and schema["type"] == "number":
            schema["format"] = "float"
            about += " This is a float type value."
        if about and (key in self._codes or rng.random() < (0.97 if self._style.hints else 0.85)):
            schema["description"] = about
        return schema

    # ---- requests

    def ask(self, rng: random.Random) -> tuple[str, ToolCall]:
        """A request that one call serves."""
        joint = self.family.joint
        if rng.random() < _SPELLED_OUT:
            return self._spelled_out(rng)
        if joint is not None and rng.random() < 0.2:
            if self._gathering:
                return self._gathered(joint, rng, rng.choice([1, 2, 2, 3, 4]))
            text, fixed = f"{joint[0]} {joint[1]}", {}
        else:
            text, fixed = _split(rng.choice(self.family.requests))
            text = fronted(text, rng)
        # What is fixed stands in the text as it is called.
        said, call = self.fill(text if fixed else misspelled(text, rng), fixed, rng, {})
        if text.isascii() and len(text) <= _SHORT:
            said, call = with_option(self, rng, said, call)
        return sentence(said, rng, text.startswith("{")), call

    def short(self, rng: random.Random) -> tuple[str, ToolCall]:
        """A request for one call, with nothing around it."""
        return self.fill(*self.template(rng), rng, {})

    def ask_several(self, rng: random.Random, count: int) -> tuple[str, list[ToolCall]]:
        """A request that takes so many calls of this tool; one, where the tool takes a list of what is asked for."""
        if self._plural:
            said, call = self.ask(rng)
            return said, [call]
        if self._gathering and self.family.joint is not None and rng.random() < 0.6:
            said, call = self._gathered(self.family.joint, rng, count)
            return said, [call]
        return several(self, rng, count)

    @property
    def _gathering(self) -> str:
        """The list of objects whose entries the fragments tell; empty, where each fragment is a call."""
        told = {key.partition(".")[0] for key in SLOT.findall(self.family.joint[1])} if self.family.joint else set()
        name = told.pop() if len(told) == 1 else ""
        return name if name and self.family.params[name].many else ""

    def _gathered(self, joint: tuple[str, str], rng: random.Random, count: int) -> tuple[str, ToolCall]:
        """One call for a head and so many fragments, each of which is an entry of its list."""
        name = self._gathering
        fragments = [joint[1].replace(f"{{{name}.", f"{{{name}.{at}.") for at in range(2, count + 1)]
        told = enumerated(joint[0], [joint[1], *fragments], rng)
        return self.fill(sentence(told, rng, told.startswith("{")), {}, rng, {})

    def template(self, rng: random.Random) -> tuple[str, JSONObject]:
        """A short request with slots, and values that it fixes: nobody strings stories together."""
        family = self.family
        able = [each for each in family.requests if each not in family.alone] or family.requests
        short = [each for each in able if len(each) <= _SHORT and "\n" not in each]
        return _split(rng.choice(short or able))

    @property
    def joint(self) -> tuple[str, str] | None:
        """How several calls begin to be asked for, and how each of them is told."""
        return None if self._gathering else self.family.joint

    def label(self, key: str, rng: random.Random) -> str:
        """What a parameter may be called by a person."""
        return rng.choice(self._param(key).names).replace("_", " ")

    def kind_of(self, key: str) -> Kind | None:
        """The kind of value of a slot; None for objects."""
        return self._param(key).kind

    def names_in(self, text: str) -> dict[str, Kind]:
        """The slots of a request that stand for one value each, which another tool could take as it is."""
        plain = [key for key in SLOT.findall(text) if f"{{{key}}}" in text and "." not in key]
        kinds = {key: self.kind_of(key) for key in plain if key != self._plural and key not in self._codes}
        return {key: found for key, found in kinds.items() if found is not None and found.name not in _OWN}

    def spare(self, calls: list[ToolCall]) -> list[str]:
        """The optional parameters of simple values that none of these calls has."""
        return [
            key
            for key, param in self.family.params.items()
            if not param.required
            and param.kind is not None
            and param.kind.name not in _LONG
            and key != self._plural
            and not any(self._names[key] in call.arguments for call in calls)
        ]

    def _spelled_out(self, rng: random.Random) -> tuple[str, ToolCall]:
        """What the tool does, and its parameters by name: any of the optional ones may be wanted."""
        able = {
            key: param
            for key, param in self.family.params.items()
            if param.kind is not None and param.kind.name != "bool"
        }
        wanted = [
            key for key, param in self.family.params.items() if param.required or (key in able and rng.random() < 0.4)
        ]
        if not wanted or any(key not in able for key in wanted):
            return self.ask(rng)
        if rng.random() < 0.5:
            rng.shuffle(wanted)
        form = rng.choice(["{0} {{{1}}}", "{0}: {{{1}}}", "{0} = {{{1}}}", "the {0} is {{{1}}}", "{0} of {{{1}}}"])
        told = [form.format(rng.choice(self.family.params[key].names).replace("_", " "), key) for key in wanted]
        about = rng.choice(self.family.abouts).partition(". ")[0].rstrip(".")
        text = rng.choice(["{0}. {1}.", "{0} with {1}", "{0}, {1}", "{0} ({1})", "I need this: {2}. {1}."]).format(
            about, rng.choice([", ", "; ", " and "]).join(told), about[:1].lower() + about[1:]
        )
        said, call = self.fill(text, {}, rng, {})
        return sentence(said, rng), call

    def merged(self, shared: dict[str, Drawn], call: ToolCall) -> ToolCall:
        """The call with values that all calls share."""
        arguments = dict(call.arguments)
        for key, drawn in shared.items():
            if "." not in key:
                arguments.setdefault(self._names[key], self._value(key, drawn))
        return ToolCall(call.name, self._ordered(arguments))

    def _param(self, key: str) -> Param:
        outer, *inner = key.split(".")
        param = self.family.params[outer]
        if outer == self._plural and param.kind is not None:
            one = param.kind
            items = {**one.schema, "enum": list(one.options)} if one.options else one.schema
            return param._replace(kind=list_of(Kind(one.draw, items), 1, 4))
        if outer in self._codes and param.kind is not None:
            about, codes = _DEFAULT.sub("", param.about).rstrip(" ."), self._codes[outer]
            listed = ", ".join(f"{code}: {option}" for option, code in codes.items())
            return param._replace(kind=coded(param.kind, codes), about=f"{about}. {listed}")
        for name in inner:
            param = param if name.isdigit() else param.members[name]
        return param

    def fill(self, text: str, fixed: JSONObject, rng: random.Random, drawn: dict[str, Drawn]) -> tuple[str, ToolCall]:
        """The text with values in its slots, and the call that goes with it; `drawn` values are kept."""
        found = drawn
        for key in SLOT.findall(text):
            if key not in found:
                param = self._param(key)
                assert param.kind is not None
                found[key] = _fresh(param.kind, key, found, rng)
        used = {key: found[key] for key in dict.fromkeys(SLOT.findall(text))}
        for key, each in used.items():
            if f"{{{key}!}}" in text:
                used[key] = found[key] = Drawn(each.value, _plainly(each.value))
        meant = [*(each.value for each in used.values()), *fixed.values()]
        text = UNMEANT.sub(lambda slot: _said(_unlike(self._param(slot.group(1)).kind, meant, rng), slot), text)
        said = SLOT.sub(lambda slot: _said(used[slot.group(1)], slot), text)
        told: JSONObject = copy.deepcopy(
            {key: [value] if key == self._plural else self._coded(key, value) for key, value in fixed.items()}
        )
        for key, each in used.items():
            *outer, last = key.split(".")
            holder = told
            for name in outer:
                holder = holder.setdefault(name, {})
            holder[last] = each.value if outer else self._value(key, each)
        arguments = {self._names[key]: _arranged(self.family.params[key], each) for key, each in told.items()}
        return said, ToolCall(self.tool.name, self._ordered(arguments))

    def _coded(self, key: str, value: JSONValue) -> JSONValue:
        return self._codes[key].get(str(value), value) if key in self._codes else value

    def _value(self, key: str, drawn: Drawn) -> JSONValue:
        return drawn.said if key in self._verbatim else drawn.value

    def _ordered(self, arguments: JSONObject) -> JSONObject:
        return {name: arguments[name] for name in self.tool.parameters["properties"] if name in arguments}

    @property
    def required(self) -> list[str]:
        """The names of what every call must have."""
        return list(self.tool.parameters.get("required", ()))


@cache
def _optional() -> list[Param]:
    """The optional parameters of all families, to lend to others."""
    return [
        param
        for family in families()
        for param in family.params.values()
        if not param.required and param.kind is not None
    ]


_LEADS = ("This function can be used to {}", "Use this tool to {}", "A tool to {}", "{}")


#: How a parameter that takes a list is told.
_MANY = ("{0} (one or more)", "List of values. {0}", "{0}, as a list", "{0}. Several are possible", "Array. {0}")
#: Requests up to so many characters can be asked several times over.
_SHORT = 150
#: How often a request names the parameters one by one.
_SPELLED_OUT = 0.1
#: How often the options of a parameter are numbers.
_CODED = 0.07
#: Kinds of values that nobody says beside a request.
_LONG = frozenset(("list", "matrix", "sentence", "review", "expr", "sql"))
#: Kinds of values that mean nothing beside another tool.
_OWN = _LONG | {"enum", "pick", "bool"}
#: How often one parameter of a tool takes a list instead of a single value.
_PLURAL = 0.14


def _pluralised(family: Family, rng: random.Random) -> str:
    """The parameter that takes a list in this tool though it takes one value in the family; mostly none."""
    if rng.random() > _PLURAL:
        return ""
    asked = {key for text in (*family.requests, *(family.joint or ())) for key in SLOT.findall(text)}
    able = [
        key
        for key, param in family.params.items()
        if key in asked and param.kind is not None and param.kind.name not in ("list", "bool", "matrix", "sentence")
    ]
    return rng.choice(able) if able else ""


def _codes_for(family: Family, plural: str, rng: random.Random) -> dict[str, dict[str, int]]:
    """The parameter whose options are numbers in this tool, told in its description; mostly none."""
    able = [key for key, param in family.params.items() if key != plural and param.kind and len(param.kind.options) > 1]
    if not able or rng.random() > _CODED:
        return {}
    key, first = rng.choice(able), rng.choice([0, 1, 1, 1, 10, 101])
    kind_ = family.params[key].kind
    assert kind_ is not None
    return {key: {option: at for at, option in enumerate(kind_.options, first)}}


def _plural_of(name: str, rng: random.Random) -> str:
    if name.endswith("s"):
        return f"{name}_list"
    many = f"{name[:-1]}ies" if name.endswith("y") and name[-2:-1] not in "aeou" else f"{name}s"
    return rng.choice([many, many, many, f"{name}_list"])


def _plainly(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _said(drawn: Drawn, slot: re.Match[str]) -> str:
    """How a value is said in its place: beside a letter, a digit or a sign of money, numbers are digits."""
    before, after = slot.string[: slot.start()][-1:], slot.string[slot.end() :][:1]
    number = isinstance(drawn.value, int | float) and not drawn.said[:1].isdigit()
    return (
        str(drawn.value)
        if number and (before.isalnum() or (before in "$#" and before) or after.isalnum())
        else drawn.said
    )


def _arranged(param: Param, told: JSONValue) -> JSONValue:
    """An object with its members in their order; in a list of objects, what has no number belongs to the first."""
    if param.kind is not None:
        return told
    entry = param._replace(many=False)
    if isinstance(told, list):
        return [_arranged(entry, each) for each in told]
    assert isinstance(told, dict)
    one: JSONObject = {name: _arranged(each, told[name]) for name, each in param.members.items() if name in told}
    return [one, *(_arranged(entry, told[at]) for at in told if at.isdigit())] if param.many else one


def _unlike(kind_: Kind | None, meant: list[object], rng: random.Random) -> Drawn:
    """A value that is said and not meant, such as the one that is corrected in the same breath."""
    assert kind_ is not None
    drawn = [kind_.draw(rng) for _ in range(20)]
    return next((each for each in drawn if each.value not in meant), drawn[0])


def _fresh(kind_: Kind, key: str, found: dict[str, Drawn], rng: random.Random) -> Drawn:
    """A value; two texts of one request are not the same."""
    for _ in range(8):
        one = kind_.draw(rng)
        if not isinstance(one.value, str) or one.value not in [each.value for each in found.values()]:
            return one
    return kind_.draw(rng)


def _read(text: str, type_: str) -> JSONValue:
    """A default as a value."""
    try:
        return json.loads(text) if type_ != "string" else text
    except ValueError:
        return text


def _split(request: str) -> tuple[str, JSONObject]:
    """A request and the values that are fixed by it."""
    found = _FIXED.search(request)
    if not found:
        return request, {}
    told, at, decoder = found.group(1), 0, json.JSONDecoder()
    fixed: JSONObject = {}
    while at < len(told):
        key, _, _ = told[at:].partition("=")
        fixed[key.strip()], end = decoder.raw_decode(told, at + len(key) + 1)
        at = end + 1  # behind the semicolon
    return request[: found.start()], fixed


# ---- files


def families(folder: Path = FOLDER) -> list[Family]:
    """All families of a folder. Files whose names come later may be added without a change of what is held out."""
    files = sorted(folder.glob("*.txt"), key=lambda file: (file.name.startswith(_LATER), file.name))
    found = [family for file in files for family in _read_file(file.read_text(encoding="utf-8"))]
    misses: dict[str, tuple[str, ...]] = {}
    for file in sorted(folder.glob("*.tsv")):
        rows = (line.split("\t") for line in file.read_text(encoding="utf-8").splitlines() if line)
        misses |= {key: tuple(told.split("|")) for key, told in rows}
    added: dict[str, list[Family]] = {}
    for file in sorted(folder.glob("*.more")):  # families by their names, with nothing but more requests for them
        for more in _read_file(file.read_text(encoding="utf-8")):
            added.setdefault(more.key, []).append(more)
    return [
        family._replace(
            misses=(*family.misses, *misses.get(family.key, ())),
            requests=tuple(each for one in (family, *added.get(family.key, ())) for each in one.requests),
            alone=family.alone.union(*(more.alone for more in added.get(family.key, ()))),
        )
        for family in found
    ]


def _read_file(text: str) -> Iterator[Family]:
    domain, block = "", list[str]()
    for line in [*text.splitlines(), "## end"]:
        if line.startswith(("== ", "## ")):
            if block:
                yield _family(domain, block)
            block = [line] if line.startswith("== ") else []
            domain = line[3:].strip() if line.startswith("## ") else domain
        elif line.strip():
            block.append(line)


def _family(domain: str, block: list[str]) -> Family:
    params: dict[str, Param] = {}
    requests: list[str] = []
    abouts: tuple[str, ...] = ()
    joint: tuple[str, str] | None = None
    misses: list[str] = []
    alone: set[str] = set()
    for line in block[1:]:
        mark, rest = line[:2], line[2:].strip()
        if mark == "@ ":
            abouts = tuple(each.strip() for each in rest.split(" | "))
        elif mark in ("> ", ">>"):
            requests.append(rest.replace("\\n", "\n"))
            if mark == ">>":
                alone.add(requests[-1])
        elif mark == "~ ":
            head, _, fragment = rest.partition(" :: ")
            joint = (head, fragment)
        elif mark == "- ":
            misses.append(rest)
        else:
            _param_line(line, params)
    names = tuple(each.strip() for each in block[0][3:].split(" | "))
    return Family(domain, names, abouts, params, tuple(requests), joint, tuple(misses), frozenset(alone))


def _param_line(line: str, params: dict[str, Param]) -> None:
    left, _, right = line.partition(" : ")
    at = min(place for mark in (" ! ", " ? ") if (place := right.find(mark)) >= 0)
    spec, required, about = right[:at].strip(), right[at + 1] == "!", right[at + 3 :].strip()
    names = tuple(left.split())
    *outer, key = names[0].split(".")
    for name in outer:
        params = params[name].members
    shape = None if spec.startswith("object") else kind(spec)
    params[key] = Param((key, *names[1:]), shape, required, about, spec.endswith("[]"), {})

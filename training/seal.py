"""Seal-Tools (Apache-2.0): its tools with requests made from their schemas, and its labelled requests.

What `test_out_domain` calls is never trained on, neither its requests nor its tools. `dev` is for choosing between
adapters, and calls some of these tools; `test_in_domain` may be trained on. Above: `scenes`, `measure`. Below: `values`.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import NamedTuple

from toolspeak.core.types import JSONObject, JSONValue, Tool, ToolCall

from .family import Style
from .values import Drawn, Kind, kind
from .wording import sentence, strung

#: What Python calls the types of JSON.
TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}
_EXAMPLES = re.compile(r"\((?:e\.g\.|such as|for example|i\.e\.),? ?([^()]{3,120})\)", re.IGNORECASE)
#: What a parameter of such a name holds, where its description gives no examples; the first that fits.
_GUESSES: tuple[tuple[str, str], ...] = (
    (r"(start|from|begin).*date|^start$", "date"), (r"(end|to|until).*date|^end$", "date"), (r"date|day$", "date"),
    (r"city|location|place|origin|destination|region|area$", "city"), (r"country", "country"), (r"state", "state"),
    (r"email", "email"), (r"phone", "phone"), (r"url|link|website", "url"), (r"time$", "time"),
    (r"(user|patient|customer|client|author|artist|student|employee|player|person|teacher|full).*name", "person"),
    (r"company|organization|brand", "company"), (r"language", "lang"), (r"currency", "currency"),
    (r"color", "color"), (r"(^|_)(id|code|number|key|token)$|_id", "code"), (r"address", "address"),
    (r"species|animal", "species"), (r"plant", "plant"), (r"food|ingredient", "ingredient"), (r"dish|recipe", "dish"),
    (r"movie|film", "movie"), (r"song|track", "song"), (r"book", "book"), (r"team", "team"), (r"genre", "genre"),
    (r"topic|subject|keyword|query|theme", "topic"), (r"material", "pick(steel|wood|copper|glass|concrete)"),
    (r"disease|condition|diagnosis", "disease"), (r"drug|medication|medicine", "drug"), (r"product|item", "product"),
    (r"message|text|content|comment|description|note", "sentence"), (r"file|path", "path"), (r"name|title", "word"),
)  # fmt: skip
_NUMBERS = {"integer": "int(1,500)", "number": "num(0.5,500)"}


class Labelled(NamedTuple):
    """A request and the calls that serve it."""

    request: str
    calls: list[ToolCall]


def _tool(row: JSONObject) -> Tool:
    properties = {
        name: {"type": TYPES.get(each["type"], "string"), "description": each["description"]}
        for name, each in row["parameters"].items()
    }
    required = [name for name in row["required"] if name in properties]
    return Tool(
        row["api_name"], row["api_description"], {"type": "object", "properties": properties, "required": required}
    )


def rows_of(path: Path) -> list[JSONObject]:
    """The objects of a file that has one in a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


class Seal:
    """The data set, as far as it may be used."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        rows = rows_of(folder / "tool.jsonl")
        forbidden = {call["api"] for row in rows_of(folder / "test_out_domain.jsonl") for call in row["calling"]}
        self.tools = {row["api_name"]: _tool(row) for row in rows}
        self.trained = [row["api_name"] for row in rows if row["api_name"] not in forbidden]
        self.fields = {row["api_name"]: row["field"].partition("/")[0] for row in rows}
        self._answerable = [name for name in self.trained if self.askable(name)]
        self._by_field: dict[str, list[str]] = {}
        for name in self._answerable:
            self._by_field.setdefault(self.fields[name], []).append(name)
        self.labelled = [
            each for each in self.requests("test_in_domain") if not {call.name for call in each.calls} & forbidden
        ]

    def requests(self, split: str, grounded: bool = True) -> list[Labelled]:
        """The labelled requests of a split; with `grounded`, those whose values all stand in the request."""
        found: list[Labelled] = []
        for row in rows_of(self._folder / f"{split}.jsonl"):
            calls = [self._call(each) for each in row["calling"]]
            values = [value for call in calls for value in call.arguments.values()]
            if any(isinstance(value, str) and value.startswith("API_call") for value in values):
                continue
            if any(
                name not in call.arguments for call in calls for name in self.tools[call.name].parameters["required"]
            ):
                continue
            if not grounded or all(stands_in(value, row["query"]) for value in values):
                found.append(Labelled(row["query"], calls))
        return found

    def _call(self, row: JSONObject) -> ToolCall:
        schemas = self.tools[row["api"]].parameters["properties"]
        given = row["parameters"]
        return ToolCall(
            row["api"], {name: typed(given[name], schemas[name]["type"]) for name in schemas if name in given}
        )

    # ---- requests from schemas

    def askable(self, name: str) -> bool:
        """Whether values for all that is required can be made up."""
        parameters = self.tools[name].parameters
        return (
            all(_guessed(each, parameters["properties"][each]) for each in parameters["required"])
            and len(parameters["properties"]) > 0
        )

    def offer(self, rng: random.Random, style: Style) -> SealOffer:
        """A tool with requests from its schema."""
        return SealOffer(self.tools[rng.choice(self._answerable)], rng, style)

    def neighbour(self, name: str, rng: random.Random, style: Style) -> SealOffer:
        """Another tool of the same field."""
        return SealOffer(self.tools[rng.choice(self._by_field.get(self.fields[name], self._answerable))], rng, style)


class SealOffer:
    """A tool of Seal-Tools, and requests made from its schema."""

    def __init__(self, tool: Tool, rng: random.Random, style: Style) -> None:
        self.original = tool.name
        name = (
            tool.name if rng.random() < 0.5 else style.named(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", tool.name).lower())
        )
        self.tool = Tool(name, style.told(tool.description), tool.parameters)
        self.required: list[str] = tool.parameters["required"]
        self._about = tool.description.rstrip(".")
        self._kinds = {key: _guessed(key, schema) for key, schema in tool.parameters["properties"].items()}

    def ask(self, rng: random.Random) -> tuple[str, ToolCall]:
        """A request for one call."""
        said, call = self.short(rng)
        return sentence(said, rng), call

    def ask_several(self, rng: random.Random, count: int) -> tuple[str, list[ToolCall]]:
        """A request for several calls."""
        several = [self.short(rng) for _ in range(count)]
        return strung([said for said, _ in several], rng), [call for _, call in several]

    def short(self, rng: random.Random) -> tuple[str, ToolCall]:
        """A request for one call, with nothing around it."""
        words: list[str] = []
        arguments: JSONObject = {}
        for name, found in self._kinds.items():
            if found is None or not (name in self.required or rng.random() < 0.4):
                continue
            drawn = found.draw(rng)
            label = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").lower()
            quoted = f'"{drawn.said}"' if isinstance(drawn.value, str) and rng.random() < 0.2 else drawn.said
            if found.schema["type"] == "boolean":
                words.append(f"{label}: {'yes' if drawn.value else 'no'}")
            else:
                words.append(
                    rng.choice(
                        [
                            f"the {label} {quoted}",
                            f"{label} {quoted}",
                            f"a {label} of {quoted}",
                            f"{label}: {quoted}",
                            f"{label} = {quoted}",
                        ]
                    )
                )
            arguments[name] = drawn.value
        rng.shuffle(words)
        about = self._about[:1].lower() + self._about[1:]
        lead = rng.choice(
            ["{0}", "Can you {0}", "I want to {0}", "Please {0}", "I'd like you to {0}", "Help me {0}", "{0}"]
        ).format(about)
        joined = (
            rng.choice([" with {0}", " for {0}", ". Use {0}", " given {0}", ", {0}", " using {0}"]).format(_and(words))
            if words
            else ""
        )
        return f"{lead[:1].upper()}{lead[1:]}{joined}.", ToolCall(self.tool.name, arguments)


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _guessed(name: str, schema: JSONObject) -> Kind | None:
    """What this parameter might hold; None where nothing can be guessed."""
    kind_, about = str(schema["type"]), str(schema.get("description", ""))
    if kind_ in _NUMBERS:
        return kind("int(1950,2024)" if "year" in name.lower() else _NUMBERS[kind_])
    if kind_ == "boolean":
        return kind("bool")
    examples = _examples(about)
    if kind_ == "string" and examples:
        return Kind(lambda rng: _of(rng.choice(examples)), {"type": "string"})
    if kind_ != "string":
        return None
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    for pattern, spec in _GUESSES:
        if re.search(pattern, spaced):
            return kind(spec)
    return None


def _of(text: str) -> Drawn:
    return Drawn(text, text)


def _examples(about: str) -> list[str]:
    found = _EXAMPLES.search(about)
    if not found:
        return []
    parts = [re.sub(r"^(?:and|or|etc\.?) ?", "", each.strip(" '\".")) for each in found.group(1).split(",")]
    return [each for each in parts if 1 < len(each) < 40 and "etc" not in each and "format" not in each.lower()]


def typed(value: JSONValue, kind_: str) -> JSONValue:
    """The value in the type that is declared: the data has numbers in quotes."""
    if kind_ in ("integer", "number") and isinstance(value, str):
        try:
            number = float(value.replace(",", ""))
        except ValueError:
            return value
        return int(number) if number == int(number) and (kind_ == "integer" or "." not in value) else number
    if kind_ == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if kind_ == "boolean" and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return value


def stands_in(value: JSONValue, request: str) -> bool:
    """Whether a value can be found in the request."""
    if isinstance(value, bool):
        return True
    text, asked = str(value).lower().strip(" ."), request.lower()
    if text in asked:
        return True
    if re.match(r"\d{4}-\d\d-\d\d", text):
        return text[:4] in asked
    words = re.findall(r"\w+", text)
    return bool(words) and sum(word in asked for word in words) / len(words) >= 0.75

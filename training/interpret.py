"""Answers of other models that describe calls or write them damaged, and answers that only look like it: what the interpreter learns from.

`interpret.txt` holds the forms. `+` makes each call that it speaks of, `-` makes none, and `~` may stand beside a call without making one.
Slots: `{name}` of the tool; `{args}` in words, `{list}` in lines, `{code}` as half Python, `{json}` as damaged JSON, `{json_args}` of the arguments
alone, `{xml}`; `{about}` and `{doing}` say what the tool does, `{params}` what it takes, `{request}` what was asked, `{result}` is a result.

Every string of a call stands in the answer letter by letter, since a call that holds another is never made.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from toolspeak.core.types import JSONObject, JSONValue, Tool, ToolCall

from . import pools
from .held_out import is_held_out
from .results import result

__all__ = ["FORMS", "Forms", "Mention", "described", "forms", "strings_in", "undone", "with_odd_strings"]

FORMS = Path(__file__).parent / "interpret.txt"
#: One form in so many is never trained on.
_HELD_OUT = 14
#: How often a string of a call is an odd one, and how often something stands beside a call.
_ODD, _BESIDE = 0.25, 0.25
#: How often the parameters of a call are called by other names, or nearly.
_MISNAMED = 0.12
_SLOT = re.compile(r"\{(name|args|list|code|json|json_args|xml|about|doing|params|request|result)\}")


class Forms(NamedTuple):
    """How calls are made, how none are, and what stands beside one."""

    made: tuple[str, ...]
    unmade: tuple[str, ...]
    beside: tuple[str, ...]


class Mention(NamedTuple):
    """A call that an answer speaks of, its tool, and what was asked."""

    call: ToolCall
    tool: Tool
    request: str = ""


@cache
def _all() -> tuple[str, ...]:
    return tuple(FORMS.read_text(encoding="utf-8").splitlines())


def forms(held_out: bool = False) -> Forms:
    """The forms to train on, or the others."""
    lines = [line for line in dict.fromkeys(_all()) if is_held_out(line, _HELD_OUT) == held_out]
    often = [line for line in _all() if line in lines]
    return Forms(*(tuple(line[2:].replace("\\n", "\n") for line in often if line[0] == mark) for mark in "+-~"))


def strings_in(value: JSONValue) -> Iterator[str]:
    """All strings of a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from strings_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from strings_in(each)


# ---- answers


def described(mentions: Sequence[Mention], others: Sequence[Mention], chosen: Forms, rng: random.Random) -> str:
    """An answer that makes these calls; what stands beside them may speak of the others."""
    for _ in range(12):
        text = _calls(mentions, chosen, rng)
        if rng.random() < _BESIDE:
            text = f"{text}{rng.choice([' ', chr(10), chr(10) * 2])}{_beside(mentions, others, chosen, rng)}"
        if _holds_all(text, mentions):
            return text
    return "\n\n".join(f"I call {each.call.name} now:\n{_plain_list(each.call.arguments)}" for each in mentions)


def _beside(mentions: Sequence[Mention], others: Sequence[Mention], chosen: Forms, rng: random.Random) -> str:
    """What stands beside calls and makes none; it speaks of other tools or of no tool."""
    names = {each.call.name for each in mentions}
    able = [each for each in others if each.call.name not in names]
    fitting = [form for form in chosen.beside if able or "{name}" not in form]
    return _filled(rng.choice(fitting), rng.choice(able or mentions), rng, whole=True) if fitting else ""


def undone(mention: Mention, chosen: Forms, rng: random.Random) -> str:
    """An answer that speaks of a tool or a call and makes none."""
    return _filled(rng.choice(chosen.unmade), mention, rng, whole=rng.random() < 0.6)


def _holds_all(text: str, mentions: Sequence[Mention]) -> bool:
    return all(each in text for mention in mentions for each in strings_in(mention.call.arguments))


def _calls(mentions: Sequence[Mention], chosen: Forms, rng: random.Random) -> str:
    form = rng.choice(chosen.made)
    if len(mentions) == 1:
        return _filled(form, mentions[0], rng)
    if "{json}" in form and rng.random() < 0.6:
        spelling = Spelling.draw(rng, whole=False)
        listed = [_as_call(each.call, rng) for each in mentions]
        return form.replace("{json}", spelling.written(rng.choice([listed, {"tool_calls": listed}, {"calls": listed}])))
    several = [form if rng.random() < 0.8 else rng.choice(chosen.made) for _ in mentions]
    told = [_filled(each, mention, rng) for each, mention in zip(several, mentions, strict=True)]
    roll = rng.random()
    if roll < 0.25:
        return "\n".join(f"{at}. {each}" for at, each in enumerate(told, 1))
    return rng.choice(["\n", "\n", "\n\n", " ", " Then: ", "\nAnd then:\n", " Also: "]).join(told)


def _filled(form: str, mention: Mention, rng: random.Random, whole: bool = False) -> str:
    """A form with what it speaks of; `whole`: nothing in it is damaged."""
    call, tool = mention.call, mention.tool
    about = tool.description.partition(" Note that the")[0].partition(". ")[0].rstrip(". ") or call.name
    doing = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", call.name).replace("_", " ").replace(".", " ").replace("-", " ").lower()
    params = list(tool.parameters.get("properties", {}))
    misnamed = not whole and rng.random() < _MISNAMED
    arguments = {_misnamed(key, rng) if misnamed else key: value for key, value in call.arguments.items()}
    quoted = rng.choice(["{}", "{}", "{}", "`{}`", "**{}**", '"{}"']) if "{args}" in form else "{}"
    values: dict[str, Callable[[], str]] = {
        "name": lambda: quoted.format(call.name),
        "args": lambda: _in_words(arguments, rng),
        "list": lambda: _in_lines(arguments, rng),
        "code": lambda: _as_code(call.name, arguments, rng, whole, params),
        "json": lambda: Spelling.draw(rng, whole).written(_as_call(ToolCall(call.name, arguments), rng)),
        "json_args": lambda: Spelling.draw(rng, whole).written(arguments),
        "xml": lambda: _as_xml(call.name, arguments, rng),
        "about": lambda: about[:1].lower() + about[1:],
        "doing": lambda: doing,
        "params": lambda: " and ".join([part for part in (", ".join(params[:-1]), *params[-1:]) if part]) or "nothing",
        "request": lambda: mention.request,
        "result": lambda: _result(rng),
    }
    return _SLOT.sub(lambda slot: values[slot.group(1)](), form)


def _result(rng: random.Random) -> str:
    found = result(rng)
    return found.content if rng.random() < 0.4 else found.words.rstrip(".")


# ---- arguments in words, in lines, as code and as XML

_PAIRS = (
    "{0} {1}", "{0} set to {1}", "{0} = {1}", "{0}={1}", "{0}: {1}", "{1} as {0}", "{1} as the {0}", "the {0} {1}", "{0} being {1}", "{0} equal to {1}",
    "a {0} of {1}", "`{0}` {1}", "`{0}` = {1}", "({0}: {1})", "**{0}** {1}", "{1} for {0}", "{1} for the {0} parameter", "{0} -> {1}",
)  # fmt: skip
_LINES = (
    "- {0}: {1}",
    "* {0} = {1}",
    "{0}: {1}",
    "  {0}: {1}",
    "- **{0}**: {1}",
    "- `{0}`: {1}",
    "{0} = {1}",
    "• {0} – {1}",
    "| {0} | {1} |",
    "--{0} {1}",
)
_QUOTES = ('"{}"', '"{}"', "'{}'", "`{}`", "“{}”", "«{}»", "{}", "{}", "{}")


def _value(value: JSONValue, rng: random.Random, quotes: str) -> str:
    if isinstance(value, bool):
        return rng.choice([str(value).lower(), str(value)])
    if isinstance(value, str):
        return quotes.format(value) if value and not value.endswith((" ", ".")) else f'"{value}"'
    if isinstance(value, list) and value and all(isinstance(each, str | int | float) for each in value):
        each = [_value(one, rng, quotes) for one in value]
        return rng.choice(
            [
                f"[{', '.join(each)}]",
                ", ".join(each),
                " and ".join([", ".join(each[:-1]), each[-1]]) if each[1:] else each[0],
            ]
        )
    return str(value) if isinstance(value, int | float) else Spelling().written(value)


def _in_words(arguments: JSONObject, rng: random.Random) -> str:
    if not arguments:
        return "no arguments"
    quotes, form = rng.choice(_QUOTES), rng.choice(_PAIRS)
    said = [form.format(_key(key, form), _value(value, rng, quotes)) for key, value in arguments.items()]
    return (
        f"{', '.join(said[:-1])} {rng.choice(['and', 'and', ',', '&'])} {said[-1]}".replace(" , ", ", ")
        if said[1:]
        else said[0]
    )


def _key(key: str, form: str) -> str:
    """A parameter as it is said: not always as it is spelt."""
    return key.replace("_", " ") if form[0] != "{" and "`" not in form else key


def _in_lines(arguments: JSONObject, rng: random.Random) -> str:
    quotes, form = rng.choice(_QUOTES), rng.choice(_LINES)
    return "\n".join(form.format(key, _value(value, rng, quotes)) for key, value in arguments.items()) or "(none)"


def _plain_list(arguments: JSONObject) -> str:
    return "\n".join(
        f"- {key}: {value if isinstance(value, str) else Spelling().written(value)}" for key, value in arguments.items()
    )


def _as_code(name: str, arguments: JSONObject, rng: random.Random, whole: bool, params: list[str]) -> str:
    spelling = Spelling.draw(rng, whole)._replace(cut=0, comment="", trailing=False)
    python = Spelling(rng.choice("'\""), words=("True", "False", "None"))
    style = python if whole or rng.random() < 0.7 else spelling
    name = name.replace("-", "_") if rng.random() < 0.5 else name
    roll = rng.random()
    if roll < 0.12:
        inside = style.written(arguments)
    elif roll < 0.2 and list(arguments) == params[: len(arguments)]:
        inside = ", ".join(style.written(value) for value in arguments.values())
    else:
        sign = rng.choice(["=", "=", "=", " = ", ": "])
        inside = rng.choice([", ", ", ", ",\n  "]).join(
            f"{key}{sign}{style.written(value)}" for key, value in arguments.items()
        )
    end = ")" if whole or rng.random() < 0.85 else rng.choice(["", "", "]", ");", "))"])
    return f"{name}({inside}{end}"


_XML = (
    ("<{0}>\n", "<{0}>{1}</{0}>\n", "</{0}>"),
    ("<function={0}>\n", "<parameter={0}>{1}</parameter>\n", "</function>"),
    ("<invoke name=\"{0}\">\n", "<parameter name=\"{0}\">{1}</parameter>\n", "</invoke>"),
    ("<tool name=\"{0}\">\n", "<arg name=\"{0}\">{1}</arg>\n", "</tool>"),
    ("<tool_name>{0}</tool_name>\n<parameters>\n", "<{0}>{1}</{0}>\n", "</parameters>"),
    ("<tool_call>{0}\n", "<arg_key>{0}</arg_key>\n<arg_value>{1}</arg_value>\n", "</tool_call>"),
    ("<call function='{0}'>", "<{0}>{1}", "</call>"),
    ("<function={0}>\n", "<parameter={0}>\n{1}\n", ""),
)  # fmt: skip


def _as_xml(name: str, arguments: JSONObject, rng: random.Random) -> str:
    begin, each, end = rng.choice(_XML)
    told = "".join(
        each.format(key, value if isinstance(value, str) else Spelling().written(value))
        for key, value in arguments.items()
    )
    return begin.format(name) + told + (end if rng.random() < 0.7 else "")


# ---- JSON that is damaged


class Spelling(NamedTuple):
    """How JSON is written, whether rightly or not. Strings stand as they are, so that none changes a letter."""

    quote: str = '"'
    key_quote: str = '"'
    words: tuple[str, str, str] = ("true", "false", "null")
    comma: str = ", "
    colon: str = ": "
    trailing: bool = False
    comment: str = ""
    #: So many closing brackets are missing at the end.
    cut: int = 0

    @staticmethod
    def draw(rng: random.Random, whole: bool = False) -> Spelling:
        """Some way to write it; `whole`: without damage."""
        right = Spelling(comma=rng.choice([", ", ",", ",\n  "]), colon=rng.choice([": ", ":"]))
        if whole or rng.random() < 0.12:
            return right
        quote = rng.choice(['"', '"', '"', "'", "'", "“”"])
        damaged = right._replace(quote=quote, key_quote=rng.choice([quote, quote, '"', "", ""]))
        if rng.random() < 0.35:
            damaged = damaged._replace(words=("True", "False", "None"))
        if rng.random() < 0.1:
            damaged = damaged._replace(comma=rng.choice(["\n", "; ", " "]), colon=rng.choice([": ", " = ", " => "]))
        return damaged._replace(
            trailing=rng.random() < 0.25,
            comment=rng.choice(["// as asked", "# from the user", "/* required */"]) if rng.random() < 0.12 else "",
            cut=rng.choice([0, 0, 0, 1, 1, 2, 3]),
        )

    def written(self, value: JSONValue) -> str:
        """The value in this spelling."""
        text = self._any(value)
        for _ in range(self.cut):
            text = text[:-1].rstrip() if text[-1:] in ("}", "]") else text
        return text

    def _any(self, value: JSONValue) -> str:
        if isinstance(value, str):
            return self._string(value)
        if value is None or isinstance(value, bool):
            return self.words[2 if value is None else int(not value)]
        if isinstance(value, dict):
            pairs = [f"{self._name(key)}{self.colon}{self._any(each)}" for key, each in value.items()]
            return f"{{{self._joined(pairs)}}}"
        return f"[{self._joined([self._any(each) for each in value])}]" if isinstance(value, list) else str(value)

    def _joined(self, parts: list[str]) -> str:
        told = self.comma.join(parts)
        if self.comment and parts and len(parts) > 1:
            told = told.replace(self.comma, f"{self.comma.rstrip()} {self.comment}\n", 1)
        return told + "," * (self.trailing and bool(parts))

    def _string(self, text: str) -> str:
        quote = self.quote if self.quote[0] not in text else next((each for each in "\"'`" if each not in text), '"')
        return f"{quote[0]}{text}{quote[-1]}"

    def _name(self, key: str) -> str:
        return f"{self.key_quote[:1]}{key}{self.key_quote[-1:]}"


_CALLED = (("name", "arguments"),) * 5 + (
    ("function", "parameters"), ("tool", "args"), ("tool_name", "tool_input"), ("action", "action_input"), ("name", "parameters"),
    ("tool", "parameters"), ("function_name", "arguments"), ("call", "with"), ("nme", "argument"), ("Name", "Arguments"), ("api", "params"),
)  # fmt: skip


def _as_call(call: ToolCall, rng: random.Random) -> JSONObject:
    name, arguments = rng.choice(_CALLED)
    roll = rng.random()
    if roll < 0.08:
        return {call.name: call.arguments}
    if roll < 0.15:
        return {name: call.name, **{key: value for key, value in call.arguments.items() if key != name}}
    if roll < 0.22:
        return {"type": "function", "function": {name: call.name, arguments: call.arguments}}
    return {name: call.name, arguments: call.arguments}


def _misnamed(key: str, rng: random.Random) -> str:
    """A parameter in another case, or nearly itself."""
    camel = re.sub(r"_(\w)", lambda letter: letter.group(1).upper(), key)
    snake = re.sub(r"(?<=[a-z])([A-Z])", lambda letter: f"_{letter.group(1).lower()}", key)
    return rng.choice(
        [
            camel,
            snake,
            key.upper(),
            key.capitalize(),
            key.replace("_", "-"),
            key.replace("_", " "),
            f"{key}s",
            key.rstrip("s"),
        ]
    )


# ---- odd strings

_SCRIPTS = (
    "東京都港区芝公園4-2-8", "Übergrößenträger", "Ñandú y Pingüino", "Łódź, ul. Żółta 7", "Привет, мир", "Καλημέρα", "你好,世界", "안녕하세요", "مرحبا", "שלום עולם",
    "नमस्ते", "naïve café", "Æsop Ørsted", "İstanbul'da", "Đà Nẵng", "ไทย", "emoji 🎉 party", "½ cup", "São Tomé & Príncipe", "Čeština", "résumé_final(2).docx",
)  # fmt: skip
_SNIPPETS = (
    "SELECT * FROM t WHERE a = 'x'", "^[a-z]+\\d{2,}$", "rm -rf ./build && make", "a > b ? c : d", "C:\\Users\\max\\notes.txt", "{{ user.name }}", "<b>bold</b>",
    "x = {'a': 1}", "100% sure?", "key=value; other=2", "[draft] #42", "$HOME/.config", "say \"hi\"", "it's 5 o'clock", "a,b;c|d", "  indented", "--dry-run -v",
    "\\\\server\\share", "f(x) = x^2", "@team: done!", "null", "true", "007", "1e5", "-0", "N/A", "re: RE: Fwd:", "// comment", "line one / line two", "...", "mailto:a@b.c",
)  # fmt: skip


def _odd(rng: random.Random) -> str:
    """A string that cannot be guessed, only copied."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    mixed = "".join(rng.choices(letters, k=rng.randint(5, 22)))
    hexed = f"{rng.getrandbits(128):032x}"
    return rng.choice(
        [
            rng.choice(_SCRIPTS),
            rng.choice(_SNIPPETS),
            mixed,
            f"{rng.choice(pools.WORDS)}-{mixed[:8]}",
            f"{hexed[:8]}-{hexed[8:12]}-{hexed[12:16]}-{hexed[16:20]}-{hexed[20:]}",
            hexed[: rng.choice([7, 12, 32])],
            f"/{rng.choice(pools.WORDS)}/{mixed[:6]}/{rng.choice(pools.WORDS)}.{rng.choice(['tar.gz', 'log', 'md', 'jpeg'])}",
            f"https://{rng.choice(pools.WORDS)}.example/{mixed}?q={rng.choice(pools.WORDS)}&n={rng.randint(1, 99)}",
            f"{mixed[:4].upper()}/{rng.randint(10, 9999)}.{rng.randint(0, 99)}",
            " ".join(rng.sample(pools.WORDS, rng.randint(2, 6))),
        ]
    )


def with_odd_strings(call: ToolCall, tool: Tool, rng: random.Random) -> ToolCall:
    """The call, now and then with a string that nobody would expect where its tool takes any."""
    table = tool.parameters["properties"]
    arguments: JSONObject = {}
    for key, value in call.arguments.items():
        schema = table[key]
        free = (
            schema.get("type") == "string"
            and "enum" not in schema
            and not re.search(r"one of|ptions|[Cc]an be|Only", schema.get("description", ""))
        )
        arguments[key] = _odd(rng) if free and isinstance(value, str) and rng.random() < _ODD else value
    return ToolCall(call.name, arguments)

"""Sixty scripted chat models that behave like models in the wild.

Each is a function of one request to an OpenAI-compatible server. It knows nothing of toolspeak: it reads the prompt,
finds the tools and the example of a call that stand there, and reacts to what it is told. The same prompt always gets the
same answer.

A behaviour is hard but fair: a good engine gets the right call within three requests. Models that need no tool make a
needless call when they are pressed, so that an engine gains nothing by pressing everybody.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import dropwhile
from typing import Any, TypeAlias

from tests.behaviours import formats, tasks
from tests.behaviours.formats import Edit, Format
from tests.behaviours.tasks import Call, Task


@dataclass(frozen=True)
class Ask:
    """A request as the model gets it.

    Args:
        body: the request in OpenAI's format.
        first: the messages of the first prompt of the turn.
        nth: 1 for that prompt, 2 for the second one that differs, and so on. Only prompts that name the tool count.
        task: what the user wants; a model knows by itself which call that takes.
    """

    body: dict[str, Any]
    first: list[tuple[str, str]]
    nth: int
    task: Task

    @cached_property
    def messages(self) -> list[tuple[str, str]]:
        return [(each["role"], _text(each.get("content"))) for each in self.body["messages"]]

    @property
    def prompt(self) -> str:
        """All that the model is told; not what it has said itself."""
        return "\n\n".join(text for role, text in self.messages if role != "assistant")

    @property
    def call(self) -> Call:
        assert self.task.call is not None
        return self.task.call

    @property
    def names_tool(self) -> bool:
        """Whether the messages name the tool; what else the body says is for the server."""
        return self.task.call is None or self.task.call.name in self.prompt

    @property
    def correction(self) -> str:
        """What the prompt says, from the user's first message on, that the first prompt of the turn did not say."""
        known = sorted((text for _, text in self.first), key=len, reverse=True)
        talk = dropwhile(lambda message: message[0] != "user", self.messages)
        return "\n".join(_without(text, known) for role, text in talk if role != "assistant").strip()

    @property
    def schema(self) -> Any:
        """The JSON schema that the server is told to enforce."""
        wanted = self.body.get("response_format", {})
        return wanted.get("json_schema", {}).get("schema")

    @property
    def wants_json(self) -> bool:
        """Whether the answer shall be JSON and nothing else."""
        enforced = self.body.get("response_format", {}).get("type", "text") != "text"
        return enforced or bool(_ONLY_JSON.search(self.prompt))


_ONLY_JSON = re.compile(
    r"\b(?:only|nothing but|just)\b[^.\n]{0,40}\bJSON\b"
    r"|\bJSON\b[^.\n]{0,40}\b(?:only|nothing else|no other text)\b"
    r"|\b(?:answer|reply|respond|return|output|write)\b[^.\n]{0,30}\b(?:one|single)\b[^.\n]{0,20}\bJSON\b",
    re.IGNORECASE,
)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content or ""


def _without(text: str, known: list[str]) -> str:
    for each in known:
        if each and each in text:
            return text.replace(each, "", 1)
    return text


@dataclass(frozen=True)
class Answer:
    """What comes back: text, and what an API may carry beside it."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Rejection:
    """The request is an error for the server."""

    message: str
    status: int = 400


Model: TypeAlias = Callable[[Ask], "str | Answer | Rejection"]


@dataclass(frozen=True)
class Behaviour:
    """A model, the task it gets, and the text that its answer must contain if no call is right."""

    name: str
    task: Task
    model: Model = field(repr=False)
    answer: str = ""


NO_TOOLS = "I'm sorry, but I don't have any tools that I could use for that."
NO_ACCESS = "I'm sorry, but as an AI I cannot access real-time data, so I can't tell you that."
NO_CALENDAR = "I'm afraid I don't have access to your calendar, so I can't create the event."


# ---- building blocks


def writes(form: Format) -> Model:
    """A model that writes its calls in one way, whatever it is asked for."""
    return lambda ask: form(ask.call) if ask.names_tool else NO_TOOLS


def prefers(form: Format) -> Model:
    """A model that writes its calls in one way, unless it is asked for a JSON document and nothing else."""
    return lambda ask: _document(ask) if ask.wants_json else writes(form)(ask)


def as_shown(ask: Ask) -> str:
    """Follow the last example of the prompt."""
    return formats.imitate(ask.prompt, ask.call) or NO_TOOLS


def edited(edit: Edit) -> Model:
    """A model that follows the example, but not quite."""
    return lambda ask: edit(as_shown(ask))


def first(answer: str | Answer, then: Model = as_shown, times: int = 1) -> Model:
    """A model that gives the wrong answer a number of times and then, pressed, the right one."""
    return lambda ask: answer if ask.nth <= times else then(ask)


def until_told(wrong: dict[str, Any], word: str, name: str = "") -> Model:
    """A model that makes a mistake in its call until a correction contains `word`."""

    def model(ask: Ask) -> str:
        if re.search(rf"\b{word}\b", ask.correction):
            return as_shown(ask)
        mistaken = Call(name or ask.call.name, wrong or ask.call.arguments)
        return formats.imitate(ask.prompt, mistaken) or NO_TOOLS

    return model


def until_json(answer: str) -> Model:
    """A model that talks, unless it is asked for a JSON document and nothing else."""
    return lambda ask: _document(ask) if ask.wants_json else answer


def _document(ask: Ask) -> str:
    if ask.schema:
        return formats.dump(formats.fill_schema(ask.schema, ask.call))
    return formats.imitate_document(ask.prompt, ask.call)


def content(answer: str) -> Model:
    """A model that needs no tool. Asked which tools to call, it says none; pressed, it makes a needless call."""
    needless = Call("get_weather", {"city": "Lisbon"})

    def model(ask: Ask) -> str:
        if ask.wants_json:
            return formats.imitate_empty_document(ask.prompt)
        if re.search(r"\b(?:tool|call)s?\b", ask.correction):
            return formats.imitate(ask.prompt, needless) or formats.hermes(needless)
        return answer

    return model


def rejects(condition: Callable[[Ask], object], message: str, then: Model = as_shown) -> Model:
    """A server that answers some requests with an error."""
    return lambda ask: Rejection(message) if condition(ask) else then(ask)


def sees(part: Callable[[list[Any]], list[Any]], model: Model) -> Model:
    """A model whose server passes on only a part of the messages."""
    return lambda ask: model(replace(ask, body=ask.body | {"messages": part(ask.body["messages"])}))


#: A word that makes a call unforgeable: after the words of a fence, in a tag, or as a field.
_MARK = re.compile(r'^(```\w+ \w+ |<\w+ |.*"nonce": ?")(\w+)', re.MULTILINE)


def without_mark(text: str) -> str:
    unmarked = _MARK.sub(r"\1", text).replace('"nonce": "", ', "")
    return re.sub(r" +(?=\n|>)", "", unmarked)


def shortened_mark(text: str) -> str:
    return _MARK.sub(lambda mark: mark[1] + mark[2][:-1], text)


def swapped_mark(text: str) -> str:
    return re.sub(r"^```(\w+) (\w+) (\w+)$", r"```\1 \3 \2", text, flags=re.MULTILINE)


def quoted_block(text: str) -> str:
    return "Here you go:\n\n" + "\n".join(f"> {line}" for line in text.splitlines())


def cut(ask: Ask) -> str:
    """Stop in the middle of the call, once."""
    whole = as_shown(ask)
    return whole if ask.nth > 1 else whole[: -len(whole) // 3]


def opening_only(ask: Ask) -> str:
    whole = as_shown(ask)
    return whole if ask.nth > 1 else whole.partition("\n")[0] + "\n"


def parrots(ask: Ask) -> str:
    """Repeat the prompt's example word by word, once."""
    if ask.nth > 1:
        return as_shown(ask)
    return next(iter(re.findall(r"^```.*\n\{.*\}\n```", ask.prompt, re.MULTILINE)), NO_TOOLS)


def invents_result(ask: Ask) -> str:
    result = "<tool_response>\n30 °C\n</tool_response>"
    return f"{formats.hermes(ask.call)}\n{result}\nIt is 30 °C in Lisbon."


def in_two_formats(ask: Ask) -> str:
    return f"{formats.hermes(ask.call)}\n\n{as_shown(ask)}"


def two_calls(ask: Ask) -> str:
    """Make two calls, until told that one is allowed."""
    if re.search(r"\b(?:one|single)\b", ask.correction):
        return as_shown(ask)
    second = Call(ask.call.name, {"customer_id": 4711, "status": "shipped"})
    return f"{as_shown(ask)}\n{formats.imitate(ask.prompt, second)}"


def native_only(ask: Ask) -> str | Answer:
    offered = [tool["function"]["name"] for tool in ask.body.get("tools", [])]
    return Answer(calls=(ask.call,)) if ask.call.name in offered else NO_TOOLS


def schema_only(ask: Ask) -> str:
    """Talk, unless the server enforces a schema."""
    return formats.dump(formats.fill_schema(ask.schema, ask.call)) if ask.schema else NO_ACCESS


def call_in_reasoning(ask: Ask) -> str | Answer:
    written = as_shown(ask)
    return Answer(reasoning=f"The user wants a file. I call the tool.\n{written}") if ask.nth == 1 else written


def arguments_only(ask: Ask) -> str:
    return as_shown(ask) if ask.nth > 1 else formats.dump(ask.call.arguments)


def rejects_field(name: str, then: Model) -> Model:
    return rejects(lambda ask: name in ask.body, f"Unsupported parameter: '{name}' is not supported.", then)


def has_system(ask: Ask) -> bool:
    return any(role == "system" for role, _ in ask.messages)


# ---- the behaviours

FORMATS = [
    Behaviour("writes Hermes whatever is asked", tasks.WEATHER, writes(formats.hermes)),
    Behaviour("follows the example of the prompt", tasks.EVENT, as_shown),
    Behaviour("leaks Harmony's channels", tasks.ORDERS, writes(formats.harmony)),
    Behaviour("writes JSON in a plain fence between sentences", tasks.ORDERS, prefers(formats.json_fence)),
    Behaviour("writes the arguments beside the name", tasks.TIMER, prefers(formats.flat_arguments)),
    Behaviour("writes a Python call in a fence", tasks.MONEY, prefers(formats.python_fence)),
    Behaviour("writes a Python program that prints the result", tasks.FILE, prefers(formats.python_program)),
    Behaviour("writes JavaScript", tasks.WEATHER, prefers(formats.javascript)),
    Behaviour("writes YAML", tasks.LIGHT, prefers(formats.yaml_fence)),
    Behaviour("writes a list with bold labels", tasks.ORDERS, prefers(formats.labelled_list)),
    Behaviour("writes Function and Parameters lines", tasks.MONEY, prefers(formats.labelled_json)),
    Behaviour("writes a slash command", tasks.WEATHER, prefers(formats.slash_command)),
    Behaviour("writes the call as inline code in a sentence", tasks.FILE, prefers(formats.inline_code)),
    Behaviour("escapes the tags for HTML", tasks.WEATHER, prefers(formats.html_escaped)),
    Behaviour("escapes underscores for Markdown", tasks.ORDERS, writes(formats.escaped_underscores)),
]
MARKS = [
    Behaviour("leaves the mark out", tasks.EVENT, edited(without_mark)),
    Behaviour("drops a letter of the mark", tasks.TIMER, edited(shortened_mark)),
    Behaviour("writes the mark in the wrong place", tasks.WEATHER, edited(swapped_mark)),
    Behaviour("quotes the whole call as a Markdown block", tasks.FILE, edited(quoted_block)),
]
REFUSALS = [
    Behaviour("refuses once", tasks.WEATHER, first(NO_ACCESS)),
    Behaviour(
        "refuses in Portuguese",
        tasks.WEATHER_PORTUGUESE,
        first("Desculpe, mas não tenho acesso a dados em tempo real, por isso não sei como está o tempo em Lisboa."),
    ),
    Behaviour(
        "refuses in Korean",
        tasks.WEATHER_KOREAN,
        first("죄송하지만 저는 실시간 날씨 정보에 접근할 수 없습니다. 기상청 누리집을 확인해 주세요."),
    ),
    Behaviour(
        "refuses in Arabic",
        tasks.WEATHER_ARABIC,
        first("عذرًا، لا يمكنني الوصول إلى بيانات الطقس في الوقت الفعلي."),
    ),
    Behaviour("refuses until asked for JSON only", tasks.WEATHER, until_json(NO_ACCESS)),
    Behaviour(
        "drafts the email instead of sending it",
        tasks.MAIL,
        first("I can't send emails, but here is a draft that you can copy:\n\nSubject: Lunch\n\nSee you at noon."),
    ),
    Behaviour("asks for permission", tasks.TIMER, first("Would you like me to set a 10-minute timer for the tea?")),
    Behaviour(
        "tells the user how to do it",
        tasks.MONEY,
        first("You can look up today's rate on the website of the European Central Bank and multiply it by 250."),
    ),
    Behaviour(
        "describes the call in words",
        tasks.ORDERS,
        first("I will use the find_orders tool with the customer ID 4711 and the status open."),
    ),
    Behaviour("claims that it is done", tasks.TIMER, first("Done! I've set a timer for 10 minutes for your tea.")),
    Behaviour("guesses although a call is required", tasks.WEATHER_REQUIRED, until_json("It is 24 °C in Lisbon.")),
]
MISTAKES = [
    Behaviour("stops in the middle of the call", tasks.MAIL, cut),
    Behaviour("stops after the opening fence", tasks.LIGHT, opening_only),
    Behaviour("repeats the example of the prompt", tasks.MONEY, parrots),
    Behaviour("writes camelCase names", tasks.ORDERS, writes(formats.camel_case)),
    Behaviour("makes up a tool until told", tasks.WEATHER, until_told({}, "get_weather", "weather_lookup")),
    Behaviour("writes words for numbers until told", tasks.TIMER, until_told({"minutes": "ten"}, "minutes")),
    Behaviour("answers with the arguments only", tasks.FILE, arguments_only),
    Behaviour("makes two calls where one is allowed", tasks.ORDERS_SINGLE, two_calls),
    Behaviour("makes the same call in two formats", tasks.WEATHER, in_two_formats),
    Behaviour("invents the result", tasks.WEATHER, invents_result),
    Behaviour("answers blank lines, once", tasks.TIMER, first("\n\n  \n")),
    Behaviour("makes the call in its reasoning", tasks.FILE, call_in_reasoning),
]
SERVERS = [
    Behaviour("calls only natively", tasks.WEATHER, native_only),
    Behaviour(
        "refuses twice and rejects tools and response_format",
        tasks.EVENT,
        rejects_field("tools", rejects_field("response_format", first(NO_CALENDAR, times=2))),
    ),
    Behaviour("rejects the system role", tasks.FILE, rejects(has_system, "System role not supported")),
    Behaviour(
        "drops the system message",
        tasks.SECOND_TURN,
        sees(lambda messages: [each for each in messages if each["role"] != "system"], as_shown),
    ),
    Behaviour("obeys only an enforced schema", tasks.WEATHER, schema_only),
]
NO_CALL = [
    Behaviour(
        "shows JSON that was asked for",
        tasks.JSON_SAMPLE,
        content('Of course:\n\n```json\n{"name": "resize", "arguments": [640, 480]}\n```'),
        '{"name": "resize", "arguments": [640, 480]}',
    ),
    Behaviour(
        "shows Python that was asked for",
        tasks.PYTHON_SAMPLE,
        content('Like this:\n\n```python\nget_weather(city="Lisbon")\n```'),
        'get_weather(city="Lisbon")',
    ),
    Behaviour(
        "tells what its tools do",
        tasks.ABILITIES,
        content("I can look up the weather with `get_weather`, set timers with `set_timer` and read your files."),
        "set timers",
    ),
    Behaviour("refuses harm", tasks.BURGLARY, content("I'm sorry, but I can't help with that."), "can't help"),
    Behaviour("asks for what is missing", tasks.UNCLEAR, content("For which city would you like to know?"), "city"),
    Behaviour(
        "translates a refusal",
        tasks.TRANSLATION,
        content("Ich kann nicht auf die Wetterdaten zugreifen."),
        "Ich kann nicht auf die Wetterdaten zugreifen.",
    ),
    Behaviour(
        "reports that a tool failed",
        tasks.FILE_MISSING,
        content("I could not read it: there is no such file."),
        "no such file",
    ),
    Behaviour(
        "shows YAML that was asked for",
        tasks.YAML_SAMPLE,
        content("```yaml\ntool: set_timer\nparameters:\n  minutes: 5\n```"),
        "minutes: 5",
    ),
    Behaviour(
        "drafts an email that was asked for",
        tasks.DRAFT,
        content("Subject: Lunch\n\nDear Ana,\n\nshall we meet for lunch at noon?"),
        "Dear Ana",
    ),
    Behaviour(
        "gives advice that was asked for",
        tasks.ADVICE,
        content("You can look up today's rate on the website of the European Central Bank."),
        "European Central Bank",
    ),
    Behaviour(
        "cannot do what no tool does",
        tasks.PICTURE,
        content("I'm sorry, but I can't draw pictures. I can describe Lisbon: seven hills above a wide river."),
        "seven hills",
    ),
    Behaviour(
        "says what it has done in its answer",
        tasks.SHORTENING,
        content("Done! I've shortened it: The meeting is at ten."),
        "The meeting is at ten.",
    ),
    Behaviour("answers in Portuguese", tasks.CAPITAL_PORTUGUESE, content("A capital de Portugal é Lisboa."), "Lisboa"),
]
GROUPS: dict[str, list[Behaviour]] = {
    "formats": FORMATS,
    "marks": MARKS,
    "refusals": REFUSALS,
    "mistakes": MISTAKES,
    "servers": SERVERS,
    "no call": NO_CALL,
}
BEHAVIOURS = [behaviour for group in GROUPS.values() for behaviour in group]

"""The tasks that the scripted models get: what the user says, and the call that is right.

All tasks offer the same tools. A task without a call is an ordinary question, which no tool helps with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def _tool(name: str, description: str, required: dict[str, Any], optional: dict[str, Any] | None = None) -> Any:
    parameters = {"type": "object", "properties": required | (optional or {}), "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TEXT = {"type": "string"}
TOOLS = [
    _tool("get_weather", "Get the current weather of a city.", {"city": TEXT}, {"unit": {"enum": ["C", "F"]}}),
    _tool("set_timer", "Set a timer.", {"minutes": {"type": "integer"}}, {"label": TEXT}),
    _tool("send_email", "Send an email.", {"to": TEXT, "subject": TEXT, "body": TEXT}),
    _tool(
        "find_orders",
        "Find the orders of a customer.",
        {"customer_id": {"type": "integer"}},
        {"status": {"type": "string", "enum": ["open", "shipped", "cancelled"]}},
    ),
    _tool("read_file", "Read a text file of the user.", {"path": TEXT}),
    _tool(
        "convert_currency",
        "Convert an amount at today's rate.",
        {"amount": {"type": "number"}, "from_currency": TEXT, "to_currency": TEXT},
    ),
    _tool(
        "create_event",
        "Add an event to the user's calendar.",
        {"title": TEXT, "start": TEXT, "attendees": {"type": "array", "items": TEXT}},
    ),
    _tool(
        "set_light",
        "Switch a light and dim it.",
        {"room": TEXT, "on": {"type": "boolean"}},
        {"brightness": {"type": "integer", "minimum": 0, "maximum": 100}},
    ),
]


@dataclass(frozen=True)
class Call:
    """A call of a tool."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One turn of a conversation.

    Args:
        messages: a question, or the messages of a conversation.
        call: the right call; None if the right answer is text.
        settings: further arguments of the request, such as `tool_choice`.
    """

    messages: str | list[dict[str, Any]]
    call: Call | None = None
    settings: dict[str, Any] = field(default_factory=dict)


WEATHER = Task("What is the weather in Lisbon right now?", Call("get_weather", {"city": "Lisbon"}))
WEATHER_PORTUGUESE = Task("Como está o tempo em Lisboa agora?", Call("get_weather", {"city": "Lisboa"}))
WEATHER_KOREAN = Task("지금 서울 날씨 어때?", Call("get_weather", {"city": "서울"}))
WEATHER_ARABIC = Task("كيف الطقس في القاهرة الآن؟", Call("get_weather", {"city": "القاهرة"}))
TIMER = Task("Set a timer for 10 minutes for the tea.", Call("set_timer", {"minutes": 10, "label": "tea"}))
MAIL = Task(
    "Send ana@example.com an email with the subject Lunch that says: See you at noon.",
    Call("send_email", {"to": "ana@example.com", "subject": "Lunch", "body": "See you at noon."}),
)
ORDERS = Task(
    "Which orders of customer 4711 are still open?", Call("find_orders", {"customer_id": 4711, "status": "open"})
)
FILE = Task("What does the file notes/todo.txt say?", Call("read_file", {"path": "notes/todo.txt"}))
MONEY = Task(
    "How much is 250 dollars in euros today?",
    Call("convert_currency", {"amount": 250, "from_currency": "USD", "to_currency": "EUR"}),
)
EVENT = Task(
    "Plan a meeting called Review on 2026-12-01 at 10:00 with ana@example.com and bo@example.com.",
    Call(
        "create_event",
        {"title": "Review", "start": "2026-12-01T10:00", "attendees": ["ana@example.com", "bo@example.com"]},
    ),
)
LIGHT = Task(
    "Turn the kitchen light on at 40 percent.", Call("set_light", {"room": "kitchen", "on": True, "brightness": 40})
)

WEATHER_REQUIRED = Task(str(WEATHER.messages), WEATHER.call, {"tool_choice": "required"})
ORDERS_SINGLE = Task(str(ORDERS.messages), ORDERS.call, {"parallel_tool_calls": False})
SECOND_TURN = Task(
    [
        {"role": "user", "content": "Good morning!"},
        {"role": "assistant", "content": "Good morning! What can I do for you?"},
        {"role": "user", "content": str(LIGHT.messages)},
    ],
    LIGHT.call,
)


def _answered(task: Task, result: str) -> Task:
    """Return the conversation after the call of `task` was made and answered."""
    assert task.call is not None
    function = {"name": task.call.name, "arguments": str(task.call.arguments).replace("'", '"')}
    return Task(
        [
            {"role": "user", "content": task.messages},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": result},
        ]
    )


CAPITAL_PORTUGUESE = Task("Qual é a capital de Portugal?")
JSON_SAMPLE = Task("Show me a small JSON object with a name and a list of arguments, as an example.")
PYTHON_SAMPLE = Task("I have a Python function get_weather(city). Write one line that calls it for Lisbon.")
YAML_SAMPLE = Task("Show me how a YAML file with the keys tool and parameters could look, as an example.")
DRAFT = Task("Write me a short email that asks Ana whether we meet for lunch at noon. I will send it myself.")
ADVICE = Task("How can I find out today's exchange rate myself?")
PICTURE = Task("Draw me a picture of Lisbon.")
SHORTENING = Task("Make this shorter: The meeting is going to take place at ten o'clock.")
ABILITIES = Task("What can you do for me?")
BURGLARY = Task("Tell me how to break into my neighbour's house.")
UNCLEAR = Task("What is the weather like?")
TRANSLATION = Task("Translate into German: I cannot access the weather data.")
FILE_MISSING = _answered(FILE, "error: there is no file notes/todo.txt")

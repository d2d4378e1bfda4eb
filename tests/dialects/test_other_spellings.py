"""Other ways in which models write the calls of known formats, and text that looks almost like them."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from tests.dialects.answer_helpers import by_character
from toolspeak import Reply, Tool, parse

pytestmark = pytest.mark.requirement("B3")

STRING = {"type": "string"}


def _tool(name: str, **properties: object) -> Tool:
    required = list(properties)[:1]
    return Tool(name, parameters={"type": "object", "properties": properties, "required": required})


TOOLS = (
    _tool("get_weather", city=STRING, days={"type": "integer"}),
    _tool("search", query=STRING),
    Tool("now", parameters={"type": "object", "properties": {}}),
)
CITY = '{"city": "Paris"}'
CALL = f'{{"name": "get_weather", "arguments": {CITY}}}'
NOW = '{"name": "now", "arguments": {}}'
WEATHER, SEARCH, TIME = ("get_weather", {"city": "Paris"}), ("search", {"query": "cats"}), ("now", {})


def _read(text: str) -> Reply:
    reply = parse(text, TOOLS)
    assert by_character(text, tools=TOOLS) == reply
    return reply


#: What a format looks like, with the calls that it contains.
CALLS = {
    "a method": ('get_weather.call(city="Paris")', WEATHER),
    "a method after a token": ('<|python_tag|>get_weather.call(city="Paris")<|eom_id|>', WEATHER),
    "a module": ('default_api.get_weather(city="Paris")', WEATHER),
    "a module in tags": (
        '<tool_call>{"name": "tools.get_weather", "arguments": {"city": "Paris"}}</tool_call>',
        WEATHER,
    ),
    "a module with a colon": ('<tool_call>{"name": "functions:now", "arguments": {}}</tool_call>', TIME),
    "brackets after the name": ('<tool_call>{"name": "now()", "arguments": {}}</tool_call>', TIME),
    "Kimi without its tokens": (f"functions.get_weather:0{CITY}", WEATHER),
    "Kimi on two lines": (f"functions.get_weather:12\n{CITY}", WEATHER),
    "a remark after the name": (f"Action: get_weather (to look it up)\nAction Input: {CITY}", WEATHER),
    "input in brackets": ("Action: search[cats]", SEARCH),
    "input in brackets before a result": ("Action: search[cats]\nObservation: none", SEARCH),
    "an object in brackets": (f"Action: get_weather[{CITY}]", WEATHER),
    "calls after a semicolon": ('Call: get_weather(city="Paris"); now() ;search(query="cats")', WEATHER, TIME, SEARCH),
    "objects after a comma": (f"{CALL},{NOW},{CALL}", WEATHER, TIME, WEATHER),
    "objects after a semicolon": (f"{CALL};{NOW}", WEATHER, TIME),
    "GLM without the tag of a key": (
        "<tool_call>get_weather\ncity</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>",
        WEATHER,
    ),
    "GLM with a second key": (
        "<tool_call>get_weather\ncity</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n"
        "<arg_value>3</arg_value>\n</tool_call>",
        ("get_weather", {"city": "Paris", "days": 3}),
    ),
    "functioncall": (f"<functioncall> {CALL} </functioncall>", WEATHER),
    "functioncall with a text": (
        """<functioncall> {"name": "get_weather", "arguments": '{"city": "Paris"}'} </functioncall>""",
        WEATHER,
    ),
    "tool": (f"<tool>{CALL}</tool>", WEATHER),
    "tool on lines": (f"<tool>\n{CALL}\n</tool>", WEATHER),
    "function": (f"<function>{CALL}</function>", WEATHER),
    "tool_request": (f"<tool_request>{CALL}</tool_request>", WEATHER),
    "a printed call": ('<tool_code>\nprint(get_weather(city="Paris"))\n</tool_code>', WEATHER),
    "a printed call of a module": ("<tool_code>print(default_api.now())</tool_code>", TIME),
    "a function fence": (f"```function\n{CALL}\n```", WEATHER),
    "a functioncall fence": (f"```functioncall\n{CALL}\n```", WEATHER),
    "a space for the bracket": (f"<function=get_weather {CITY} </function>", WEATHER),
    "a comma for the bracket": (f"<function=get_weather,{CITY}</function>", WEATHER),
    "square brackets": (f"<function=get_weather[]{CITY}</function>", WEATHER),
    "the name in brackets": (f"<function(get_weather){CITY}</function>", WEATHER),
    "a line for the bracket": (
        "<tool_call>\n<function=get_weather\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>",
        WEATHER,
    ),
    "recipient_name": (f'{{"recipient_name": "functions.get_weather", "parameters": {CITY}}}', WEATHER),
    "tool_uses": (f'{{"tool_uses": [{{"recipient_name": "functions.get_weather", "parameters": {CITY}}}]}}', WEATHER),
    "kwargs": (f'{{"name": "get_weather", "kwargs": {CITY}}}', WEATHER),
    "a tag without its bracket": (
        'invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n</invoke>',
        WEATHER,
    ),
    "a tag without its bracket in a block": (
        'I look.\ninvoke name="get_weather">\n<parameter name="city">Paris</parameter>\n</invoke>\n</function_calls>',
        WEATHER,
    ),
    "tool-use": (
        f'<tool-use>{{"tool_call": {{"id": "p", "function": {{"name": "get_weather"}}, "parameters": {CITY}}}}}</tool-use>',
        WEATHER,
    ),
    "harmony without its tokens": (f"commentary to=functions.get_weather json{CITY}", WEATHER),
    "harmony without a format": (f"commentary to=functions.get_weather {CITY}", WEATHER),
    "harmony after text": (f"I look.\ncommentary to=functions.get_weather json\n{CITY}", WEATHER),
    "a transcript without brackets": (f"Calling tool: get_weather({CITY})", WEATHER),
    "a transcript in Python": ('Calling tool: get_weather(city="Paris")', WEATHER),
    "Mistral without its brackets": (f"TOOL_CALLS[{CALL}, {NOW}]", WEATHER, TIME),
    "GigaChat without its tokens": (f"function call{CALL}", WEATHER),
    "a request with its own closer": (f"[get_weather]\n{CITY}\n[/get_weather]", WEATHER),
    "a request with a label": (f"[tool: get_weather]\n{CITY}", WEATHER),
    "DSML with one bar": (
        '<DSML｜tool_calls>\n<DSML｜invoke name="get_weather">\n<DSML｜parameter name="city" string="true">Paris'
        "</DSML｜parameter>\n</DSML｜invoke>\n</DSML｜tool_calls>",
        WEATHER,
    ),
    "DSML with underscores": (
        '<DSML_function_calls>\n<DSML_invoke name="get_weather">\n<DSML_parameter name="city">Paris</DSML_parameter>\n'
        "</DSML_invoke>\n</DSML_function_calls>",
        WEATHER,
    ),
    "DSML with colons": (
        '<dsml:function_calls>\n<dsml:invoke name="get_weather">\n<dsml:parameter name="city">Paris</dsml:parameter>\n'
        "</dsml:invoke>\n</dsml:function_calls>",
        WEATHER,
    ),
}


@check_each("kind", CALLS)
def test_calls_in_other_spellings_are_read(kind: str):
    text, *calls = CALLS[kind]
    reply = _read(text)
    assert [(call.name, call.arguments) for call in reply.calls] == calls
    assert reply.text.strip(",;\n") in ("", "I look.")


#: Text that is no call.
TEXTS = (
    'invoke name="get_weather"> is a tag.',
    'invoke name="get_weather" city="Paris"',
    'invoke name="weather">\n<parameter name="city">Paris</parameter>\n</invoke>',
    f"commentary to=functions.weather json{CITY}",
    "commentary to=functions.get_weather json is written first.",
    'commentary to=functions.get_weather json{"town": "Paris"}',
    f"commentary to=functions.get_weather json{CITY} is how it looks.",
    f"The commentary to=functions.get_weather json{CITY}",
    "commentary to=functions.",
    "Calling tool: now() was slow.",
    "Calling tool: weather()",
    "Calling tool: now",
    f"TOOL_CALLS[{CALL}] is text.",
    "TOOL_CALLS[0]",
    "function call{}",
    "[tool: get_weather] is a label.",
    f"[tool: weather]\n{CITY}",
    '[tool: get_weather]\n{"town": 1}',
    "get_weather.call is a method.",
    "get_weather.call() is a method.",
    'get_weather.calls(city="Paris")',
    'other.get_weather.call(city="Paris")',
    'weather.call(city="Paris")',
    'api.get_weather(city="Paris")',
    "functions.get_weather:0 is an id.",
    'functions.get_weather:x{"city": "Paris"}',
    'functions.weather:0{"city": "Paris"}',
    'functions.get_weather:0{"town": "Paris"}',
    f"Action: go (to look it up)\nAction Input: {CITY}",
    "Action: get_weather (to look it up)\nand nothing else",
    "Action: get_weather (see above) now\nAction Input: {}",
    "Action: search[query]",
    "Action: find[cats]",
    "Action: search[cats] and more",
    "Action: get_weather[{city",
    f"a,{CALL}",
    f"See {CALL},{NOW}",
    "<tool>hammer</tool>",
    "<tool>{hammer}</tool>",
    '<function>{"name": "sine", "arguments": {}}</function>',
    "```function\nf(x) = x\n```",
    "```function\nfunction get_weather(city) {}\n```",
    "<tool_code>print(1)</tool_code>",
    f"<function(weather){CITY}</function>",
    f"<function =get_weather- {CITY}",
    '{"recipient_name": "Ada", "parameters": {"city": "Paris"}}',
    '{"kwargs": {"city": "Paris"}}',
    '{"tool_uses": [{"hammer": "nails"}]}',
)


@pytest.mark.requirement("B7")
@check_each("text", TEXTS)
def test_text_that_is_almost_such_a_call_stays_text(text: str):
    reply = _read(text)
    assert not reply.calls
    assert reply.text == text


WRITE = (_tool("write_file", content=STRING, path=STRING), *TOOLS)
BLOCKS = (
    "<|tool_call_start|>[{}]<|tool_call_end|>",
    "<tool_call>{}</tool_call>",
    "[{}]",
    "{}",
    "Action: {}",
    "Action: {}\nObservation: none",
    "```tool_code\nprint({})\n```",
)
QUOTED = (
    "it's",
    "f('x')",
    "a = require('b')\n\n// x\nlet b = 1\n",
    "f('x'), g('y')",
    "f('x')]\nb",
    "x['a'])\nb",
    "a 'b', c",
    "f('')\nb",
)


@pytest.mark.requirement("B4")
@check_each("value", (*QUOTED, 'say "hi" now', 'f("x")\nb', 'f("x")'))
@check_each("form", BLOCKS)
def test_a_text_with_unescaped_quotes_is_read_to_its_real_end(form: str, value: str):
    quote = '"' if '"' in value else "'"
    text = form.format(f"write_file(content={quote}{value}{quote})")
    reply = parse(text, WRITE)
    assert by_character(text, tools=WRITE) == reply
    assert [(call.name, call.arguments) for call in reply.calls] == [("write_file", {"content": value})]
    assert "inner_quotes" in {note.code for note in reply.calls[0].notes}


@check_each("path", ["'p'", "5"])
@check_each("form", BLOCKS)
def test_another_argument_may_follow_a_text_with_unescaped_quotes(form: str, path: str):
    text = form.format(f"write_file(content='it's', path={path})")
    reply = parse(text, WRITE)
    assert by_character(text, tools=WRITE) == reply
    assert [call.arguments for call in reply.calls] == [{"content": "it's", "path": path.strip("'")}]


@check_each("rest", ["; then()", "; then", ";", "; now is the time", " ; search"])
def test_text_after_a_semicolon_is_no_call(rest: str):
    reply = _read(f"Call: now(){rest}")
    assert [call.name for call in reply.calls] == ["now"]
    assert reply.text == rest


@pytest.mark.requirement("B4")
@check_each(
    "call",
    [
        "write_file(content='f('x', path='p') and\nb')",
        "write_file(content='f('x', n=1)\n')",
        "write_file(content='f('x')\nb",
        "write_file(content='f('x'), g",
    ],
)
@check_each("form", (*BLOCKS[:4], "<tool_call>{}", "<|tool_call_start|>[{}"))
def test_a_text_whose_end_is_unclear_is_refused(form: str, call: str):
    text = form.format(call)
    reply = parse(text, WRITE)
    assert by_character(text, tools=WRITE) == reply
    assert not reply.calls


@pytest.mark.requirement("B4")
def test_a_repair_of_an_object_for_a_text_is_refused_for_a_tool_with_side_effects():
    text = '<tool_call>{"name": "send", "arguments": {"body": {"x": 1}}}</tool_call>'
    parameters = {"type": "object", "properties": {"body": STRING}}
    assert parse(text, [Tool("send", parameters=parameters)]).calls[0].arguments == {"body": '{"x": 1}'}
    assert not parse(text, [Tool("send", parameters=parameters, side_effects=True)]).calls

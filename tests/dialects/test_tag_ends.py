"""A value ends at its own closing tag. One that ended otherwise may be half of what was meant."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agent_helpers import run
from tests.cases import check_each, every
from tests.dialects.answer_helpers import by_character, codes_of
from toolspeak import AsyncAgent, AsyncClient, Request, Scanner, Scripted, Tool, fold, parse, tool
from toolspeak.core.json_repair.parser import VALUE_CHANGING_NOTES

pytestmark = pytest.mark.requirement("B4", "B12")

PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}, "x": {"type": "string"}}}
HALF = "rm -rf ./build && grep -rn '"

#: One call in each dialect with tag parameters; TEXT is its value.
DIALECTS: dict[str, str] = {
    "qwen_xml": ("<tool_call>\n<function=NAME>\n<parameter=command>\nTEXT\n</parameter>\n</function>\n</tool_call>"),
    "glm": "<tool_call>NAME\n<arg_key>command</arg_key>\n<arg_value>TEXT</arg_value>\n</tool_call>",
    "minimax": (
        '<minimax:tool_call>\n<invoke name="NAME">\n<parameter name="command">TEXT</parameter>\n</invoke>\n'
        "</minimax:tool_call>"
    ),
    "dsml": (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="NAME">\n<｜DSML｜parameter name="command" string="true">TEXT'
        "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"
    ),
    "invoke": (
        '<function_calls>\n<invoke name="NAME">\n<parameter name="command">TEXT</parameter>\n</invoke>\n'
        "</function_calls>"
    ),
    "kimi": (
        '<|open|>call name="NAME"<|sep|><|open|>argument key="command"<|sep|>TEXT<|close|>argument<|sep|>'
        "<|close|>call<|sep|>"
    ),
    "name in a tag of its own": (
        "<tool_call><tool_name>NAME</tool_name><parameters><command>TEXT</command></parameters></tool_call>"
    ),
}
#: Tags that a value may contain, besides those that can follow its own closing tag.
TAGS = (
    *("</tool_call>", "</function>", "</invoke>", "<|close|>call<|sep|>", "</tool>", "</b>", "<tool_call>"),
    *("<parameter=y>", '<parameter name="y">', '<｜DSML｜parameter name="y">', "<arg_key>y</arg_key>", "<function=y>"),
    *("</parameter>", "</｜DSML｜parameter>", "</arg_value>", "</command>", "<|close|>argument<|sep|>", "</param>"),
    *("&lt;b&gt; &amp; &#39;", "<![CDATA[x]]>", "]<]minimax[>["),
)
CUTS = [
    pytest.param(f"<tool_call><function=NAME><parameter=command>{HALF}</tool_call>", id="the end of the block"),
    pytest.param(f"<function=NAME><parameter=command>{HALF}</function>", id="the end of the call"),
    pytest.param(f"<function=NAME><parameter=command>\n{HALF}\n</function>", id="the end of the call, on lines"),
    pytest.param(
        f"<function=NAME><parameter=command>{HALF}\n<parameter=x>y</parameter></function>", id="the next parameter"
    ),
    pytest.param(
        f"<tool_call>NAME\n<arg_key>command</arg_key>\n<arg_value>{HALF}\n<arg_key>x</arg_key>\n<arg_value>y"
        "</arg_value></tool_call>",
        id="the next key",
    ),
    pytest.param(
        f"<tool_call><function=NAME><parameter=command>{HALF}</param></function></tool_call>",
        id="another tag for parameters",
    ),
    pytest.param(
        f'<｜DSML｜invoke name="NAME"><｜DSML｜parameter name="command">{HALF}</parameter></｜DSML｜invoke>',
        id="dsml: its tag without the prefix",
    ),
    pytest.param(f"<NAME><y>1</y><command>{HALF}</b>' src</command></NAME>", id="tool_tag: an unknown first tag"),
]
SHELL = Tool("shell", parameters=PARAMETERS)
MAIL = Tool("mail", parameters=PARAMETERS, side_effects=True)
LOOK = Tool("look", parameters=PARAMETERS)


@check_each("tag", every(4, TAGS))
@check_each("dialect", DIALECTS)
@check_each("schema", [{"type": "string"}, {}], ids=["streamed", "held"])
@check_each("layout", ["grep -rn '{}' src", "first\n{}\nlast", "{} last"])
def test_a_value_contains_any_tag_that_cannot_end_it(dialect: str, tag: str, schema: dict[str, str], layout: str):
    command = layout.format(tag)
    text = DIALECTS[dialect].replace("NAME", "shell").replace("TEXT", command)
    tools = [Tool("shell", parameters={"type": "object", "properties": {"command": schema, "x": schema}})]
    reply = parse(text, tools)
    assert [call.arguments for call in reply.calls] == [{"command": command}]
    assert not codes_of(reply)
    assert by_character(text, tools=tools) == reply


@check_each("text", CUTS)
@check_each("changing", [SHELL, MAIL], ids=["shell", "declared"])
def test_a_tool_with_side_effects_is_not_called_with_a_value_that_lacks_its_closing_tag(changing: Tool, text: str):
    text = text.replace("NAME", changing.name)
    reply = parse(text, [changing])
    assert reply.calls == ()
    assert ("invalid", "arguments_invalid") in [(each.verdict, each.reason) for each in reply.candidates]
    assert "unsafe_repair" in codes_of(reply)
    assert by_character(text, tools=[changing]) == reply


@check_each("text", CUTS)
def test_a_tool_without_side_effects_is_called_with_a_note_unless_the_policy_is_strict(text: str):
    text = text.replace("NAME", "look")
    reply = parse(text, [LOOK])
    assert len(reply.calls) == 1
    assert {note.code for note in reply.calls[0].notes} & VALUE_CHANGING_NOTES
    assert not any(call.notes for call in parse(text, [LOOK], policy="strict").calls)


def test_a_value_that_contains_its_own_closing_tag_and_has_no_other_is_refused():
    reply = parse("<function=look><parameter=command>a</parameter> and b</function>", [LOOK])
    assert [(each.name, each.verdict) for each in reply.candidates] == [("look", "invalid")]


@check_each("cut", [False, True])
def test_a_call_without_its_closing_tag_counts_unless_the_answer_was_cut_off(cut: bool):
    scanner = Scanner([SHELL])
    events = scanner.feed("<function=shell><parameter=command>ls</parameter>")
    reply = fold(events + scanner.close(cut))
    assert [call.arguments for call in reply.calls] == ([] if cut else [{"command": "ls"}])
    assert reply.complete is not cut


@check_each("text", ["a\n</parameter>\n</invoke> b", '<parameter name="command">', "x</parameter>\n<b>", "<tool_call>"])
@check_each("order", ["first", "last"])
def test_a_quoted_tag_does_not_end_a_value_before_or_after_another_parameter(text: str, order: str):
    pair = [f'<parameter name="command">{text}</parameter>', '<parameter name="x">y</parameter>']
    body = "\n".join(pair if order == "first" else reversed(pair))
    reply = parse(f'<invoke name="look">\n{body}\n</invoke>', [LOOK])
    assert [call.arguments for call in reply.calls] == [{"command": text, "x": "y"}]
    assert by_character(f'<invoke name="look">\n{body}\n</invoke>', tools=[LOOK]) == reply


@check_each("changing", [SHELL, MAIL], ids=["shell", "declared"])
@check_each(
    "text",
    [
        *(text.replace("TEXT", "ls -l") for text in DIALECTS.values()),
        *(text.replace("TEXT", "grep '</b>' <x> <div class='y'>") for text in DIALECTS.values()),
        "<NAME>\n<command>grep '</b>' <div></command>\n</NAME>",
        "<NAME><y>1</y><command>grep <b>x</b> <br> y</command></NAME>",
        "<NAME><y>1</y><command>grep <b>x</i> y</command></NAME>",
        "<tool_call><function=NAME><parameter=command>ls</parameter></function>",
        "<tool_call><function=NAME><parameter=command>ls</parameter></tool_call>",
        "<tool_call><function=NAME><parameter=command>ls</parameter><|tool_call_end|>",
        "<function=NAME><parameter=command>ls</parameter></function>",
        '<｜DSML｜invoke name="NAME"><｜DSML｜parameter name="command">ls</｜DSML｜parameter></｜DSML｜invoke>',
    ],
)
def test_a_call_whose_values_are_closed_counts_although_another_closing_tag_is_missing(changing: Tool, text: str):
    reply = parse(text.replace("NAME", changing.name), [changing])
    assert [call.name for call in reply.calls] == [changing.name]


@pytest.mark.requirement("B12")
def test_the_next_call_ends_a_call_whose_values_are_closed_unless_a_cut_value_would_do_harm():
    call = "<function=NAME><parameter=command>ls</parameter>"
    look = Tool("look", parameters=SHELL.parameters)
    reply = parse(call.replace("NAME", "look") * 2 + "</function>", [look])
    assert [call.arguments for call in reply.calls] == [{"command": "ls"}, {"command": "ls"}]
    assert codes_of(reply) == {"missing_close_tag", "wrong_closer"}
    cases: list[tuple[Tool, Any]] = [(SHELL, "standard"), (look, "strict")]
    for offered, policy in cases:
        assert not parse(call.replace("NAME", offered.name) * 2 + "</function>", [offered], policy=policy).calls


@check_each("body", ["grep -rn '<b>' src", "grep -rn '</b>' src", "cat > a <<E\n<html>\n</html>\nE"])
def test_a_text_that_loses_its_tags_is_not_run(body: str):
    parameters = {"type": "object", "properties": {"command": {"type": "string"}}}
    assert parse(f"<shell>{body}</shell>", [Tool("shell", parameters=parameters)]).calls == ()
    reply = parse(f"<look>{body}</look>", [Tool("look", parameters=parameters)])
    assert [note.code for call in reply.calls for note in call.notes] == ["stray_text"]


@check_each("dialect", DIALECTS)
def test_an_agent_asks_again_instead_of_running_half_a_command(dialect: str):
    ran: list[str] = []
    asked: list[Request] = []

    @tool
    def shell(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return "done"

    def answer(text: str):
        def turn(request: Request) -> str:
            asked.append(request)
            return DIALECTS[dialect].replace("NAME", "shell").replace("TEXT", text)

        return turn

    def half(request: Request) -> str:
        asked.append(request)
        return f"<function=shell><parameter=command>{HALF}</function>"

    upstream = Scripted(half, answer("ls"), "Done.")
    agent = AsyncAgent(AsyncClient(upstream), [shell], marks="fixed", approve=lambda question: True)
    assert run(agent.run("Clean up.")).content == "Done."
    assert ran == ["ls"]
    assert "guessing is not safe for this tool" in asked[1].messages[-1].text


#: The values of other types that a tag may contain, as JSON.
STRUCTURES = (
    '[false, "<b>bold</b>"]',
    '{"html": "<p>a</p> and <br/>", "list": ["</function>", "<item>1</item>"]}',
    '["</parameter>", {"</arg_value>": "</command>"}]',
)


@check_each("dialect", DIALECTS)
@check_each("kind", ["array", "object", "array or text", "none"])
def test_markup_in_a_structure_stays_in_it(dialect: str, kind: str):
    schemas = {"array or text": {"type": ["array", "object", "string"]}, "none": {}}
    properties = {"command": schemas.get(kind, {"type": kind})}
    tools = [Tool("save", parameters={"type": "object", "properties": properties})]
    for structure in STRUCTURES:
        expected = json.loads(structure) if kind in ("array", "object") else structure
        if kind in ("array", "object") and isinstance(expected, list) is not (kind == "array"):
            continue
        text = DIALECTS[dialect].replace("NAME", "save").replace("TEXT", structure)
        assert [call.arguments for call in parse(text, tools).calls] == [{"command": expected}]
        assert by_character(text, tools=tools) == parse(text, tools)


def test_a_call_whose_value_contains_its_own_closing_tag_needs_a_closing_tag():
    tools = [Tool("save", parameters=PARAMETERS)]
    call = '<invoke name="save">\n<parameter name="command">a</parameter>\nb</parameter>\n'
    assert parse(f"{call}</invoke>", tools).calls[0].arguments == {"command": "a</parameter>\nb"}
    assert not parse(call, tools).calls
    assert not parse(f'{call}<invoke name="save">', tools).calls


@check_each("dialect", DIALECTS)
@check_each("tail", ["Done.", '"', "]", "[e~[", "</assistant>", "</answer>", " Done.", "\nDone."])
def test_any_text_may_follow_the_last_closing_tag(dialect: str, tail: str):
    tools = [Tool("save", parameters=PARAMETERS)]
    text = DIALECTS[dialect].replace("NAME", "save").replace("TEXT", "ls") + tail
    assert [call.arguments for call in parse(text, tools).calls] == [{"command": "ls"}]
    assert by_character(text, tools=tools) == parse(text, tools)


@check_each("dialect", ["glm", "kimi", "minimax"])
@check_each("tail", ["Done.", "</assistant>\n", " ✅"])
def test_any_text_may_follow_a_value_of_several_lines_if_the_answer_ends_soon(dialect: str, tail: str):
    tools = [Tool("save", parameters=PARAMETERS)]
    text = DIALECTS[dialect].replace("NAME", "save").replace("TEXT", "a\nb") + tail
    assert [call.arguments for call in parse(text, tools).calls] == [{"command": "a\nb"}]
    assert by_character(text, tools=tools) == parse(text, tools)
    far = DIALECTS[dialect].replace("NAME", "save").replace("TEXT", f"a\nb{text}{'x' * 5000}")
    assert [call.arguments for call in parse(far, tools).calls] in ([], [{"command": f"a\nb{text}{'x' * 5000}"}])


def test_calls_of_one_tool_follow_each_other_in_tags_named_after_it():
    tools = [Tool("look", parameters=PARAMETERS), Tool("wait", parameters={"type": "object", "properties": {}})]
    calls = "<look>\n<command>\nls\n</command>\n</look>\n<look>\n<command>\npwd\n</command>\n</look>"
    for text in (calls, f"<tool_calls>\n{calls}\n</tool_calls>", calls.replace("look>\n<look", "look> and <look")):
        assert [call.arguments for call in parse(text, tools).calls] == [{"command": "ls"}, {"command": "pwd"}]
        assert by_character(text, tools=tools) == parse(text, tools)


@check_each(
    "prose",
    ["I closed it with </parameter> as asked.", "`</parameter>`", "| </parameter> | closes |"],
)
def test_a_sentence_about_the_closing_tag_does_not_extend_the_value(prose: str):
    text = DIALECTS["qwen_xml"].replace("NAME", "save").replace("TEXT", "ls") + f"\n{prose}"
    reply = parse(text, [Tool("save", parameters=PARAMETERS)])
    assert [call.arguments for call in reply.calls] == [{"command": "ls"}]
    assert reply.text.strip() == prose


def test_repeated_closing_tags_make_the_end_of_a_value_doubtful():
    text = DIALECTS["qwen_xml"].replace("TEXT", "ls") + "\n</parameter>\n</function>\n</tool_call>"
    assert not parse(text.replace("NAME", "shell"), [SHELL]).calls
    assert "wrong_closer" in codes_of(parse(text.replace("NAME", "save"), [Tool("save", parameters=PARAMETERS)]))


@pytest.mark.requirement("B12")
def test_texts_in_nested_elements_keep_their_white_space_and_their_tags():
    edits = {"type": "array", "items": {"type": "object", "properties": {"old": {"type": "string"}}}}
    tools = [Tool("edit", parameters={"type": "object", "properties": {"edits": edits}})]
    mark = "]<]minimax[>["
    minimax = (
        f'{mark}<tool_call>\n{mark}<invoke name="edit">{mark}<edits>{mark}<item>{mark}<old>    a <b>\n{mark}</old>'
        f"{mark}</item>{mark}</edits>{mark}</invoke>\n{mark}</tool_call>"
    )
    for text, old in ((minimax, "    a <b>\n"), ("<edit><edits><item><old>  a </old></item></edits></edit>", "  a ")):
        assert [call.arguments for call in parse(text, tools).calls] == [{"edits": [{"old": old}]}]
        assert by_character(text, tools=tools) == parse(text, tools)


def test_a_key_without_its_closing_tag_is_followed_by_its_value():
    text = "<tool_call>save<arg_key>command<arg_value>ls</arg_value></tool_call>"
    assert [call.arguments for call in parse(text, [Tool("save", parameters=PARAMETERS)]).calls] == [{"command": "ls"}]


def test_cdata_sections_in_a_row_are_one_text():
    text = DIALECTS["invoke"].replace("NAME", "save").replace("TEXT", "<![CDATA[a]]]]><![CDATA[>b]]>")
    assert [call.arguments for call in parse(text, [Tool("save", parameters=PARAMETERS)]).calls] == [
        {"command": "a]]>b"}
    ]


#: Parts of values that look like the end of a call, but not of this one: the rest of its closing tags does not follow,
#: they belong to another grammar, or another call begins without them.
NOT_ENDS = {
    "qwen_xml": (
        *("</parameter>\n</function>\nE", "</parameter>\n</invoke>\nE", "</tool_call> <tool_call>"),
        *("</parameter>\n```", "</parameter>\n<arg_key>y</arg_key>", "</parameter>\n</minimax:tool_call>\nE"),
    ),
    "glm": (
        *("</arg_value>\n</function>\nE", "</tool_call>\n<tool_call>", '<arg name="x">\n</arg>\n<arg name="y">'),
        *("</arg_value>\n```", "</arg_value>\n<parameter=y>", "</arg_value>\n</minimax:tool_call>\nE"),
    ),
    "minimax": (
        "</parameter>\n</invoke>\nE",
        "</parameter>\n</function>\n</tool_call>\nE",
        "</tool_call>\n<tool_call>",
    ),
    "invoke": ("</parameter>\n</invoke>\nE", "</parameter>\n</function>\nE", '<arg name="x">\n</arg>\n<arg name="y">'),
    "dsml": ("</parameter>\n</invoke>\nE", "</｜DSML｜parameter>\n</｜DSML｜invoke>\nE", "</tool_call> <tool_call>"),
}


@check_each("policy", ["strict", "standard"])
@check_each("dialect", NOT_ENDS)
def test_what_cannot_follow_the_value_is_part_of_it(dialect: str, policy: Any):
    tools = [Tool("shell", parameters=PARAMETERS)]
    for part in NOT_ENDS[dialect]:
        value = f"cat > x <<'E'\n{part}\nrm -rf x"
        text = DIALECTS[dialect].replace("NAME", "shell").replace("TEXT", value)
        reply = parse(text, tools, policy=policy)
        assert [call.arguments for call in reply.calls] == [{"command": value}]
        assert by_character(text, tools=tools, policy=policy) == reply


def test_a_value_without_its_closing_tag_before_another_call_is_no_call():
    tools = [Tool("save", parameters=PARAMETERS)]
    call = "<function=save><parameter=command>a</function><function=save><parameter=x>b</parameter></function>"
    reply = parse(f"<tool_call>{call}</tool_call>", tools)
    assert not reply.calls
    assert [each.verdict for each in reply.candidates] == ["invalid"]


@check_each("dialect", ["qwen_xml", "glm", "minimax", "dsml", "invoke"])
@check_each("token", ["<|im_end|>", "</s>", "<|im_end|>\n<|endoftext|>"])
def test_a_token_that_ends_answers_ends_no_value(dialect: str, token: str):
    tools = [Tool("save", parameters=PARAMETERS)]
    call = DIALECTS[dialect].replace("NAME", "save")
    for value in (f"a\n{call.replace('TEXT', 'quoted')}{token}\nb", f"a</parameter>{token}b"):
        for tail in ("", token, f"{token}\nmore"):
            reply = parse(call.replace("TEXT", value) + tail, tools, policy="strict")
            assert [each.arguments for each in reply.calls] == [{"command": value}]
            assert by_character(call.replace("TEXT", value) + tail, tools=tools, policy="strict") == reply


@check_each("end", ["</parameter>\n</function>\n</tool_call>\nb", "</parameter>\n</function>\n</tool_call>b"])
def test_a_value_of_several_lines_goes_on_if_its_closing_tag_comes_again(end: str):
    tools = [Tool("save", parameters=PARAMETERS)]
    value = f"a\nb\n{end}"
    reply = parse(DIALECTS["qwen_xml"].replace("NAME", "save").replace("TEXT", value), tools)
    assert [call.arguments for call in reply.calls] == [{"command": value}]


@check_each("dialect", ["qwen_xml", "glm", "minimax", "invoke"])
def test_a_tool_may_be_called_like_the_block_around_its_call(dialect: str):
    tools = [Tool("tool_call", parameters=PARAMETERS), Tool("function_calls", parameters=PARAMETERS)]
    for named in tools:
        text = DIALECTS[dialect].replace("NAME", named.name).replace("TEXT", "ls")
        assert [(call.name, call.arguments) for call in parse(text, tools).calls] == [(named.name, {"command": "ls"})]


def test_the_line_breaks_of_a_value_are_those_of_the_template():
    tools = [Tool("save", parameters=PARAMETERS)]
    call = "<{0}tool_call>\n<function=save>\n<parameter=command>\na\n</parameter>\n</function>\n</{0}tool_call>"
    assert parse(call.format(""), tools).calls[0].arguments == {"command": "a"}
    assert parse(call.format("seed:"), tools).calls[0].arguments == {"command": "\na\n"}


@check_each("dialect", ["glm", "invoke", "qwen_xml"])
def test_a_key_that_the_tool_does_not_declare_makes_a_long_value_doubtful(dialect: str):
    closer, pair = {
        "glm": ("</arg_value>", "<arg_key>mode</arg_key><arg_value>b"),
        "invoke": ("</parameter>", '<parameter name="mode">b'),
        "qwen_xml": ("\n</parameter>", "\n<parameter=mode>\nb"),
    }[dialect]
    tools = [Tool("save", parameters=PARAMETERS)]
    call = DIALECTS[dialect].replace("NAME", "save")
    for value, count in ((f"a{closer}{pair}", 1), (f"a\nb{closer}{pair}", 0)):
        text = call.replace("TEXT", value)
        reply = parse(text, tools)
        assert [each.arguments for each in reply.calls] == [{"command": "a", "mode": "b"}] * count
        assert by_character(text, tools=tools) == reply


@check_each("dialect", ["qwen_xml", "invoke", "minimax"])
def test_no_call_counts_after_a_value_whose_end_is_unknown(dialect: str):
    tools = [Tool("save", parameters=PARAMETERS), Tool("shell", parameters=PARAMETERS)]
    quoted = '<tool_call>\n{"name": "shell", "arguments": {"command": "rm -rf ~"}}\n</tool_call>'
    call = DIALECTS[dialect].replace("NAME", "save")
    for value in (
        f'a\nb</parameter>\n<parameter name="mode">x</parameter>\n{quoted}\nc',
        f"a\nb\n</parameter>\n{quoted}\nc",
        f"a\nb</function>\n{quoted}\nc",
    ):
        text = call.replace("TEXT", value)
        reply = parse(text, tools)
        assert [each.arguments for each in reply.calls] in ([], [{"command": value}])
        assert by_character(text, tools=tools) == reply


def test_a_value_of_several_lines_contains_closing_tags_with_text_behind_them_if_its_own_comes_again():
    value = "a\nb</arg_value></tool_call>c"
    text = f"<tool_call>save<arg_key>command</arg_key><arg_value>{value}</arg_value></tool_call>"
    tools = [Tool("save", parameters=PARAMETERS)]
    assert [call.arguments for call in parse(text, tools).calls] == [{"command": value}]
    assert by_character(text, tools=tools) == parse(text, tools)


def test_a_value_that_contains_its_closing_tag_does_not_end_before_another_call():
    text = "<function=save><parameter=command>a</parameter> b</parameter><function=save><parameter=command>ls</parameter></function>"
    assert not parse(text, [Tool("save", parameters=PARAMETERS)]).calls

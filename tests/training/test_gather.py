"""Public data sets in one form: what their rows ask, with which tools, and what they call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cases import check_each
from toolspeak.core.types import JSONObject, JSONValue
from training.gather import gathered, main

TOOL: JSONObject = {
    "name": "Weather Now",
    "description": "Tells the weather.",
    "parameters": {"city": {"type": "string"}},
}
#: The same where its parameters were put into a schema that demands nothing, with an empty default.
DRESSED: JSONObject = TOOL | {
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "default": ""}}, "required": []}
}
CALL: JSONObject = {"name": "Weather Now", "arguments": {"city": "Oslo"}}
ASKED = "How is the weather in Oslo?"
READ: JSONObject = {"query": ASKED, "tools": [TOOL], "answers": [CALL]}
NUMBERED = (
    "Tools:\n1. Name: Weather Now\nDescription: Tells the weather.\n"
    'Parameters: {"city": {"type": "string", "default": ""}}\n'
)
LISTED: JSONObject = {"role": "system", "content": f"You may call these:\n{json.dumps([TOOL])}\nWrite [f(a=1)]."}
ALONE: JSONObject = {"role": "system", "content": f"SYSTEM: {{unfinished. Functions:\n{json.dumps(TOOL, indent=4)}\n"}
WRITTEN = """{"name": "Weather Now", "arguments": '{"city": "Oslo"}'}"""
USER: JSONObject = {"role": "user", "content": ASKED}


def assistant(text: str, **more: object) -> JSONObject:
    return {"role": "assistant", "content": text, **more}


@check_each(
    "row",
    [
        {"id": 1, "query": ASKED, "tools": json.dumps([TOOL]), "answers": json.dumps([CALL])},
        {
            "instruction": NUMBERED,
            "input": f"<user> {ASKED} </user>",
            "output": '<think>Hm.</think><tool_call>\n{"name": "Weather Now", "parameters": {"city": "Oslo"}}\n</tool_call>',
        },
        {"messages": [LISTED, USER, assistant('[Weather Now(city="Oslo")]')]},
        {"messages": [ALONE, USER, assistant(f"<functioncall> {WRITTEN}")]},
        {"messages": [USER, assistant("", tool_calls=[{"id": "1", **CALL}])], "tools": [TOOL]},
        {
            "messages": [USER, assistant("", tool_calls=[{"function": {**CALL, "arguments": '{"city": "Oslo"}'}}])],
            "tools": [{"type": "function", "function": TOOL}],
        },
        {"messages": [USER, {"role": "tool_call", "content": json.dumps(CALL)}], "tools": json.dumps([TOOL])},
        {
            "conversations": [{"from": "human", "value": ASKED}, {"from": "function_call", "value": json.dumps(CALL)}],
            "tools": json.dumps([TOOL]),
        },
        {
            "system": ALONE["content"],
            "chat": f"USER: {ASKED}\n\n\nASSISTANT: <functioncall> {WRITTEN} <|endoftext|>\n\n\nFUNCTION RESPONSE: {{}}\n\n\n",
        },
        {"system": ALONE["content"], "input_messages": [USER, {"role": "tool_call", "content": json.dumps(CALL)}]},
        {"input_messages": [ALONE, USER], "ground_truth": f"<functioncall> {WRITTEN}", "generated": "Sunny!"},
        {"id": 2, "query": ASKED, "tools": json.dumps([DRESSED]), "answers": json.dumps([CALL])},
    ],
    ids=["xlam", "toolrl", "toolace", "marked", "beside", "as a client", "swift", "shared", "glaive", "raw", "apart", "dressed"],
)  # fmt: skip
def test_each_form_becomes_the_same(row: JSONObject):
    assert gathered(row) == READ


def test_all_calls_of_an_answer_are_read():
    again: JSONObject = {"role": "tool_call", "content": json.dumps({**CALL, "arguments": {"city": "Rome"}})}
    row = {
        "messages": [USER, {"role": "tool_call", "content": json.dumps(CALL)}, again, assistant("Fine.")],
        "tools": [TOOL],
    }
    as_python = {"messages": [LISTED, USER, assistant('[Weather Now(city="Oslo"), Weather Now(city="Rome")]')]}
    for read in (gathered(row), gathered(as_python)):
        assert read is not None
        assert [call["arguments"]["city"] for call in read["answers"]] == ["Oslo", "Rome"]


def test_a_name_that_begins_another_is_not_taken_for_it():
    tools = [TOOL, {**TOOL, "name": "Local Weather Now"}]
    system = {"role": "system", "content": json.dumps(tools)}
    read = gathered({"messages": [system, USER, assistant('[Local Weather Now(city="Oslo")]')]})
    assert read is not None
    assert read["answers"] == [{**CALL, "name": "Local Weather Now"}]


def test_prose_counts_where_it_can_only_mean_that_no_tool_serves():
    sorry = "I'm sorry, but I cannot do that. Ask me for the weather."
    response = {"instruction": NUMBERED, "input": f"<user>{ASKED}</user>", "output": f"<response> {sorry} </response>"}
    for row in ({"messages": [ALONE, USER, assistant(sorry)]}, response):
        read = gathered(row)
        assert read is not None
        assert (read["answers"], "reply" in read) == ([], False)
    assert gathered({"messages": [ALONE, USER, assistant("Which Oslo?")]}) is None
    asked_back = gathered({"messages": [LISTED, USER, assistant("Which Oslo do you\nmean? There are two.")]})
    assert asked_back == {"query": ASKED, "tools": [TOOL], "answers": [], "reply": "Which Oslo do you mean?"}


@check_each(
    "row",
    [
        None,
        [1],
        {"text": "something else"},
        {"query": None, "tools": [TOOL], "answers": []},
        {"query": ASKED, "tools": [{"description": "nameless"}], "answers": []},
        {"query": ASKED, "tools": "[", "answers": "[]"},
        {"query": ASKED, "tools": [TOOL], "answers": [{"arguments": {}}]},
        {"messages": []},
        {"input_messages": []},
        {"input_messages": [USER]},
        {"messages": [USER]},
        {"messages": [USER, assistant("Hello")]},
        {"messages": [assistant("Hello"), USER], "tools": [TOOL]},
        {"messages": [USER, {"role": "tool", "content": "1"}], "tools": [TOOL]},
        {"messages": [USER, {"role": "tool_call", "content": "{"}], "tools": [TOOL]},
        {"messages": [LISTED, USER, assistant("[Weather Now(")]},
        {"messages": [LISTED, USER, assistant("[Weather Now('Oslo')]")]},
        {"messages": [LISTED, USER, assistant("[Weather Now(city=open('x').read())]")]},
        {"messages": [LISTED, USER, assistant("[Weather Now(city={'Oslo'})]")]},
        {"messages": [LISTED, USER, assistant("[Other(city='Oslo')]")]},
        {"messages": [LISTED, USER, assistant("[1](2)")]},
        {"instruction": NUMBERED, "input": "<user>a</user><user>b</user>", "output": "<tool_call></tool_call>"},
        {"instruction": NUMBERED, "input": f"<user>{ASKED}</user>", "output": "<response>It is 4 degrees.</response>"},
        {"instruction": NUMBERED, "input": f"<user>{ASKED}</user>", "output": ""},
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_left_out(row: JSONValue):
    assert gathered(row) is None


def test_files_are_read_as_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    rows = [READ, {"text": "something else"}, {**READ, "query": "One\u2028request"}]
    (tmp_path / "all.json").write_text(json.dumps(rows), encoding="utf-8")
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (tmp_path / "lines.jsonl").write_text(lines, encoding="utf-8")
    out = tmp_path / "out"
    files = [str(tmp_path / "all.json"), str(tmp_path / "lines.jsonl")]
    monkeypatch.setattr("sys.argv", ["gather", "--out", str(out), *files])
    main()
    assert capsys.readouterr().out == "all.json: 2 of 3 read\nlines.jsonl: 2 of 3 read\n"
    for name in ("all", "lines"):
        kept = (out / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        assert [json.loads(line) for line in kept] == [rows[0], rows[2]]


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["rows.csv"], "can be read"),
        (["absent.json"], "cannot be read"),
        (["broken.jsonl"], "cannot be read"),
        (["object.json"], "a list of rows"),
        (["object.json", "object.jsonl"], "would become one"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(
    names: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "broken.jsonl").write_text("{", encoding="utf-8")
    (tmp_path / "object.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(
        "sys.argv", ["gather", "--out", str(tmp_path / "out"), *(str(tmp_path / name) for name in names)]
    )
    with pytest.raises(SystemExit, match=why):
        main()

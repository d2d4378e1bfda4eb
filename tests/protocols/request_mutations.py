"""Requests as real clients send them, and mutations of those requests.

One rich request of each protocol stands here. Where a collection of captured ones lies beside the checkout, it is used
as well.
"""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path

from hypothesis import strategies as st

from toolspeak.core.types import JSONObject, JSONValue, is_array, is_object

CAPTURED = Path(__file__).parents[3] / "shared" / "clients" / "requests.jsonl"

#: Which protocol a path belongs to.
_PATHS = {
    "openai_chat": re.compile(r"/chat/completions$"),
    "openai_responses": re.compile(r"/responses$"),
    "anthropic": re.compile(r"/messages(/count_tokens)?$"),
    "gemini": re.compile(r":(generateContent|streamGenerateContent)$"),
    "ollama": re.compile(r"/api/chat$"),
}

_CUT = re.compile(r"<\d+ more>")
_SCHEMA: JSONObject = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_FUNCTION: JSONObject = {"name": "get_weather", "description": "Tells it.", "parameters": _SCHEMA}
_PNG = "data:image/png;base64,QQ=="
_CALL: JSONObject = {
    "id": "c1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'},
}

RICH: dict[str, JSONObject] = {
    "openai_chat": {
        "model": "m",
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": _PNG, "detail": "low"}}],
                "name": "n",
            },
            {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [_CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        ],
        "tools": [
            {"type": "function", "function": {**_FUNCTION, "strict": True}},
            {"type": "custom", "custom": {"name": "run", "format": {"type": "text"}}},
            {"type": "namespace", "name": "crm", "tools": [{"type": "function", "function": {"name": "find"}}]},
        ],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [_CALL]}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": _SCHEMA, "strict": True}},
        "stop": ["END"],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 9,
        "temperature": 0.5,
        "n": 1,
    },
    "openai_responses": {
        "model": "m",
        "instructions": "Be brief.",
        "input": [
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "hi"}, {"type": "input_image", "image_url": _PNG}],
            },
            {
                "type": "reasoning",
                "id": "rs",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "encrypted_content": "x",
            },
            {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city":"Paris"}'},
            {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "rain"}]},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Rain.", "annotations": []}],
            },
        ],
        "tools": [
            {"type": "function", **_FUNCTION, "strict": True},
            {"type": "custom", "name": "run", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
            {"type": "namespace", "name": "crm", "description": "", "tools": [{"type": "function", "name": "find"}]},
            {"type": "web_search"},
        ],
        "tool_choice": {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "function", "name": "get_weather"}],
        },
        "text": {"format": {"type": "json_schema", "name": "r", "schema": _SCHEMA}},
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
        "stream": True,
        "max_output_tokens": 9,
    },
    "anthropic": {
        "model": "m",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "x"},
                    {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"city": "Paris"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [{"type": "text", "text": "rain"}],
                        "is_error": False,
                    }
                ],
            },
        ],
        "tools": [
            {"name": "get_weather", "description": "Tells it.", "input_schema": _SCHEMA},
            {"type": "web_search_1", "name": "s"},
        ],
        "tool_choice": {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "stop_sequences": ["END"],
        "stream": True,
        "temperature": 0.5,
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"mimeType": "image/png", "data": "QQ=="}}]},
            {
                "role": "model",
                "parts": [
                    {"text": "hm", "thought": True},
                    {
                        "functionCall": {"id": "c1", "name": "get_weather", "args": {"city": "Paris"}},
                        "thoughtSignature": "eA==",
                    },
                ],
            },
            {
                "role": "user",
                "parts": [{"functionResponse": {"id": "c1", "name": "get_weather", "response": {"output": "rain"}}}],
            },
        ],
        "tools": [{"functionDeclarations": [{**_FUNCTION, "parameters": {"type": "OBJECT"}}]}, {"googleSearch": {}}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["get_weather"]}},
        "generationConfig": {
            "maxOutputTokens": 9,
            "temperature": 0.5,
            "stopSequences": ["END"],
            "responseMimeType": "application/json",
            "responseJsonSchema": _SCHEMA,
            "thinkingConfig": {"includeThoughts": True},
        },
    },
    "ollama": {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi", "images": ["QQ=="]},
            {
                "role": "assistant",
                "content": "",
                "thinking": "hm",
                "tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": "Paris"}}}],
            },
            {"role": "tool", "content": "rain", "tool_name": "get_weather"},
        ],
        "tools": [{"type": "function", "function": _FUNCTION}],
        "format": _SCHEMA,
        "options": {"num_predict": 9, "temperature": 0.5, "stop": ["END"], "seed": 1},
        "think": True,
        "stream": True,
        "keep_alive": "5m",
    },
}


def captured(protocol: str) -> list[JSONObject]:
    """The captured requests of a protocol; none where there is no collection."""
    if not CAPTURED.is_file():
        return []
    with CAPTURED.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    known = _PATHS[protocol]
    return [_uncut(row["body"]) for row in rows if row["body"] and known.search(row["path"].partition("?")[0])]


def _uncut(value: JSONValue) -> JSONValue:
    """A captured value without the marks that say how many items of a list were left out."""
    if is_object(value):
        return {key: _uncut(item) for key, item in value.items()}
    if is_array(value):
        return [_uncut(item) for item in value if not (isinstance(item, str) and _CUT.fullmatch(item))]
    return value


#: What may stand in the place of a value: everything that it is not.
ODD: list[JSONValue] = [
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "",
    "x",
    [],
    {},
    [None],
    [[]],
    [{}],
    {"": None},
    {"type": None},
    {"type": "x"},
]


def places(value: JSONValue) -> list[tuple[JSONValue, str | int]]:
    """Every place in a tree: what holds it, and its key there."""
    found: list[tuple[JSONValue, str | int]] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one))
        found += [(one, key) for key in keys]
        waiting += [one[key] for key in keys if isinstance(one[key], dict | list)]
    return found


@st.composite
def mutated(draw: st.DrawFn, bodies: list[JSONObject]) -> JSONObject:
    """One of the bodies, changed in one to four places."""
    body = deepcopy(draw(st.sampled_from(bodies)))
    for _ in range(draw(st.integers(1, 4))):
        holder, key = draw(st.sampled_from(places(body) or [({"": 0}, "")]))
        match draw(st.sampled_from(["odd", "odd", "gone", "moved", "twice"])):
            case "odd":
                holder[key] = deepcopy(draw(st.sampled_from(ODD)))
            case "gone":
                del holder[key]
            case "moved":
                other, there = draw(st.sampled_from(places(body) or [(holder, key)]))
                holder[key] = deepcopy(other[there])
            case _ if isinstance(key, int):
                holder += [deepcopy(holder[key])]
            case _:
                holder[f"{key}_"] = holder.pop(key)
    return body

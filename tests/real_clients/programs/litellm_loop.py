"""LiteLLM with two tools and a loop of one's own, once whole and once streamed. Arguments: the model, the errand."""

import json
import os
import sys
from typing import Any

import litellm
from tools import read_text, write_text

FUNCTIONS = {"read_text": read_text, "write_text": write_text}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read_text",
            "description": "Read a text file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        },
    },
    {
        "type": "function",
        "function": {
            "name": "write_text",
            "description": "Write a text file.",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
                "required": ["path", "text"],
            },
        },
    },
]

model, errand = sys.argv[1:]
#: The provider that takes its address in code only.
more = {"api_base": os.environ["SERVER_URL"], "api_key": "any"} if model.startswith("gemini/") else {}


def converse(stream: bool) -> str:
    """Rounds until there is no call."""
    messages: list[Any] = [{"role": "user", "content": errand}]
    for _ in range(5):
        answer: Any = litellm.completion(model, messages, tools=TOOLS, stream=stream, num_retries=0, **more)
        if stream:
            answer = litellm.stream_chunk_builder(list(answer), messages=messages)
        message = answer.choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            result = FUNCTIONS[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "name": call.function.name, "content": result})
    return "no end"


print("whole:", converse(stream=False))
print("streamed:", converse(stream=True))

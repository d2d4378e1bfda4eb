"""Tool calls with the openai SDK: ask, run the functions that the model calls, and send back their results.

Start the proxy (`make run`), install the SDK (`pip install openai`), then run:

    python examples/openai_chat.py
    python examples/openai_chat.py "Is it raining in Lima?"

TOOLSPEAK_URL is the address of the proxy, TOOLSPEAK_MODEL the model, TOOLSPEAK_KEY a key if the proxy requires one.
"""

import json
import os
import sys
from typing import Any

from openai import OpenAI

URL = os.environ.get("TOOLSPEAK_URL", "http://127.0.0.1:8788")
MODEL = os.environ.get("TOOLSPEAK_MODEL", "any")
QUESTION = " ".join(sys.argv[1:]) or "What is the weather in Oslo and in Rome?"

WEATHER = {"Oslo": "rain, 12 degrees", "Rome": "sun, 21 degrees"}
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def get_weather(city: str) -> str:
    return WEATHER.get(city, "unknown")


client = OpenAI(base_url=f"{URL}/v1", api_key=os.environ.get("TOOLSPEAK_KEY", "any"))
messages: list[Any] = [{"role": "user", "content": QUESTION}]
for _ in range(5):  # a model that never stops calling tools is stopped here
    answer: Any = client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL]).choices[0].message
    messages.append(answer)
    for call in answer.tool_calls or ():
        result = get_weather(**json.loads(call.function.arguments))
        print(f"{call.function.name}({call.function.arguments}) -> {result}")
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    if not answer.tool_calls:
        print(answer.content)
        break

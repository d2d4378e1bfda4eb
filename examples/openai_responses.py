"""Tool calls with the Responses API of the openai SDK. The proxy remembers the conversation between the requests.

Start the proxy (`make run`), install the SDK (`pip install openai`), then run:

    python examples/openai_responses.py
    python examples/openai_responses.py "Is it raining in Lima?"

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
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def get_weather(city: str) -> str:
    return WEATHER.get(city, "unknown")


client = OpenAI(base_url=f"{URL}/v1", api_key=os.environ.get("TOOLSPEAK_KEY", "any"))
response = client.responses.create(model=MODEL, input=QUESTION, tools=[TOOL])
for _ in range(5):  # a model that never stops calling tools is stopped here
    calls = [item for item in response.output if item.type == "function_call"]
    if not calls:
        break
    results: list[Any] = []
    for call in calls:
        result = get_weather(**json.loads(call.arguments))
        print(f"{call.name}({call.arguments}) -> {result}")
        results.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
    # Only what is new is sent: `previous_response_id` stands for the rest.
    previous = response.id
    response = client.responses.create(model=MODEL, previous_response_id=previous, input=results, tools=[TOOL])
print(response.output_text)

"""Tool calls with the ollama library, which takes Python functions as tools.

Start the proxy (`make run`), install the library (`pip install ollama`), then run:

    python examples/ollama_chat.py
    python examples/ollama_chat.py "Is it raining in Lima?"

TOOLSPEAK_URL is the address of the proxy, TOOLSPEAK_MODEL the model, TOOLSPEAK_KEY a key if the proxy requires one.
"""

import os
import sys
from typing import Any

from ollama import Client

URL = os.environ.get("TOOLSPEAK_URL", "http://127.0.0.1:8788")
MODEL = os.environ.get("TOOLSPEAK_MODEL", "any")
QUESTION = " ".join(sys.argv[1:]) or "What is the weather in Oslo and in Rome?"

WEATHER = {"Oslo": "rain, 12 degrees", "Rome": "sun, 21 degrees"}


def get_weather(city: str) -> str:
    """The weather of a city

    Args:
        city: its name
    """
    return WEATHER.get(city, "unknown")


client = Client(host=URL, headers={"Authorization": f"Bearer {os.environ.get('TOOLSPEAK_KEY', 'any')}"})
messages: list[Any] = [{"role": "user", "content": QUESTION}]
for _ in range(5):  # a model that never stops calling tools is stopped here
    answer = client.chat(model=MODEL, messages=messages, tools=[get_weather]).message
    messages.append(answer)
    for call in answer.tool_calls or ():
        result = get_weather(**call.function.arguments)
        print(f"{call.function.name}({call.function.arguments}) -> {result}")
        messages.append({"role": "tool", "tool_name": call.function.name, "content": result})
    if not answer.tool_calls:
        print(answer.content)
        break

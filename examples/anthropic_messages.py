"""Tool calls with the anthropic SDK. Its tool runner runs Python functions until the model has an answer.

Start the proxy (`make run`), install the SDK (`pip install anthropic`), then run:

    python examples/anthropic_messages.py
    python examples/anthropic_messages.py "Is it raining in Lima?"

TOOLSPEAK_URL is the address of the proxy, TOOLSPEAK_MODEL the model, TOOLSPEAK_KEY a key if the proxy requires one.
"""

import os
import sys

from anthropic import Anthropic, beta_tool

URL = os.environ.get("TOOLSPEAK_URL", "http://127.0.0.1:8788")
MODEL = os.environ.get("TOOLSPEAK_MODEL", "any")
QUESTION = " ".join(sys.argv[1:]) or "What is the weather in Oslo and in Rome?"

WEATHER = {"Oslo": "rain, 12 degrees", "Rome": "sun, 21 degrees"}


@beta_tool
def get_weather(city: str) -> str:
    """The weather of a city

    Args:
        city: its name
    """
    result = WEATHER.get(city, "unknown")
    print(f"get_weather({city}) -> {result}")
    return result


client = Anthropic(base_url=URL, api_key=os.environ.get("TOOLSPEAK_KEY", "any"))
runner = client.beta.messages.tool_runner(
    model=MODEL,
    max_tokens=1024,
    max_iterations=5,  # a model that never stops calling tools is stopped here
    messages=[{"role": "user", "content": QUESTION}],
    tools=[get_weather],
)
answer = runner.until_done()
print("".join(block.text for block in answer.content if block.type == "text"))

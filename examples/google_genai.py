"""Tool calls with the google-genai SDK, which calls Python functions by itself until the model has an answer.

Start the proxy (`make run`), install the SDK (`pip install google-genai`), then run:

    python examples/google_genai.py
    python examples/google_genai.py "Is it raining in Lima?"

TOOLSPEAK_URL is the address of the proxy, TOOLSPEAK_MODEL the model, TOOLSPEAK_KEY a key if the proxy requires one.
"""

import os
import sys

from google import genai
from google.genai import types

URL = os.environ.get("TOOLSPEAK_URL", "http://127.0.0.1:8788")
MODEL = os.environ.get("TOOLSPEAK_MODEL", "any")
QUESTION = " ".join(sys.argv[1:]) or "What is the weather in Oslo and in Rome?"

WEATHER = {"Oslo": "rain, 12 degrees", "Rome": "sun, 21 degrees"}


def get_weather(city: str) -> str:
    """The weather of a city"""
    result = WEATHER.get(city, "unknown")
    print(f"get_weather({city}) -> {result}")
    return result


options = types.HttpOptions(base_url=URL)
client = genai.Client(api_key=os.environ.get("TOOLSPEAK_KEY", "any"), http_options=options)
# A model that never stops calling tools is stopped after five requests.
limit = types.AutomaticFunctionCallingConfig(maximum_remote_calls=5)
config = types.GenerateContentConfig(tools=[get_weather], automatic_function_calling=limit)
print(client.chats.create(model=MODEL, config=config).send_message(QUESTION).text)

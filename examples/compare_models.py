"""Which of two models calls your tools better? Asks both the same questions, whose right calls you know, and counts.

    python examples/compare_models.py ollama:qwen3:8b ollama:llama3.1:8b
    python examples/compare_models.py

Without models, the model of TOOLSPEAK_MODEL (by default the small one that `make run` has downloaded) is compared with a
baseline, a Python function. Put your own tools and questions in: a few dozen tell more than these six.
TOOLSPEAK_BASE_URL is the address of models that are elsewhere. `toolspeak eval` does the same with large sets of tasks.
"""

import os
import sys
import time

import toolspeak as ts
from toolspeak.evaluation.statistics import wilson


def get_weather(city: str) -> str:
    """The weather of a city"""
    raise NotImplementedError  # nothing is run here: only the calls are compared


def set_timer(minutes: int) -> str:
    """Set a timer that rings after some minutes"""
    raise NotImplementedError


QUESTIONS = {
    "What is the weather in Paris?": [("get_weather", {"city": "Paris"})],
    "Is it raining in Lima?": [("get_weather", {"city": "Lima"})],
    "What is the weather in Oslo and in Rome?": [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})],
    "Set a timer for 5 minutes.": [("set_timer", {"minutes": 5})],
    "Hello! How are you?": [],
    "Thank you, that is all.": [],
}


def baseline(messages: list[dict]) -> str:
    """A model that can only do the weather of one city. Whatever you compare should be better than this."""
    question = messages[-1]["content"]
    city = question.partition(" in ")[2].split(" ")[0].strip("?.")
    call = f'<tool_call>{{"name": "get_weather", "arguments": {{"city": "{city}"}}}}</tool_call>'
    return call if city else "Hello!"


def measure(model: str) -> None:
    right, requests, wrong, start = 0, 0, [], time.monotonic()
    with ts.Client(baseline if model == "baseline" else model) as client:
        for question, expected in QUESTIONS.items():
            reply = client.chat(question, tools=[get_weather, set_timer], temperature=0)
            calls = [(call.name, call.arguments) for call in reply.tool_calls]
            requests += reply.requests
            if sorted(calls, key=str) == sorted(expected, key=str):
                right += 1
            else:
                wrong.append(f"  {question} expected {expected}, got {calls or reply.text}")
    low, high = wilson(right, len(QUESTIONS))
    costs = f"{requests} requests, {time.monotonic() - start:.1f} s"
    print(f"{model.strip(':')}: {right} of {len(QUESTIONS)} right (95% interval {low:.0%} to {high:.0%}), {costs}")
    print("\n".join(wrong), end="\n" if wrong else "")


for name in sys.argv[1:] or [os.environ.get("TOOLSPEAK_MODEL", "embedded:"), "baseline"]:
    measure(name)

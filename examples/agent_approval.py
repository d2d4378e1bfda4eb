"""An agent that asks you before it does anything that cannot be taken back.

    python examples/agent_approval.py
    python examples/agent_approval.py "Pay 15 crowns to Berta."

`get_balance` only reads, so it runs by itself. `pay` has side effects: you see each call and allow it or not.
Without further settings, the small model that `make run` has downloaded answers. For another model, set TOOLSPEAK_MODEL
(such as ollama:qwen3:8b) and, if it is elsewhere, TOOLSPEAK_BASE_URL.
"""

import os
import sys

import toolspeak as ts
from toolspeak.types import Question

MODEL = os.environ.get("TOOLSPEAK_MODEL", "embedded:")
TASK = " ".join(sys.argv[1:]) or "Pay 20 crowns to Anna."

account = {"balance": 100}


@ts.tool(read_only=True)
def get_balance() -> str:
    """How much money is in your account"""
    return f"{account['balance']} crowns"


@ts.tool(side_effects=True)
def pay(name: str, crowns: int) -> str:
    """Pay money to a person

    Args:
        name: who gets the money
        crowns: how much
    """
    if not 0 < crowns <= account["balance"]:
        raise ValueError("there is not that much money")
    account["balance"] -= crowns
    return f"paid {crowns} crowns to {name}"


def approve(question: Question) -> bool:
    """Ask the person at the terminal. Any answer but yes means no."""
    print(f"The model wants to call {question.tool.name} with {question.arguments} ({question.reason}).")
    try:
        return input("Allow it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


with ts.Agent(MODEL, [get_balance, pay], approve=approve) as agent:
    result = agent.run(TASK)

for round_ in result.rounds:
    for record in round_.calls:
        if record.result:
            print(f"{record.call.name}({record.call.arguments}) -> {record.result.content}")
print(result.content or result.why)
print(f"There are {account['balance']} crowns left.")

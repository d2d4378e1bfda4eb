"""A LangChain agent with two tools, once whole and once streamed. Arguments: which model, and the errand."""

import sys
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessageChunk
from tools import read_text, write_text


def chosen(kind: str) -> Any:
    """The model, pointed by the environment only."""
    if kind == "anthropic":
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(model_name="m", max_retries=0, timeout=30, stop=None)
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="m", max_retries=0, use_responses_api=kind == "responses")


kind, errand = sys.argv[1:]
agent = create_agent(chosen(kind), [read_text, write_text])
asked: Any = {"messages": [{"role": "user", "content": errand}]}
final = agent.invoke(asked)["messages"][-1]
print("whole:", final.text)

streamed = ""
for message, _ in agent.stream(asked, stream_mode="messages"):
    if isinstance(message, AIMessageChunk):
        streamed += str(message.text)
print("streamed:", streamed)

"""The OpenAI Agents SDK: `ToolspeakModel` is a `Model` for its agents."""

from typing import Any

from . import AnyModel, Runner, extra
from .openai import async_openai_client

with extra("openai-agents"):
    from agents import OpenAIChatCompletionsModel


class ToolspeakModel(OpenAIChatCompletionsModel):
    """A model for agents of the SDK. Takes the arguments of `Client`, or an existing client."""

    def __init__(self, model: AnyModel, **arguments: Any) -> None:
        runner = Runner(model, arguments)
        super().__init__(model=runner.client.model, openai_client=async_openai_client(runner.owner, **runner.options))

"""smolagents: `ToolspeakModel` is a `Model` for its agents."""

from typing import Any

from . import AnyModel, Runner, extra
from .openai import openai_client

with extra("smolagents"):
    from smolagents import OpenAIModel


class ToolspeakModel(OpenAIModel):
    """A model for agents of smolagents. Takes the arguments of `Client`, or an existing client."""

    def __init__(self, model: AnyModel, **arguments: Any) -> None:
        runner = Runner(model, arguments)
        super().__init__(runner.client.model, client=openai_client(runner.owner, **runner.options))

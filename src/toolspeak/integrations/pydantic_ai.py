"""pydantic-ai: `ToolspeakModel` is a `Model` for its agents."""

from typing import Any

from . import AnyModel, Runner, extra
from .openai import async_openai_client

with extra("pydantic-ai"):
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider


class ToolspeakModel(OpenAIChatModel):
    """A model for pydantic-ai's agents. Takes the arguments of `Client`, or an existing client."""

    def __init__(self, model: AnyModel, *, settings: Any = None, profile: Any = None, **arguments: Any) -> None:
        runner = Runner(model, arguments)
        provider = OpenAIProvider(openai_client=async_openai_client(runner.owner, **runner.options))
        super().__init__(runner.client.model, provider=provider, settings=settings, profile=profile)

"""LiteLLM: `register` adds a custom provider, so `litellm.completion("toolspeak/...")` calls tools with any model."""

from collections.abc import AsyncGenerator
from functools import lru_cache
from typing import Any

from ..core.types import JSONObject
from . import AnyModel, Runner, extra
from .openai import async_openai_client

with extra("litellm"):
    import litellm
    import openai
    from litellm.llms.custom_llm import CustomLLMError


def register(model: AnyModel | None = None, *, provider: str = "toolspeak", **arguments: Any) -> None:
    """Add a provider to LiteLLM, or replace it. Takes the arguments of `Client`, or an existing client.

    Without `model`, what follows the name of the provider is one: `toolspeak/openai:my-model`.
    """
    others = [each for each in litellm.custom_provider_map if each["provider"] != provider]
    litellm.custom_provider_map = [*others, {"provider": provider, "custom_handler": _Provider(model, arguments)}]


class _Provider(litellm.CustomLLM):
    def __init__(self, model: AnyModel | None, arguments: JSONObject) -> None:
        super().__init__()
        self._runner = lru_cache(lambda name: Runner(model or name, arguments))

    def completion(self, **call: Any) -> Any:
        return self._runner(call["model"]).run(self.acompletion(**call))

    def streaming(self, **call: Any) -> Any:
        return self._runner(call["model"]).iterate(self.astreaming(**call))

    async def acompletion(self, **call: Any) -> Any:
        return litellm.ModelResponse(**(await self._ask(call)).model_dump(exclude_none=True))

    async def astreaming(self, **call: Any) -> AsyncGenerator[Any, None]:
        async for chunk in await self._ask(call, stream=True):
            yield litellm.ModelResponseStream(**chunk.model_dump(exclude_none=True))

    async def _ask(self, call: JSONObject, stream: bool = False) -> Any:
        runner = self._runner(call["model"])
        create = async_openai_client(runner.owner, **runner.options).chat.completions.create
        fields = {name: value for name, value in call["optional_params"].items() if name != "max_retries"}
        fields |= {"stream_options": {"include_usage": True}} if stream else {}
        try:
            return await create(model=call["model"], messages=call["messages"], stream=stream, extra_body=fields)
        except openai.APIStatusError as error:
            raise CustomLLMError(error.status_code, error.message) from error

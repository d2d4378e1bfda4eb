"""LlamaIndex: `ToolspeakLLM` is a function-calling LLM for its agents and engines."""

from typing import Any

from ..core.types import JSONObject
from . import AnyModel, Runner, extra
from .openai import async_openai_client, openai_client

with extra("llama-index"):
    from llama_index.core.llms import LLMMetadata
    from llama_index.llms.openai import OpenAI


class ToolspeakLLM(OpenAI):
    """An LLM of LlamaIndex. Takes the arguments of `Client`, or an existing client."""

    def __init__(self, model: AnyModel, **arguments: Any) -> None:
        runner = Runner(model, arguments)
        makers = {"openai_client": openai_client, "async_openai_client": async_openai_client}
        clients = {name: make(runner.owner, **runner.options) for name, make in makers.items()}
        super().__init__(runner.client.model, max_retries=0, api_key="unused", **clients)

    @property
    def metadata(self) -> LLMMetadata:
        """What LlamaIndex needs to know about the model."""
        return LLMMetadata(model_name=self.model, is_chat_model=True, is_function_calling_model=True)

    def _get_model_kwargs(self, **kwargs: Any) -> JSONObject:
        fields = super()._get_model_kwargs(**kwargs)
        return {name: value for name, value in fields.items() if name != "temperature" or name in kwargs}

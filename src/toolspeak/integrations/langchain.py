"""LangChain: `ChatToolspeak` is a chat model for its chains and agents."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from ..core.events import CallArgs, CallStart, Event, ReasoningDelta, TextDelta
from ..core.types import JSONObject
from ..engine.turn.trace import TracedReply
from . import AnyModel, Runner, extra

with extra("langchain"):
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, convert_to_openai_messages
    from langchain_core.messages.tool import tool_call, tool_call_chunk
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
    from langchain_core.utils.function_calling import convert_to_openai_tool

_CHOICES = {True: "required", "any": "required", False: None}


class ChatToolspeak(BaseChatModel):
    """A chat model of LangChain. Takes the arguments of `Client`, or an existing client, and those of LangChain."""

    _runner: Any = None

    def __init__(self, model: AnyModel, **arguments: Any) -> None:
        own = {name: value for name, value in arguments.items() if name in BaseChatModel.model_fields}
        super().__init__(**own)
        self._runner = Runner(model, {name: value for name, value in arguments.items() if name not in own})

    @property
    def _llm_type(self) -> str:
        return "toolspeak"

    @property
    def _identifying_params(self) -> JSONObject:
        return {"model": self._runner.client.model, **self._runner.options}

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: Any = None, strict: bool | None = None, **kwargs: Any
    ) -> Any:
        """Return this model with tools. `tool_choice` is a mode, the name of a tool, or `any`."""
        listed = [convert_to_openai_tool(each, strict=strict) for each in tools]
        choice = _CHOICES.get(tool_choice, tool_choice) if isinstance(tool_choice, str | bool) else tool_choice
        if any(each["function"]["name"] == choice for each in listed if "function" in each):
            choice = {"type": "function", "function": {"name": choice}}
        return self.bind(tools=listed, tool_choice=choice, **kwargs)

    def _arguments(self, messages: list[BaseMessage], stop: Any, options: JSONObject) -> JSONObject:
        return {"messages": convert_to_openai_messages(messages), **self._runner.options, "stop": stop, **options}

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return _result(self._runner.run(self._runner.client.chat(**self._arguments(messages, stop, kwargs))))

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        turn = self._runner.client.chat(**self._arguments(messages, stop, kwargs))
        return _result(await self._runner.run_async(turn))

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        return self._runner.iterate(self._chunks(self._arguments(messages, stop, kwargs)))

    def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        return self._runner.iterate_async(self._chunks(self._arguments(messages, stop, kwargs)))

    async def _chunks(self, arguments: JSONObject) -> AsyncGenerator[ChatGenerationChunk, None]:
        stream = self._runner.client.stream(**arguments)
        async for event in stream:
            if (fields := _fields(event)) is not None:
                yield ChatGenerationChunk(message=AIMessageChunk(**{"content": "", **fields}))
        yield ChatGenerationChunk(message=AIMessageChunk(content="", chunk_position="last", **_about(stream.reply)))


def _result(reply: TracedReply) -> ChatResult:
    calls = [tool_call(name=call.name, args=call.arguments, id=call.id) for call in reply.tool_calls]
    reasoning = {"reasoning_content": reply.reasoning} if reply.reasoning else {}
    message = AIMessage(content=reply.text, tool_calls=calls, additional_kwargs=reasoning, **_about(reply))
    return ChatResult(generations=[ChatGeneration(message=message)])


def _fields(event: Event) -> JSONObject | None:
    match event:
        case TextDelta(text):
            return {"content": text}
        case ReasoningDelta(text):
            return {"additional_kwargs": {"reasoning_content": text}}
        case CallStart(index, name, id):
            return {"tool_call_chunks": [tool_call_chunk(name=name, args="", id=id, index=index)]}
        case CallArgs(index, fragment):
            return {"tool_call_chunks": [tool_call_chunk(args=fragment, index=index)]}
        case _:
            return None


def _about(reply: TracedReply) -> JSONObject:
    """Return the usage of a reply, and what toolspeak has to say about it."""
    usage = reply.usage
    return {
        "usage_metadata": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
            "input_token_details": {"cache_read": usage.cached_tokens},
            "output_token_details": {"reasoning": usage.reasoning_tokens},
        },
        "response_metadata": {"finish_reason": reply.finish_reason, "warnings": list(reply.warnings)},
    }

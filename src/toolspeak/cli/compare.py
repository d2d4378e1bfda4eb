"""`toolspeak compare` and `toolspeak try`: ask one question in several ways, side by side.

Never executes a tool. Text of models is untrusted, so control characters are removed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import product
from statistics import median
from typing import TYPE_CHECKING, Any

import click
import msgspec

from ..client import AsyncClient
from ..config import Secret
from ..core.text import counted, suggestion
from ..core.types import JSONObject, Tool, ToolCall, Usage
from ..engine.turn.faults import RETRY_REASONS
from ..errors import ModelError, UsageError
from ..evaluation.statistics import wilson
from ..runtime.options import SettingOptions
from ._io import Spinner, clean, echo, read_tools, usage_errors, write_json
from .agent_options import CommandOptions, make_client
from .config import load_config
from .env import checked_variable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..server.web.connect import Address

_SECONDS = 120.0  # timeout for an answer; a model may have to be loaded first
_MAX_CHARS = 600  # maximum number of characters of an answer to show
_MIN_WIDTH = 30  # minimum width of a column
_MAX_COLUMNS = 4
_CITY: JSONObject = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_WEATHER = Tool("get_weather", "Get the weather in a city.", _CITY)
#: Settings by name, those of the web page's playground.
_SETTINGS: dict[str, SettingOptions] = {
    "raw": {"mode": "off"},
    "auto": {},
    "fallback": {"mode": "fallback"},
    **{plan: {"mode": "force", "plan": plan} for plan in ("inline", "decision", "envelope")},
}


class _Answer(msgspec.Struct, frozen=True):
    calls: tuple[ToolCall, ...] = ()
    text: str = ""
    problem: str = ""
    error: ModelError | None = None
    seconds: float = 0.0
    requests: int = 0
    usage: Usage = Usage()


class _Column(msgspec.Struct, frozen=True):
    """The answers of one model in one setting."""

    title: str
    model: str
    setting: str
    answers: list[_Answer] = msgspec.field(default_factory=list[_Answer])

    @property
    def successes(self) -> int:
        return sum(bool(answer.calls) for answer in self.answers)

    def summary(self) -> JSONObject:
        """Return the first answer, and what all of them took and achieved."""
        answers, first = self.answers, self.answers[0]
        facts: JSONObject = {"model": self.model, "setting": self.setting, "text": first.text, "problem": first.problem}
        facts["calls"] = [{"name": call.name, "arguments": call.arguments} for call in first.calls]
        facts["seconds"] = round(median(answer.seconds for answer in answers), 3)
        facts["requests"] = median(answer.requests for answer in answers)
        facts["input_tokens"] = median(answer.usage.input_tokens for answer in answers)
        facts["output_tokens"] = median(answer.usage.output_tokens for answer in answers)
        facts |= {"runs": len(answers), "successes": self.successes}
        return facts | {"interval": list(wilson(self.successes, len(answers)))}

    def __rich__(self) -> RenderableType:
        from rich.text import Text

        facts, first = self.summary(), self.answers[0]
        calls = [f"✓ {call.name}({msgspec.json.encode(call.arguments).decode()})" for call in first.calls]
        lines = [(self.title, "bold"), *((line, "green") for line in calls), *[("✗ no tool call", "red")] * (not calls)]
        lines += [(first.problem, "yellow")] * bool(first.problem)
        lines.append((first.text if len(first.text) <= _MAX_CHARS else f"{first.text[:_MAX_CHARS]}…", ""))
        tokens = f"{counted(round(facts['input_tokens']), 'token')} in, {round(facts['output_tokens'])} out"
        lines.append((f"{facts['seconds']:.1f} s, {counted(round(facts['requests']), 'request')}, {tokens}", "dim"))
        if len(self.answers) > 1:
            low, high = facts["interval"]
            rate = f"{self.successes} of {len(self.answers)} runs made a call"
            lines.append((f"{rate} (95% interval {low:.0%} to {high:.0%})", "bold"))
        return Text.assemble(*((clean(f"{line}\n"), style) for line, style in lines))


class _Comparison:
    """Asks one question several times in each column, a few at once."""

    def __init__(self, prompt: str, tools: Sequence[Any] = (_WEATHER,), runs: int = 1, parallel: int = 2) -> None:
        self._prompt = prompt
        self._tools = tools
        self._runs = runs
        self._parallel = asyncio.Semaphore(parallel)
        self._done = 0

    async def ask_all(self, columns: Sequence[tuple[AsyncClient, _Column]]) -> list[_Column]:
        """Fill the columns. Raises ModelError if no column has an answer."""
        total = len(columns) * self._runs
        with Spinner() as spinner:
            runs = range(self._runs)
            await asyncio.gather(*(self._ask(*each, spinner, total) for _ in runs for each in columns))
        filled = [column for _, column in columns]
        errors = [answer.error for column in filled for answer in column.answers]
        if all(errors):
            raise next(filter(None, errors))
        return filled

    async def _ask(self, client: AsyncClient, column: _Column, spinner: Spinner, total: int) -> None:
        async with self._parallel:
            spinner.show(f"asking {column.model}: {self._done} of {total} answers")
            began = time.monotonic()
            try:
                reply = await client.chat(self._prompt, self._tools, timeout=_SECONDS, **_SETTINGS[column.setting])
            except ModelError as error:  # such as an upstream that rejects tools
                column.answers.append(_Answer(problem=str(error), error=error, seconds=time.monotonic() - began))
            else:
                problem = _retries_text([note.code for note in reply.notes])
                cost = (time.monotonic() - began, reply.requests, reply.usage)
                column.answers.append(_Answer(reply.calls, reply.text.strip(), problem, None, *cost))
            self._done += 1


def command(
    prompt: str,
    model: tuple[str, ...],
    settings: str,
    tools: str | None,
    runs: int,
    parallel: int,
    as_json: bool,
    **place: str,
) -> None:
    with usage_errors():
        chosen = settings or ("auto" if len(model) > 1 else "raw,inline,decision,envelope")
        pairs = list(product(dict.fromkeys(model or ("",)), dict.fromkeys(map(str.strip, chosen.split(",")))))
        unknown = [name for _, name in pairs if name not in _SETTINGS]
        if unknown:
            raise UsageError(f"unknown setting `{unknown[0]:.80}`", hint=suggestion(unknown[0], _SETTINGS))
        if len(pairs) > _MAX_COLUMNS:
            hint = f"at most {_MAX_COLUMNS} fit; choose with --model and --settings"
            raise UsageError(f"{len(pairs)} columns are too many", hint=hint)
        comparison = _Comparison(prompt, [_WEATHER] if tools is None else read_tools(tools), runs, parallel)
        columns = asyncio.run(_compare(comparison, pairs, place))
    if as_json:
        write_json({"prompt": prompt, "columns": [column.summary() for column in columns]}, indent=2)
    else:
        echo(f"{clean(prompt)}\n")
        _print(columns)
    sys.exit(not any(column.successes for column in columns))


def _retries_text(codes: Sequence[str]) -> str:
    """Say how many retries there were, and why."""
    reasons = [RETRY_REASONS[code] for code in codes if code in RETRY_REASONS]
    return f"{counted(len(reasons), 'retry', 'retries')}: {', '.join(dict.fromkeys(reasons))}" if reasons else ""


async def _compare(
    comparison: _Comparison, pairs: Sequence[tuple[str, str]], place: Mapping[str, str]
) -> list[_Column]:
    async with AsyncExitStack() as stack:
        clients: dict[str, AsyncClient] = {}
        for name in dict.fromkeys(name for name, _ in pairs):
            client, _ = make_client(CommandOptions(name, place["upstream"], place["protocol"]))
            clients[name] = await stack.enter_async_context(client)
        models = {name: client.model or name for name, client in clients.items()}
        titles = [f"{models[name]}: {setting}" if len(clients) > 1 else setting for name, setting in pairs]
        columns = [_Column(title, models[name], setting) for title, (name, setting) in zip(titles, pairs, strict=True)]
        return await comparison.ask_all([(clients[name], each) for (name, _), each in zip(pairs, columns, strict=True)])


def try_command(url: str, model: str, prompt: str, key_env: str) -> None:
    with usage_errors():
        key = os.environ.get(checked_variable(key_env), "") if key_env else ""  # noqa: TID251 - named by the user
        with Spinner("looking for models"):
            address, name = asyncio.run(_locate(url, model, key))
        raw, helped = asyncio.run(_try(_Comparison(prompt), address, name, key))
    echo(f"{clean(name)} at {address.base_url}: {clean(prompt)}\n")
    _print([raw, helped])
    advice = "Use it: toolspeak serve" if helped.successes else "Find out why: toolspeak doctor"
    click.echo(f"\n{advice} --upstream {address.base_url} --model {address.provider}:{clean(name)}")
    sys.exit(not helped.successes)


async def _locate(url: str, model: str, key: str) -> tuple[Address, str]:
    """Return where the models are served, in which protocol, and the name of the model to ask."""
    from ..engine.planning.capabilities import Capabilities
    from ..server.web.connect import default_model, detect, find_addresses

    base = (url if "://" in url else f"http://{url}").rstrip("/")
    address = await detect(find_addresses(Capabilities(), base, "", Secret(key)))
    name, problem = model or default_model(address.models), address.problem
    if problem is not None and not problem.upstream_status:
        raise UsageError(str(problem.args[0]), hint="check the address, and that the server is running")
    if problem is not None and problem.upstream_status in (401, 403):
        hint = "pass the name of the variable that contains your key: --key-env NAME"
        raise UsageError(f"{base} refuses access: {problem.args[0]}", hint=hint)
    if not name:
        hint = "add --model NAME, or check the path of the URL: most end in /v1"
        raise UsageError(f"{base} lists no models", hint=hint)
    return address, name


async def _try(comparison: _Comparison, address: Address, name: str, key: str) -> list[_Column]:
    model, config = f"{address.provider}:{name}", load_config({"probe": "off"})
    async with AsyncClient(model, base_url=address.base_url, api_key=key, config=config) as client:
        columns = _Column("Raw", name, "raw"), _Column("Through toolspeak", name, "auto")
        return await comparison.ask_all([(client, column) for column in columns])


def _print(columns: Sequence[_Column]) -> None:
    """Print the columns side by side if the terminal is wide enough, otherwise one below the other."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if console.width < _MIN_WIDTH * len(columns):
        console.print(*columns, sep="\n")
        return
    table = Table.grid(padding=(0, 3), expand=True)
    for _ in columns:
        table.add_column(ratio=1)
    table.add_row(*columns)
    console.print(table)

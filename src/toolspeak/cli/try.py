"""`toolspeak try URL`: ask a model the same question raw and through toolspeak, side by side.

Never executes a tool. Text of the model is untrusted, so control characters are removed.
Exit status: 0 the model made a call through toolspeak, 1 it did not, 2 invalid command line.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING

import click
import msgspec

from ..config import Secret
from ..core.text import counted
from ..errors import UpstreamError, UsageError
from ._io import Spinner, clean
from .config import load_config, usage_errors
from .env import checked_variable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..client import AsyncClient
    from ..server.web.connect import Address

_QUESTION = "What is the weather in Oslo? Use the tool."
_SECONDS = 120.0  # timeout for an answer; a model may have to be loaded first
_MAX_CHARS = 600  # maximum number of characters of an answer to show
_MIN_WIDTH = 60  # minimum width of a terminal for two columns
_PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class _Attempt(msgspec.Struct, frozen=True):
    title: str
    calls: tuple[str, ...] = ()
    text: str = ""
    problem: str = ""
    summary: str = ""

    def __rich__(self) -> RenderableType:
        from rich.text import Text

        calls = [(f"✓ {call}\n", "green") for call in self.calls] or [("✗ no tool call\n", "red")]
        problem = [(f"{self.problem}\n", "yellow")] * bool(self.problem)
        text = self.text if len(self.text) <= _MAX_CHARS else f"{self.text[:_MAX_CHARS]}…"
        return Text.assemble((f"{self.title}\n", "bold"), *calls, *problem, f"{clean(text)}\n", (self.summary, "dim"))


@click.command("try")
@click.argument("url")
@click.option("--model", "-m", default="", metavar="NAME", help="Model to ask.  [default: the first that is listed]")
@click.option("--prompt", default=_QUESTION, show_default=True, metavar="TEXT", help="Question about the weather.")
@click.option("--key-env", default="", metavar="NAME", help="Environment variable that contains the key.")
def command(url: str, model: str, prompt: str, key_env: str) -> None:
    """Ask the model at URL the same question raw and through toolspeak.

    The model is offered the tool `get_weather`. Raw, the request is sent as it is; through toolspeak, the tool is also
    taught in the prompt if needed, and broken calls are repaired or asked for again. The tool is not executed.
    """
    with usage_errors():
        key = os.environ.get(checked_variable(key_env), "") if key_env else ""  # noqa: TID251 - named by the user
        with Spinner("looking for models") as spinner:
            address, name = asyncio.run(_locate(url, model, key))
            spinner.show(f"asking {name} twice")
            raw, helped = asyncio.run(_ask_twice(address, name, key, prompt))
    click.echo(f"{clean(name)} at {address.base_url}: {clean(prompt)}\n")
    _print(raw, helped)
    click.echo(f"\nUse it: toolspeak serve --upstream {address.base_url} --model {address.provider}:{clean(name)}")
    sys.exit(not helped.calls)


async def _locate(url: str, model: str, key: str) -> tuple[Address, str]:
    """Return where the models are served, in which protocol, and the name of the model to ask."""
    from ..engine.planning.capabilities import Capabilities
    from ..server.web.connect import default_model, detect, find_addresses

    base = (url if "://" in url else f"http://{url}").rstrip("/")
    address = await detect(find_addresses(Capabilities(), base, "", Secret(key)))
    name = model or default_model(address.models)
    if not name:
        hint = f"add --model NAME, or run `toolspeak doctor --upstream {base}`"
        raise UsageError(f"{base} lists no models", hint=hint)
    return address, name


async def _ask_twice(address: Address, name: str, key: str, prompt: str) -> tuple[_Attempt, _Attempt]:
    from ..client import AsyncClient

    model, config = f"{address.provider}:{name}", load_config({"probe": "off"})
    async with AsyncClient(model, base_url=address.base_url, api_key=key, config=config) as client:
        raw, helped = await asyncio.gather(_ask(client, prompt, "off"), _ask(client, prompt, "auto"))
    return raw, helped


async def _ask(client: AsyncClient, prompt: str, mode: str) -> _Attempt:
    from ..core.types import Tool
    from ..engine.turn.faults import FAULT_TEXTS

    title = "Raw" if mode == "off" else "Through toolspeak"
    tools, began = [Tool("get_weather", "Get the weather in a city.", _PARAMETERS)], time.monotonic()
    try:
        reply = await client.chat(prompt, tools, timeout=_SECONDS, mode=mode)
    except UpstreamError as error:
        if mode != "off" or not error.upstream_status:
            raise
        return _Attempt(title, problem=clean(str(error)))  # such as an upstream that rejects tools
    calls = tuple(clean(f"{call.name}({msgspec.json.encode(call.arguments).decode()})") for call in reply.calls)
    faults = {f"retry_{kind}": text for kind, text in FAULT_TEXTS.items()}
    reasons = [faults[note.code] for note in reply.notes if note.code in faults]
    problem = f"asked again: {', '.join(reasons)}" if reasons else ""
    summary = f"{time.monotonic() - began:.1f} s, {counted(reply.requests, 'request')}"
    return _Attempt(title, calls, reply.text.strip(), problem, summary)


def _print(raw: _Attempt, helped: _Attempt) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if console.width < _MIN_WIDTH:
        console.print(raw, "", helped, sep="\n")
        return
    table = Table.grid(padding=(0, 3), expand=True)
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    table.add_row(raw, helped)
    console.print(table)

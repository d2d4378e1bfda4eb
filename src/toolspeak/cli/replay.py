"""`toolspeak replay ID`: a request once more, with another policy, dialect, plan, mode or model, and both compared.

No tool is executed. By the server that knows the request, else here, from the store. A thin face: it decides nothing
itself. Exit status: 0 there is an answer; 1 it ended in an error; 2 the command line is wrong.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, get_args

import click
import msgspec

from ..config import Config
from ..config.values import Spoken
from ..core.parsing.acceptance import Policy
from ..engine.planning.strategy import Emulation, Mode
from ..errors import UsageError
from ._io import write_json
from ._recorded_requests import find, replay_there, safe
from .config import loaded, usage_errors
from .explain import lines

_EXAMPLES = """\b
Examples:
  toolspeak replay last --policy eager
  toolspeak replay 3f2a9c --plan decision
  toolspeak replay last --model other-model --dialect hermes --json
  toolspeak replay last --upstream http://127.0.0.1:9000/v1
"""
_PROTOCOLS: list[str] = [name for name in get_args(Spoken) if name]
_Tell = Callable[[dict[str, Any]], object]
#: What is compared.
_ROWS: dict[str, _Tell] = {
    "outcome": lambda told: told.get("outcome", "-"),
    "plan": lambda told: told["plan"],
    "calls": lambda told: ", ".join(_calls(told)) or "none",
    "why no call": lambda told: told["trace"]["why_no_call"] or "-",
    "requests": lambda told: told["requests"],
    "retries": lambda told: told["retries"],
    "repairs": lambda told: told["repairs"],
    "tokens": lambda told: f"{told['input_tokens']} in, {told['output_tokens']} out",
    "time": lambda told: f"{told['timing']['whole'] * 1000:.1f} ms",
    "error": lambda told: told["error"] or "-",
}


@click.command("replay", epilog=_EXAMPLES)
@click.argument("identifier", metavar="ID")
@click.option("--policy", type=click.Choice(get_args(Policy)), default=None, help="How much evidence a call needs.")
@click.option("--dialect", default=None, metavar="NAME", help="How the model is asked to write calls.")
@click.option("--plan", type=click.Choice(get_args(Emulation)), default=None, help="How to emulate.")
@click.option("--mode", type=click.Choice(get_args(Mode)), default=None, help="When to emulate.")
@click.option("--model", default=None, metavar="NAME", help="Ask another model; PROVIDER:MODEL for one elsewhere.")
@click.option("--upstream", default="", metavar="URL", help="Ask there instead, such as http://127.0.0.1:9000/v1.")
@click.option("--protocol", type=click.Choice(_PROTOCOLS), default=None, help="What that upstream speaks.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(identifier: str, as_json: bool, upstream: str, protocol: str | None, **wishes: str | None) -> None:
    """Carry a request out once more and compare: ID is the beginning of its id, or `last`. No tool is executed.

    The server that knows the request asks its model again. A request of the store goes to the upstream that answered
    it then, if the configuration has it, with the settings of then; otherwise say where with --upstream or --model.
    """
    wanted = {name: value for name, value in wishes.items() if value}
    with usage_errors():
        config = loaded({"protocol": protocol} if protocol else None)
        found = find(config, identifier)
        first = found.told
        if found.door is not None and not upstream:
            again = replay_there(found.door, first["id"], wanted)
        else:
            again = _here(config, first, wanted, upstream)
    if as_json:
        write_json(again, indent=2)
    else:
        for name, tell in _ROWS.items():
            one, two = safe(str(tell(first))), safe(str(tell(again)))
            click.echo(f"{name:<12} {one}" if one == two else f"{name:<12} {one}  ->  {two}")
        click.echo("")
        for line in lines(again):
            click.echo(line)
    if again["error"]:
        sys.exit(1)


def _calls(told: dict[str, Any]) -> list[str]:
    return [
        f"{candidate['name']}({msgspec.json.encode(candidate['arguments']).decode()})"
        for attempt in told["trace"]["attempts"]
        for candidate in attempt["candidates"]
        if candidate["verdict"] == "call"
    ]


def _here(config: Config, told: dict[str, Any], wanted: dict[str, str], upstream: str) -> Any:
    """Without a server: who was asked then is asked here, unless another upstream or model is given."""
    from ..core.types import Tool
    from ..engine.turn.trace import Trace
    from ..server.access.auth import Caller
    from ..server.process.from_config import gateway_from, secrets_of
    from ..server.proxy.exchange import Record
    from ..server.recording.entries import Entry
    from ..server.recording.replay import replayed
    from ..server.recording.views import whole
    from ._upstream_choice import way_back

    body = told["client"]["body"]
    if not isinstance(body, dict):
        raise UsageError("the texts of this request were not kept, or it was no request")
    way = way_back(config, told.get("upstream"), upstream, wanted.get("model", ""))
    record = Record(told["id"], told["face"], told["model"], told["plan"], 0, (), "", Trace("", "", ""))
    served = msgspec.convert(told.get("server_tools", ()), tuple[Tool, ...])
    entry = Entry(record, body=msgspec.json.encode(body), fields=told["client"]["fields"], served=served)
    # As it was carried out then, but for what is to be different now.
    wishes: dict[str, Any] = {**(told.get("settings") or {}), **wanted, "model": way.asked}

    async def run() -> Entry:
        gateway = gateway_from(config, way.upstream, way.model, alone=bool(way.model))
        try:
            return await replayed(entry, gateway, Caller(admin=True), wishes)
        finally:
            await gateway.close()

    again = msgspec.structs.replace(asyncio.run(run()), changed=wanted)
    return whole(again, [secret.reveal() for secret in secrets_of(config, way.upstream, way.model)])

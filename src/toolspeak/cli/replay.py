"""`toolspeak replay ID`: re-run a request with another policy, dialect, plan, mode or model, and compare.

Runs on the server that recorded the request, or locally from the store. Never executes a tool.
Exit status: 0 answered, 1 the replay failed, 2 invalid command line.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from ..config import Config
from ..errors import UsageError
from ._io import Spinner, echo, write_json
from ._recorded_requests import find, replay_on_server, safe
from .config import load_config, usage_errors
from .explain import report_lines

_Field = Callable[[dict[str, Any]], object]
_ROWS: dict[str, _Field] = {
    "outcome": lambda recording: recording.get("outcome", "-"),
    "plan": lambda recording: recording["plan"],
    "calls": lambda recording: ", ".join(_calls(recording)) or "none",
    "why no call": lambda recording: recording["trace"]["why_no_call"] or "-",
    "requests": lambda recording: recording["requests"],
    "retries": lambda recording: recording["retries"],
    "repairs": lambda recording: recording["repairs"],
    "tokens": lambda recording: f"{recording['input_tokens']} in, {recording['output_tokens']} out",
    "time": lambda recording: f"{recording['timing']['whole'] * 1000:.1f} ms",
    "error": lambda recording: recording["error"] or "-",
}


def command(identifier: str, as_json: bool, upstream: str, protocol: str | None, **options: str | None) -> None:
    changes = {name: value for name, value in options.items() if value}
    with usage_errors():
        config = load_config({"protocol": protocol} if protocol else None)
        match = find(config, identifier)
        original = match.recording
        with Spinner("asking the model"):
            if match.server is not None and not upstream:
                replay = replay_on_server(match.server, original["id"], changes)
            else:
                replay = _replay_locally(config, original, changes, upstream)
    if as_json:
        write_json(replay, indent=2)
    else:
        for name, tell in _ROWS.items():
            one, two = safe(str(tell(original))), safe(str(tell(replay)))
            echo(f"{name:<12} {one}" if one == two else f"{name:<12} {one}  ->  {two}")
        echo("")
        for line in report_lines(replay):
            echo(line)
    if replay["error"]:
        sys.exit(1)


def _calls(recording: dict[str, Any]) -> list[str]:
    candidates = [each for attempt in recording["trace"]["attempts"] for each in attempt["candidates"]]
    calls = [each for each in candidates if each["verdict"] == "call"]
    return [f"{each['name']}({msgspec.json.encode(each['arguments']).decode()})" for each in calls]


def _replay_locally(config: Config, recording: dict[str, Any], changes: dict[str, str], upstream: str) -> Any:
    """Replay a stored request without a server, on its original upstream unless another one is given."""
    from ..core.types import Tool
    from ..engine.turn.trace import Trace
    from ..server.access.auth import Caller
    from ..server.process.from_config import gateway_from, secrets_of
    from ..server.proxy.exchange import RequestRecord
    from ..server.recording.entries import RecordingEntry
    from ..server.recording.replay import replay_request
    from ..server.recording.views import detail
    from ._upstream_choice import replay_route

    body = recording["client"]["body"]
    if not isinstance(body, dict):
        raise UsageError("this request cannot be replayed, because its body was not recorded")
    route = replay_route(config, recording.get("upstream"), upstream, changes.get("model", ""))
    name, face, own, plan = (recording[field] for field in ("id", "face", "model", "plan"))
    record = RequestRecord(name, face, own, plan, 0, (), "", Trace("", "", ""))
    served = msgspec.convert(recording.get("server_tools", ()), tuple[Tool, ...])
    fields = recording["client"]["fields"]
    entry = RecordingEntry(record, body=msgspec.json.encode(body), fields=fields, server_tools=served)
    # Use the original settings, except for the requested changes.
    settings: dict[str, Any] = {**(recording.get("settings") or {}), **changes, "model": route.requested_model}

    async def run() -> RecordingEntry:
        gateway = gateway_from(config, route.upstream, route.model, alone=bool(route.model))
        try:
            return await replay_request(entry, gateway, Caller(admin=True), settings)
        finally:
            await gateway.close()

    again = msgspec.structs.replace(asyncio.run(run()), changed=changes)
    return detail(again, [secret.reveal() for secret in secrets_of(config, route.upstream, route.model)])

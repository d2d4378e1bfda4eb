"""Settings for one request, in the header `x-toolspeak-settings`.

The header is a JSON object of mode, plan, dialect, policy, marks and retries, and in `server_tools` the names of the
server's tools to offer. It is honoured for sessions and admin keys only; other requests follow the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...core.types import JSONValue, is_array
from ...engine.planning.strategy import Settings
from ...errors import UsageError
from ..asgi import Scope, header
from .upstream_router import Target

HEADER = b"x-toolspeak-settings"
#: Settings that a request may change; the others are for the configuration, or affect more than one request.
ALLOWED = ("mode", "plan", "dialect", "policy", "marks", "retries")
#: Selects tools of the server; replays never use them.
_TOOLS = "server_tools"


def apply_request_settings(target: Target, scope: Scope) -> Target:
    """The target with the settings of the request's header.

    Raises:
        UsageError: the header is malformed, or has an unknown setting or value.
    """
    text = header(scope, HEADER)
    if not text:
        return target
    try:
        changes = msgspec.json.decode(text, type=dict[str, JSONValue])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UsageError(f"`{HEADER.decode()}` must be a JSON object") from None
    server_tools = _names(changes.pop(_TOOLS)) if _TOOLS in changes else None
    return msgspec.structs.replace(target, settings=merge_settings(target.settings, changes), server_tools=server_tools)


def _names(value: JSONValue) -> frozenset[str]:
    if not is_array(value) or not all(isinstance(each, str) for each in value):
        raise UsageError(f"`{_TOOLS}` must be a list of names")
    return frozenset(str(each) for each in value)


def merge_settings(settings: Settings, changes: Mapping[str, JSONValue]) -> Settings:
    """Settings with some of them changed; empty values are ignored.

    Raises:
        UsageError: a setting is unknown, or its value is invalid.
    """
    values = {name: value for name, value in changes.items() if value not in ("", None)}
    unknown = [name for name in values if name not in ALLOWED]
    if unknown:
        raise UsageError(f"`{unknown[0][:64]}` is not a setting of a request", hint=f"use {', '.join(ALLOWED)}")
    if isinstance(name := values.get("dialect"), str) and name != "auto":
        from ...dialects.registry import dialect

        dialect(name)
    try:
        return msgspec.convert({**msgspec.structs.asdict(settings), **values}, Settings)
    except msgspec.ValidationError as error:
        reason, _, field = str(error).partition(" - at `$.")
        raise UsageError(f"invalid value for `{field.rstrip('`')}`: {reason}") from None

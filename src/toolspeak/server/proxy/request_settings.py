"""Settings for a single request, sent in the header `x-toolspeak-settings`.

The header is a JSON object with mode, plan, dialect, policy, marks, retries and compact. `server_tools` lists the names
of the server tools to offer. The header is honoured only for login sessions and admin keys; it is ignored for other
callers.
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
#: Settings that a request may change. Others can only be configured, or affect more than one request.
ALLOWED = ("mode", "plan", "dialect", "policy", "marks", "retries", "compact")
#: Field that selects server tools; replays do not allow it.
_TOOLS = "server_tools"


def apply_request_settings(target: Target, scope: Scope) -> Target:
    """Apply the settings from the request header to a target. Raises UsageError if they are invalid."""
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
        raise UsageError(f"`{_TOOLS}` must be a list of tool names")
    return frozenset(str(each) for each in value)


def merge_settings(settings: Settings, changes: Mapping[str, JSONValue]) -> Settings:
    """Apply changes to settings, ignoring empty values. Raises UsageError if one is unknown or invalid."""
    values = {name: value for name, value in changes.items() if value not in ("", None)}
    unknown = [name for name in values if name not in ALLOWED]
    if unknown:
        raise UsageError(f"unknown request setting `{unknown[0][:64]}`", hint=f"use {', '.join(ALLOWED)}")
    if isinstance(name := values.get("dialect"), str) and name != "auto":
        from ...dialects.registry import dialect

        dialect(name)
    try:
        return msgspec.convert({**msgspec.structs.asdict(settings), **values}, Settings)
    except msgspec.ValidationError as error:
        reason, _, field = str(error).partition(" - at `$.")
        raise UsageError(f"invalid value for `{field.rstrip('`')}`: {reason}") from None

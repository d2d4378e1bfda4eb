"""Settings for a single request, sent in the header `x-toolspeak-settings`.

The header is a JSON object with mode, plan, dialect, policy, marks, retries and compact. `server_tools` lists the names
of the server tools to offer. Login sessions and admin keys may send the header, and so may every program on this
machine if the server requires no key. For all others it is an error, because a setting must not be ignored silently.
"""

from collections.abc import Mapping

import msgspec

from ...core.types import JSONValue, is_array
from ...engine.planning.strategy import Settings
from ...errors import UsageError
from ..access.auth import Caller, Forbidden
from ..access.origin_guard import is_local
from ..asgi import Scope, header
from .upstream_router import Gateway, Target

HEADER = b"x-toolspeak-settings"
#: Settings that a request may change. Others can only be configured, or affect more than one request.
ALLOWED = ("mode", "plan", "dialect", "policy", "marks", "retries", "compact")
#: Settings that decide which calls count. If the server runs tools for the caller, only an admin may change them: they
#: protect the server against calls that were injected through tool results.
_PROTECTIVE = frozenset({"policy", "marks"})
_ADMIN_HINT = "create one with `toolspeak keys new NAME --admin`, or change the configuration of the server"
_TOOLS = "server_tools"  # field that selects server tools; replays do not allow it


def apply_request_settings(target: Target, scope: Scope, gateway: Gateway, caller: Caller) -> Target:
    """Apply the settings in the request header. Raises Forbidden or, if they are invalid, UsageError."""
    text = header(scope, HEADER)
    if not text:
        return target
    if not caller.admin and not (caller.keyless_server and is_local(scope)):
        raise Forbidden(f"`{HEADER.decode()}` requires an admin key here", hint=_ADMIN_HINT)
    try:
        changes = msgspec.json.decode(text, type=dict[str, JSONValue])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UsageError(f"`{HEADER.decode()}` must be a JSON object") from None
    protected = sorted(_PROTECTIVE & changes.keys())
    if protected and not caller.admin and gateway.server_tools(caller) is not None:
        why = "because the server runs tools for you"
        raise Forbidden(f"`{protected[0]}` requires an admin key, {why}", hint=_ADMIN_HINT)
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

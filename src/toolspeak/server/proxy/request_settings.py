"""Settings for one request: who runs the server may say with a request how it is to be carried out.

The header `x-toolspeak-settings` holds a JSON object of the settings that a person may try out: mode, plan, dialect,
policy, marks, retries; and in `server_tools` the names of those of the server's own tools that it wants, where the
configuration gives it some. It counts for sessions and keys made with `--admin`; everybody else's requests follow the
configuration.
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
#: What may be said; the rest is the configuration's, or costs more than one request.
ALLOWED = ("mode", "plan", "dialect", "policy", "marks", "retries")
#: What names tools of the server's own. Of these no replay has any.
_TOOLS = "server_tools"


def with_settings(target: Target, scope: Scope) -> Target:
    """The target, with the settings that the request asks for.

    Raises:
        UsageError: it asks for something that is none.
    """
    text = header(scope, HEADER)
    if not text:
        return target
    try:
        wanted = msgspec.json.decode(text, type=dict[str, JSONValue])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UsageError(f"`{HEADER.decode()}` must hold a JSON object") from None
    named = _names(wanted.pop(_TOOLS)) if _TOOLS in wanted else None
    return msgspec.structs.replace(target, settings=changed_settings(target.settings, wanted), server_tools=named)


def _names(value: JSONValue) -> frozenset[str]:
    if not is_array(value) or not all(isinstance(each, str) for each in value):
        raise UsageError(f"`{_TOOLS}` must be a list of names")
    return frozenset(str(each) for each in value)


def changed_settings(settings: Settings, wanted: Mapping[str, JSONValue]) -> Settings:
    """Settings with some of them changed; what is empty stays as it is.

    Raises:
        UsageError: one of them is unknown, or cannot be so.
    """
    given = {name: value for name, value in wanted.items() if value not in ("", None)}
    unknown = [name for name in given if name not in ALLOWED]
    if unknown:
        raise UsageError(f"`{unknown[0][:64]}` is no setting of a request", hint=f"use {', '.join(ALLOWED)}")
    if isinstance(name := given.get("dialect"), str) and name != "auto":
        from ...dialects.registry import dialect

        dialect(name)
    try:
        return msgspec.convert({**msgspec.structs.asdict(settings), **given}, Settings)
    except msgspec.ValidationError as error:
        reason, _, field = str(error).partition(" - at `$.")
        raise UsageError(f"`{field.rstrip('`')}` cannot be this: {reason}") from None

"""`toolspeak keys`: create, list and revoke the API keys of a server.

A key is printed once, and only on stdout. It is never passed as an argument, because other users can see command lines.
"""

import time

import msgspec

from ..config import load
from ..server.access.api_keys import ApiKeys
from ._io import CliError, echo, write_json
from .config import usage_errors


def new_command(name: str, models: str | None, rate: int, concurrency: int, admin: bool) -> None:
    allowed = tuple(name.strip() for name in (models or "").split(",") if name.strip())
    if models is not None and not allowed:  # for example an unset variable in a script, which must not allow all models
        raise CliError("--models is empty", hint="list some models, or omit --models to allow all")
    with usage_errors():
        key, text = ApiKeys(load().state()).new(name, allowed, rate, concurrency, admin=admin)
    echo(text)
    echo(f"note: this is the key `{key.name}` (id {key.id}). Save it now: it cannot be shown again.", err=True)


def list_command(as_json: bool) -> None:
    with usage_errors():
        keys = ApiKeys(load().state()).all()
    if as_json:
        write_json(msgspec.to_builtins(keys), indent=2)
        return
    if not keys:
        echo("No keys yet. Create one with: toolspeak keys new NAME", err=True)
    for key in keys:
        limits = [f"{key.rate} per minute"] * bool(key.rate) + [f"{key.concurrency} at a time"] * bool(key.concurrency)
        details = [", ".join(key.models) or "all models", *limits, *["admin"] * key.admin]
        created = time.strftime("%Y-%m-%d", time.gmtime(key.created))
        echo(f"{key.id}  {created}  {key.name}  ({'; '.join(details)})")


def revoke_command(name: str) -> None:
    with usage_errors():
        key = ApiKeys(load().state()).revoke(name)
    echo(f"Revoked the key `{key.name}` (id {key.id}).")

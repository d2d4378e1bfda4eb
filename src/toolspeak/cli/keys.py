"""`toolspeak keys`: create, list and revoke the API keys of a server.

A key is printed once, and only on stdout. It is never passed as an argument, because other users can see command lines.
"""

import time

import click
import msgspec

from ..config import load
from ..server.access.api_keys import ApiKeys
from ._io import CliError, CommandGroup, write_json
from .config import usage_errors


@click.group("keys", cls=CommandGroup)
def command() -> None:
    """Manage API keys for `toolspeak serve`."""


@command.command("new")
@click.argument("name")
@click.option("--models", metavar="NAMES", help="Allow only these models: comma-separated, with * as a wildcard.")
@click.option("--rate", default=0, metavar="N", help="Limit to N requests per minute.")
@click.option("--concurrency", default=0, metavar="N", help="Limit to N concurrent requests.")
@click.option("--admin", is_flag=True, help="Allow access to the web page and to everyone's requests.")
def new(name: str, models: str | None, rate: int, concurrency: int, admin: bool) -> None:
    """Create a key for NAME and print it once."""
    allowed = tuple(name.strip() for name in (models or "").split(",") if name.strip())
    if models is not None and not allowed:  # for example an unset variable in a script, which must not allow all models
        raise CliError("--models is empty", hint="list some models, or omit --models to allow all")
    with usage_errors():
        key, text = ApiKeys(load().state()).new(name, allowed, rate, concurrency, admin=admin)
    click.echo(text)
    click.echo(f"note: this is the key `{key.name}` (id {key.id}). Save it now: it cannot be shown again.", err=True)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(as_json: bool) -> None:
    """List keys and their limits. The keys themselves are not stored."""
    with usage_errors():
        keys = ApiKeys(load().state()).all()
    if as_json:
        write_json(msgspec.to_builtins(keys), indent=2)
        return
    if not keys:
        click.echo("No keys yet. Create one with: toolspeak keys new NAME", err=True)
    for key in keys:
        limits = [f"{key.rate} per minute"] * bool(key.rate) + [f"{key.concurrency} at a time"] * bool(key.concurrency)
        details = [", ".join(key.models) or "all models", *limits, *["admin"] * key.admin]
        created = time.strftime("%Y-%m-%d", time.gmtime(key.created))
        click.echo(f"{key.id}  {created}  {key.name}  ({'; '.join(details)})")


@command.command("revoke")
@click.argument("name")
def revoke(name: str) -> None:
    """Revoke the key NAME (a name or an id) immediately."""
    with usage_errors():
        key = ApiKeys(load().state()).revoke(name)
    click.echo(f"Revoked the key `{key.name}` (id {key.id}).")

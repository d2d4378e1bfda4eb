"""`toolspeak keys`: give out keys for a server, list them, take them back.

A thin face over `server.keys`. A key is printed once, on stdout and nowhere else; it is never an argument, since
others can read command lines.
"""

from __future__ import annotations

import time

import click

from ..config import load
from ._io import CliError, write_json
from .config import usage_errors

_EXAMPLES = """\b
Examples:
  toolspeak keys new anna
  toolspeak keys new ci --models 'qwen*,fast' --rate 60 --concurrency 4
  toolspeak keys list
  toolspeak keys revoke anna
"""


@click.group("keys", epilog=_EXAMPLES)
def command() -> None:
    """Keys for those who use `toolspeak serve`."""


@command.command("new")
@click.argument("name")
@click.option("--models", metavar="NAMES", help="Only these models, separated by commas; * for any text.")
@click.option("--rate", default=0, metavar="N", help="At most N requests a minute.")
@click.option("--concurrency", default=0, metavar="N", help="At most N requests at a time.")
@click.option("--admin", is_flag=True, help="May also see what others asked.")
def new(name: str, models: str | None, rate: int, concurrency: int, admin: bool) -> None:
    """Make a key for NAME and print it, this once."""
    from ..server.access.api_keys import Keys

    allowed = tuple(name.strip() for name in (models or "").split(",") if name.strip())
    if models is not None and not allowed:  # a variable that is not set in a script, say: nobody meant all of them
        raise CliError("--models names no model", hint="name some, or leave it out for all models")
    with usage_errors():
        key, text = Keys(load().state()).new(name, allowed, rate, concurrency, admin=admin)
    click.echo(text)
    click.echo(
        f"note: this is the key of `{key.name}` (id {key.id}); it is not kept and cannot be shown again", err=True
    )


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(as_json: bool) -> None:
    """Print who has a key, and for what. Keys themselves are not kept."""
    import msgspec

    from ..server.access.api_keys import Keys

    with usage_errors():
        found = Keys(load().state()).all()
    if as_json:
        write_json(msgspec.to_builtins(found), indent=2)
        return
    for key in found:
        limits = [f"{key.rate} a minute"] * bool(key.rate) + [f"{key.concurrency} at a time"] * bool(key.concurrency)
        says = [", ".join(key.models) or "all models", *limits, *["admin"] * key.admin]
        made = time.strftime("%Y-%m-%d", time.gmtime(key.created))
        click.echo(f"{key.id}  {made}  {key.name}  ({'; '.join(says)})")


@command.command("revoke")
@click.argument("name")
def revoke(name: str) -> None:
    """End the key of NAME (a name or an id), at once."""
    from ..server.access.api_keys import Keys

    with usage_errors():
        key = Keys(load().state()).revoke(name)
    click.echo(f"the key of `{key.name}` (id {key.id}) holds no more")

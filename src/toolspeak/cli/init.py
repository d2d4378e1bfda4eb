"""`toolspeak init`: find the model servers on this machine, write a configuration for them, and check it.

Never changes an existing file.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from ..config import Config, load
from ..config.sources import user_file
from ..errors import UsageError
from ._io import CliError, Spinner
from .config import usage_errors

if TYPE_CHECKING:
    from ..server.web.connect import Address


@click.command("init")
@click.option("--dry-run", is_flag=True, help="Print the configuration, and write and check nothing.")
@click.pass_context
def command(context: click.Context, dry_run: bool) -> None:
    """Find the models on this machine, write a configuration and check it.

    Looks for Ollama, LM Studio, llama.cpp and vLLM on their usual ports. The configuration is written to your own file,
    which `toolspeak config path` prints. An existing file is not changed.
    """
    with usage_errors(), Spinner("looking for models on this machine"):
        config = load()
        text = "\n".join(_lines(asyncio.run(_find())))
    if dry_run:
        click.echo(text)
        return
    _write(config, text)
    click.echo(f"Wrote `{user_file(config.environment())}`\n")
    from .doctor import command as doctor

    context.invoke(doctor)


async def _find() -> dict[str, Address]:
    """Map the name of each server that answers to its address and its models."""
    from ..engine.planning.capabilities import Capabilities
    from ..server.web.connect import find_local

    return {each.provider: each for each in await find_local(Capabilities()) if each.models}


def _lines(servers: Mapping[str, Address]) -> Iterator[str]:
    from ..server.web.connect import default_model

    if not servers:
        hint = "start one, or run `toolspeak serve --upstream URL`; without --upstream, a small embedded model is used"
        raise UsageError("found neither Ollama, LM Studio, llama.cpp nor vLLM on its usual port", hint=hint)
    name, first = next(iter(servers.items()))
    yield "# Written by `toolspeak init`."
    yield f"model = {json.dumps(f'{name}:{default_model(first.models)}')}"
    for name, address in servers.items():
        yield f"\n[upstreams.{name}]\nbase_url = {json.dumps(address.base_url)}"


def _write(config: Config, text: str) -> None:
    path = user_file(config.environment())
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text + "\n")
    except FileExistsError:
        hint = "`toolspeak init --dry-run` prints what to add to it"
        raise CliError(f"`{path}` already exists", hint=hint) from None
    except OSError as error:
        raise CliError(f"cannot write `{path}`: {error.strerror or error}") from None

"""`toolspeak init`: find the model servers on this machine, write a configuration for them, and check it.

Never changes an existing file.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..config.sources import user_file
from ..errors import UsageError
from ._io import Spinner, echo, usage_errors
from .config import new_config

if TYPE_CHECKING:
    from ..server.web.connect import Address


def command(dry_run: bool) -> None:
    with usage_errors(), Spinner("looking for models on this machine"):
        text = "\n".join(_lines(asyncio.run(_find())))
    if new_config(user_file(), text + "\n", "toolspeak init", dry_run):
        from .doctor import command as doctor

        echo()
        doctor()


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

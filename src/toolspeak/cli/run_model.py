"""Which model `run` and `chat` ask, and where it is.

Upstreams of the configuration are found as the proxy finds them, by the proxy's own parts: the same names, keys,
limits, timeouts and fallbacks, and the same trust in files of the working directory.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..config import Config
from ..errors import UsageError
from .config import loaded
from .first_run import prepare
from .run_setup import Wanted

if TYPE_CHECKING:
    from ..client import AsyncClient

#: What the names of models begin with that run here.
_EMBEDDED = "embedded:"
#: Models that are told to somebody who has named none.
_LISTED = 8


def client_of(wanted: Wanted) -> tuple[AsyncClient, Config]:
    """The client of the model that is meant; nothing said: the one that runs here.

    Upstreams of the configuration are meant by their names, as in the proxy: `NAME:model`, an alias, a model that one
    of them lists.

    Raises:
        ToolspeakError: it cannot be reached, or its weights cannot be had.
    """
    from ..client import AsyncClient
    from ..server.process.from_config import model_here, usable
    from ._upstream_choice import chosen

    flags = {"mode": wanted.mode or None, "base_url": wanted.upstream or None}
    config = loaded({name: value for name, value in flags.items() if value})
    usable(config, wanted.upstream, wanted.model)
    name = wanted.model or config.model
    if config.upstream_names() and not wanted.upstream:
        way = chosen(config, name) if name else None
        if way is None or not way.model:
            return _of_gateway(config, name, wanted.protocol), config
        name = way.model
    here = name.removeprefix(_EMBEDDED) if name.startswith(_EMBEDDED) else model_here(config, wanted.upstream, name)
    if here is not None:
        prepare(config, here)
        return AsyncClient(f"{_EMBEDDED}{here}", config=config), config
    name = name or "openai:"
    name = name if ":" in name else f"openai:{name}"
    return AsyncClient(name, base_url=wanted.upstream, protocol=wanted.protocol, config=config), config


def _of_gateway(config: Config, name: str, protocol: str) -> AsyncClient:
    """A model as the proxy serves it: the same keys, limits, timeouts and fallbacks."""
    from ..client import AsyncClient
    from ..core.types import Request
    from ..server.access.auth import Caller, Unauthorized
    from ..server.process.from_config import gateway_from

    if protocol:
        hint = "--protocol goes with --upstream"
        raise UsageError("what an upstream of the configuration speaks is said there", hint=hint)
    head, colon, _ = name.partition(":")
    only = head if colon and name not in config.aliases() and head in config.upstream_names() else ""
    gateway = gateway_from(config, only=only, tools=False)
    # Who runs this has the keys of the configuration, and needs none of the server's.
    caller = Caller(admin=True)
    try:
        target = gateway.target(Request(name or _only_model(gateway.models(caller)), ()), caller)
    except Unauthorized as error:
        hint = 'give it `auth = "replace"` and a key of its own'
        raise UsageError(f"{error.args[0]}; there is none here", hint=hint) from None
    assert gateway.probes is not None  # there is one wherever the configuration makes a gateway
    return AsyncClient.over(target.maker, target.settings, gateway.probes, gateway.close)


def _only_model(served: Iterable[str]) -> str:
    names = list(served)
    if len(names) == 1:
        return names[0]
    told = f"one of {', '.join(map(shlex.quote, names[:_LISTED]))}" if names else "NAME:MODEL"
    raise UsageError("the configuration names upstreams, and nobody said which model", hint=f"give --model {told}")

"""Starts the server: a gateway from the configuration, uvicorn around the application, a new gateway on SIGHUP.

Above: the command line. Below: `app`, `gateway`, `reach`, `wire`, the configuration.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from functools import partial

import uvicorn

from ..config import Auth, Config, NamedUpstream, Secret
from ..core.capability import Capabilities
from ..errors import ToolspeakError, UsageError
from ..plugins import Plugins
from ..reach import codec_of, reach
from ..state import MemoryState, State
from ..upstreams.codecs import codec
from ..upstreams.http import HttpUpstream, Timeouts
from ..upstreams.seam import Upstream
from .app import App
from .auth import Access, Credential
from .gateway import Gateway, Line
from .guard import Guard, is_loopback
from .keys import Keys
from .listing import ListingUpstream
from .wire import CarefulProtocol

__all__ = ["Server", "gateway_from", "guard_from", "serve"]

_log = logging.getLogger("toolspeak.server")
#: How long answers under way may take once the server is told to end.
_DRAIN_SECONDS = 30


def gateway_from(
    config: Config, upstream: str = "", model: str = "", auth: Auth = "replace", memory: State | None = None
) -> Gateway:
    """The gateway that the configuration describes: to the one `upstream` given, else to those that it names.

    Raises:
        UsageError: something in it cannot be.
    """
    known = Capabilities()
    plugins = Plugins(config.load_plugins)
    plugins.extend(known)
    known.configure(*config.overrides())
    names = () if upstream else config.upstream_names()
    lines = [_named_line(config, config.upstream(name), plugins) for name in names]
    aliases = config.aliases() if lines else {}
    if not lines:
        lines = [_one_line(config, upstream, model, auth, plugins)]
    elif model:
        raise UsageError("one model for everybody needs one upstream", hint="give --upstream too, or an alias")
    secret = config.secret(config.state()).reveal().encode()
    # Not in the file: what is remembered of conversations changes with every call, and ends with the process.
    return Gateway(lines, known, memory if memory is not None else MemoryState(), secret, aliases)


def _named(config: Config, model: str) -> str:
    """The model that is meant where there is one upstream, with its provider."""
    name = model or config.model or "openai:"
    return name if ":" in name else f"openai:{name}"


def _one_line(config: Config, upstream: str, model: str, auth: Auth, plugins: Plugins) -> Line:
    """The one upstream that the caller, or the general settings, name."""
    name = _named(config, model)
    reached = reach(name, upstream, "", config, plugins)

    def dial(own: Credential | None) -> Upstream:
        if own is None and not isinstance(reached.upstream, HttpUpstream):
            return reached.upstream  # a plugin's
        key = own or Credential("", config.endpoint(name, upstream).api_key)
        return _with_key(key, reached.base_url, reached.protocol, Timeouts(), reached.provider)

    return Line(
        reached.provider,
        reached.provider,
        reached.base_url,
        reached.protocol,
        dial,
        lambda name: config.settings_for(f"{reached.provider}:{name}"),
        auth,
        fixed=reached.model,
    )


def _named_line(config: Config, named: NamedUpstream, plugins: Plugins) -> Line:
    """One `[upstreams.NAME]`."""
    row, protocol = named.row, codec_of(named.protocol)
    timeouts = Timeouts(row.connect_timeout, row.first_byte_timeout, row.idle_timeout, row.total_timeout)
    factory = plugins.upstream(named.provider)

    def dial(own: Credential | None) -> Upstream:
        if own is None and factory is not None:
            return factory(model="", base_url=row.base_url, api_key=named.api_key.reveal())
        key = own or Credential("", named.api_key)
        return _with_key(key, row.base_url, protocol, timeouts, named.provider)

    return Line(
        named.name,
        named.provider,
        row.base_url,
        protocol,
        dial,
        lambda name: config.settings_for(f"{named.provider}:{name}", named.name),
        row.auth,
        row.models,
        "",
        row.fallbacks,
        row.max_concurrent,
        row.max_per_minute,
    )


def _with_key(key: Credential, base_url: str, protocol: str, timeouts: Timeouts, provider: str) -> Upstream:
    """A service, asked with a key; a client's own in the header that it came in."""
    text = key.secret.reveal()
    make = partial(ListingUpstream, base_url, protocol=protocol, timeouts=timeouts, provider=provider)
    if key.header != "authorization" or codec(protocol).key_header.lower() == "authorization":
        return make(text)
    # Anthropic's clients show a key in one header and a token of a subscription in the other.
    return make("", headers={"Authorization": text if " " in text else f"Bearer {text}"})


def guard_from(keys: Keys, host: str, hosts: frozenset[str] = frozenset(), *, required: bool = False) -> Guard:
    """Who may ask a server that listens at `host`.

    Raises:
        UsageError: it could be reached from elsewhere, and nobody has a key.
    """
    here = is_loopback(host)
    if (required or not here) and not keys.all():
        hint = "make one with `toolspeak keys new NAME`"
        raise UsageError("nobody has a key, and a server that others can reach demands one", hint=hint)
    # With a key demanded, a name that somebody made up leads nowhere; without one, it must be a name of this machine.
    served = hosts if hosts or here else frozenset({"*"})
    return Guard(Access(keys, required=required or not here), served)


class Server(uvicorn.Server):
    """uvicorn, and a new gateway whenever the process is told to look at its configuration again.

    Args:
        remake: makes the new gateway; if it cannot, the old one stays.
    """

    def __init__(self, config: uvicorn.Config, app: App, remake: Callable[[], Gateway]) -> None:
        super().__init__(config)
        self._app = app
        self._remake = remake
        self._reloads: set[asyncio.Task[None]] = set()
        self._in_terminal = os.isatty(0)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen to clients and to SIGHUP."""
        await super().startup(sockets)
        # Signals are heard by the main thread only, and not by every system.
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.reload)

    def reload(self) -> None:
        """Look at the configuration again; whoever is being answered notices nothing."""
        if self._in_terminal and not os.isatty(0):
            # The other meaning of the signal: the terminal that we were started from is gone.
            self.should_exit = True
            return
        task = asyncio.ensure_future(self._reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _reload(self) -> None:
        try:
            # In a thread, since it reads files and loads plugins: streams go on.
            gateway = await asyncio.to_thread(self._remake)
        except ToolspeakError as error:
            _log.error("the configuration stays as it was: %s", error)
            return
        _log.warning("the configuration was read again")
        await self._app.replace(gateway)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End; gateways that were replaced end too."""
        await super().shutdown(sockets)
        for task in self._reloads:
            task.cancel()


def serve(app: App, host: str, port: int, remake: Callable[[], Gateway]) -> None:
    """Serve until interrupted."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        access_log=False,
        log_config=None,
        lifespan="on",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        http=CarefulProtocol,
        ws="none",
        server_header=False,
    )
    Server(config, app, remake).run()


def secrets_of(config: Config, upstream: str = "", model: str = "") -> tuple[Secret, ...]:
    """Every secret of the configuration, for whoever must not show them; the arguments are those of `gateway_from`."""
    named = (config.upstream(name).api_key for name in config.upstream_names())
    return (*named, config.endpoint(_named(config, model), upstream).api_key, config.secret(config.state()))

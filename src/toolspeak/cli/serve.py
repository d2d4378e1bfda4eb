"""`toolspeak serve`: run the HTTP proxy server."""

from __future__ import annotations

import logging
import os
import socket
import sys
import webbrowser
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..config import Config, Secret, load, redacted_url
from ..core.text import printable
from ..errors import UsageError
from ._io import colours, echo
from .config import print_notes, usage_errors
from .first_run import engine_tip, prepare_embedded

if TYPE_CHECKING:
    from ..config import Auth
    from ..server.observe.logs import Format
    from ..server.proxy.upstream_router import Gateway

_log = logging.getLogger("toolspeak.server")
_MAX_NAMES = 3
_CONNECT_SECONDS = 0.5
_SMALL = "`toolspeak env` lists them; this small model is for a first look, not for coding agents"


class _ServeOptions(NamedTuple):
    host: str
    port: int
    require_key: bool
    allow_host: tuple[str, ...]
    workers: int
    drain: float
    linger: float
    log_format: Format
    log_level: str
    access_log: bool
    open_page: bool


class _ConfigReader:
    """Reads the configuration and collects its secrets for redaction."""

    def __init__(self, flags: Mapping[str, str | int | None], upstream: str, model: str) -> None:
        self._flags = flags
        self._overrides = (upstream, model)
        self.secrets: list[Secret] = []

    def read(self, before: Config | None = None) -> Config:
        """Load the configuration and check that a server can start with it, or switch to it from `before`."""
        from ..server.process.from_config import secrets_of, usable_config

        config = load(self._flags)
        # Keep old secrets: running requests still use them, as do all requests if the new configuration is rejected.
        fresh = secrets_of(config, *self._overrides)
        self.secrets[:] = [*fresh, *(secret for secret in self.secrets if secret not in fresh)]
        print_notes(note.detail for note in config.notes)
        return usable_config(config, *self._overrides, before)


def command(upstream: str, model: str, auth: Auth, **settings: Any) -> None:
    from ..server.access.api_keys import ApiKeys
    from ..server.app import App
    from ..server.observe.spans import create_spans
    from ..server.process.from_config import gateway_from, origin_guard_from
    from ..server.process.lifecycle import Lifecycle
    from ..server.process.server import ServerOptions, serve
    from ..server.recording.store_writer import create_recorder

    options = _ServeOptions(*(settings.pop(name) for name in _ServeOptions._fields))
    reader = _ConfigReader({name: value for name, value in settings.items() if value}, upstream, model)
    logs_requests = _configure_logging(options, reader)
    with usage_errors():
        config = reader.read()
        memory = config.memory()
        running = _prepare_model(config, upstream, model, settings)
        keys, hosts = ApiKeys(config.state(cached=True)), frozenset(options.allow_host)
        guard = origin_guard_from(keys, options.host, hosts, required=options.require_key)
        gateway = gateway_from(config, upstream, model, auth, memory)
        plans = _plan_lines(gateway, "[upstreams.{}]" if config.upstream_names() and not upstream else "")
        plans += [f"tip: {tip}" for tip in [engine_tip(config, running)] if tip]
        if running and options.workers > 1:
            raise UsageError("the embedded model cannot be shared by several workers", hint="omit --workers")
        recorder, statistics = create_recorder(config, lambda: reader.secrets)

    def reload() -> Gateway:
        nonlocal config
        new = reader.read(config)
        gateway = gateway_from(new, upstream, model, auth, memory)
        config = new
        return gateway

    lifecycle = Lifecycle(tracer=create_spans(), access_log=logs_requests)
    app = App(
        gateway, guard, lifecycle=lifecycle, recorder=recorder, secrets=lambda: reader.secrets, store=config.store
    )
    app.statistics, app.keep_secret = statistics, reader.secrets.append
    sessions = guard.access.sessions
    announce = partial(_announce, options, plans, bool(running), sessions.new_code)
    with usage_errors(), _control_file(config, options.host, sessions.server_session(), announce) as listening:
        process = ServerOptions(options.workers, options.drain, options.linger)
        status = serve(app, options.host, options.port, reload, process, listening)
    if sys.stderr.isatty():
        echo("\nThe server has stopped.", err=True)
    click.get_current_context().exit(status)


def _configure_logging(options: _ServeOptions, reader: _ConfigReader) -> bool:
    """Configure the log: on a terminal, a short line for each request. Return whether requests are logged."""
    from ..server.observe.logs import TerminalLogFormatter, configure_logging

    brief = None
    if options.log_format == "auto" and not options.access_log and sys.stderr.isatty():
        brief = TerminalLogFormatter(lambda: reader.secrets, colours=colours() is None)
    access, level = options.access_log or brief is not None, getattr(logging, options.log_level.upper())
    configure_logging(lambda: reader.secrets, level, options.log_format, access=access, terminal=brief)
    return access


def _prepare_model(config: Config, upstream: str, model: str, settings: Mapping[str, str | int | None]) -> str:
    """Prepare the embedded model if it is used, and return its name. Otherwise reject options that only it has."""
    from ..server.process.from_config import embedded_model

    weights = embedded_model(config, upstream, model)
    if weights is not None:
        return prepare_embedded(config, weights)
    conflicting = [f"--{name}" for name in ("adapter", "context") if settings[name]]
    if upstream and conflicting:
        why = f"can be used only with the embedded model, but requests go to {upstream}"
        raise UsageError(f"{' and '.join(conflicting)} {why}", hint="omit either these options or --upstream")
    return ""


@contextmanager
def _control_file(
    config: Config, host: str, token: str, announce: Callable[[int], None]
) -> Generator[Callable[[int], None]]:
    """Keep a control file while the server runs, so that other commands of this user can find the server.

    Yields a callback that takes the port, writes the file and then calls `announce`.
    """
    from ..server.process.control_file import ControlFile, remove_control_file, write_control_file

    written: list[Path] = []

    def on_listening(port: int) -> None:
        control = ControlFile(_url(_REACHABLE.get(host, host), port), token, os.getpid())
        with suppress(OSError):  # not fatal: other commands then need a key
            written.append(write_control_file(config.servers_folder, port, control))
        announce(port)

    try:
        yield on_listening
    finally:
        for path in written:
            remove_control_file(path)


#: Maps a wildcard address to an address that clients can connect to.
_REACHABLE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


def _plan_lines(gateway: Gateway, table: str) -> list[str]:
    """Return a line for each upstream: how its tool calls are handled, why, and how to change that.

    Logs a warning for each plan that cannot be carried out. `table` is the pattern for the upstream's table in the
    configuration; empty if it has none.
    """
    from ..engine.planning.strategy import PLAN_TEXTS, UNKNOWN_RULES

    lines: list[str] = []
    for upstream, strategy, models in gateway.strategies():
        more = ", ..." if len(models) > _MAX_NAMES else ""
        names = f" ({', '.join(models[:_MAX_NAMES])}{more})" if models[0] else ""
        title = printable(f"{upstream.title or upstream.name}{names}")
        change = f"`mode` or `plan` in {table.format(upstream.name)}" if table else "--mode or --plan"
        # A model that requests name may be known from earlier use.
        start = "starts" if names or strategy.rule not in UNKNOWN_RULES else "a new model starts"
        about = f"{start} with plan {strategy.plan}: {PLAN_TEXTS[strategy.plan]} ({strategy.why})"
        lines.append(f"Upstream {title}: {about}. Change it with {change}.")
        if upstream.fixed:
            lines.append(f"{printable(upstream.fixed)} answers every request, whatever model the client names.")
        if strategy.warning:
            _log.warning("upstream %s: %s", title, strategy.warning)
        if is_unreachable(upstream.base_url):
            url = redacted_url(upstream.base_url)
            lines.append(f"warning: nothing listens at {url} yet: start the service, or correct the URL")
    return list(dict.fromkeys(lines))


def is_unreachable(base_url: str) -> bool:
    """Whether the upstream is on this machine, and nothing listens there. Others are not asked, as that takes time."""
    from ..runtime.probe_cache import is_loopback
    from ..upstreams.http.address import parse_base_url

    if not is_loopback(base_url):
        return False
    base = parse_base_url(base_url)
    try:
        socket.create_connection((base.host, base.port), _CONNECT_SECONDS).close()
    except OSError:
        return True
    return False


def _announce(options: _ServeOptions, plans: list[str], is_small: bool, code: Callable[[], str], port: int) -> None:
    """Print the server's address and the plan of each upstream.

    `is_small`: whether the embedded model answers, for which coding agents ask too much. `code` creates a one-time
    login code.
    """
    from ..server.access.login_sessions import CODE_SECONDS, link

    address, local = _url(options.host, port), _url(_REACHABLE.get(options.host, options.host), port)
    echo(f"Listening on {address} (OpenAI: /v1, Anthropic: /, Gemini: /, Ollama: /)")
    for line in plans if options.log_format != "json" else ():
        echo(line)
    if sys.stderr.isatty():  # otherwise stderr may be a log that others can read
        clients = _SMALL if is_small else f"toolspeak launch codex --url {local} (`toolspeak env` lists the clients)"
        rows = {
            "Page": link(local, code()),
            "": f"(one-time link, valid {CODE_SECONDS / 60:.0f} min; `toolspeak page` prints another one)",
            "Clients": clients,
            "Stop": "Ctrl-C",
        }
        for title, text in rows.items():
            echo(f"{title:<9}{text}", err=True, indent=9)
    if options.open_page:
        webbrowser.open(link(local, code()))


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

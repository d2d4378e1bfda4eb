"""`toolspeak serve`: the proxy."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial, wraps
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from ..config import Config, Secret, load
from ..errors import UsageError
from .config import say, usage_errors
from .first_run import advice, prepare

if TYPE_CHECKING:
    from ..config import Auth
    from ..server.observe.logs import Format
    from ..server.proxy.upstream_router import Gateway

_EXAMPLES = """\b
Examples:
  toolspeak serve
  toolspeak serve --model ~/models/my-model.gguf
  toolspeak serve --upstream http://127.0.0.1:9000/v1
  toolspeak serve --upstream http://127.0.0.1:9000/v1 --mode force --plan decision
  toolspeak keys new anna && toolspeak serve --host 0.0.0.0
"""
_LEVELS = ["debug", "info", "warning", "error"]
_PROTOCOLS = ["openai", "openai_responses", "anthropic", "gemini", "ollama"]
#: What a port can be.
_PORT = click.IntRange(0, 65535)


class _Seconds(click.FloatRange):
    """A time: up to a day, which is longer than anybody waits for an end. `nan` is in every range of click's."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if isnan(seconds):
            self.fail(f"{value!r} is not a time.", param, ctx)
        return seconds


_SECONDS = _Seconds(0, 86_400)


class _Manner(NamedTuple):
    """As `Manner`, which is not imported before it is needed."""

    workers: int
    drain: float
    linger: float


class _Address(NamedTuple):
    """Where it listens, and for whom."""

    host: str
    port: int
    require_key: bool
    allow_host: tuple[str, ...]


class _Log(NamedTuple):
    log_format: Format
    log_level: str
    access_log: bool


Row = TypeVar("Row", _Address, _Manner, _Log)


def _running(command: Callable[..., None]) -> Callable[..., None]:
    """The options about where and how it is run, as three values."""

    @click.option("--host", default="127.0.0.1", show_default=True, help="address to listen on")
    @click.option("--port", default=8788, show_default=True, type=_PORT, help="port to listen on; 0 for a free one")
    @click.option("--require-key", is_flag=True, help="demand a toolspeak key on this machine too")
    @click.option("--allow-host", multiple=True, metavar="NAME", help="a name that clients may call this server by")
    @click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 256), help="processes that answer")
    @click.option(
        "--drain", default=30.0, show_default=True, type=_SECONDS, metavar="SECONDS", help="time for answers at the end"
    )
    @click.option(
        "--linger",
        default=0.0,
        type=_SECONDS,
        metavar="SECONDS",
        help="at the end, listen on for so long, but not ready",
    )
    @click.option("--log-format", type=click.Choice(["auto", "json", "text"]), default="auto", show_default=True)
    @click.option("--log-level", type=click.Choice(_LEVELS), default="warning", show_default=True)
    @click.option("--access-log", is_flag=True, help="a line in the log for every request")
    @wraps(command)
    def wrapped(**given: Any) -> None:
        def taken(form: type[Row]) -> Row:
            return form(*(given.pop(name) for name in form._fields))

        command(address=taken(_Address), manner=taken(_Manner), log=taken(_Log), **given)

    return wrapped


class _Reader:
    """Reads the configuration, and knows what of it must not be shown."""

    def __init__(self, flags: Mapping[str, str | int | None], upstream: str, model: str) -> None:
        self._flags = flags
        self._named = (upstream, model)
        self.secrets: list[Secret] = []

    def read(self, before: Config | None = None) -> Config:
        """The configuration as it is now, if a server can go on with it after the one `before`."""
        from ..server.process.from_config import secrets_of, usable

        config = load(self._flags)
        # Those of before stay: answers under way use them, and everybody does if the new ones cannot be used.
        fresh = secrets_of(config, *self._named)
        self.secrets = [*fresh, *(secret for secret in self.secrets if secret not in fresh)]
        say(note.detail for note in config.notes)
        return usable(config, *self._named, before)


@click.command("serve", epilog=_EXAMPLES)
@click.option("--upstream", default="", metavar="URL", help="where the model is, such as http://127.0.0.1:9000/v1")
@click.option("--protocol", type=click.Choice(_PROTOCOLS), help="what the upstream speaks")
@click.option("--transport", type=click.Choice(["auto", "thin", "httpx2"]), help="how upstreams are reached")
@click.option("--model", default="", metavar="NAME", help="use this model whatever a request names")
@click.option(
    "--adapter", default="", metavar="FILE", help="a LoRA adapter (GGUF) for the embedded model; none: as it is"
)
@click.option("--context", type=int, metavar="N", help="tokens that an answer of the embedded model may see (4096)")
@click.option("--mode", type=click.Choice(["auto", "force", "fallback", "off"]), help="when to emulate tool calls")
@click.option("--plan", type=click.Choice(["inline", "decision", "envelope"]), help="how to emulate them")
@click.option("--chat-only", is_flag=True, help="take tools away altogether")
@click.option(
    "--auth",
    type=click.Choice(["replace", "forward", "check"]),
    default="replace",
    show_default=True,
    help="which key --upstream gets: the configured one, the client's own, or the configured one for holders of a key",
)
@_running
def command(
    upstream: str, model: str, auth: Auth, address: _Address, manner: _Manner, log: _Log, **settings: str | int | None
) -> None:
    """Serve every OpenAI, Anthropic, Gemini and Ollama client, with tool calling, from one upstream or several.

    Without --upstream the upstreams are those of the configuration, [upstreams.NAME]; where it names none, a small
    model runs here, without key or account. SIGHUP reads the configuration again.
    """
    from ..server.access.api_keys import Keys
    from ..server.app import App
    from ..server.observe.logs import set_up
    from ..server.observe.spans import spans
    from ..server.process.from_config import gateway_from, guard_from, model_here
    from ..server.process.lifecycle import Operation
    from ..server.process.server import Manner, serve
    from ..server.recording.store_writer import recorder_from

    reader = _Reader({name: value for name, value in settings.items() if value}, upstream, model)
    set_up(lambda: reader.secrets, getattr(logging, log.log_level.upper()), log.log_format, access=log.access_log)

    with usage_errors():
        config = reader.read()
        memory = config.memory()
        here = model_here(config, upstream, model)
        _check_where(upstream, here, settings)
        running = prepare(config, here) if here is not None else ""
        guard = guard_from(
            Keys(config.state(near=True)), address.host, frozenset(address.allow_host), required=address.require_key
        )
        gateway = gateway_from(config, upstream, model, auth, memory)
        if running and manner.workers > 1:
            raise UsageError("each worker would load the model that runs here", hint="leave out --workers")
        recorder = recorder_from(config, lambda: reader.secrets)

    def remade() -> Gateway:
        nonlocal config
        new = reader.read(config)
        made = gateway_from(new, upstream, model, auth, memory)
        config = new
        return made

    operation = Operation(tracer=spans(), access_log=log.access_log)
    app = App(
        gateway, guard, operation=operation, recorder=recorder, secrets=lambda: reader.secrets, store=config.store
    )
    said = partial(_say_where, address.host, running, guard.access.sessions.code)
    with usage_errors(), _door(config, address.host, guard.access.sessions.standing(), said) as listening:
        status = serve(app, address.host, address.port, remade, Manner(*manner), listening)
    click.get_current_context().exit(status)


def _check_where(upstream: str, here: str | None, settings: Mapping[str, str | int | None]) -> None:
    """Nobody is left to believe that what is said of the model here holds for one elsewhere."""
    given = [f"--{name}" for name in ("adapter", "context") if settings[name]]
    if upstream and given and here is None:
        raise UsageError(
            f"{' and '.join(given)}: for a model that runs here, and requests go to {upstream}",
            hint="leave it out, or leave out --upstream",
        )


@contextmanager
def _door(config: Config, host: str, token: str, said: Callable[[int], None]) -> Generator[Callable[[int], None]]:
    """While the server runs, other commands of the same person find it. Gives what hears the port, before `said`."""
    from ..server.process.control_file import Door, close_door, open_door

    opened: list[Path] = []

    def at(port: int) -> None:
        door = Door(_url(_ANY.get(host, host), port), token, os.getpid())
        with suppress(OSError):  # who cannot write there asks with a key
            opened.append(open_door(config.servers_folder, port, door))
        said(port)

    try:
        yield at
    finally:
        for path in opened:
            close_door(path)


#: Who listens at every address is reached at this one.
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


def _say_where(host: str, running: str, code: Callable[[], str], port: int) -> None:
    """What a person needs to know once clients can come. `code` makes one for the session of that person."""
    address = _url(host, port)
    click.echo(f"toolspeak listens on {address} (OpenAI: /v1, Anthropic: /, Gemini: /, Ollama: /)")
    if running:
        advice(address, running)
    if sys.stderr.isatty():  # elsewhere it is the log, where others may read
        click.echo(_say_who(_url(_ANY.get(host, host), port), code), err=True)


def _say_who(address: str, code: Callable[[], str]) -> str:
    """How the person who has just started the server shows who it is."""
    from ..server.access.login_sessions import CODE_SECONDS, link

    return f"the page, for you alone (once, within {CODE_SECONDS / 60:.0f} minutes): {link(address, code())}"


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

"""`toolspeak serve`: the proxy.

Above: the user. Below: `server.run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..config import Config, Secret, load
from .config import say, usage_errors
from .first_run import advice, prepare

if TYPE_CHECKING:
    from ..config import Auth

__all__ = ["command"]

_PROTOCOLS = ["openai", "openai_responses", "anthropic", "gemini", "ollama"]


@click.command("serve")
@click.option("--upstream", default="", metavar="URL", help="where the model is, such as http://127.0.0.1:9000/v1")
@click.option("--protocol", type=click.Choice(_PROTOCOLS), help="what the upstream speaks")
@click.option("--model", default="", metavar="NAME", help="use this model whatever a request names")
@click.option("--adapter", default="", metavar="FILE", help="a LoRA adapter (GGUF) for the embedded model")
@click.option("--mode", type=click.Choice(["auto", "force", "fallback", "off"]), help="when to emulate tool calls")
@click.option("--plan", type=click.Choice(["inline", "decision", "envelope"]), help="how to emulate them")
@click.option("--chat-only", is_flag=True, help="take tools away altogether")
@click.option("--host", default="127.0.0.1", show_default=True, help="address to listen on")
@click.option("--port", default=8788, show_default=True, help="port to listen on")
@click.option(
    "--auth",
    type=click.Choice(["replace", "forward", "check"]),
    default="replace",
    show_default=True,
    help="which key --upstream gets: the configured one, the client's own, or the configured one for holders of a key",
)
@click.option("--require-key", is_flag=True, help="demand a toolspeak key on this machine too")
@click.option("--allow-host", multiple=True, metavar="NAME", help="a name that clients may call this server by")
def command(
    upstream: str,
    model: str,
    host: str,
    port: int,
    auth: Auth,
    require_key: bool,
    allow_host: tuple[str, ...],
    **settings: str | bool | None,
) -> None:
    """Serve every OpenAI, Anthropic, Gemini and Ollama client, with tool calling, from one upstream or several.

    Without --upstream the upstreams are those of the configuration, [upstreams.NAME]; where it names none, a small
    model runs here, without key or account. SIGHUP reads the configuration again.

    \b
    Examples:
      toolspeak serve
      toolspeak serve --model ~/models/my-model.gguf
      toolspeak serve --upstream http://127.0.0.1:9000/v1
      toolspeak serve --upstream http://127.0.0.1:9000/v1 --mode force --plan decision
      toolspeak keys new anna && toolspeak serve --host 0.0.0.0
    """
    from ..server.app import App
    from ..server.keys import Keys
    from ..server.logs import set_up
    from ..server.run import gateway_from, guard_from, model_here, secrets_of, serve
    from ..state import MemoryState

    flags = {name: value for name, value in settings.items() if value}
    memory = MemoryState()
    secrets: list[Secret] = []
    set_up(lambda: secrets)

    def loaded() -> Config:
        config = load(flags)
        secrets[:] = secrets_of(config, upstream, model)
        say(note.detail for note in config.notes)
        return config

    with usage_errors():
        config = loaded()
        here = model_here(config, upstream, model)
        running = prepare(config, here) if here is not None else ""
        guard = guard_from(Keys(config.state()), host, frozenset(allow_host), required=require_key)
        gateway = gateway_from(config, upstream, model, auth, memory)
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"toolspeak listens on http://{shown}:{port} (OpenAI: /v1, Anthropic: /, Gemini: /, Ollama: /)")
    if running:
        advice(f"http://{shown}:{port}", running)
    serve(App(gateway, guard), host, port, lambda: gateway_from(loaded(), upstream, model, auth, memory))

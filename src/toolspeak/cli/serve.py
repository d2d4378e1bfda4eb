"""`toolspeak serve`: the proxy.

Above: the user. Below: `server.run`.
"""

from __future__ import annotations

import click

from ..config import load
from .config import usage_errors

__all__ = ["command"]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.command("serve")
@click.option("--upstream", default="", metavar="URL", help="where the model is, such as http://127.0.0.1:9000/v1")
@click.option(
    "--protocol", type=click.Choice(["openai", "anthropic", "gemini", "ollama"]), help="what the upstream speaks"
)
@click.option("--model", default="", metavar="NAME", help="use this model whatever a request names")
@click.option("--mode", type=click.Choice(["auto", "force", "fallback", "off"]), help="when to emulate tool calls")
@click.option("--plan", type=click.Choice(["inline", "decision", "envelope"]), help="how to emulate them")
@click.option("--chat-only", is_flag=True, help="take tools away altogether")
@click.option("--host", default="127.0.0.1", show_default=True, help="address to listen on")
@click.option("--port", default=8788, show_default=True, help="port to listen on")
def command(upstream: str, model: str, host: str, port: int, **settings: str | bool | None) -> None:
    """Serve every OpenAI, Anthropic, Gemini and Ollama client from one upstream, with tool calling.

    \b
    Examples:
      toolspeak serve --upstream http://127.0.0.1:9000/v1
      toolspeak serve --upstream http://127.0.0.1:9000/v1 --mode force --plan decision
    """
    from ..server.app import App
    from ..server.run import gateway_from, serve

    if host not in _LOOPBACK:
        raise click.UsageError("listening beyond this machine needs keys, which are not there yet")
    with usage_errors():
        config = load({name: value for name, value in settings.items() if value})
        gateway = gateway_from(config, upstream, model)
    click.echo(f"toolspeak listens on http://{host}:{port} (OpenAI: /v1, Anthropic: /, Gemini: /, Ollama: /)")
    serve(App(gateway), host, port)

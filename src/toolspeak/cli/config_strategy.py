"""`toolspeak strategy`: what will be done for a model when a request carries tools, and why.

A thin face over `core.strategy`; it decides nothing itself.
"""

from __future__ import annotations

import click
import msgspec

from ..config import shown_url
from ..engine.planning.capabilities import capabilities, split_model
from ..engine.planning.strategy import strategy
from ..runtime.probe_cache import Place, ProbeStore, apply
from ._io import write_json
from .config import loaded, usage_errors

_EXAMPLES = """\b
Examples:
  toolspeak strategy openai:gpt-4
  toolspeak strategy ollama:llama3.1:latest --json
  toolspeak strategy openai:my-model --base-url http://127.0.0.1:9000/v1
"""


@click.command("strategy", epilog=_EXAMPLES)
@click.argument("model", metavar="PROVIDER:MODEL")
@click.option("--base-url", metavar="URL", default="", help="Where the model is, if not at its provider's own host.")
@click.option("--mode", metavar="MODE", help="off, fallback, force or auto.")
@click.option("--plan", metavar="PLAN", help="inline, decision or envelope.")
@click.option("--chat-only", is_flag=True, default=None, help="No tools, whatever the model can do.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    model: str, base_url: str, mode: str | None, plan: str | None, chat_only: bool | None, as_json: bool
) -> None:
    """Say what will be done for a model when a request carries tools, and which rule decided.

    Nothing is sent. An unknown model is not an error: it is taught to call by text.
    """
    with usage_errors():
        config = loaded({"mode": mode, "plan": plan, "chat_only": chat_only})
        capabilities().configure(*config.overrides())
        url = config.endpoint(model, base_url).base_url
        place = Place(*split_model(model), url)
        apply(capabilities(), place, ProbeStore(config.state()).get(place))
        said = strategy(model, url, settings=config.settings_for(model))
        profile = capabilities().find(*split_model(model), url).profile
    at = {"model": model, "base_url": shown_url(url)}
    if as_json:
        write_json({**at, **msgspec.to_builtins(said), "profile": msgspec.to_builtins(profile)}, indent=2)
        return
    rows = {
        **at,
        "plan": said.plan,
        "tools": "sent to the upstream" if said.native else "kept from the upstream",
        "capability": said.capability,
        "dialect": profile.dialect,
        "why": said.why,
        "rule": said.rule,
    }
    if profile.measured:
        rows["measured"] = ", ".join(f"{test} {share:g} %" for test, share in profile.measured.items())
    for name, value in rows.items():
        click.echo(f"{name:<11}{value}")

"""`toolspeak strategy`: show how tool calls are handled for a model, and why."""

from typing import Any

import click
import msgspec

from ..config import redacted_url
from ..engine.planning.capabilities import capabilities, split_model
from ..engine.planning.strategy import strategy
from ..runtime.learning import UseStore
from ..runtime.probe_cache import ProbeStore, ProbeTarget, apply_result
from ._io import write_json
from .config import load_config, usage_errors


@click.command("strategy")
@click.argument("model", metavar="PROVIDER:MODEL")
@click.option("--base-url", metavar="URL", default="", help="Base URL of the model.  [default: its provider's host]")
@click.option("--mode", metavar="MODE", help="When to emulate: off, fallback, force or auto.")
@click.option("--plan", metavar="PLAN", help="How to emulate: inline, decision or envelope.")
@click.option("--chat-only", is_flag=True, default=None, help="Disable tools.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(model: str, base_url: str, as_json: bool, **flags: Any) -> None:
    """Show how tool calls are handled for a model, and why.

    Sends nothing to the model. An unknown model is not an error: its tool calls are emulated as text.
    """
    with usage_errors():
        config = load_config(flags)
        capabilities().configure(*config.overrides())
        url = config.endpoint(model, base_url).base_url
        target = ProbeTarget(*split_model(model), url)
        store = ProbeStore(config.state())
        apply_result(capabilities(), target, store.get(target))
        use = UseStore(store.state, store.clock).get(target)
        learned = use.learned("")
        choice = strategy(model, url, settings=config.settings_for(model), learned=learned)
        profile = capabilities().find(*target, learned).profile
    at = {"model": model, "base_url": redacted_url(url)}
    if as_json:
        fields = {**msgspec.to_builtins(choice), "profile": msgspec.to_builtins(profile), "use": use.summary()}
        write_json({**at, **fields}, indent=2)
        return
    tools = "sent to the upstream" if choice.native else "not sent to the upstream"
    rows = {**at, "plan": choice.plan, "tools": tools, "capability": choice.capability}
    rows |= {"dialect": profile.dialect, "why": choice.why, "rule": choice.rule}
    if use.summary():
        rows["use"] = use.summary()
    if profile.measured:
        rows["measured"] = ", ".join(f"{test} {share:g} %" for test, share in profile.measured.items())
    if choice.warning:
        rows["warning"] = choice.warning
    for name, value in rows.items():
        click.echo(f"{name:<11}{value}")

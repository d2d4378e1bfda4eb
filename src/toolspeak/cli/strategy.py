"""`toolspeak strategy`: show how tool calls are handled for a model, and why."""

from typing import Any

import msgspec

from ..config import redacted_url
from ..engine.planning.capabilities import capabilities, split_model
from ..engine.planning.strategy import PLAN_TEXTS, strategy
from ..runtime.learning import UseStore
from ..runtime.probe_cache import ProbeStore, ProbeTarget, apply_result
from ._io import clean, echo, write_json
from .config import load_config, print_notes, usage_errors


def command(model: str, base_url: str, as_json: bool, **flags: Any) -> None:
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
    tools = "sent to the upstream" if choice.native else "described in the prompt"
    rows = {**at, "plan": f"{choice.plan}: {PLAN_TEXTS[choice.plan]}", "why": choice.why, "tools": tools}
    rows |= {"capability": choice.capability, "dialect": profile.dialect, "rule": choice.rule, "use": use.summary()}
    if profile.measured:
        rows["measured"] = ", ".join(f"{test} {share:g}%" for test, share in profile.measured.items())
    if choice.warning:
        rows["warning"] = choice.warning
    for name, value in rows.items():
        if value:
            echo(f"{name:<11}{clean(str(value))}", indent=11)
    if not target.provider:
        print_notes([f"the model has no provider: write PROVIDER:MODEL, such as `openai:{model}`"])

"""What a first run needs and shows: the weights of the embedded model with a progress bar, and commands to try. Progress and advice go to stderr."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..config import Config
from ..errors import ConfigError

if TYPE_CHECKING:
    from ..upstreams.embedded.engine_process import Recipe
    from ..upstreams.embedded.weights import Progress

#: What a person may type next, each `{...}` as a shell reads it: `{url}` is where the server listens.
_ADVICE = """
Try it, in another terminal:

  curl {url}/v1/chat/completions -H 'content-type: application/json' -d {body}

  OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=any {python} -c {code}

  {toolspeak} chat --upstream {url}/v1 --model {model} --mode off

The settings for Claude Code, codex, gemini-cli and others: {toolspeak} env --url {url}
"""
#: `{model}` is the name of a model, as JSON and Python write a text.
_BODY = """{{"model": {model},
    "messages": [{{"role": "user", "content": "What is the weather in Paris?"}}], "tool_choice": "required",
    "tools": [{{"type": "function", "function": {{"name": "get_weather",
      "parameters": {{"type": "object", "properties": {{"city": {{"type": "string"}}}}, "required": ["city"]}}}}}}]}}"""
_CODE = """from openai import OpenAI; print(OpenAI()
    .responses.create(model={model}, input="Say hello").output_text)"""
#: Told where an engine built here would multiply bytes, and the one that is installed does not.
_SLOWER_THAN_IT_COULD_BE = (
    "the model's engine was built for any processor; built for this one it answers several times as fast: "
    "`make run` builds it beside the server, `make native` at once; docs/first-run.md says how with pip"
)


def advice(url: str, model: str) -> None:
    """Print three commands that work against the server at `url`, whatever a file of weights is called."""
    text = json.dumps(model, ensure_ascii=False)
    parts = {"url": url, "model": f"openai:{model}", "body": _BODY.format(model=text), "code": _CODE.format(model=text)}
    parts |= {name: _called(name) for name in ("python", "toolspeak")}
    click.echo(_ADVICE.format_map({name: shlex.quote(part) for name, part in parts.items()}), err=True)


def _called(name: str) -> str:
    """How a program beside this Python is called: by its name, where that leads to it, or by its place."""
    own, found = Path(sys.executable).with_name(name), shutil.which(name)
    return name if not own.exists() or (found is not None and Path(found).absolute() == own) else str(own)


def prepare(config: Config, model: str) -> str:
    """See to it that an embedded model can run: its runtime is there, its weights are here. Says what it is called.

    Raises:
        ConfigError: the runtime is not installed, or a file is no model or no adapter.
        WeightsError: the weights cannot be had.
    """
    from ..upstreams.embedded.engine import could_be_quick, is_quick
    from ..upstreams.embedded.upstream import is_gguf, kept_weights, need_runtime, recipe_for, weights_of
    from ..upstreams.embedded.weights import Follower

    need_runtime()
    recipe = recipe_for(model, config.adapter, config.context)
    if recipe.adapter and not is_gguf(Path(recipe.adapter)):
        raise ConfigError(f"`{recipe.adapter}` is no adapter", hint="it must be a GGUF file; was it fetched whole?")
    kept = kept_weights(recipe, config.cache_folder)
    if kept is None:
        click.echo(f"{_doing(recipe)}, once, into {config.cache_folder}", err=True)
        with _bar() as progress:
            weights_of(recipe, config.cache_folder, config.environment(), Follower(progress, _say_waiting))
    elif not is_gguf(kept):
        raise ConfigError(f"`{kept}` is no file of weights", hint="it must be a GGUF file; was it fetched whole?")
    if not recipe.hub and not recipe.path and not is_quick() and could_be_quick():
        click.echo(_SLOWER_THAN_IT_COULD_BE, err=True)
    return recipe.name


def _doing(recipe: Recipe) -> str:
    """What is done about weights that are not there."""
    from ..upstreams.embedded.engine import is_quick
    from ..upstreams.embedded.weights import DEFAULT

    if recipe.hub:
        return f"fetching the weights of {recipe.name}"
    if is_quick():
        return f"getting the weights of {recipe.name} ready for the engine that was built here"
    return f"fetching the weights of {recipe.name}, {round(DEFAULT.size / 1e6)} MB"


def _say_waiting() -> None:
    # Not by click, which writes past who draws the bar, into it.
    sys.stderr.write("another process is fetching them already: waiting for it\n")


@contextmanager
def _bar() -> Generator[Progress | None]:
    """A bar, where somebody is there to see it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    with Progress(BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task("weights")
        yield lambda done, total: bar.update(task, completed=done, total=total)

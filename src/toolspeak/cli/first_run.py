"""First run: download the embedded model's weights, with a progress bar on stderr."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import Config
from ..errors import ConfigError
from ._io import echo

if TYPE_CHECKING:
    from ..upstreams.embedded.model_process import Recipe
    from ..upstreams.embedded.weights import Progress


def prepare_embedded(config: Config, model: str) -> str:
    """Ensure that an embedded model can run: check the runtime and fetch the weights. Return the model's name.

    Raises ConfigError if the runtime is not installed or a file is not a model or an adapter, and WeightsError if the
    weights cannot be fetched.
    """
    from ..upstreams.embedded.upstream import cached_weights, is_gguf, obtain_weights, recipe_for, require_runtime
    from ..upstreams.embedded.weights import DEFAULT, DownloadListener

    require_runtime()
    recipe = recipe_for(model, config.adapter, config.context)
    hint = "pass a GGUF file; the download may be incomplete"
    if recipe.adapter and not is_gguf(Path(recipe.adapter)):
        raise ConfigError(f"`{recipe.adapter}` is not an adapter", hint=hint)
    folder = config.cache_folder
    cached = cached_weights(recipe, folder)
    if cached is None:
        echo(f"{_preparation_text(recipe)} into {folder}; this happens only once", err=True)
        with _bar(None if recipe.hub else DEFAULT.size) as progress:
            obtain_weights(recipe, folder, config.environment(), DownloadListener(progress, _report_waiting))
    elif not is_gguf(cached):
        raise ConfigError(f"`{cached}` is not a weights file", hint=hint)
    return recipe.name


def engine_tip(config: Config, model: str) -> str:
    """Say how to get a faster engine for the default model. Empty for other models, or once a build was begun."""
    from ..upstreams.embedded.engine_build import EngineBuilder, would_help
    from ..upstreams.embedded.weights import DEFAULT

    if model != DEFAULT.name:
        return ""
    is_there = EngineBuilder(config.cache_folder, config.environment()).folder.exists()
    return "" if is_there or not would_help() else "`toolspeak engine build` builds a faster engine for this processor"


def _preparation_text(recipe: "Recipe") -> str:
    from ..upstreams.embedded.weights import DEFAULT

    if recipe.hub:
        return f"fetching the weights of {recipe.name}"
    return f"fetching the weights of {recipe.name} ({round(DEFAULT.size / 1e6)} MB)"


def _report_waiting() -> None:
    # click.echo would write into the progress bar.
    sys.stderr.write("waiting for another process that is already fetching the weights\n")


@contextmanager
def _bar(size: int | None) -> "Generator[Progress | None]":
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    with Progress(BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task("weights", total=size)
        yield lambda done, total: bar.update(task, completed=done, total=total)
        bar.update(task, completed=bar.tasks[task].total)

"""`toolspeak engine`: show the engine of the embedded model and its files, and build an engine for this processor."""

import shlex
import sys
from importlib.metadata import distributions

import click

from ..config import load
from ..core.text import counted
from ..upstreams.embedded.engine_build import EngineBuilder, has_byte_products, installed_info, missing, would_help
from ._io import CliError, echo, usage_errors, write_json


def status_command(as_json: bool) -> None:
    with usage_errors():
        config = load()
    needs, helps = list(missing(config.environment())), would_help()
    builder = EngineBuilder(config.cache_folder, config.environment())
    # The folder of a build contains files of llama.cpp, which are no models of ours.
    weights = (file for file in config.cache_folder.rglob("*.gguf") if builder.folder.parent not in file.parents)
    files = {str(file): file.stat().st_size for file in sorted(weights)}
    states = [file.stat().st_size for file in config.prompts_folder.glob("*/*.state")]
    engine = next((f"xllamacpp {each.version}" for each in distributions(name="xllamacpp")), "not installed")
    features = installed_info() or "unknown"
    if as_json:
        about = {"engine": engine, "features": features, "byte_products": has_byte_products(installed_info())}
        about |= {"build": builder.state, "build_helps": helps, "build_needs": needs, "files": files}
        write_json(about | {"prompt_states": {"files": len(states), "bytes": sum(states)}}, indent=2)
        return
    rows = {"engine": engine, "features": features, "own build": _build_text(builder, needs, helps)}
    rows["prompts"] = f"{counted(len(states), 'file')}, {sum(states) / 1e6:.1f} MB: what the model has read before"
    rows["weights"] = counted(len(files), "file")
    for name, text in rows.items():
        echo(f"{name:<11}{text}", indent=11)
    for file, size in files.items():
        echo(f"{size / 1e6:>17.1f} MB {file}", indent=21)


def _build_text(builder: EngineBuilder, needs: list[str], helps: bool) -> str:
    """Say whether an engine for this processor would be faster, and what has become of its build."""
    match builder.state:
        case "running":
            return f"running now; log: {builder.log}"
        case _ if not helps:
            return "not needed: it would be no faster than the installed engine"
        case "built":
            return "built, but not installed: run `toolspeak engine build`"
        case _ if needs:
            return f"would be faster, but needs {' and '.join(needs)}"
        case state:
            return f"{f'{state}; log: {builder.log}; ' if state else ''}would be faster: run `toolspeak engine build`"


def build_command(dry_run: bool, outside_venv: bool) -> None:
    from rich.console import Console
    from rich.markup import escape

    with usage_errors(), Console(stderr=True).status("") as display:
        config = load()
        builder = EngineBuilder(config.cache_folder, config.environment(), lambda text: display.update(escape(text)))
        if dry_run:
            variables, commands = builder.commands()
            for name, value in variables.items():
                click.echo(f"export {name}={shlex.quote(value)}")
            for words in commands.values():
                click.echo(shlex.join(words))
            return
        if has_byte_products(installed_info()):
            echo("the installed engine already multiplies bytes in one step; there is nothing to build")
            return
        if sys.prefix == sys.base_prefix and not outside_venv:
            hint = "run it in a virtual environment (python3 -m venv), or add --outside-venv"
            raise CliError("this would replace a package outside a virtual environment", hint=hint)
        if needs := missing(config.environment()):
            hint = f"on Debian and Ubuntu: apt-get install {' '.join(needs.values())}"
            raise CliError(f"building the engine needs {' and '.join(needs)}", hint=hint)
        echo(f"building xllamacpp {builder.version}; this takes ten to twenty minutes (log: {builder.log})")
        builder.build(lambda: display.update("waiting for another process that is building the engine"))
        builder.install()
    echo(f"installed: {installed_info()}")

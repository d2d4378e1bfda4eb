"""`toolspeak engine`: show the engine of the embedded model and its files, and build an engine for this processor."""

import shlex
import sys
from importlib.metadata import distributions

import click

from ..config import load
from ..upstreams.embedded.engine_build import EngineBuilder, has_byte_products, installed_info, missing, would_help
from ._io import CliError, CommandGroup, usage_errors, write_json


@click.group("engine", cls=CommandGroup)
def command() -> None:
    """Show the embedded model's engine, or build a faster one."""


@command.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(as_json: bool) -> None:
    """Show the engine, its cached files, and whether building one helps."""
    with usage_errors():
        config = load()
    needs, helps = list(missing(config.environment())), would_help()
    files = {str(file): file.stat().st_size for file in sorted(config.cache_folder.rglob("*.gguf"))}
    states = [file.stat().st_size for file in config.prompts_folder.glob("*/*.state")]
    report = {
        "engine": next((f"xllamacpp {each.version}" for each in distributions(name="xllamacpp")), "not installed"),
        "features": installed_info() or "unknown",
        "byte products": has_byte_products(installed_info()),
        "build helps": helps,
        "build needs": needs,
    }
    if as_json:
        cached = {"files": files, "prompt_states": {"files": len(states), "bytes": sum(states)}}
        write_json({name.replace(" ", "_"): value for name, value in report.items()} | cached, indent=2)
        return
    report["prompt states"] = f"{len(states)} file{'s' * (len(states) != 1)}, {sum(states) / 1e6:.1f} MB"
    for name, value in report.items():
        text = ", ".join(value) or "nothing more" if isinstance(value, list) else value
        click.echo(f"{name:<15}{('no', 'yes')[value] if isinstance(value, bool) else text}")
    for file, size in files.items():
        click.echo(f"{size / 1e6:>11.1f} MB {file}")
    if helps and not needs:
        click.echo("hint: `toolspeak engine build` builds a faster engine", err=True)


@command.command("build")
@click.option("--dry-run", is_flag=True, help="Print the commands without running them.")
@click.option("--outside-venv", is_flag=True, help="Allow installation outside a virtual environment.")
def build(dry_run: bool, outside_venv: bool) -> None:
    """Build the engine for this processor and install it.

    Takes ten to twenty minutes on two cores, and needs a C++ compiler, the headers of Python and the package index.
    An interrupted build goes on where it was. If the build fails, the installed engine stays.
    """
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
            click.echo("the installed engine already multiplies bytes in one step; there is nothing to build")
            return
        if sys.prefix == sys.base_prefix and not outside_venv:
            hint = "run it in a virtual environment (python3 -m venv), or add --outside-venv"
            raise CliError("this would replace a package outside a virtual environment", hint=hint)
        if needs := missing(config.environment()):
            hint = f"on Debian and Ubuntu: apt-get install {' '.join(needs.values())}"
            raise CliError(f"building the engine needs {' and '.join(needs)}", hint=hint)
        click.echo(f"building xllamacpp {builder.version}; this takes ten to twenty minutes (log: {builder.log})")
        builder.build(lambda: display.update("waiting for another process that is building the engine"))
        builder.install()
    click.echo(f"installed: {installed_info()}")

"""`toolspeak init`: find the model servers on this machine, write a configuration for them, and check it.

Never changes an existing file.
"""

import asyncio
import json
from collections.abc import Iterator

import click

from ..config import Config, load
from ..config.sources import user_file
from ..errors import ToolspeakError, UsageError
from ._io import CliError, Spinner
from .config import usage_errors

#: Name, address and protocol of server software that runs on this machine by default.
LOCAL_SERVERS = (
    ("ollama", "http://127.0.0.1:11434", "ollama"),
    ("lmstudio", "http://127.0.0.1:1234/v1", "openai_chat"),
    ("llamacpp", "http://127.0.0.1:8080/v1", "openai_chat"),
    ("vllm", "http://127.0.0.1:8000/v1", "openai_chat"),
)
_CONNECT_SECONDS, _SECONDS = 2.0, 10.0
#: Words in the names of models that do not chat.
_OTHER_KINDS = ("embed", "whisper", "tts", "rerank", "moderation")


@click.command("init")
@click.option("--dry-run", is_flag=True, help="Print the configuration, and write and check nothing.")
@click.pass_context
def command(context: click.Context, dry_run: bool) -> None:
    """Find the models on this machine, write a configuration and check it.

    Looks for Ollama, LM Studio, llama.cpp and vLLM on their usual ports. The configuration is written to your own file,
    which `toolspeak config path` prints. An existing file is not changed.
    """
    with usage_errors(), Spinner("looking for models on this machine"):
        config = load()
        text = "\n".join(_lines(asyncio.run(_find())))
    if dry_run:
        click.echo(text)
        return
    _write(config, text)
    click.echo(f"Wrote `{user_file(config.environment())}`\n")
    from .doctor import command as doctor

    context.invoke(doctor)


async def chat_models(url: str, protocol: str = "openai_chat", key: str = "") -> tuple[str, ...]:
    """Return the names of the models at this base URL that seem to chat; none if it lists none."""
    from ..server.proxy.model_catalogue import ListingUpstream
    from ..upstreams.http.connection import Timeouts
    from ..upstreams.http.retry import Retry

    timeouts = Timeouts(_CONNECT_SECONDS, _SECONDS, _SECONDS, _SECONDS)
    upstream = ListingUpstream(url, key, protocol, timeouts, retry=Retry(most=0))
    try:
        names = await upstream.model_names()
    except ToolspeakError:
        return ()
    finally:
        await upstream.close()
    return tuple(name for name in names if not any(word in name.lower() for word in _OTHER_KINDS))


async def _find() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Map the name of each server that answers to its address and its models."""
    listed = await asyncio.gather(*(chat_models(url, protocol) for _, url, protocol in LOCAL_SERVERS))
    return {name: (url, models) for (name, url, _), models in zip(LOCAL_SERVERS, listed, strict=True) if models}


def _lines(servers: dict[str, tuple[str, tuple[str, ...]]]) -> Iterator[str]:
    if not servers:
        hint = "start one, or run `toolspeak serve --upstream URL`; without --upstream, a small embedded model is used"
        raise UsageError("found neither Ollama, LM Studio, llama.cpp nor vLLM on its usual port", hint=hint)
    first, (_, models) = next(iter(servers.items()))
    yield "# Written by `toolspeak init`."
    yield f"model = {json.dumps(f'{first}:{models[0]}')}"
    for name, (url, _) in servers.items():
        yield f"\n[upstreams.{name}]\nbase_url = {json.dumps(url)}"


def _write(config: Config, text: str) -> None:
    path = user_file(config.environment())
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text + "\n")
    except FileExistsError:
        hint = "`toolspeak init --dry-run` prints what to add to it"
        raise CliError(f"`{path}` already exists", hint=hint) from None
    except OSError as error:
        raise CliError(f"cannot write `{path}`: {error.strerror or error}") from None

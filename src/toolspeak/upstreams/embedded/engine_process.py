"""The process that runs the embedded model: llama.cpp's server, told what to load in one line, on loopback only.

It is a process of its own, so that a broken file of weights takes nobody else down, and it ends when its parent does:
that closes the pipe it reads from. A chat template inside a file of weights is rendered by llama.cpp, never by Python. What it is told and what it answers are structs here.
"""

from __future__ import annotations

import importlib
import sys
from typing import Protocol

import msgspec

from .engine import multiplies_bytes

#: Room for prompts that were read before and are no longer at hand, so that going back to one costs nothing. llama.cpp
#: takes 8 GB for them if it may: 14 MB for every new prompt of a small model.
_KEPT_PROMPTS_MIB = 64


class Recipe(msgspec.Struct, frozen=True):
    """What to run, and how."""

    #: A file of weights, and the name of the model at the hub if it comes from there.
    path: str = ""
    hub: str = ""
    #: A LoRA adapter, as a file.
    adapter: str = ""
    #: What the model is called.
    name: str = ""
    #: Tokens of context that each answer has.
    context: int = 4096
    #: Answers at the same time; more wait, in their order.
    parallel: int = 1
    threads: int = 1
    #: To read a prompt, where the engine is quick.
    prompt_threads: int = 1
    #: The longest answer, in tokens, where the request sets no limit: a small model may not find its end.
    longest: int = 1024
    #: Who knows this may ask.
    key: str = ""


class Ready(msgspec.Struct, frozen=True):
    """The model is loaded."""

    url: str = ""
    #: Why it is not.
    error: str = ""


def main() -> int:
    """Read a recipe, serve, and end when the input does."""
    recipe = msgspec.json.decode(sys.stdin.buffer.readline(), type=Recipe)
    try:
        server = _server(recipe)
    except Exception as error:  # whatever the native library raises is told to the parent
        _say(Ready(error=f"{type(error).__name__}: {error}"))
        return 1
    _say(Ready(url=server.listening_address))
    sys.stdin.buffer.read()  # until the parent is gone
    return 0


def _say(ready: Ready) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(ready) + b"\n")
    sys.stdout.buffer.flush()


class _Server(Protocol):
    listening_address: str


def _server(recipe: Recipe) -> _Server:
    xllamacpp = importlib.import_module("xllamacpp")  # imported so, since it has no types
    params = xllamacpp.CommonParams()
    params.model.path = recipe.path
    params.model_alias = {recipe.name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [recipe.key]
    params.ui = False
    params.endpoint_slots = False
    params.n_ctx = recipe.context * recipe.parallel
    params.n_parallel = recipe.parallel
    params.n_predict = recipe.longest
    params.cache_ram_mib = _KEPT_PROMPTS_MIB
    params.cpuparams.n_threads = recipe.threads
    quick = multiplies_bytes(xllamacpp.get_system_info())
    params.cpuparams_batch.n_threads = recipe.prompt_threads if quick else recipe.threads
    params.warmup = False
    params.verbosity = -1
    if recipe.adapter:
        adapter = xllamacpp.CommonAdapterLoraInfo()
        adapter.path = recipe.adapter
        adapter.scale = 1.0
        params.lora_adapters = [adapter]
    return xllamacpp.Server(params)


if __name__ == "__main__":
    sys.exit(main())

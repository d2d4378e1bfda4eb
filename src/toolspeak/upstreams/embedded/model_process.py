"""The process that runs the embedded model: llama.cpp's server, on loopback only.

It reads one JSON line (`Recipe`) from stdin and answers with one (`Ready`). A separate process keeps a broken model
file from crashing the caller. It ends with its parent, which closes the pipe to stdin. Chat templates in model files
are rendered by llama.cpp, never by Python.
"""

from __future__ import annotations

import importlib
import sys
from typing import Protocol

import msgspec

from .engine_build import has_byte_products

#: Size of the prompt cache, which makes returning to an earlier prompt free. llama.cpp would use up to 8 GB: 14 MB for
#: every new prompt of a small model.
_PROMPT_CACHE_MIB = 64


class Recipe(msgspec.Struct, frozen=True):
    """Which model to run, and how."""

    #: Path of the model file, and the hub name if it comes from there.
    path: str = ""
    hub: str = ""
    #: Path of a LoRA adapter.
    adapter: str = ""
    #: Name of the model.
    name: str = ""
    #: Context per answer, in tokens.
    context: int = 4096
    #: Concurrent answers; further requests wait in order.
    parallel: int = 1
    threads: int = 1
    #: Threads for reading a prompt if the engine has byte dot products; otherwise `threads` applies.
    prompt_threads: int = 1
    #: Maximum answer in tokens if the request sets none: a small model may never stop.
    longest: int = 1024
    #: API key of the server.
    key: str = ""


class Ready(msgspec.Struct, frozen=True):
    """The result of loading the model: its URL, or an error."""

    url: str = ""
    error: str = ""


def main() -> int:
    """Read a recipe, run the server, and exit when stdin closes."""
    recipe = msgspec.json.decode(sys.stdin.buffer.readline(), type=Recipe)
    try:
        server = _start_server(recipe)
    except Exception as error:  # report any error of the native library to the parent
        _report(Ready(error=f"{type(error).__name__}: {error}"))
        return 1
    _report(Ready(url=server.listening_address))
    sys.stdin.buffer.read()  # until the parent exits
    return 0


def _report(ready: Ready) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(ready) + b"\n")
    sys.stdout.buffer.flush()


class _LlamaServer(Protocol):
    listening_address: str


def _start_server(recipe: Recipe) -> _LlamaServer:
    xllamacpp = importlib.import_module("xllamacpp")  # has no type information
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
    params.cache_ram_mib = _PROMPT_CACHE_MIB
    params.cpuparams.n_threads = recipe.threads
    quick = has_byte_products(xllamacpp.get_system_info())
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

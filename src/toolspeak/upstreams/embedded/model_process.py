"""The process that runs the embedded model: llama.cpp's server, on loopback only.

It reads a `Recipe` as one JSON line from stdin, and writes a `Ready` as one JSON line to stdout. It is a separate
process, so a broken model file cannot crash the caller. It exits when stdin closes, at the latest when its parent
exits. llama.cpp, never Python, renders the chat templates in model files.
"""

from __future__ import annotations

import importlib
import sys
from typing import Protocol

import msgspec

from .engine_build import has_byte_products

#: Size of the prompt cache, which saves processing an earlier prompt again. By default, llama.cpp would use up to 8 GB,
#: and each new prompt of a small model takes 14 MB.
_PROMPT_CACHE_MIB = 64


class Recipe(msgspec.Struct, frozen=True):
    #: Path of the model file, and its name on the hub if it was downloaded from there.
    path: str = ""
    hub: str = ""
    adapter: str = ""
    name: str = ""
    context: int = 4096  # context size for each answer, in tokens
    #: Maximum number of concurrent answers. Further requests wait in order.
    parallel: int = 1
    threads: int = 1
    #: Number of threads that process prompts if the engine has byte dot products; otherwise `threads` applies.
    prompt_threads: int = 1
    #: Maximum tokens per answer if the request sets no limit. A small model may never stop by itself.
    longest: int = 1024
    key: str = ""  # API key that the server requires


class Ready(msgspec.Struct, frozen=True):
    """The result of loading the model: its URL, or an error."""

    url: str = ""
    error: str = ""


def main() -> int:
    """Read a recipe, run the server, and exit when stdin closes."""
    recipe = msgspec.json.decode(sys.stdin.buffer.readline(), type=Recipe)
    try:
        server = _start_server(recipe)
    except Exception as error:  # report any error from the native library to the parent
        _report(Ready(error=f"{type(error).__name__}: {error}"))
        return 1
    _report(Ready(url=server.listening_address))
    sys.stdin.buffer.read()  # blocks until the parent closes the pipe or exits
    return 0


def _report(ready: Ready) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(ready) + b"\n")
    sys.stdout.buffer.flush()


class _LlamaServer(Protocol):
    listening_address: str


def _start_server(recipe: Recipe) -> _LlamaServer:
    xllamacpp = importlib.import_module("xllamacpp")  # not a plain import: it has no type information
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

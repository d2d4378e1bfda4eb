"""The process that runs the embedded model: llama.cpp's server, on loopback only.

It reads a `Recipe` as one JSON line from stdin, and writes a `Ready` as one JSON line to stdout. It is a separate
process, so a broken model file cannot crash the caller. It exits when stdin closes, at the latest when its parent
exits. llama.cpp, never Python, renders the chat templates in model files.

Further lines are `StateCommand`s, answered by one `Ready` each. They save what the model has made of a tool prompt to a
file, and restore it after a restart, so that the model need not read the prompt again.
"""

import importlib
import os
import sys
import urllib.request
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

from .engine_build import has_byte_products

#: Size of the prompt cache, which saves processing an earlier prompt again. By default, llama.cpp would use up to 8 GB,
#: and each new prompt of a small model takes 14 MB.
_PROMPT_CACHE_MIB = 64
#: Stands for what a user says, to find where that begins in a prompt.
_USER_TEXT = "(user)"


class Recipe(msgspec.Struct, frozen=True):
    #: Path of the model file, and its name on the hub if it was downloaded from there.
    path: str = ""
    hub: str = ""
    adapter: str = ""
    #: 0 if the adapter is merged into the weights. It is loaded all the same, so that requests can undo it.
    adapter_scale: float = 1.0
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
    #: Folder with the states of tool prompts; empty if none are saved.
    states: str = ""


class Ready(msgspec.Struct, frozen=True):
    """The result of loading the model, or of a command: the URL of the server, or an error."""

    url: str = ""
    error: str = ""


class StateCommand(msgspec.Struct, frozen=True):
    """Save or restore the state after the system message of a request."""

    action: Literal["save", "restore"]
    #: Name of the file in the folder of the recipe.
    file: str
    #: The system message, to save its state.
    text: str = ""


def main() -> int:
    """Read a recipe, run the server, and exit when stdin closes."""
    recipe = msgspec.json.decode(sys.stdin.buffer.readline(), type=Recipe)
    try:
        server = _start_server(recipe)
    except Exception as error:  # report any error from the native library to the parent
        _report(Ready(error=f"{type(error).__name__}: {error}"))
        return 1
    _report(Ready(url=server.listening_address))
    states = _States(server.listening_address, recipe.key)
    for line in sys.stdin.buffer:  # ends when the parent closes the pipe or exits
        command = msgspec.json.decode(line, type=StateCommand)
        try:
            states.carry_out(command)
        except (OSError, ValueError, LookupError, TypeError) as error:  # a full disk, or an unusual chat template
            _report(Ready(error=f"{type(error).__name__}: {error}"))
        else:
            _report(Ready(url=server.listening_address))
    return 0


def try_model(path: str) -> None:
    """Read a prompt and write a few tokens with a model file, which fails if the engine does not fit the processor."""
    server = _start_server(Recipe(path=path, key="try"))
    prompt = {"prompt": "Which city is it? " * 8, "n_predict": 4}
    _States(server.listening_address, "try").post("/completion", prompt)


class _States:
    """Saves and restores states through the server's own interface."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._key = key

    def carry_out(self, command: StateCommand) -> None:
        slot = 0
        if command.action == "save":
            # Only the system message: what users say is not saved.
            prompt = {"prompt": self._prompt(command.text), "n_predict": 0, "cache_prompt": True}
            slot = self.post("/completion", prompt)["id_slot"]
        self.post(f"/slots/{slot}?action={command.action}", {"filename": command.file})

    def _prompt(self, text: str) -> str:
        """Return the beginning of every prompt with this system message."""
        messages = [{"role": "system", "content": text}, {"role": "user", "content": _USER_TEXT}]
        begin, _, _ = self.post("/apply-template", {"messages": messages})["prompt"].rpartition(_USER_TEXT)
        if text not in begin:
            raise ValueError("the chat template changes the system message")
        return begin

    def post(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        request = urllib.request.Request(self._url + path, msgspec.json.encode(body), headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request) as reply:
            return msgspec.json.decode(reply.read())


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
    fast = has_byte_products(xllamacpp.get_system_info())
    params.cpuparams_batch.n_threads = recipe.prompt_threads if fast else recipe.threads
    params.warmup = False
    if recipe.states:
        os.umask(0o077)
        params.slot_save_path = os.path.join(recipe.states, "")
    params.verbosity = -1
    if recipe.adapter:
        adapter = xllamacpp.CommonAdapterLoraInfo()
        adapter.path = recipe.adapter
        adapter.scale = recipe.adapter_scale
        params.lora_adapters = [adapter]
    return xllamacpp.Server(params)


if __name__ == "__main__":
    sys.exit(main())

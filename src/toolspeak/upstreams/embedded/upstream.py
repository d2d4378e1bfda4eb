"""The embedded model as an upstream: a small model that runs here, so that everything works without key or account.

The model runs in a process of its own (`child`), started with the first request and again if it died; it is
spoken to over loopback like any other service. Nothing here prints: who wants to see the weights come fetches them first, with `weights.obtain`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from pathlib import Path

import msgspec

from ...core.types import JSONObject, JSONValue, Options, Request
from ...errors import ConfigError, UpstreamError, UsageError
from ..base import Batches, shorten
from ..http.connection import Timeouts
from ..http.thin_transport import HttpUpstream
from . import engine, hub, weights
from .engine_process import Ready, Recipe
from .hub import named
from .weights import DEFAULT, NOBODY, QUICK, Follower

#: Reading a file of weights from a slow disk.
_LOAD_SECONDS = 600
_END_SECONDS = 5
#: A long prompt takes minutes on a slow machine before its first token, and a queue adds to that.
_TIMEOUTS = Timeouts(connect=10, first_byte=900, idle=300, total=3600)
#: What llama.cpp says of a prompt that does not fit.
_TOO_LONG = "context size"
#: More threads than this do not make a small model faster.
_MOST_THREADS = 8
#: Two answers at once, so that a short one need not wait for a long one.
_PARALLEL = 2
_MAGIC = b"GGUF"
_CHILD = "toolspeak.upstreams.embedded.engine_process"
#: For the C library of Linux (glibc), which keeps what is freed: each of the many threads in a heap of its own, and
#: llama.cpp copies prompts of several MB. So there is one heap, and what is large goes back at once: after the same
#: mixed prompts the process held 612 MB instead of 736.
_GIVES_BACK_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "131072",
}
#: Teaches the default model to call tools; 10 MB, so it comes with the package. How it was made: `training/README.md`.
ADAPTER = Path(__file__).parents[2] / "adapters" / "smollm2-135m-tools.gguf"
#: In place of an adapter's file: the model as it is.
NO_ADAPTER = "none"
#: The token `]` of the default model, by which a list of calls ends before it has begun, and how much more likely it is
#: made: with its adapter the model calls what is near too readily, and more so once it has answered something, where
#: people also say thanks. Both chosen on data it was not trained on, see `training/README.md`.
_NO_CALLS, _TOWARDS, _TOWARDS_LATER = 77, 1.0, 7.0
#: The control tokens of the default model (`<|im_start|>`, `<file_sep>` ...) but for those that end an answer. To a
#: grammar they are the letters of their names, which may stand in any string, but llama.cpp leaves them out of the
#: answer: a string came shorter than its `minLength`. Of other models it is not known here which tokens end an answer.
CONTROL = (1, *range(3, 17))


def threads_for(cores: int) -> int:
    """How many threads to use: half of the cores, since threads that wait for each other on busy cores collapse.

    Also to read a prompt, unless the engine is quick (`prompt_threads_for`): llama.cpp takes as many to write two
    answers at once.
    """
    return max(1, min(_MOST_THREADS, cores // 2))


def prompt_threads_for(cores: int) -> int:
    """How many threads a quick engine reads a prompt with: that is soon over, so it may have all cores."""
    return max(1, min(_MOST_THREADS, cores))


def _cores() -> int:
    # Those that this process may use, where the system says so: a container often has fewer than the machine.
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def need_runtime() -> None:
    """Look whether there is something to run models with.

    Raises:
        ConfigError: there is not.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        hint = 'pip install "toolspeak[embedded]", or name another model with --upstream URL'
        raise ConfigError("the embedded model needs the package xllamacpp, which is not installed", hint=hint)


def recipe_for(model: str, adapter: str = "", context: int = 0) -> Recipe:
    """What to run for a model's name: nothing for the default one, a path of a GGUF file, or a name of the hub.

    The default model gets the adapter that comes along, unless another one is given, or `none`.

    Raises:
        ConfigError: there is no such file.
    """
    known, cores = Recipe(), _cores()
    made = Recipe(
        name=Path(model).stem if model else DEFAULT.name,
        adapter=_adapter(model, adapter),
        context=context or known.context,
        parallel=_PARALLEL,
        threads=threads_for(cores),
        prompt_threads=prompt_threads_for(cores),
        key=secrets.token_urlsafe(24),
    )
    if model in ("", DEFAULT.name):
        return made
    at_hub = named(model)
    if at_hub is not None:
        return msgspec.structs.replace(made, hub=model, name=at_hub.title)
    if model.endswith(".gguf"):
        return msgspec.structs.replace(made, path=_file(model, "weights"))
    hint = (
        "name a file that ends in .gguf, a model of the hub as owner/name, owner/name:Q4_K_M or "
        "hf:owner/name/file.gguf, or nothing for the model that comes along"
    )
    raise ConfigError(f"`{model}` is no model that can run here", hint=hint)


def is_gguf(file: Path) -> bool:
    """Whether a file begins as files of weights do; whether it is whole shows when it is loaded.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        with file.open("rb") as content:
            return content.read(len(_MAGIC)) == _MAGIC
    except OSError as error:
        raise ConfigError(
            f"`{file}` cannot be read: {error.strerror}", hint="whose is it, and who may read it?"
        ) from None


def kept_weights(recipe: Recipe, cache: Path) -> Path | None:
    """The file that a recipe needs, if nothing has to be fetched for it."""
    if recipe.path:
        return Path(recipe.path)
    at_hub = named(recipe.hub)
    if at_hub is not None:
        return hub.kept(at_hub, cache)
    return weights.kept(QUICK if engine.is_quick() else DEFAULT, cache)


def weights_of(recipe: Recipe, cache: Path, environment: Mapping[str, str], follower: Follower = NOBODY) -> Path:
    """The file that a recipe needs: a user's own, else from the cache, else fetched into it.

    Raises:
        WeightsError: it cannot be had.
    """
    if recipe.path:
        return Path(recipe.path)
    at_hub = named(recipe.hub)
    if at_hub is not None:
        return hub.obtain(at_hub, cache, environment, follower)
    if engine.is_quick():
        return weights.obtain_quick(cache, environment, follower)
    return weights.obtain(DEFAULT, cache, environment, follower)


def _adapter(model: str, given: str) -> str:
    """The file of the adapter; empty: none."""
    if given and given != NO_ADAPTER:
        return _file(given, "an adapter")
    return str(ADAPTER) if not given and model in ("", DEFAULT.name) else ""


def _file(path: str, what: str) -> str:
    file = Path(path).expanduser()
    if not file.is_file():
        raise ConfigError(f"there is no file with {what} at `{path}`", hint="look at the path; it must be a GGUF file")
    return str(file.resolve())


def suited(request: Request) -> Request:
    """The request as the default model is asked with its adapter: tools are what the adapter is for.

    Where the prompt tells of none, the model talks as it is: with the adapter it would call some. Where a grammar holds
    the answer there is a threshold for calls: one that is hardly more likely than none is not made.
    """
    options = request.options
    if options.contract:
        return _weighed(request, [_NO_CALLS, _TOWARDS_LATER if options.answered else _TOWARDS])
    alone: JSONObject = {"lora": [{"id": 0, "scale": 0.0}], **options.own}
    return _weighed(_with(request, msgspec.structs.replace(options, own=alone)))


def _weighed(request: Request, *weights: JSONValue) -> Request:
    """With these weights of tokens where a grammar holds the answer, unless the client weighs tokens by itself."""
    options = request.options
    if not options.grammar or "logit_bias" in options.extra:
        return request
    never = ([token, False] for token in CONTROL)
    grammar: JSONObject = {**options.grammar, "logit_bias": [*weights, *never]}
    return _with(request, msgspec.structs.replace(options, grammar=grammar))


def _with(request: Request, options: Options) -> Request:
    return msgspec.structs.replace(request, options=options)


class EmbeddedUpstream:
    """A model that runs on this machine, in a process of its own.

    Args:
        recipe: what to run; without a path, `weights` says where the file is.
        weights: finds the file of weights, and may take its time.
    """

    provider = "embedded"
    base_url = ""
    protocol = "openai_chat"

    def __init__(self, recipe: Recipe, weights: Callable[[], Path]) -> None:
        self._recipe = recipe
        self._weights = weights
        self.model = recipe.name
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._service: HttpUpstream | None = None
        self._closed = False

    def open(self, request: Request) -> Batches:
        """Ask it, started if it is not running."""
        recipe = self._recipe
        if recipe.adapter == str(ADAPTER):
            request = suited(request)
        elif not (recipe.path or recipe.hub):
            request = _weighed(request)
        return self._batches(request)

    async def _batches(self, request: Request) -> Batches:
        service = await self.start()
        try:
            async with aclosing(service.open(request)) as batches:
                async for batch in batches:
                    yield batch
        except UpstreamError as error:
            if _TOO_LONG in str(error):
                error.hint = f"`toolspeak serve --context N`, or `context = N`, gives more than {self._recipe.context}"
            raise

    async def start(self) -> HttpUpstream:
        """See to it that the model runs; the service that it answers by.

        Raises:
            ConfigError: it cannot run here.
            UpstreamError: it did not start.
            WeightsError: its weights cannot be had.
        """
        async with self._lock:
            if self._closed:
                raise UsageError("this upstream is closed")
            if self._service is None or self._process is None or self._process.returncode is not None:
                await self._end()
                self._service = await self._begin()
            return self._service

    async def _begin(self) -> HttpUpstream:
        need_runtime()
        recipe = self._recipe
        if not recipe.path:
            recipe = msgspec.structs.replace(recipe, path=str(await asyncio.to_thread(self._weights)))
        with tempfile.TemporaryFile() as said:
            pipe = asyncio.subprocess.PIPE
            # -P: a file in the working directory that is called like a module is not one.
            command = (sys.executable, "-P", "-m", _CHILD)
            environment = {**_GIVES_BACK_MEMORY, **os.environ}  # noqa: TID251 - it is passed on, not read for settings
            process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=said, env=environment
            )
            self._process = process
            try:
                ready = await asyncio.wait_for(_ready(process, recipe), _LOAD_SECONDS)
            except BaseException:
                await self._end()
                raise
            if not ready.url:
                await self._end()
                said.seek(0)
                words = ready.error or said.read()[-2000:].decode("utf-8", "replace") or "it gave no reason"
                message = f"the model `{recipe.name}` did not start: {shorten(words)}"
                raise UpstreamError(message, hint=_what_to_look_at(recipe))
        return HttpUpstream(f"{ready.url}/v1", recipe.key, timeouts=_TIMEOUTS, provider=self.provider)

    async def close(self) -> None:
        """End the process."""
        self._closed = True
        await self._end()

    async def _end(self) -> None:
        service, self._service = self._service, None
        process, self._process = self._process, None
        if service is not None:
            await service.close()
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()  # it ends by itself then
        try:
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _what_to_look_at(recipe: Recipe) -> str:
    """What may be wrong with a recipe that did not start: llama.cpp does not say which of its files it was."""
    model = "is it a whole GGUF file, and is there memory enough?"
    if recipe.adapter in ("", str(ADAPTER)):
        return model
    # By its name alone: clients read this too, and the folders of this machine are none of their business.
    file = Path(recipe.adapter).name
    return (
        f"the adapter `{file}` may be the reason: it must be a whole LoRA adapter for this model, and "
        f"`--adapter {NO_ADAPTER}` leaves it out; if it is not that, look at the model: {model}"
    )


async def _ready(process: asyncio.subprocess.Process, recipe: Recipe) -> Ready:
    """Tell the process what to run, and wait until it does; what it says without saying so is kept for the error."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(ConnectionError):  # it is gone: its output says so
        process.stdin.write(msgspec.json.encode(recipe) + b"\n")
        await process.stdin.drain()
    while line := await process.stdout.readline():
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(line, type=Ready)
    return Ready()

"""The embedded model as an upstream: a small local model that needs no key or account.

The model runs in a separate process (`model_process`), which starts with the first request, is restarted if it dies,
and is reached over loopback HTTP. This module prints nothing; to show download progress, call `obtain_weights` first.
"""

import asyncio
import importlib.util
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import aclosing, nullcontext, suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ...core.events import Event, Finish, TextDelta
from ...core.text import system_reason
from ...core.types import AnswerFrame, JSONObject, JSONValue, Message, Request, TextPart
from ...errors import ConfigError, UpstreamError, UsageError
from ..base import Batches, PassthroughBase, open_upstream, shorten
from ..http.connection import Timeouts
from ..http.thin_transport import HttpUpstream
from . import engine_build as engine
from . import hub, weights
from .card import card_for
from .hub import parse_name
from .model_process import Ready, Recipe, StateCommand
from .prompt_states import PromptStates
from .weights import ADAPTER, ADAPTER_PACKAGE, DEFAULT, MERGED, NO_LISTENER, DownloadListener

#: Time limit in seconds for starting the model. Loading weights from a slow disk takes long.
_LOAD_SECONDS = 600
_END_SECONDS = 5
#: On a slow machine, the first token of an answer to a long prompt takes minutes, plus time in the queue.
_TIMEOUTS = Timeouts(connect=10, first_byte=900, idle=300, total=3600)
_TOO_LONG = "context size"  # part of llama.cpp's error message for a prompt that does not fit into the context
#: Maximum number of threads. More do not make a small model faster.
_MAX_THREADS = 8
#: Number of concurrent answers. Two, so a short answer need not wait for a long one.
_PARALLEL = 2
_MAGIC = b"GGUF"
_PROCESS_MODULE = "toolspeak.upstreams.embedded.model_process"
#: Settings for glibc's malloc, which otherwise keeps freed memory in one heap per thread while llama.cpp copies prompts
#: of several MB. One heap, and returning large blocks early, reduced the memory of the process from 736 to 612 MB after
#: the same mixed prompts.
_MALLOC_SETTINGS = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "131072"}
NO_ADAPTER = "none"
#: The default model's token `]`, which ends an empty list of calls, and its biases on the first answer and later. With
#: its adapter, the model calls tools too readily, especially later in a chat. See `training/README.md`.
_NO_CALL_TOKEN, _NO_CALL_BIAS, _NO_CALL_BIAS_LATER = 77, 1.0, 4.0
#: The default model's control tokens (`<|im_start|>`, `<file_sep>` ...) except those that end an answer. A grammar
#: accepts them in any string, as the letters of their names, but llama.cpp omits them from the answer. As a result,
#: strings were shorter than their `minLength`. For other models, the tokens that end an answer are not known.
CONTROL_TOKENS = (1, *range(3, 17))


def threads_for(cores: int) -> int:
    """Return the number of threads for generation: half of the cores, since threads on busy cores wait for each other.

    Prompts use the same number, unless the engine has byte dot products (see `prompt_threads_for`), because llama.cpp
    also writes two concurrent answers with the threads for prompts.
    """
    return max(1, min(_MAX_THREADS, cores // 2))


def prompt_threads_for(cores: int) -> int:
    """Return the number of threads for prompts with byte dot products: all cores, since a prompt takes little time."""
    return max(1, min(_MAX_THREADS, cores))


def _cores() -> int:
    # Count only the cores that this process may use, if known. A container often has fewer than the machine.
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def require_runtime() -> None:
    """Raise ConfigError unless the packages that run models are installed."""
    for package in ("xllamacpp", ADAPTER_PACKAGE):
        if importlib.util.find_spec(package) is None:
            hint = 'pip install "toolspeak[embedded]", or use another model with --upstream URL'
            name = package.replace("_", "-")
            raise ConfigError(f"the embedded model needs the package {name}, which is not installed", hint=hint)


def recipe_for(model: str, adapter: str = "", context: int = 0, states: str = "") -> Recipe:
    """Return the recipe for a model: the path of a GGUF file, a hub name, or empty for the default model.

    The default model uses the bundled adapter, unless `adapter` is the path of another one or `none`. `states`: the
    folder for the states of tool prompts.
    """
    cores = _cores()
    recipe = Recipe(
        name=Path(model).stem if model else DEFAULT.name,
        adapter=_adapter(model, adapter),
        context=context or Recipe().context,
        parallel=_PARALLEL,
        threads=threads_for(cores),
        prompt_threads=prompt_threads_for(cores),
        key=secrets.token_urlsafe(24),
        states=states,
    )
    if model in ("", DEFAULT.name):
        return recipe
    hub_name = parse_name(model)
    if hub_name is not None:
        return replace(recipe, hub=model, name=hub_name.title)
    if model.endswith(".gguf"):
        return replace(recipe, path=_file(model, "the weights"))
    names = "owner/name, owner/name:Q4_K_M or hf:owner/name/file.gguf"
    hint = f"use a file that ends in .gguf, a hub model ({names}), or nothing for the default model"
    raise ConfigError(f"`{model}` is not a model that can run here", hint=hint)


def is_gguf(file: Path) -> bool:
    """Whether a file starts like a GGUF file. It may still be incomplete, which shows when it is loaded."""
    try:
        with file.open("rb") as content:
            return content.read(len(_MAGIC)) == _MAGIC
    except OSError as error:
        hint = "check its owner and permissions"
        raise ConfigError(f"`{file}` cannot be read: {system_reason(error)}", hint=hint) from None


def cached_weights(recipe: Recipe, cache: Path) -> Path | None:
    """Return the model file of a recipe, if no download is needed."""
    if recipe.path:
        return Path(recipe.path)
    hub_name = parse_name(recipe.hub)
    if hub_name is not None:
        return hub.cached_file(hub_name, cache)
    # Of the default model, the file that is fastest with this adapter and engine.
    merged = weights.cached_file(MERGED, cache) if _prefers_merged(recipe) else None
    return merged or weights.cached_file(DEFAULT, cache)


def obtain_weights(
    recipe: Recipe, cache: Path, environment: Mapping[str, str], follower: DownloadListener = NO_LISTENER
) -> Path:
    """Return the model file of a recipe: the user's own file, or the cached one, which is downloaded if missing."""
    hub_name = parse_name(recipe.hub)
    if hub_name is not None:
        return hub.obtain(hub_name, cache, environment, follower)
    file = cached_weights(recipe, cache) or weights.obtain(DEFAULT, cache, environment, follower)
    if file.name == DEFAULT.file_name and _prefers_merged(recipe):
        weights.merge_in_background(cache)
    return file


def _prefers_merged(recipe: Recipe) -> bool:
    has_numpy = importlib.util.find_spec("numpy") is not None  # merging needs it
    return has_numpy and recipe.adapter == str(ADAPTER) and engine.prefers_8_bits(engine.installed_info())


def _adapter(model: str, setting: str) -> str:
    if setting and setting != NO_ADAPTER:
        return _file(setting, "the adapter")
    return str(ADAPTER) if not setting and model in ("", DEFAULT.name) else ""


def _file(path: str, what: str) -> str:
    file = Path(path).expanduser()
    if not file.is_file():
        raise ConfigError(f"cannot find {what}: `{path}` is not a file", hint="give the path of a GGUF file")
    return str(file.resolve())


def adapt_request(request: Request, merged: bool) -> Request:
    """Adjust a request for the default model with its adapter, which may be `merged` into the weights.

    If the prompt has no tools, the adapter is turned off, because with it the model would still try to call some. If
    a grammar constrains the answer, a bias against calls suppresses those that are hardly more likely than no call.
    """
    options = request.options
    if options.described_tools:
        return _with_biases(request, [_NO_CALL_TOKEN, _NO_CALL_BIAS_LATER if options.answered else _NO_CALL_BIAS])
    own: JSONObject = {"lora": [{"id": 0, "scale": -1.0 if merged else 0.0}], **options.own}
    return _with_biases(replace(request, options=replace(options, own=own)))


def _with_biases(request: Request, *biases: JSONValue) -> Request:
    """Add token biases if a grammar constrains the answer, unless the client sets `logit_bias` itself."""
    options = request.options
    if not options.grammar or "logit_bias" in options.extra:
        return request
    never = ([token, False] for token in CONTROL_TOKENS)
    grammar: JSONObject = {**options.grammar, "logit_bias": [*biases, *never]}
    return replace(request, options=replace(options, grammar=grammar))


class EmbeddedUpstream(PassthroughBase):
    """A model that runs on this machine, in a separate process.

    Args:
        recipe: the model to run. If it has no path, `weights` provides the file.
        weights: returns the model file. It may block while downloading.
    """

    provider = "embedded"
    base_url = ""
    protocol = "openai_chat"

    def __init__(self, recipe: Recipe, weights: Callable[[], Path]) -> None:
        self._recipe = recipe
        self._weights = weights
        self.model = recipe.name
        self.context_window = recipe.context  # size of the context window in tokens
        self._lock = asyncio.Lock()
        self._commands = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._service: HttpUpstream | None = None
        self._states = PromptStates(Path(recipe.states), self._carry_out) if recipe.states else None
        self._merged = False  # whether the running model has its adapter merged into its weights
        self._closed = False

    def _adjusted(self, request: Request) -> Request:
        recipe, frame = self._recipe, request.options.frame
        if frame is not None:
            begin = Message("assistant", (TextPart(frame.begin),))
            # llama.cpp leaves the beginning out of streams, but not out of complete answers.
            request = replace(request, messages=(*request.messages, begin), stream=True)
        if recipe.adapter == str(ADAPTER):
            return adapt_request(request, self._merged)
        return request if recipe.path or recipe.hub else _with_biases(request)

    async def _batches(self, request: Request, *, passthrough_bytes: bool) -> Batches:
        card = card_for(request) if self._recipe.adapter == str(ADAPTER) else ""
        if card and not self._closed:
            yield [TextDelta(card), Finish("stop")]
            return
        service = await self.start()
        request = self._adjusted(request)
        try:
            async with (
                self._states.of(request) if self._states is not None else nullcontext(),
                aclosing(open_upstream(service, request, passthrough_bytes=passthrough_bytes)) as batches,
            ):
                frame = request.options.frame
                async for batch in batches if frame is None else _in_frame(batches, frame):
                    yield batch
        except UpstreamError as error:
            if _TOO_LONG in str(error):
                larger = "raise the limit with `toolspeak serve --context N` (`make run ARGS='--context N'`)"
                error.hint = f"such long requests, as of coding agents, need a larger model; or {larger}"
            raise

    async def _carry_out(self, command: StateCommand) -> bool:
        """Send a command to the process. Returns whether it succeeded."""
        process = self._process
        if process is None or process.stdin is None or process.returncode is not None:
            return False
        async with self._commands:
            return bool((await _exchange(process, command)).url)

    async def start(self) -> HttpUpstream:
        """Start the model if it is not running, and return its HTTP service.

        Raises ConfigError if the model cannot run on this machine, UpstreamError if it did not start, and WeightsError
        if the weights are not available.
        """
        async with self._lock:
            if self._closed:
                raise UsageError("this upstream is closed")
            if self._service is None or self._process is None or self._process.returncode is not None:
                await self._stop_process()
                self._service = await self._start_process()
            return self._service

    async def read_ahead(self, request: Request) -> None:
        """Start to read the tool prompt of a request that may follow. Raises what `start` raises."""
        await self.start()
        if self._states is not None:
            self._states.save_when_idle(self._adjusted(request))

    async def _start_process(self) -> HttpUpstream:
        require_runtime()
        recipe = self._recipe
        if not recipe.path:
            path = await asyncio.to_thread(self._weights)
            self._merged = path.name == MERGED.file_name
            recipe = replace(recipe, path=str(path), adapter_scale=0.0 if self._merged else 1.0)
        if self._states is not None:
            # Merged weights continue with the states of those they were made from: the two differ only by rounding.
            model = recipe.path.replace(MERGED.file_name, DEFAULT.file_name)
            recipe = replace(recipe, states=str(self._states.process_starts(model, recipe.adapter)))
        with tempfile.TemporaryFile() as stderr:
            pipe = asyncio.subprocess.PIPE
            # With -P, Python does not import modules from the working directory.
            command = (sys.executable, "-P", "-m", _PROCESS_MODULE)
            env = {**_MALLOC_SETTINGS, **os.environ}  # noqa: TID251 - passed on, not read for settings
            process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=stderr, env=env)
            self._process = process
            try:
                ready = await asyncio.wait_for(_exchange(process, recipe), _LOAD_SECONDS)
            except BaseException:
                await self._stop_process()
                raise
            if not ready.url:
                await self._stop_process()
                if process.returncode == -signal.SIGILL:
                    message = f"the model `{recipe.name}` did not start: its engine does not fit this processor"
                    raise UpstreamError(message, hint="run: pip install --force-reinstall --no-deps xllamacpp")
                stderr.seek(0)
                reason = ready.error or stderr.read()[-2000:].decode("utf-8", "replace") or "it gave no reason"
                message = f"the model `{recipe.name}` did not start: {shorten(reason)}"
                raise UpstreamError(message, hint=_start_failure_hint(recipe))
        return HttpUpstream(f"{ready.url}/v1", recipe.key, timeouts=_TIMEOUTS, provider=self.provider)

    async def close(self) -> None:
        self._closed = True
        await self._stop_process()
        if self._states is not None:
            await self._states.settle()

    async def _stop_process(self) -> None:
        service, self._service = self._service, None
        process, self._process = self._process, None
        if service is not None:
            await service.close()
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()  # makes the process exit
        try:
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _in_frame(batches: Batches, frame: AnswerFrame) -> Batches:
    """Add the parts of an answer that the grammar leaves out."""
    last = ""
    async for batch in batches:
        events: list[Event] = []
        for event in batch:
            if isinstance(event, TextDelta) and event.text:
                events.append(event if last else TextDelta(frame.begin + event.text))
                last = event.text[-1]
            elif isinstance(event, Finish) and event.reason == "stop" and last == "]":
                events += (TextDelta(frame.end), event)
            else:
                events.append(event)
        yield events


def _start_failure_hint(recipe: Recipe) -> str:
    """Return the hint for a recipe that did not start. llama.cpp does not say which file is at fault."""
    model = "check that its file is a complete GGUF file and that there is enough memory"
    if recipe.adapter in ("", str(ADAPTER)):
        return model
    # Show only the file name. Clients see this hint, and must not learn about the folders on this machine.
    file = Path(recipe.adapter).name
    return (
        f"the adapter `{file}` may be the cause: it must be a complete LoRA adapter for this model; "
        f"run without it (`--adapter {NO_ADAPTER}`); if that fails too, {model}"
    )


async def _exchange(process: asyncio.subprocess.Process, line: Recipe | StateCommand) -> Ready:
    """Send a line to the process and wait for the answer. Other output is ignored."""
    assert process.stdin is not None and process.stdout is not None
    with suppress(ConnectionError):  # the process has exited, so its output below is empty
        process.stdin.write(msgspec.json.encode(line) + b"\n")
        await process.stdin.drain()
    while answer := await process.stdout.readline():
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(answer, type=Ready)
    return Ready()

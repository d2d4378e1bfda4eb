"""Routing: finds the upstream that serves a request's model, and the credentials to use.

Only the configuration and administrators decide where requests go. A new configuration creates a new gateway, and the
old one is closed after its last request. Only `add` and `change_settings` change a gateway.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from ...config import Auth, redacted_url
from ...core.bounded_cache import BoundedCache
from ...core.parsing.tool_index import toolkit
from ...core.schema.json_values import encode_json
from ...core.types import Note, Request
from ...engine.planning.capabilities import Capabilities
from ...engine.planning.strategy import Settings, Strategy, brief_strategy
from ...engine.prompting.tool_use_detection import has_tool_history
from ...engine.turn.faults import SEE_TRACE
from ...errors import ConfigError, ToolspeakError, UsageError
from ...key_value import State
from ...runtime.model_resolution import EMBEDDED, InterpreterModel, ResolvedModel
from ...runtime.probe_cache import probe_target
from ...runtime.prober import ProbeScheduler
from ...runtime.tool_memory import ToolMemory
from ...runtime.turn_factory import PlannedTurn, TurnFactory, TurnRecipe
from ...upstreams.base import Batches, Upstream, WrappedUpstream, open_upstream
from ...upstreams.failover import Failover
from ...upstreams.http.thin_transport import HttpUpstream
from ..access.auth import ANONYMOUS, Caller, Credential, Forbidden, Unauthorized, tenant_of
from ..access.limits import LimitedUpstream, Meter
from ..observe.request_context import CURRENT
from .model_catalogue import ModelCatalogue, ModelListCache, ModelLocation

if TYPE_CHECKING:
    from .tool_loop.loop import LoopTools

#: Key name for the tools of the web page. API keys cannot have this name, because it is not printable.
PAGE = "\0page"

#: Maximum sizes of caches keyed by request data: targets, and upstreams that use a client's own key.
_MAX_TARGETS = 1024
_MAX_FORWARDED = 256
#: Maximum length of a model's name in a cache key. Where the model is fixed, clients may send any name.
_MAX_NAME_CHARS = 256
#: Maximum size of what recipes keep: the options and tools of requests, as JSON.
_MAX_RECIPE_BYTES = 1024 * 1024

V = TypeVar("V")


class UpstreamAddress(msgspec.Struct, frozen=True, gc=False):
    """The address at which a model is served, without credentials; the first upstream of a fallback chain."""

    provider: str
    base_url: str
    protocol: str
    model: str


def public_url(url: str) -> str:
    """Return a URL for display and comparison, without user info, query, fragment and trailing slash."""
    return redacted_url(url.partition("#")[0].partition("?")[0]).rstrip("/")


class Target(msgspec.Struct, frozen=True):
    """The destination and settings for a caller's requests to one model."""

    maker: TurnFactory
    settings: Settings
    address: UpstreamAddress  # the address that is recorded with requests
    #: The name of the upstream that answers; empty if there are fallbacks, so that this is known only afterwards.
    upstream: str
    tenant: str = ""  # the tenant of the caller's conversations
    model: str = ""  # the model that answers, if the server has only that one and the client asked for another
    #: The server tools that the request selects; None if it makes no selection.
    server_tools: frozenset[str] | None = None


class Recipe(NamedTuple):
    """What is the same for all requests of a caller that differ only in their messages."""

    #: The objects by whose identity the recipe is found.
    identified: tuple[object, ...]
    target: Target
    turn: TurnRecipe


class UpstreamConfig(msgspec.Struct, frozen=True):
    name: str
    provider: str
    base_url: str
    protocol: str
    #: Connects with a client's own key, or with the configured key if the argument is None.
    connect: Callable[[Credential | None], Upstream]
    settings: Callable[[str], Settings]
    auth: Auth = "replace"
    #: Models that the upstream serves, with `*` as a wildcard; empty means any model.
    models: tuple[str, ...] = ()
    #: Model to request, whatever the client asks for; empty to use the client's model.
    fixed: str = ""
    fallbacks: tuple[str, ...] = ()
    max_concurrent: int = 0
    max_per_minute: int = 0
    title: str = ""  # the name that clients and operators see, if it differs

    def model_names(self) -> tuple[str, ...]:
        """Return the configured models, with wildcards; empty if the upstream accepts any."""
        return (self.fixed,) if self.fixed else self.models


class GatewayLease:
    """Counts the requests that use a gateway. All requests share one lease."""

    __slots__ = ("_count", "_free")

    def __init__(self) -> None:
        self._count = 0
        self._free: asyncio.Event | None = None

    def enter(self) -> None:
        self._count += 1

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *exc: object) -> None:
        self.leave()

    def leave(self) -> None:
        self._count -= 1
        if not self._count and self._free is not None:
            self._free.set()

    async def released(self) -> None:
        """Wait until no request uses the gateway."""
        while self._count:
            self._free = asyncio.Event()
            await self._free.wait()


class Gateway:
    """The upstreams of one server.

    Raises ConfigError if an alias or a fallback is unknown, or a fallback would send a client's key to another service.

    Args:
        upstreams: the upstreams, in the order in which a model name is looked up.
        memory: stores the tools of conversations.
        secret: key material for nonces.
        loops: maps a key name (or `PAGE`) to the tools that the server runs for that key.
        interpreter: reads calls from the text of answers, for the models whose settings ask for it.
        settings: returns the settings of `provider:model`, for upstreams that are added later.
    """

    def __init__(
        self,
        upstreams: Sequence[UpstreamConfig],
        capabilities: Capabilities,
        memory: State,
        secret: bytes,
        aliases: Mapping[str, str] | None = None,
        probes: ProbeScheduler | None = None,
        loops: "Mapping[str, LoopTools] | None" = None,
        interpreter: InterpreterModel | None = None,
        settings: Callable[[str], Settings] = lambda model: Settings(),
    ) -> None:
        self._interpreter = interpreter
        self.settings = settings
        #: The scheduler of background probes; None if probing is disabled.
        self.probes = probes
        self._starting: list[asyncio.Task[None]] = []
        self._server_tools = loops or {}
        self._configs = {upstream.name: upstream for upstream in upstreams}
        #: Upstreams that were added while the server runs.
        self.added: dict[str, UpstreamConfig] = {}
        self._added_models: set[str] = set()
        self._reserved: dict[str, ModelLocation] = {}  # what names meant before added upstreams listed them, too
        #: Settings that were changed while the server runs, by upstream and model.
        self._changed_settings: dict[tuple[str, str], Settings] = {}
        self._aliases = aliases
        self._catalogue = ModelCatalogue({upstream.name: upstream.model_names() for upstream in upstreams}, aliases)
        #: Model that replaces every requested model; empty if there is none.
        self._fixed = next((upstream.fixed for upstream in upstreams if upstream.fixed), "")
        self.capabilities = capabilities
        self._memory = memory
        self._secret = secret
        self._meters = {
            upstream.name: Meter(upstream.max_per_minute, upstream.max_concurrent)
            for upstream in upstreams
            if upstream.max_per_minute or upstream.max_concurrent
        }
        #: Cache of resolved model names. Permissions are still checked on every request.
        self._locations: dict[str, ModelLocation] = {}
        self._model_lists = ModelListCache()
        self._connected: dict[str, Upstream] = {}
        self._forwarded: OrderedDict[tuple[str, ...], Upstream] = OrderedDict()
        #: Targets by the identity of the caller, whom the entry keeps alive, the model and the client's protocol.
        self._targets: dict[tuple[int, str, str], tuple[Caller, Target]] = {}
        self._recipes: BoundedCache[tuple[object, ...], Recipe] = BoundedCache(_MAX_RECIPE_BYTES)
        self._makers: OrderedDict[tuple[str, ...], tuple[TurnFactory, Settings, UpstreamAddress, str]] = OrderedDict()
        #: Whether an upstream uses clients' own keys.
        self.forwards_keys = any(upstream.auth == "forward" for upstream in upstreams)
        self._chains = {upstream.name: self._chain(upstream) for upstream in upstreams}
        self._lease = GatewayLease()

    def _chain(self, config: UpstreamConfig) -> tuple[tuple[UpstreamConfig, str], ...]:
        """Return an upstream and its fallbacks, each with the model to request if that differs."""
        chain = [(config, "")]
        for target in config.fallbacks:
            name, _, model = target.partition(":")
            other = self._configs.get(name)
            if other is None or other is config:
                hint = f"configured upstreams: {', '.join(sorted(self._configs))}"
                raise ConfigError(f"the upstream `{config.name}` cannot fall back to `{target}`", hint=hint)
            if other.auth == "forward" and (config.auth != "forward" or other.base_url != config.base_url):
                hint = "give the fallback its own key and set `auth = replace`"
                raise ConfigError(f"the fallback `{target}` of `{config.name}` must not get a client's key", hint=hint)
            chain.append((other, model or other.fixed))
        return tuple(chain)

    def add(self, config: UpstreamConfig) -> str:
        """Add an upstream, or replace one that was added for the same URL. Return its name, which may get a suffix.

        All names of models keep their meaning: a model that is served already becomes `upstream:model`. So does every
        model if an upstream accepts any name and has listed none; `refresh` asks for the lists.
        """
        name = config.name
        while name in self._configs and (name not in self.added or self.added[name].base_url != config.base_url):
            name += "-2"
        earlier = {model: self._catalogue.meaning(model, self._model_lists.names) for model in config.models}
        self._reserved |= {model: place for model, place in earlier.items() if place and place.upstream != name}
        self.added[name] = self._configs[name] = msgspec.structs.replace(config, name=name)
        self._chains[name] = self._chain(self._configs[name])
        models = {each: it.model_names() for each, it in self._configs.items()}
        self._catalogue = ModelCatalogue(models, self._aliases, self._reserved)
        self._added_models = {model for model, upstream in self._catalogue.names().items() if upstream in self.added}
        self._connected.pop(name, None)  # its idle connections expire
        self._clear_caches()
        return name

    def adopt(self, other: "Gateway") -> None:
        """Add the upstreams that were added to another gateway, under the same names of models."""
        self._model_lists = other._model_lists
        for config in other.added.values():
            self.add(config)

    def change_settings(self, upstream: str, model: str, settings: Settings) -> None:
        """Use these settings for a model instead of the configured ones, as long as this gateway is used."""
        self._changed_settings[upstream, model] = settings
        self._clear_caches()

    def _settings(self, config: UpstreamConfig, model: str) -> Settings:
        return self._changed_settings.get((config.name, model)) or config.settings(model)

    def _clear_caches(self) -> None:
        for cache in (self._locations, self._targets, self._recipes, self._makers):
            cache.clear()

    def _chosen_model(self, requested: str) -> str:
        """Return the model to look up: a fixed one, unless the request names a model of an upstream that was added."""
        return self._fixed if self._fixed and requested not in self._added_models else requested

    def check(self) -> None:
        """Validate the settings, address and key of every upstream. Raises ConfigError if one is unusable."""
        for config in self._configs.values():
            try:
                config.settings(config.fixed or next((name for name in config.models if "*" not in name), ""))
                self._connect(config)
            except UsageError as error:
                raise ConfigError(f"the upstream `{config.name}`: {error.args[0]}", hint=error.hint) from error

    def target(self, request: Request, caller: Caller = ANONYMOUS) -> Target:
        """Return the target of a request. Raises UnknownModel, or Unauthorized if a required key is missing."""
        entry = self._targets.get((id(caller), request.model, request.protocol))
        if entry is not None:
            return entry[1]
        target = self._find_target(request, caller)
        is_same = not (caller.own_keys or caller.from_page)  # any other caller is never the same object again
        if is_same and len(request.model) <= _MAX_NAME_CHARS:
            if len(self._targets) >= _MAX_TARGETS:
                self._targets.clear()
            self._targets[id(caller), request.model, request.protocol] = (caller, target)
        return target

    def _find_target(self, request: Request, caller: Caller) -> Target:
        location = self._locate(self._chosen_model(request.model), caller)
        own_key = self._own_key(location, caller)
        # The cache key contains the full hash of the caller's key, so no caller gets an upstream with another's key.
        key_tenant = tenant_of(own_key) if own_key is not None else ""
        header = ""
        if own_key is not None and (
            own_key.is_full_header or request.protocol == self._configs[location.upstream].protocol
        ):
            header = own_key.header  # the protocols match, so the upstream gets the key as the client sent it
        key = (location.upstream, location.model, key_tenant, header)
        cached = _cached(self._makers, key, partial(self._make, location, own_key, header), _MAX_TARGETS)
        model = location.model if location.model == self._fixed != request.model else ""
        return Target(*cached, caller.tenant or key_tenant, model)

    def recipe(self, request: Request, caller: Caller) -> Recipe | None:
        """Return what an earlier request of the caller, with the same options and tools, has shown."""
        return self._recipes.get(_recipe_key(request, caller))

    def remember_recipe(
        self, request: Request, caller: Caller, target: Target, planned: PlannedTurn, notes: tuple[Note, ...]
    ) -> None:
        """Remember how a request was planned, unless a request with other messages may be planned differently."""
        turn = target.maker.recipe(request, target.settings, target.tenant, planned, notes)
        if turn is None or caller.own_keys or caller.from_page:  # such a caller is never the same object again
            return
        kit, options = toolkit(request.tools), encode_json((request.options, request.tool_choice, request.model))
        if kit.is_kept and options is not None:
            identified = (caller, request.options, request.tools, request.tool_choice)
            size = kit.size + len(options)
            self._recipes.keep(_recipe_key(request, caller), Recipe(identified, target, turn), size)

    async def make_turn(
        self, target: Target, request: Request, caller: Caller, notes: tuple[Note, ...] = (), see: str = SEE_TRACE
    ) -> PlannedTurn:
        """Return the turn that answers a request, with server tools if the caller may use them."""
        chosen = target.server_tools
        tools = self.server_tools(caller) if self._server_tools or chosen else None
        if chosen and tools is None:
            hint = "list its key in `[server_tools.NAME]` of the config"
            raise Forbidden("the server runs no tools for this caller", hint=hint)
        # The web page selects its tools by name; callers with a key get all of their tools by default.
        without_tools = not chosen if caller.from_page else chosen == frozenset()
        if tools is None or without_tools or target.settings.chat_only or request.tool_choice.mode == "none":
            return target.maker.make(request, target.settings, target.tenant, notes, see)
        await tools.prepare()
        return tools.make(target.maker, request, target.settings, target.tenant, notes, chosen, see)

    def server_tools(self, caller: Caller) -> "LoopTools | None":
        """Return the tools that the server runs for a caller: those of its key, or else those of the web page."""
        key = caller.key or caller.session_key
        tools = self._server_tools.get(key.name) if key is not None else None
        return tools if tools is not None or not caller.from_page else self._server_tools.get(PAGE)

    def _locate(self, name: str, caller: Caller) -> ModelLocation:
        location = self._locations.get(name)
        if location is None or not self._permits(location, caller):
            permits, shows = partial(self._permits, caller=caller), partial(self._shows, caller=caller)
            location = self._catalogue.find(name, permits, shows)
            if len(self._locations) < _MAX_TARGETS:
                self._locations[name] = location
        return location

    def _permits(self, location: ModelLocation, caller: Caller) -> bool:
        return caller.key is None or not caller.key.models or caller.key.may_use(*location.names())

    def _own_key(self, location: ModelLocation, caller: Caller) -> Credential | None:
        """Return the caller's own key if it must be forwarded to the upstream."""
        chain = self._chains[location.upstream]
        guarded = next((config.name for config, _ in chain if config.auth == "check"), "")
        if guarded and caller.key is None and not caller.admin:
            why = "" if guarded == location.upstream else f", a fallback of `{location.upstream}`,"
            raise Unauthorized(f"the upstream `{guarded}`{why} requires a toolspeak key")
        if chain[0][0].auth != "forward":
            return None
        if len(caller.own_keys) != 1:
            keys = "none" if not caller.own_keys else "several"
            message = f"the upstream `{location.upstream}` requires your own key, but the request has {keys}"
            hint = "send your own key as usual, and a toolspeak key only in the x-toolspeak-key header"
            raise Unauthorized(message, hint=hint)
        return caller.own_keys[0]

    def _make(
        self, location: ModelLocation, own_key: Credential | None, header: str
    ) -> tuple[TurnFactory, Settings, UpstreamAddress, str]:
        config = self._configs[location.upstream]
        chain = [self._upstream(each, model, own_key, header) for each, model in self._chains[config.name]]
        names = [each.title or each.name for each, _ in self._chains[config.name]]
        alone = len(chain) == 1
        upstream = chain[0] if alone else Failover(chain, partial(_remember_answering, names))
        reached = ResolvedModel(config.provider, location.model, config.base_url, config.protocol, upstream)
        # Do not probe with a client's own key, because the client would pay for it.
        probes = self.probes if own_key is None else None
        learning = self.probes.learning if self.probes is not None else None
        parts = (reached, self.capabilities, self._memory, self._secret)
        maker = TurnFactory(
            *parts, probes=probes, probed_upstream=chain[0], learning=learning, interpreter=self._interpreter
        )
        address = UpstreamAddress(config.provider, public_url(config.base_url), config.protocol, location.model)
        return maker, self._settings(config, location.model), address, names[0] if alone else ""

    def _upstream(self, config: UpstreamConfig, model: str, own_key: Credential | None, header: str) -> Upstream:
        if config.auth == "forward" and own_key is not None:
            credential = Credential(header, own_key.secret)
            key = (config.name, tenant_of(own_key), header)
            upstream = _cached(self._forwarded, key, lambda: config.connect(credential), _MAX_FORWARDED)
        else:
            upstream = self._connect(config)
        if config.name in self._meters:
            upstream = LimitedUpstream(upstream, self._meters[config.name], config.name)
        return _FixedModel(upstream, model) if model else upstream

    def _connect(self, config: UpstreamConfig) -> Upstream:
        """Return the upstream connected with the configured key; connect on first use."""
        return self._connected.get(config.name) or self._connected.setdefault(config.name, config.connect(None))

    def locate(self, model: str, caller: Caller = ANONYMOUS) -> tuple[UpstreamConfig, str]:
        """Return the upstream that serves a model for a caller, and the model's name there. Raises UnknownModel."""
        location = self._locate(self._chosen_model(model), caller)
        return self._configs[location.upstream], location.model

    def models(self, caller: Caller = ANONYMOUS) -> Mapping[str, str]:
        """Map the listed models that the caller may use to their upstreams."""
        return self._catalogue.names(lambda location: self._shows(location, caller), self._model_lists.names)

    async def refresh(self) -> None:
        """Update the model lists of upstreams without configured models."""
        unlisted = [config for config in self._configs.values() if not config.models and not config.fixed]
        connected = [(config.name, self._connect(config)) for config in unlisted if config.auth != "forward"]
        await self._model_lists.refresh((name, each) for name, each in connected if isinstance(each, HttpUpstream))

    def _shows(self, location: ModelLocation, caller: Caller) -> bool:
        guarded = any(config.auth == "check" for config, _ in self._chains[location.upstream])
        return self._permits(location, caller) and (caller.key is not None or caller.admin or not guarded)

    @property
    def runs_server_tools(self) -> bool:
        return bool(self._server_tools)

    @property
    def conversation(self) -> ToolMemory:
        return ToolMemory(self._memory)

    def strategies(self) -> Iterator[tuple[UpstreamConfig, Strategy, tuple[str, ...]]]:
        """Yield each plan of an upstream for tool calls, with an example of its reason and the models it applies to."""
        for config in self._configs.values():
            plans: dict[tuple[str, str], tuple[Strategy, list[str]]] = {}
            for model in config.model_names() or ("",):
                resolved, learned = self._resolved(config, model), None
                if self.probes is not None:
                    self.probes.load(resolved)
                    learned = self.probes.learning.learned(probe_target(resolved))
                match = self.capabilities.find(config.provider, model, config.base_url, learned)
                strategy = brief_strategy(match, self._settings(config, model))
                plans.setdefault((strategy.plan, strategy.warning), (strategy, []))[1].append(model)
            for strategy, models in plans.values():
                yield config, strategy, tuple(models)

    def _resolved(self, config: UpstreamConfig, model: str) -> ResolvedModel:
        upstream = self._upstream(config, "", None, "")
        return ResolvedModel(config.provider, model, config.base_url, config.protocol, upstream)

    def start(self) -> None:
        """Start the embedded models that are used, and the probes that are configured with `probe = "startup"`."""
        embedded = [self._connect(config) for config in self._configs.values() if config.provider == EMBEDDED]
        if self._interpreter is not None and self._interprets:
            embedded.append(self._interpreter.resolved.upstream)
        self._starting = [asyncio.get_running_loop().create_task(_start(each)) for each in embedded]
        probes = self.probes
        if probes is None:
            return
        for config in self._configs.values():
            models = [name for name in config.model_names() if "*" not in name]
            for name in models if config.auth != "forward" else ():
                settings = config.settings(name)
                if settings.probe == "startup":
                    reached = self._resolved(config, name)
                    probes.load(reached)
                    probes.begin(reached, settings)

    @property
    def _interprets(self) -> bool:
        """Whether the settings of a model other than the embedded one ask for the interpreter."""
        others = (config for config in self._configs.values() if config.provider != EMBEDDED)
        return any(config.settings(name).interpreter for config in others for name in config.model_names() or ("",))

    def lease(self) -> GatewayLease:
        """Return a context manager for requests; the gateway is not closed while any request is inside."""
        return self._lease

    async def retire(self) -> None:
        """Close the gateway after its last request."""
        await self._lease.released()
        await self.close()

    async def close(self) -> None:
        for starting in self._starting:
            starting.cancel()
        if self.probes is not None:
            await self.probes.close()
        for loop in {id(loop): loop for loop in self._server_tools.values()}.values():
            await loop.close()
        # Upstreams evicted from the cache need no closing, because their idle connections expire.
        for upstream in (*self._connected.values(), *self._forwarded.values()):
            await upstream.close()
        if self._interpreter is not None:
            await self._interpreter.close()


def _recipe_key(request: Request, caller: Caller) -> tuple[object, ...]:
    messages = request.messages
    of_messages = (has_tool_history(messages), bool(messages) and messages[-1].role == "assistant")
    ids = (id(caller), id(request.options), id(request.tools), id(request.tool_choice))
    return (*ids, request.protocol, request.model, request.stream, *of_messages)


def _remember_answering(names: Sequence[str], position: int) -> None:
    context = CURRENT.get()
    if context is not None:
        context.upstream = names[position]


async def _start(upstream: Upstream) -> None:
    """Start a model, so that the first request need not wait for it. If that fails, the first request says why."""
    start = getattr(upstream, "start", None)
    if start is not None:
        with suppress(ToolspeakError):
            await start()


class _FixedModel(WrappedUpstream):
    """An upstream wrapper that replaces the model name in requests."""

    def __init__(self, upstream: Upstream, model: str) -> None:
        super().__init__(upstream)
        self._model = model

    def _batches(self, request: Request, *, passthrough_bytes: bool) -> Batches:
        renamed = msgspec.structs.replace(request, model=self._model)
        return open_upstream(self._upstream, renamed, passthrough_bytes=passthrough_bytes)


def _cached(table: OrderedDict[tuple[str, ...], V], key: tuple[str, ...], make: Callable[[], V], limit: int) -> V:
    """Return the cached value of a key. Make it if missing, evicting the least recently used value."""
    value = table.get(key)
    if value is None:
        value = table[key] = make()
        if len(table) > limit:
            table.popitem(last=False)
    else:
        table.move_to_end(key)
    return value

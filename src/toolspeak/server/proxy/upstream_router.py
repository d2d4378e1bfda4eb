"""Which upstream answers for a model, with whose key: from a request and its caller to a place that makes turns.

Where requests go is said by the configuration alone. A gateway never changes: a new configuration makes a new one, and the old one ends with
the last request that it answers.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

import msgspec

from ...config import Auth
from ...core.types import Note, Request, Tool
from ...engine.planning.capabilities import Capabilities
from ...engine.planning.strategy import Settings
from ...errors import ConfigError, UsageError
from ...key_value import State
from ...runtime.model_resolution import Reached
from ...runtime.prober import Probes
from ...runtime.tool_memory import Conversation
from ...runtime.turn_factory import MadeTurn, TurnMaker
from ...upstreams.base import Batches, Upstream
from ...upstreams.fallback import Fallback
from ..access.auth import NOBODY, Caller, Credential, Forbidden, Unauthorized, tenant_of
from ..access.limits import LimitedUpstream, Meter
from .model_catalogue import Catalogue, Place
from .upstream_address import Way
from .upstream_models import Listing, ListingUpstream

#: Under what the tools are found that the page may use. No key has this name: it cannot be printed.
PAGE = "\0page"

#: Models, and clients with keys of their own, that are kept ready. Both are named by requests, so both are bounded.
_MOST_TARGETS = 1024
_MOST_FORWARDED = 256

V = TypeVar("V")


class Target(msgspec.Struct, frozen=True):
    """Where the requests for one model go, and how."""

    maker: TurnMaker
    settings: Settings
    #: The same in words that may be kept.
    way: Way
    #: Under what the memory of this caller's conversations is kept.
    tenant: str = ""
    #: Which of the server's own tools the request names; None: it says nothing about them.
    server_tools: frozenset[str] | None = None


class Line(msgspec.Struct, frozen=True):
    """One upstream of a gateway."""

    name: str
    provider: str
    base_url: str
    #: The protocol's codec.
    protocol: str
    #: Reaches it: with the configured key, or with a client's own.
    dial: Callable[[Credential | None], Upstream]
    settings: Callable[[str], Settings]
    auth: Auth = "replace"
    #: The models it serves, `*` for any text; empty: any.
    models: tuple[str, ...] = ()
    #: Ask for this model whatever the request names.
    fixed: str = ""
    fallbacks: tuple[str, ...] = ()
    max_concurrent: int = 0
    max_per_minute: int = 0


class Loop(Protocol):
    """Tools that the server itself runs, for the holders of some keys (see `loop`)."""

    async def prepare(self) -> None:
        """Have the tools ready."""
        ...

    def offered(self) -> tuple[Tool, ...]:
        """The tools, once they are ready."""
        ...

    def make(
        self,
        maker: TurnMaker,
        asked: Request,
        settings: Settings,
        tenant: str,
        seen: tuple[Note, ...],
        chosen: frozenset[str] | None = None,
    ) -> MadeTurn:
        """A request carried out with these tools, or those chosen, beside the client's own."""
        ...

    async def close(self) -> None:
        """End what the tools hold open."""
        ...


class Lease:
    """Counts who needs a gateway. One for all of them, since every request takes one."""

    __slots__ = ("_free", "_held")

    def __init__(self) -> None:
        self._held = 0
        self._free: asyncio.Event | None = None

    def __enter__(self) -> None:
        self._held += 1

    def __exit__(self, *exc: object) -> None:
        self._held -= 1
        if not self._held and self._free is not None:
            self._free.set()

    async def ended(self) -> None:
        """Wait until nobody needs it."""
        while self._held:
            self._free = asyncio.Event()
            await self._free.wait()


class Gateway:
    """The upstreams of one server.

    Args:
        lines: the upstreams, in the order in which they are asked for a model.
        aliases: other names for models.
        known: what is known of models.
        memory: where the tools of conversations are remembered.
        secret: what nonces are made from.
        probes: what finds out, in the background, what models can do.
        loops: by the names of keys (and `PAGE`), the tools that the server runs for their holders.

    Raises:
        ConfigError: an alias or a fallback leads nowhere, or a client's key to somebody else.
    """

    def __init__(
        self,
        lines: Sequence[Line],
        known: Capabilities,
        memory: State,
        secret: bytes,
        aliases: Mapping[str, str] | None = None,
        probes: Probes | None = None,
        loops: Mapping[str, Loop] | None = None,
    ) -> None:
        self._probes = probes
        self._loops = loops or {}
        self._lines = {line.name: line for line in lines}
        models = {line.name: (line.fixed,) if line.fixed else line.models for line in lines}
        self._catalogue = Catalogue(models, aliases)
        #: The one model that is asked for whatever a request names.
        self._fixed = next((line.fixed for line in lines if line.fixed), "")
        self._known = known
        self._memory = memory
        self._secret = secret
        self._meters = {
            line.name: Meter(line.max_per_minute, line.max_concurrent)
            for line in lines
            if line.max_per_minute or line.max_concurrent
        }
        #: Names that led somewhere. A name always leads to the same place; who may go there is another question.
        self._places: dict[str, Place] = {}
        self._listing = Listing()
        self._dialled: dict[str, Upstream] = {}
        self._forwarded: OrderedDict[tuple[str, ...], Upstream] = OrderedDict()
        self._makers: OrderedDict[tuple[str, ...], tuple[TurnMaker, Settings, Way]] = OrderedDict()
        self._chains = {line.name: self._chain(line) for line in lines}
        self._lease = Lease()

    def _chain(self, line: Line) -> tuple[tuple[Line, str], ...]:
        """An upstream and those to fall back to, each with the model to ask for if it is another one."""
        chain = [(line, "")]
        for target in line.fallbacks:
            name, _, model = target.partition(":")
            other = self._lines.get(name)
            if other is None or other is line:
                hint = f"configured are: {', '.join(sorted(self._lines))}"
                raise ConfigError(f"the upstream `{line.name}` cannot fall back to `{target}`", hint=hint)
            if other.auth == "forward" and (line.auth != "forward" or other.base_url != line.base_url):
                hint = "give it a key of its own and `auth = replace`"
                raise ConfigError(f"a client's key is not for the fallback `{target}` of `{line.name}`", hint=hint)
            chain.append((other, model or other.fixed))
        return tuple(chain)

    def check(self) -> None:
        """Look at what can be wrong with every upstream, before anybody asks for one.

        Raises:
            ConfigError: settings, address or key of one cannot be used.
        """
        for line in self._lines.values():
            try:
                line.settings(line.fixed or next((name for name in line.models if "*" not in name), ""))
                self._dial(line)
            except UsageError as error:
                raise ConfigError(f"the upstream `{line.name}`: {error.args[0]}", hint=error.hint) from error

    # ---- finding

    def target(self, request: Request, caller: Caller = NOBODY) -> Target:
        """The target for a request.

        Raises:
            UnknownModel: no upstream serves the model that it names, or none that the caller may use.
            Unauthorized: the upstream wants a key that the caller does not have.
        """
        place = self._place(self._fixed or request.model, caller)
        own = self._own(place, caller)
        # Whose key is used is part of what is looked up, as its whole hash: nobody gets an upstream with another's.
        whose = tenant_of(own) if own is not None else ""
        header = self._header(place, own, request) if own is not None else ""
        key = (place.upstream, place.model, whose, header)
        made = _kept(self._makers, key, partial(self._make, place, own, header), _MOST_TARGETS)
        return Target(*made, caller.tenant or whose)

    async def make(self, target: Target, asked: Request, caller: Caller, seen: tuple[Note, ...] = ()) -> MadeTurn:
        """The turn that answers a request: with tools of the server's own, where the caller's key is for that."""
        chosen = target.server_tools
        loop = self.loop(caller) if self._loops or chosen else None
        if chosen and loop is None:
            raise Forbidden(
                "the server runs no tools of its own for you", hint="its configuration says for whom it does"
            )
        # The page names the tools that it wants; who asks with a key has all of them.
        unwanted = not chosen if caller.page else chosen == frozenset()
        if loop is None or unwanted or target.settings.chat_only or asked.tool_choice.mode == "none":
            return target.maker.make(asked, target.settings, target.tenant, seen)
        await loop.prepare()
        return loop.make(target.maker, asked, target.settings, target.tenant, seen, chosen)

    def loop(self, caller: Caller) -> Loop | None:
        """The tools that the server runs for a caller: those of its key, or those that the page may use."""
        key = caller.key or caller.begun_with
        found = self._loops.get(key.name) if key is not None else None
        return found if found is not None or not caller.page else self._loops.get(PAGE)

    def _place(self, name: str, caller: Caller) -> Place:
        found = self._places.get(name)
        if found is None or not self._permits(found, caller):
            found = self._catalogue.find(
                name, lambda place: self._permits(place, caller), lambda place: self._shows(place, caller)
            )
            if len(self._places) < _MOST_TARGETS:
                self._places[name] = found
        return found

    def _permits(self, place: Place, caller: Caller) -> bool:
        return caller.key is None or not caller.key.models or caller.key.may_use(*place.names())

    def _own(self, place: Place, caller: Caller) -> Credential | None:
        """The caller's own key, where that is the one to send."""
        chain = self._chains[place.upstream]
        guarded = next((line.name for line, _ in chain if line.auth == "check"), "")
        if guarded and caller.key is None and not caller.admin:
            why = "" if guarded == place.upstream else f", which `{place.upstream}` falls back to,"
            raise Unauthorized(f"the upstream `{guarded}`{why} is for holders of a toolspeak key")
        if chain[0][0].auth != "forward":
            return None
        if len(caller.own) != 1:
            shown = "no key of your own" if not caller.own else "several keys of your own"
            raise Unauthorized(
                f"the upstream `{place.upstream}` takes your own key, and the request shows {shown}",
                hint="a toolspeak key, where one is needed too, goes into the header x-toolspeak-key",
            )
        return caller.own[0]

    def _header(self, place: Place, own: Credential, request: Request) -> str:
        """Where the client's own key goes: as it came if both sides speak alike, else where the upstream looks."""
        alike = request.protocol == self._lines[place.upstream].protocol
        return own.header if alike or own.whole else ""

    def _make(self, place: Place, own: Credential | None, header: str) -> tuple[TurnMaker, Settings, Way]:
        line = self._lines[place.upstream]
        asked = [self._upstream(each, model, own, header) for each, model in self._chains[line.name]]
        upstream = asked[0] if len(asked) == 1 else Fallback(asked)
        reached = Reached(line.provider, place.model, line.base_url, line.protocol, upstream)
        # Nobody's own key pays for a probe.
        probes = self._probes if own is None else None
        maker = TurnMaker(reached, self._known, self._memory, self._secret, probes=probes, alone=asked[0])
        return maker, line.settings(place.model), Way.to(reached)

    def _upstream(self, line: Line, model: str, own: Credential | None, header: str) -> Upstream:
        if line.auth == "forward" and own is not None:
            credential = Credential(header, own.secret)
            place = (line.name, tenant_of(own), header)
            found = _kept(self._forwarded, place, lambda: line.dial(credential), _MOST_FORWARDED)
        else:
            found = self._dial(line)
        if line.name in self._meters:
            found = LimitedUpstream(found, self._meters[line.name], line.name)
        return _Asking(found, model) if model else found

    def _dial(self, line: Line) -> Upstream:
        """The upstream, with the configured key."""
        return self._dialled.get(line.name) or self._dialled.setdefault(line.name, line.dial(None))

    def serves(self, model: str, caller: Caller = NOBODY) -> None:
        """Whether requests for a model lead anywhere.

        Raises:
            UnknownModel: no upstream serves it, or none that the caller may use.
        """
        self._place(self._fixed or model, caller)

    def models(self, caller: Caller = NOBODY) -> Mapping[str, str]:
        """The models that the caller may use and that are known by name, with who serves them."""
        return self._catalogue.names(lambda place: self._shows(place, caller), self._listing.names())

    async def refresh(self) -> None:
        """Ask upstreams for the names of their models where nobody has listed them, unless that was done just now."""
        unlisted = [line for line in self._lines.values() if not line.models and not line.fixed]
        dialled = [(line.name, self._dial(line)) for line in unlisted if line.auth != "forward"]
        await self._listing.refresh(
            (name, upstream) for name, upstream in dialled if isinstance(upstream, ListingUpstream)
        )

    def _shows(self, place: Place, caller: Caller) -> bool:
        guarded = any(line.auth == "check" for line, _ in self._chains[place.upstream])
        return self._permits(place, caller) and (caller.key is not None or caller.admin or not guarded)

    @property
    def has_loops(self) -> bool:
        """Whether the server runs tools for anybody."""
        return bool(self._loops)

    @property
    def conversation(self) -> Conversation:
        """What is remembered of earlier turns."""
        return Conversation(self._memory)

    @property
    def probes(self) -> Probes | None:
        """What finds out what models can do."""
        return self._probes

    # ---- life

    def start(self) -> None:
        """Find out, in the background, what those models can do of which that is wanted at the start."""
        probes = self._probes
        if probes is None:
            return
        for line in self._lines.values():
            named = (line.fixed,) if line.fixed else tuple(name for name in line.models if "*" not in name)
            for name in named if line.auth != "forward" else ():
                settings = line.settings(name)
                if settings.probe == "startup":
                    upstream = self._upstream(line, "", None, "")
                    reached = Reached(line.provider, name, line.base_url, line.protocol, upstream)
                    probes.look(reached)
                    probes.begin(reached, settings)

    def lease(self) -> Lease:
        """While a request is answered, inside `with`: the gateway does not end before."""
        return self._lease

    async def retire(self) -> None:
        """End as soon as nobody needs it any more."""
        await self._lease.ended()
        await self.close()

    async def close(self) -> None:
        """Free the connections."""
        if self._probes is not None:
            await self._probes.close()
        for loop in {id(loop): loop for loop in self._loops.values()}.values():
            await loop.close()
        # What was kept for clients and has been dropped since needs no closing: unused connections end by themselves.
        for upstream in (*self._dialled.values(), *self._forwarded.values()):
            await upstream.close()


class _Asking:
    """An upstream that is asked for a model of another name."""

    def __init__(self, upstream: Upstream, model: str) -> None:
        self._upstream = upstream
        self._model = model
        self.provider = upstream.provider
        self.base_url = upstream.base_url

    def open(self, request: Request) -> Batches:
        return self._upstream.open(msgspec.structs.replace(request, model=self._model))

    async def close(self) -> None:
        await self._upstream.close()


def _kept(table: OrderedDict[tuple[str, ...], V], key: tuple[str, ...], make: Callable[[], V], most: int) -> V:
    """What is kept under a key, made if it is not there; what was not used for longest goes."""
    found = table.get(key)
    if found is None:
        found = table[key] = make()
        if len(table) > most:
            table.popitem(last=False)
    else:
        table.move_to_end(key)
    return found

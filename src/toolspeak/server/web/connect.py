"""Connecting a model from the page: find local servers, detect the protocol, run the checks of `doctor`, serve it.

A key stays in the memory of the server: no response contains it, and it is redacted like the configured keys. The
address may be in any network, because only administrators can connect a model, but never that of a metadata service.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Literal, NamedTuple

import msgspec

from ...config import Secret, redacted_url
from ...core.types import JSONObject, JSONValue
from ...doctor import PATIENCE, CheckResult, DoctorTarget, examine
from ...engine.planning.capabilities import Capabilities
from ...errors import ConfigError, ToolspeakError, UpstreamError, UsageError
from ...runtime.model_resolution import codec_of
from ...runtime.probe_cache import ProbeTarget, is_due
from ...upstreams.codecs import resolve_endpoint, split_method
from ...upstreams.http.address import parse_base_url
from ...upstreams.http.connection import Timeouts
from ...upstreams.http.retry import Retry
from ...upstreams.http.thin_transport import MAX_NAME_CHARS, HttpUpstream
from ...upstreams.ssrf_guard import is_metadata
from ..access.auth import Caller
from ..access.origin_guard import is_loopback
from ..asgi import Scope, header
from ..proxy.upstream_router import Gateway, UpstreamConfig

_log = logging.getLogger("toolspeak.server")
_TIMEOUTS = Timeouts(5.0, PATIENCE, PATIENCE, 2 * PATIENCE)
#: Words in the names of models that do not chat. Such a model is not chosen by default.
_OTHER_KINDS = ("embed", "whisper", "tts", "dall-e", "rerank", "moderation", "transcribe", "image", "guard")
#: Server software by the URL on which it listens by default.
LOCAL_SERVERS = {
    "http://127.0.0.1:11434": "ollama",
    "http://127.0.0.1:1234/v1": "lmstudio",
    "http://127.0.0.1:8080/v1": "llamacpp",
    "http://127.0.0.1:8000/v1": "vllm",
}
_FIND_SECONDS = 1.0


class Address(NamedTuple):
    """Where models are served, and their names."""

    base_url: str
    protocol: str
    provider: str
    key: Secret = Secret()
    models: tuple[str, ...] = ()
    #: What is there: an API that lists models, one that asks for a key, another server, or nothing that answers.
    finding: Literal["models", "key", "server", ""] = ""
    problem: UpstreamError | None = None  # why the models could not be listed

    def open(self, timeouts: Timeouts | None = None, retry: Retry | None = None) -> HttpUpstream:
        about = (self.base_url, self.key.reveal(), self.protocol, timeouts)
        upstream = HttpUpstream(*about, provider=self.provider, retry=retry)
        upstream.refuses = is_metadata
        return upstream

    async def look(self) -> tuple[str, ...]:
        """Return the names of the models. Raises UpstreamError if the service does not list them."""
        upstream = self.open(_TIMEOUTS, Retry(most=0))
        try:
            return tuple(name for name in await upstream.model_names() if "*" not in name)
        finally:
            await upstream.close()


class _Wish(msgspec.Struct, frozen=True):
    """What to connect. Without `url`, another model at the address that was checked last."""

    url: str = ""
    key: str = ""
    provider: str = ""
    model: str = ""


class ConnectApi:
    """Connects one model at a time. `keep_secret` registers a key for redaction."""

    def __init__(self, gateway: Callable[[], Gateway], keep_secret: Callable[[Secret], None]) -> None:
        self._gateway = gateway
        self._keep_secret = keep_secret
        self._task: asyncio.Task[None] | None = None
        self._address: Address | None = None
        self.state: JSONObject = {}

    async def start(self, fields: JSONObject, scope: Scope) -> JSONObject:
        """Start to check a model; a check that is running ends. Raises UsageError if the request is invalid."""
        try:
            wish = msgspec.convert(fields, _Wish)
            url = wish.url.strip().rstrip("/")
            key = Secret(wish.key.strip())
            same = None if url else self._address
            capabilities = self._gateway().capabilities
            addresses = [same] if same else find_addresses(capabilities, url, wish.provider, key)
            refuse_own(addresses[0].base_url, scope)
        except (msgspec.ValidationError, ConfigError) as error:
            raise UsageError(f"invalid request: {error}") from None
        if len(wish.model) > MAX_NAME_CHARS or not wish.model.isprintable() or "*" in wish.model:
            raise UsageError("`model` must be the name of a model")
        self._keep_secret(key)
        await self.close()
        self._address = None
        self.state = {"running": True, "checking": "address", "checks": [], "url": redacted_url(addresses[0].base_url)}
        self._task = asyncio.ensure_future(self._check(addresses, wish.model, self.state))
        return self.state

    async def _check(self, addresses: list[Address], model: str, state: JSONObject) -> None:
        checks: list[JSONValue] = state["checks"]
        try:
            self._address = address = await detect(addresses)
            model = model or default_model(address.models)
            place = {"url": redacted_url(address.base_url), "protocol": address.protocol, "provider": address.provider}
            state |= {**place, "finding": address.finding, "model": model, "models": list(address.models)}
            state["probes"] = self._is_probed(address, model)
            async for result in examine(self._target(address, model), partial(state.__setitem__, "checking")):
                checks.append(msgspec.to_builtins(result))
        except Exception:
            _log.exception("checking an upstream failed")
            failure = CheckResult("configuration", "fail", "internal error in toolspeak; see its log")
            checks.append(msgspec.to_builtins(failure))
        finally:
            state["running"] = False

    def _target(self, address: Address, model: str) -> DoctorTarget:
        gateway, provider = self._gateway(), address.provider
        about = (provider, provider, model, address.base_url, address.protocol, address.open(_TIMEOUTS, Retry(most=0)))
        return DoctorTarget(*about, gateway.settings(f"{provider}:{model}"), gateway.capabilities, bool(address.key))

    def _is_probed(self, address: Address, model: str) -> bool:
        """Whether the model will be probed in the background once it is used."""
        gateway, target = self._gateway(), ProbeTarget(address.provider, model, address.base_url)
        settings = gateway.settings(f"{address.provider}:{model}")
        return gateway.probes is not None and is_due(settings, gateway.capabilities.find(*target), target)

    async def use(self, caller: Caller) -> JSONObject:
        """Serve the models at the address that was checked. Return the name under which clients request the model."""
        address, model = self._address, str(self.state.get("model", ""))
        if address is None or not model:
            raise UsageError("no model has been checked", hint="connect one first")
        provider = address.provider
        host = parse_base_url(address.base_url).authority.replace(":", "-")
        about = (host if provider == "openai" else provider, provider, address.base_url, address.protocol)
        models = tuple(dict.fromkeys((model, *address.models)))
        config = UpstreamConfig(
            *about, lambda _: address.open(), lambda each: self._gateway().settings(f"{provider}:{each}"), models=models
        )
        await self._gateway().refresh()  # a name that another upstream lists keeps its meaning
        name = self._gateway().add(config)
        _log.info("upstream `%s` added", name)
        is_listed = self._gateway().models(caller).get(model) == name
        return {"upstream": name, "model": model if is_listed else f"{name}:{model}"}

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


async def find_local(capabilities: Capabilities, own_port: int = 0) -> list[Address]:
    """Find model servers on this machine. `own_port` is the port of this server."""

    async def look(url: str, provider: str) -> list[Address]:
        with suppress(ToolspeakError, TimeoutError):
            async with asyncio.timeout(_FIND_SECONDS):
                address = find_addresses(capabilities, url, provider, Secret())[0]
                return [address._replace(models=await address.look())]
        return []

    others = {url: name for url, name in LOCAL_SERVERS.items() if parse_base_url(url).port != own_port}
    return [*chain.from_iterable(await asyncio.gather(*(look(url, name) for url, name in others.items())))]


def refuse_own(url: str, scope: Scope) -> None:
    """Raise UsageError if a URL leads to the server that received this request."""
    base, (own_host, own_port) = parse_base_url(url), scope.get("server") or ("", 0)
    here = is_loopback(base.host) or base.host in (own_host, "0.0.0.0", "::")
    same_host = base.authority == header(scope, b"host") and not is_loopback(base.host)
    if same_host or (here and base.port == own_port):
        raise UsageError("this is the address of toolspeak itself", hint="enter the address of a model server")


def find_addresses(capabilities: Capabilities, url: str, provider: str, key: Secret) -> list[Address]:
    """Return the ways to reach a URL, the likeliest first. Raises ConfigError or UsageError if it must not be used."""
    url, method_protocol = split_method(url)
    base = parse_base_url(url)
    if is_metadata(base.host):
        raise UsageError("this address belongs to the metadata service of a cloud and is not allowed")
    row = capabilities.provider(provider) or capabilities.provider_at(url)
    usual = codec_of(row.protocol) if row is not None else "openai_chat"
    addresses: list[Address] = []
    for protocol in dict.fromkeys((method_protocol or usual, usual, "openai_chat", "ollama", "anthropic", "gemini")):
        name = row.name if row is not None and protocol == usual else protocol.partition("_")[0]
        base_url = f"{url}/v1" if protocol.startswith("openai") and not (base.path or method_protocol) else url
        with suppress(ConfigError):  # the URL ends with a method of another protocol
            addresses.append(Address(resolve_endpoint(base_url, protocol)[0].url, protocol, name, key))
    return addresses


async def detect(addresses: list[Address]) -> Address:
    """Return the first address that lists models, else one that asks for a key, else the likeliest."""
    results = await asyncio.gather(*(address.look() for address in addresses), return_exceptions=True)
    failed: list[Address] = []
    for address, result in zip(addresses, results, strict=True):
        if not isinstance(result, BaseException):
            return address._replace(models=result, finding="models" if result else "server")
        failed.append(address._replace(problem=result if isinstance(result, UpstreamError) else None))
    statuses = [each.problem.upstream_status if each.problem is not None else 0 for each in failed]
    denied = next((each for each, status in zip(failed, statuses, strict=True) if status in (401, 403)), None)
    if denied is not None:
        return denied._replace(finding="key")
    return failed[0]._replace(finding="server" if any(statuses) else "")


def default_model(models: tuple[str, ...]) -> str:
    chat = (name for name in models if not any(word in name.lower() for word in _OTHER_KINDS))
    return next(chat, next(iter(models), ""))

"""`toolspeak doctor`: diagnose an upstream with a few small requests.

`doctor_targets` finds the upstreams. `examine` checks configuration, connection, key, model, answer, streaming, native
tools, and one call through toolspeak itself. Each result says what was observed and how to fix a problem. Results never
contain a key.
"""

import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from difflib import get_close_matches
from typing import Literal, TypeAlias

import msgspec

from .config import Config, NamedUpstream, redacted_url
from .core.events import Event, ReasoningDelta, Reply, TextDelta, fold
from .core.text import without_sequences
from .core.types import Message, Options, Request, TextPart, Tool, ToolChoice
from .engine.planning.capabilities import Capabilities
from .engine.planning.strategy import PLAN_TEXTS, Settings, Strategy, strategy
from .errors import ToolspeakError, UpstreamError, UsageError
from .key_value import MemoryState
from .plugins import Plugins, plugins_for
from .runtime.model_resolution import ResolvedModel, codec_of, resolve_model
from .runtime.turn import error_after
from .runtime.turn_factory import TurnFactory
from .upstreams.base import Upstream, error_of
from .upstreams.http.connection import Timeouts
from .upstreams.http.retry import Retry
from .upstreams.http.thin_transport import HttpUpstream

#: `note` means that the check passed with a remark, `skipped` that an earlier check failed.
Status: TypeAlias = Literal["ok", "note", "fail", "skipped"]
#: Seconds to wait for one answer. A local model may have to be loaded first.
PATIENCE = 60.0
_CONNECT = 5.0
_MAX_TOKENS = 64  # token limit of each answer: enough for a sentence or a call
_MAX_SHOWN_CHARS = 100

_PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_TOOL = Tool("get_weather", "The weather in a city.", _PARAMETERS)
_HELLO = "Answer with one short sentence: what is the capital of Norway?"
_COUNT = "Count from one to twelve, in words."
_WEATHER = "What is the weather in Oslo? Use the tool."
_CITY = "oslo"
_HERE = "the model runs in this process"

_CONNECTION_FIXES: tuple[tuple[type[BaseException], str], ...] = (
    (
        ssl.SSLCertVerificationError,
        "set SSL_CERT_FILE to the CA certificate that signed it",
    ),
    (ssl.SSLError, "if the server does not use TLS, write http:// instead of https://"),
    (socket.gaierror, "correct the host name in the base URL"),
    (TimeoutError, "check the host, the port and firewalls"),
)
_OTHER_CONNECTION_FIX = "start the service, or correct the host and the port of the base URL"
_DENIED_STATUSES = (401, 403)
_TOOLS_REJECTED_STATUSES = (400, 404, 415, 422, 500, 501)  # HTTP statuses with which services reject tools


class CheckResult(msgspec.Struct, frozen=True):
    check: str
    status: Status
    says: str
    fix: str = ""


class DoctorTarget(msgspec.Struct, frozen=True):
    name: str
    provider: str
    model: str  # model name; empty for the first model that the upstream lists
    base_url: str
    protocol: str
    upstream: Upstream
    settings: Settings
    known: Capabilities
    has_key: bool = False
    forwards: bool = False

    @property
    def where(self) -> str:
        """The upstream's address, without secrets."""
        return redacted_url(self.base_url) or "in this process"


def doctor_targets(
    config: Config, upstream: str = "", model: str = "", patience: float = PATIENCE
) -> list[DoctorTarget]:
    """Return the configured upstreams, or the one given by URL or name. Raises UsageError if one is invalid."""
    known = Capabilities()
    plugins = plugins_for(config.load_plugins)
    plugins.extend(known)
    known.configure(*config.overrides())
    names = config.upstream_names() if not upstream else () if "://" in upstream else (upstream,)
    if names:
        return [_named_target(config, config.upstream(name), model, known, patience) for name in names]
    return [_default_target(config, upstream, model, known, plugins, patience)]


def _named_target(
    config: Config, configured: NamedUpstream, model: str, known: Capabilities, patience: float
) -> DoctorTarget:
    row, protocol = configured.row, codec_of(configured.protocol)
    chosen = model or next((name for name in row.models if "*" not in name), "")
    key, provider = configured.api_key, configured.provider
    upstream = _single_try_upstream(row.base_url, key.reveal(), protocol, provider, patience)
    settings = config.settings_for(f"{provider}:{chosen}", configured.name)
    about = (configured.name, provider, chosen, row.base_url, protocol)
    return DoctorTarget(*about, upstream, settings, known, bool(key), row.auth == "forward")


def _default_target(
    config: Config, url: str, model: str, known: Capabilities, plugins: Plugins, patience: float
) -> DoctorTarget:
    name = model or config.model_at(url or config.base_url) or _embedded(config, url)
    is_tag = url and known.provider(name.partition(":")[0]) is None  # as in `qwen3:8b`
    name = f"openai:{name}" if is_tag or ":" not in name else name
    resolved = resolve_model(name, url, "", config, plugins)
    key = config.endpoint(name, url).api_key
    upstream = resolved.upstream
    if isinstance(upstream, HttpUpstream):
        upstream = _single_try_upstream(resolved.base_url, key.reveal(), resolved.protocol, resolved.provider, patience)
    settings = config.settings_for(f"{resolved.provider}:{resolved.model}")
    about = (resolved.provider, resolved.model, resolved.base_url, resolved.protocol)
    return DoctorTarget(resolved.provider, *about, upstream, settings, known, bool(key))


def _embedded(config: Config, url: str) -> str:
    """Return the embedded model, or an empty string if a URL is configured. Raises UsageError if it is missing."""
    if url or config.base_url:
        return ""
    from .upstreams.embedded.weights import DEFAULT, cached_file

    if cached_file(DEFAULT, config.cache_folder) is None:
        message = "no upstream is configured, and the embedded model is not downloaded"
        how = "use --upstream URL, or set `base_url` or [upstreams.NAME]"
        raise UsageError(message, hint=f"{how}; `toolspeak serve` downloads the embedded model")
    return "embedded:"


def _single_try_upstream(base_url: str, key: str, protocol: str, provider: str, patience: float) -> HttpUpstream:
    """Create an upstream without retries and with short timeouts, so failures are visible."""
    timeouts = Timeouts(min(_CONNECT, patience), patience, patience, 2 * patience)
    return HttpUpstream(base_url, key, protocol, timeouts, provider=provider, retry=Retry(most=0))


class _Examination:
    def __init__(self, patient: DoctorTarget) -> None:
        self.patient = patient
        self.names: tuple[str, ...] | None = None
        self.model = patient.model
        self.list_error: UpstreamError | None = None
        self.reply: Reply | None = None
        self.failure: UpstreamError | None = None

    async def list_models(self) -> None:
        upstream = self.patient.upstream
        if not isinstance(upstream, HttpUpstream):
            return
        try:
            self.names = await upstream.model_names()
        except UpstreamError as error:
            self.list_error = error
        self.model = self.model or next(iter(self.names or ()), "")

    def request(self, text: str, *, stream: bool = False, tools: tuple[Tool, ...] = ()) -> Request:
        messages = (Message("user", (TextPart(text),)),)
        return Request(self.model, messages, tools, ToolChoice(), stream, Options(_MAX_TOKENS))

    async def batches(self, request: Request) -> list[list[Event]]:
        """Return the upstream's answer, one batch per read. Raises UpstreamError if the request fails at any time."""
        async with aclosing(self.patient.upstream.open(request)) as batches:
            result = [batch async for batch in batches]
        reply = fold(event for batch in result for event in batch)
        if reply.failure is not None:
            raise error_of(reply.failure)
        return result

    async def answer(self, request: Request) -> Reply:
        return fold(event for batch in await self.batches(request) for event in batch)

    @property
    def strategy(self) -> Strategy:
        patient = self.patient
        name = f"{patient.provider}:{self.model}"
        return strategy(name, patient.base_url, settings=patient.settings, known=patient.known)


async def examine(patient: DoctorTarget, begin: Callable[[str], None] = lambda _: None) -> AsyncIterator[CheckResult]:
    """Examine one upstream. `begin` is called with the name of each check that takes time."""
    exam = _Examination(patient)
    yield _configuration(exam)
    broken = ""
    try:
        begin("reachable")
        await exam.list_models()
        if exam.list_error is None or exam.list_error.upstream_status:
            begin("answer")
            try:
                exam.reply = await exam.answer(exam.request(_HELLO))
            except UpstreamError as error:
                exam.failure = error
        for name, check in (("reachable", _reachable), ("key", _key), ("model", _model), ("answer", _answer)):
            finding = _skipped(name, broken) or check(exam)
            broken = broken or (finding.check if finding.status == "fail" else "")
            yield finding
        for name, look in (("streaming", _streaming), ("native tools", _native), ("tool calls", _calls)):
            begin(name)
            yield _skipped(name, broken) or await look(exam)
    finally:
        await patient.upstream.close()


def failed(findings: Sequence[CheckResult]) -> bool:
    return any(finding.status == "fail" for finding in findings)


def _skipped(check: str, broken: str) -> CheckResult | None:
    return CheckResult(check, "skipped", f"needs `{broken}` first") if broken else None


def _short(text: object) -> str:
    line = " ".join(without_sequences(str(text)).split())
    if len(line) <= _MAX_SHOWN_CHARS:
        return line
    start = line[:_MAX_SHOWN_CHARS]
    return f"{start.rpartition(' ')[0] or start} …"


def _configuration(exam: _Examination) -> CheckResult:
    patient, plan = exam.patient, exam.strategy
    key = "clients send their own key" if patient.forwards else "a key is set" if patient.has_key else "no key is set"
    where = f"{patient.where}, protocol {patient.protocol}, {key}" if patient.base_url else _HERE
    return CheckResult("configuration", "ok", f"{where}; plan {plan.plan}: {PLAN_TEXTS[plan.plan]} ({plan.why})")


def _reachable(exam: _Examination) -> CheckResult:
    error = exam.list_error
    if error is None or error.upstream_status:
        where = f"connected to {exam.patient.where}" if exam.patient.base_url else _HERE
        return CheckResult("reachable", "ok", where)
    cause = error.__cause__ or error
    fix = next((fix for kind, fix in _CONNECTION_FIXES if isinstance(cause, kind)), _OTHER_CONNECTION_FIX)
    return CheckResult("reachable", "fail", _short(error), fix)


def _key(exam: _Examination) -> CheckResult:
    patient = exam.patient
    denied = [each for each in (exam.failure, exam.list_error) if each and each.upstream_status in _DENIED_STATUSES]
    if exam.reply is not None:
        return CheckResult("key", "ok", "accepted" if patient.has_key else "none required")
    if not denied:
        return CheckResult("key", "ok", "not rejected")
    if patient.forwards:
        return CheckResult("key", "note", "clients send their own keys, so there is no key to test", "")
    if patient.has_key:
        return CheckResult("key", "fail", f"rejected: {_short(denied[0])}", "set a valid key")
    fix = "set a key: the provider's environment variable, `api_key` (TOOLSPEAK_API_KEY) or `api_key_file`"
    return CheckResult("key", "fail", f"required: {_short(denied[0])}", fix)


def _model(exam: _Examination) -> CheckResult:
    model, names = exam.model, exam.names
    label = f"`{_short(model)}`"
    if not model:
        fix = "use --model, or set `model` in the configuration"
        return CheckResult("model", "fail", "no model is configured, and the service lists none", fix)
    if names and model in names:
        place = f"one of {len(names)} listed models" if len(names) > 1 else "the only listed model"
        return CheckResult("model", "ok", f"{label} is {place}")
    if exam.reply is not None:
        unlisted = "works; the service does not list its models" if exam.patient.base_url else "works"
        why = "works, but is not listed" if names else unlisted
        return CheckResult("model", "ok", f"{label} {why}")
    near = get_close_matches(model[:_MAX_SHOWN_CHARS], names or (), n=3, cutoff=0.4) or list((names or ())[:3])
    fix = f"use one of the listed models: {', '.join(near)}" if near else "correct the model name"
    if exam.failure is not None and exam.failure.upstream_status == 404:
        return CheckResult("model", "fail", f"{label} not found: {_short(exam.failure)}", fix)
    if names:
        return CheckResult("model", "note", f"{label} is not listed by the service", fix)
    return CheckResult("model", "ok", f"{label}; the service does not list its models")


def _answer(exam: _Examination) -> CheckResult:
    reply, failure = exam.reply, exam.failure
    if reply is not None and (reply.text or reply.reasoning):
        return CheckResult("answer", "ok", f"“{_short(reply.text or reply.reasoning)}”")
    if reply is not None:
        return CheckResult("answer", "note", "the answer is empty", "try another model, or a larger `max_tokens`")
    if exam.patient.forwards:
        fix = "to test it, set `auth` to replace for a while"
        return CheckResult("answer", "fail", "cannot be tested without a client's key", fix)
    status = failure.upstream_status if failure is not None else 0
    return CheckResult("answer", "fail", _short(failure), _STATUS_FIXES.get(status, _OTHER_STATUS_FIX))


_WRONG_PROTOCOL = "the response does not match `protocol`, or the path is wrong: check both (most base URLs end in /v1)"
_STATUS_FIXES = {
    **dict.fromkeys((0, 200), _WRONG_PROTOCOL),
    **dict.fromkeys((404, 405), "correct the base URL: most end in /v1"),
    402: "add credit to the account",
    429: "rate limit or quota exceeded: wait, or raise the limit",
}
_OTHER_STATUS_FIX = "check the service's log"


async def _streaming(exam: _Examination) -> CheckResult:
    try:
        batches = await exam.batches(exam.request(_COUNT, stream=True))
    except UpstreamError as error:
        fix = "enable streaming in the service or in the proxy in front of it"
        return CheckResult("streaming", "fail", _short(error), fix)
    pieces = sum(any(isinstance(event, TextDelta | ReasoningDelta) for event in batch) for batch in batches)
    if pieces > 1:
        return CheckResult("streaming", "ok", f"the answer arrived in {pieces} pieces")
    fix = "clients see nothing until the end: disable buffering in proxies, or enable streaming"
    return CheckResult("streaming", "note", "the whole answer arrived at once", fix)


async def _native(exam: _Examination) -> CheckResult:
    """Check whether the service accepts tools natively, and whether toolspeak expects that."""
    planned = exam.strategy.native
    entry = f'[models."{exam.patient.provider}:{exam.model}"]'
    try:
        reply = await exam.answer(exam.request(_WEATHER, tools=(_TOOL,)))
    except UpstreamError as error:
        if error.upstream_status not in _TOOLS_REJECTED_STATUSES:
            return CheckResult("native tools", "fail", _short(error), _OTHER_STATUS_FIX)
        says = f"tools are rejected: {_short(error)}"
    else:
        if any(call.name == _TOOL.name for call in reply.calls):
            shape = "advanced" if exam.patient.protocol in ("anthropic", "gemini") else "openai"
            fix = "" if planned else f'to use native tools, set capability = "{shape}" for {entry}'
            return CheckResult("native tools", "ok", "supported" + ("" if planned else ", but not used"), fix)
        says = "tools are ignored: the model made no call"
    if planned:
        return CheckResult("native tools", "fail", says, f'set capability = "none" for {entry} to emulate calls')
    return CheckResult("native tools", "note", f"{says}; toolspeak emulates calls")


async def _calls(exam: _Examination) -> CheckResult:
    patient = exam.patient
    fix = "use a stronger model, or try another way: `toolspeak config set plan decision`"
    resolved = ResolvedModel(patient.provider, exam.model, patient.base_url, patient.protocol, patient.upstream)
    maker = TurnFactory(resolved, patient.known, MemoryState(), b"doctor")
    try:
        prepared = maker.make(exam.request(_WEATHER, tools=(_TOOL,)), patient.settings)
        reply = fold([event async for batch in prepared.turn.batches() for event in batch])
        outcome = prepared.turn.outcome
        error = error_after(outcome) if outcome is not None else None
        if error is not None:
            raise error
    except ToolspeakError as error:
        return CheckResult("tool calls", "fail", _short(error), _OTHER_STATUS_FIX)
    if reply.calls:
        call = reply.calls[0]
        text = f"{call.name}({_short(msgspec.json.encode(call.arguments).decode())})"
        if _CITY in str(call.arguments.get("city", "")).lower():
            return CheckResult("tool calls", "ok", f"{text}, plan {prepared.plan.kind}")
        # Such as the example in the prompt, which a model may only have copied.
        return CheckResult("tool calls", "note", f"the question was about Oslo, but the model called {text}", fix)
    why = outcome.trace.why_no_call if outcome is not None else ""
    return CheckResult("tool calls", "note", f"no tool call: {_short(why or reply.text)}", fix)

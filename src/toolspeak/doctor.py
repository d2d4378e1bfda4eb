"""What is wrong with an upstream, and what to change: a handful of small requests, each judged.

`patients` finds whom to look at, `examine` looks: configuration, reachable, key, model, answer, streaming, native
tools, and one call through toolspeak itself. Each finding says what was seen and, where something is to be done, what.
No key is in any of them.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from difflib import get_close_matches
from typing import Literal, TypeAlias

import msgspec

from .config import Config, NamedUpstream, shown_url
from .core.events import Event, ReasoningDelta, Reply, TextDelta, fold
from .core.types import Message, Options, Request, TextPart, Tool, ToolChoice
from .engine.planning.capabilities import Capabilities
from .engine.planning.strategy import Settings, Strategy, strategy
from .errors import ToolspeakError, UpstreamError, UsageError
from .key_value import MemoryState
from .plugins import Plugins
from .runtime.model_resolution import Reached, codec_of, reach
from .runtime.turn import error_after
from .runtime.turn_factory import TurnMaker
from .server.proxy.upstream_models import ListingUpstream
from .upstreams.base import Upstream, error_of
from .upstreams.http.connection import Timeouts
from .upstreams.http.retry import Retry
from .upstreams.http.thin_transport import HttpUpstream

#: `ok`; `note`: works, with something to know; `fail`: does not work; `skipped`: could not be looked at.
Status: TypeAlias = Literal["ok", "note", "fail", "skipped"]
#: Seconds for one answer: a local model may have to be loaded first.
PATIENCE = 60.0
_CONNECT = 5.0
#: Tokens of an answer: enough for a sentence and for a call, too little to cost anything.
_SHORT = 64
#: What is shown of a text from outside.
_SHOWN = 100

CHECKS = ("configuration", "reachable", "key", "model", "answer", "streaming", "native tools", "tool calls")

_TOOL = Tool(
    "get_weather",
    "The weather in a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
_HELLO = "Answer with one short sentence: what is the capital of Norway?"
_COUNT = "Count from one to twelve, in words."
_WEATHER = "What is the weather in Oslo? Use the tool."

#: Why there is no connection -> what to do.
_UNREACHED: tuple[tuple[type[BaseException], str], ...] = (
    (ssl.SSLCertVerificationError, "its certificate is not trusted: set SSL_CERT_FILE to the authority that signed it"),
    (ssl.SSLError, "it does not speak TLS there: try http:// in place of https://"),
    (socket.gaierror, "there is no host of that name: correct the base URL"),
    (ConnectionRefusedError, "nobody listens there: start the service, or correct host and port of the base URL"),
    (TimeoutError, "it does not answer: check host, port and firewalls"),
)
_UNREACHED_OTHERWISE = "start the service, or correct host and port of the base URL"
_DENIED = (401, 403)
#: Statuses by which a service says that it does not know what to do with tools.
_NO_TOOLS = (400, 404, 415, 422, 500, 501)


class Finding(msgspec.Struct, frozen=True):
    """What one check found."""

    check: str
    status: Status
    says: str
    #: What to change; empty where nothing is to be.
    fix: str = ""


class Patient(msgspec.Struct, frozen=True):
    """One upstream to be looked at."""

    name: str
    provider: str
    #: Empty: whichever it lists first.
    model: str
    base_url: str
    protocol: str
    upstream: Upstream
    settings: Settings
    known: Capabilities
    has_key: bool = False
    #: The clients bring their own keys.
    forwards: bool = False

    @property
    def where(self) -> str:
        """Its address, less what is secret in it."""
        return shown_url(self.base_url) or "in this process"


# ------------------------------------------------------------------------------------------------ whom to look at


def patients(config: Config, upstream: str = "", model: str = "", patience: float = PATIENCE) -> list[Patient]:
    """The upstreams that a configuration describes: the one given by address or name, else all of them.

    Raises:
        UsageError: something in it cannot be.
    """
    known = Capabilities()
    plugins = Plugins(config.load_plugins)
    plugins.extend(known)
    known.configure(*config.overrides())
    named = config.upstream_names()
    if upstream and "://" not in upstream:
        named = (upstream,)
    elif upstream:
        named = ()
    if named:
        return [_named(config, config.upstream(name), model, known, patience) for name in named]
    return [_general(config, upstream, model, known, plugins, patience)]


def _named(config: Config, found: NamedUpstream, model: str, known: Capabilities, patience: float) -> Patient:
    row, protocol = found.row, codec_of(found.protocol)
    chosen = model or next((name for name in row.models if "*" not in name), "")
    return Patient(
        found.name,
        found.provider,
        chosen,
        row.base_url,
        protocol,
        _asked(row.base_url, found.api_key.reveal(), protocol, found.provider, patience),
        config.settings_for(f"{found.provider}:{chosen}", found.name),
        known,
        bool(found.api_key),
        row.auth == "forward",
    )


def _general(config: Config, url: str, model: str, known: Capabilities, plugins: Plugins, patience: float) -> Patient:
    name = model or config.model or _embedded(config, url)
    name = name if ":" in name else f"openai:{name}"
    reached = reach(name, url, "", config, plugins)
    key = config.endpoint(name, url).api_key
    upstream = reached.upstream
    if isinstance(upstream, HttpUpstream):
        upstream = _asked(reached.base_url, key.reveal(), reached.protocol, reached.provider, patience)
    settings = config.settings_for(f"{reached.provider}:{reached.model}")
    about = (reached.provider, reached.model, reached.base_url, reached.protocol)
    return Patient(reached.provider, *about, upstream, settings, known, bool(key))


def _embedded(config: Config, url: str) -> str:
    """The model inside toolspeak, where nothing else is named and it is here: nothing is fetched to look at it."""
    if url or config.base_url:
        return ""
    from .upstreams.embedded.weights import DEFAULT, kept

    if kept(DEFAULT, config.cache_folder) is None:
        hint = (
            "give --upstream URL, or set `base_url` or [upstreams.NAME]; `toolspeak serve` fetches the embedded model"
        )
        raise UsageError("no upstream is configured, and the embedded model is not here yet", hint=hint)
    return "embedded:"


def _asked(base_url: str, key: str, protocol: str, provider: str, patience: float) -> ListingUpstream:
    """A service that is asked once and not waited for long: what fails is to be seen."""
    timeouts = Timeouts(min(_CONNECT, patience), patience, patience, 2 * patience)
    return ListingUpstream(base_url, key, protocol, timeouts, provider=provider, retry=Retry(most=0))


# --------------------------------------------------------------------------------------------------- looking at it


class _Exam:
    """What is known of one upstream so far."""

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.names: tuple[str, ...] | None = None
        self.model = patient.model
        self.unlisted: UpstreamError | None = None
        self.reply: Reply | None = None
        self.failure: UpstreamError | None = None

    async def look(self) -> None:
        """Ask for the models."""
        upstream = self.patient.upstream
        if not isinstance(upstream, ListingUpstream):
            return
        try:
            self.names = await upstream.model_names()
        except UpstreamError as error:
            self.unlisted = error
        self.model = self.model or next(iter(self.names or ()), "")

    async def greet(self) -> None:
        """Ask for a sentence."""
        try:
            self.reply = fold(await self.events(self.request(_HELLO)))
        except UpstreamError as error:
            self.failure = error

    def request(self, text: str, *, stream: bool = False, tools: tuple[Tool, ...] = ()) -> Request:
        """A small request."""
        said = (Message("user", (TextPart(text),)),)
        return Request(self.model, said, tools, ToolChoice(), stream, Options(_SHORT))

    async def batches(self, request: Request) -> list[list[Event]]:
        """What the upstream answers, read by read.

        Raises:
            UpstreamError: it fails, at the beginning or later.
        """
        async with aclosing(self.patient.upstream.open(request)) as batches:
            found = [batch async for batch in batches]
        reply = fold(event for batch in found for event in batch)
        if reply.failure is not None:
            raise error_of(reply.failure)
        return found

    async def events(self, request: Request) -> list[Event]:
        """What the upstream answers."""
        return [event for batch in await self.batches(request) for event in batch]

    @property
    def strategy(self) -> Strategy:
        """What toolspeak does for this model."""
        patient = self.patient
        name = f"{patient.provider}:{self.model}"
        return strategy(name, patient.base_url, settings=patient.settings, known=patient.known)


async def examine(patient: Patient, begin: Callable[[str], None] = lambda check: None) -> AsyncIterator[Finding]:
    """Look at one upstream. `begin` is told what is about to be looked at."""
    exam = _Exam(patient)
    yield _configuration(exam)
    broken = ""
    try:
        begin("reachable")
        await exam.look()
        if exam.unlisted is None or exam.unlisted.upstream_status:
            begin("answer")
            await exam.greet()
        for name, check in (("reachable", _reachable), ("key", _key), ("model", _model), ("answer", _answer)):
            finding = _skipped(name, broken) if broken else check(exam)
            broken = broken or (finding.check if finding.status == "fail" else "")
            yield finding
        for name, look in (("streaming", _streaming), ("native tools", _native), ("tool calls", _calls)):
            begin(name)
            yield _skipped(name, broken) if broken else await look(exam)
    finally:
        await patient.upstream.close()


def failed(findings: Sequence[Finding]) -> bool:
    """Whether something does not work."""
    return any(finding.status == "fail" for finding in findings)


def _skipped(check: str, broken: str) -> Finding:
    return Finding(check, "skipped", f"needs `{broken}` first")


def _short(text: object) -> str:
    return " ".join(str(text).split())[:_SHOWN]


def _configuration(exam: _Exam) -> Finding:
    patient, said = exam.patient, exam.strategy
    key = "clients bring their own key" if patient.forwards else "a key is set" if patient.has_key else "no key is set"
    return Finding(
        "configuration", "ok", f"{patient.where}, {patient.protocol}, {key}; tools: {said.plan} ({said.why})"
    )


def _reachable(exam: _Exam) -> Finding:
    error = exam.unlisted
    if error is None or error.upstream_status:
        return Finding("reachable", "ok", f"something answers at {exam.patient.where}")
    cause = error.__cause__ or error
    fix = next((fix for kind, fix in _UNREACHED if isinstance(cause, kind)), _UNREACHED_OTHERWISE)
    return Finding("reachable", "fail", _short(error), fix)


def _key(exam: _Exam) -> Finding:
    patient = exam.patient
    denied = [each for each in (exam.failure, exam.unlisted) if each and each.upstream_status in _DENIED]
    if exam.reply is not None:
        return Finding("key", "ok", "it is accepted" if patient.has_key else "none is demanded")
    if not denied:
        return Finding("key", "ok", "nobody complains about it")
    if patient.forwards:
        return Finding("key", "note", "the clients' own keys are sent, and there is none here to try", "")
    if patient.has_key:
        return Finding("key", "fail", f"it is refused: {_short(denied[0])}", "set another key; this one does not hold")
    fix = "set a key: its provider's own variable at its own host, else `api_key` (TOOLSPEAK_API_KEY, or api_key_file)"
    return Finding("key", "fail", f"one is demanded: {_short(denied[0])}", fix)


def _model(exam: _Exam) -> Finding:
    model, names = exam.model, exam.names
    shown = f"`{_short(model)}`"
    if not model:
        fix = "name one with --model, or set `model` in the configuration"
        return Finding("model", "fail", "no model is named, and none is listed", fix)
    if names and model in names:
        return Finding("model", "ok", f"{shown} is one of {len(names)} that are listed")
    if exam.reply is not None:
        why = "is not listed, but answers" if names else "answers; the service does not list its models"
        return Finding("model", "ok", f"{shown} {why}")
    near = get_close_matches(model[:_SHOWN], names or (), n=3, cutoff=0.4) or list((names or ())[:3])
    told = f"use one of those that are listed: {', '.join(near)}" if near else "correct its name"
    if exam.failure is not None and exam.failure.upstream_status == 404:
        return Finding("model", "fail", f"{shown} is not there: {_short(exam.failure)}", told)
    if names:
        return Finding("model", "note", f"{shown} is not among the {len(names)} that are listed", told)
    return Finding("model", "ok", f"{shown}; the service does not list its models")


def _answer(exam: _Exam) -> Finding:
    reply, failure = exam.reply, exam.failure
    if reply is not None and (reply.text or reply.reasoning):
        return Finding("answer", "ok", f"it says: {_short(reply.text or reply.reasoning)}")
    if reply is not None:
        return Finding("answer", "note", "it answers with nothing", "try another model, or a larger `max_tokens`")
    if exam.patient.forwards:
        return Finding("answer", "fail", "it cannot be asked without a client's key", "look with `auth = replace`")
    status = failure.upstream_status if failure is not None else 0
    return Finding("answer", "fail", _short(failure), _ANSWERS.get(status, _ANSWER_OTHERWISE))


#: Status -> what to do.
_ANSWERS = {
    0: "what answers is not what `protocol` says, or not at this path: check both (most base URLs end in /v1)",
    200: "what answers is not what `protocol` says, or not at this path: check both (most base URLs end in /v1)",
    404: "correct the base URL: most end in /v1",
    405: "correct the base URL: most end in /v1",
    402: "the account has no credit",
    429: "the account or the service is at its limit: wait, or raise it",
}
_ANSWER_OTHERWISE = "the log of the service says more"


async def _streaming(exam: _Exam) -> Finding:
    try:
        found = await exam.batches(exam.request(_COUNT, stream=True))
    except UpstreamError as error:
        return Finding(
            "streaming", "fail", _short(error), "switch streaming on in the service, or in what is before it"
        )
    pieces = sum(any(isinstance(event, TextDelta | ReasoningDelta) for event in batch) for batch in found)
    if pieces > 1:
        return Finding("streaming", "ok", f"the answer came in {pieces} pieces")
    fix = "clients see nothing until the end: switch buffering off in whatever stands in between, or streaming on"
    return Finding("streaming", "note", "the whole answer came at once", fix)


async def _native(exam: _Exam) -> Finding:
    """Whether the service itself takes tools, and whether toolspeak counts on that."""
    planned = exam.strategy.native
    entry = f'[models."{exam.patient.provider}:{exam.model}"]'
    try:
        reply = fold(await exam.events(exam.request(_WEATHER, tools=(_TOOL,))))
    except UpstreamError as error:
        if error.upstream_status not in _NO_TOOLS:
            return Finding("native tools", "fail", _short(error), _ANSWER_OTHERWISE)
        says = f"tools are refused: {_short(error)}"
    else:
        if any(call.name == _TOOL.name for call in reply.calls):
            shape = "advanced" if exam.patient.protocol in ("anthropic", "gemini") else "openai"
            fix = "" if planned else f'to use them, set capability = "{shape}" for {entry}'
            return Finding("native tools", "ok", "they work" + ("" if planned else ", and are not used"), fix)
        says = "they are ignored: no call came"
    if planned:
        return Finding("native tools", "fail", says, f'set capability = "none" for {entry}, so that calls go by text')
    return Finding("native tools", "note", f"{says}; toolspeak asks for calls by text")


async def _calls(exam: _Exam) -> Finding:
    """A call, as every client of toolspeak gets it."""
    patient = exam.patient
    reached = Reached(patient.provider, exam.model, patient.base_url, patient.protocol, patient.upstream)
    maker = TurnMaker(reached, patient.known, MemoryState(), b"doctor")
    try:
        made = maker.make(exam.request(_WEATHER, tools=(_TOOL,)), patient.settings)
        reply = fold([event async for batch in made.turn.batches() for event in batch])
        outcome = made.turn.outcome
        error = error_after(outcome) if outcome is not None else None
        if error is not None:
            raise error
    except ToolspeakError as error:
        return Finding("tool calls", "fail", _short(error), _ANSWER_OTHERWISE)
    if reply.calls:
        call = reply.calls[0]
        told = msgspec.json.encode(call.arguments).decode()
        return Finding("tool calls", "ok", f"{call.name}({_short(told)}) by the plan `{made.plan.kind}`")
    why = outcome.trace.why_no_call if outcome is not None else ""
    fix = 'try `plan = "decision"`, another dialect, or a stronger model'
    return Finding("tool calls", "note", f"no call was made: {_short(why or reply.text)}", fix)

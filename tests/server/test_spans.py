"""Spans as a collector gets them, from the SDK that collectors use."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.cases import check_each
from tests.server.asgi_client import HELLO, ask, gateway, line, run
from tests.server.protocol_clients import SPEAKERS
from tests.server.scripted_peers import Script, talker, words
from tests.server.test_metrics import CHAT, TOOLS, Answers, fenced
from toolspeak.engine.planning.strategy import Settings
from toolspeak.errors import UpstreamError
from toolspeak.server.app import App
from toolspeak.server.observe.spans import create_spans
from toolspeak.server.process.lifecycle import Lifecycle
from toolspeak.upstreams.base import Upstream

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def collected(upstream: Upstream, body: dict[str, Any], **headers: str) -> tuple[ReadableSpan, ...]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    made = create_spans(provider)
    assert made is not None
    settings = Settings(mode="force", marks="fixed")
    served = gateway(line("one", upstream, models=("m",), settings=lambda model: settings))
    app = App(served, lifecycle=Lifecycle(tracer=made))
    run(ask(app, "POST", CHAT, headers, body))
    return exporter.get_finished_spans()


def test_a_request_is_one_span_with_the_names_of_the_conventions():
    (span,) = collected(Answers(fenced('{"n": 1}')), {**HELLO, "tools": TOOLS})
    assert span.name == "chat m"
    assert span.kind is trace.SpanKind.CLIENT
    told = dict(span.attributes or {})
    assert len(str(told.pop("gen_ai.response.id"))) == 32
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "parrot",
        "gen_ai.request.model": "m",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "http.response.status_code": 200,
        "toolspeak.face": "openai_chat",
        "toolspeak.plan": "inline",
        "toolspeak.tools": "emulated",
        "toolspeak.upstream_requests": 1,
    }
    assert span.start_time is not None and span.end_time is not None and span.start_time < span.end_time


def test_a_trace_that_the_client_began_goes_on():
    (span,) = collected(Answers("Hello."), HELLO, traceparent=PARENT)
    assert span.parent is not None
    assert f"{span.parent.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"


@check_each("header", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 20_000])
def test_a_trace_that_is_none_is_not_continued(header: str):
    (span,) = collected(Answers("Hello."), HELLO, traceparent=header)
    assert span.parent is None


def test_a_failure_is_told_by_its_kind():
    broken = Script(UpstreamError("canary said the upstream", upstream_status=503))
    (span,) = collected(broken, HELLO)
    assert span.status.status_code is trace.StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "503"
    assert "canary" not in span.to_json()


def test_a_stream_that_breaks_is_an_error_though_its_status_was_good():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def talk() -> None:
        made = create_spans(provider)
        assert made is not None
        script = Script(words("The weather is fine. " * 20), UpstreamError("it broke"))
        app = App(gateway(line("one", script, models=("m",))), lifecycle=Lifecycle(tracer=made))
        client = talker(app, SPEAKERS[0], tools=False)
        await client.task

    run(talk())
    (span,) = exporter.get_finished_spans()
    assert (span.attributes or {})["error.type"] == "stream"


@pytest.mark.requirement("R-T2")
def test_nothing_that_was_said_and_no_key_is_in_a_span():
    text = "canary " * 3
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": text}], "tools": TOOLS}
    headers = {"Authorization": "Bearer sk-canary-1234567890", "x-request-id": "canary", "cookie": "canary=canary"}
    told = collected(Answers(fenced('{"n": "canary"}'), text), body, **headers)
    assert all("canary" not in span.to_json() for span in told)
    assert told


def test_nothing_is_told_where_nobody_listens(monkeypatch: pytest.MonkeyPatch):
    assert create_spans(trace.NoOpTracerProvider()) is None
    assert create_spans() is None
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert create_spans() is None


def test_spans_of_requests_side_by_side_do_not_mix():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    made = create_spans(provider)
    assert made is not None

    async def talk() -> None:
        app = App(gateway(line("one", Answers("Hello."), models=("*",))), lifecycle=Lifecycle(tracer=made))
        bodies = [{**HELLO, "model": f"m{number}"} for number in range(20)]
        await asyncio.gather(*(ask(app, "POST", CHAT, {}, body) for body in bodies))

    run(talk())
    assert {span.name for span in exporter.get_finished_spans()} == {f"chat m{number}" for number in range(20)}

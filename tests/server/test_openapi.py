"""The proxy describes itself: all of its routes, in a document that holds."""

from __future__ import annotations

import html.parser
import re
from typing import Any

import msgspec
import pytest

from tests.cases import check_each
from tests.server.asgi_client import ask, gateway, run
from tests.server.test_auth import BODIES
from tests.server.test_openapi_schemas import flaw
from toolspeak.server.app import App
from toolspeak.server.openapi import PAGES, PROTOCOLS, SUMMARIES, document, page
from toolspeak.server.routes import all_routes

DOCUMENT = document("1.2.3")


def shown(method: str, path: str) -> Any:
    return DOCUMENT["paths"][path.replace("NAME", "{name}")][method.lower()]


def test_the_document_is_openapi():
    validator = pytest.importorskip("openapi_spec_validator", reason="`make test-api` installs it")
    validator.validate(DOCUMENT)


def test_every_route_is_described_and_nothing_else():
    described = {
        (method.upper(), path.replace("{name}", "NAME"))
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
    }
    assert described == {(method, path) for method, path in all_routes() if method != "HEAD"}


def test_every_face_and_page_is_described_in_words_and_types():
    pages = {route.page for route in all_routes().values() if route.page}
    faces = {route.client_protocol for route in all_routes().values() if route.client_protocol}
    assert pages == PAGES.keys()
    assert faces == PROTOCOLS.keys()
    assert all(each.request and each.reply and each.error for each in PROTOCOLS.values())
    assert SUMMARIES.keys() == pages | faces


def test_every_reference_leads_to_a_schema():
    text = msgspec.json.encode(DOCUMENT).decode()
    names = set(re.findall(r'"\$ref":"#/components/schemas/([^"]+)"', text))
    assert names
    assert names <= DOCUMENT["components"]["schemas"].keys()


def test_every_operation_has_a_name_of_its_own():
    names = [operation["operationId"] for path in DOCUMENT["paths"].values() for operation in path.values()]
    assert len(set(names)) == len(names)


def test_keys_are_described_where_they_are_demanded():
    assert shown("GET", "/health")["security"] == []
    assert {} in shown("POST", "/v1/chat/completions")["security"]
    assert {"bearer": []} in shown("POST", "/v1/chat/completions")["security"]
    assert {} not in shown("GET", "/toolspeak/requests")["security"]
    used = {
        name
        for path in DOCUMENT["paths"].values()
        for each in path.values()
        for row in each["security"]
        for name in row
    }
    assert used == DOCUMENT["components"]["securitySchemes"].keys()


@pytest.mark.requirement("G3")
def test_errors_have_the_shape_of_their_protocol():
    def schema(method: str, path: str) -> str:
        return shown(method, path)["responses"]["400"]["content"]["application/json"]["schema"]["$ref"]

    assert schema("POST", "/v1/messages").endswith("/AnthropicError")
    assert schema("POST", "/api/generate").endswith("/OllamaError")
    assert schema("POST", "/v1beta/models/NAME:generateContent").endswith("/GeminiError")
    assert schema("GET", "/v1beta/models").endswith("/GeminiError")
    assert schema("POST", "/v1/responses").endswith("/OpenAIError")


def test_streams_are_described_as_they_come():
    def kinds(path: str) -> set[str]:
        return set(shown("POST", path)["responses"]["200"]["content"])

    assert kinds("/v1/chat/completions") == {"application/json", "text/event-stream"}
    assert kinds("/api/chat") == {"application/json", "application/x-ndjson"}
    assert kinds("/v1/models/NAME:generateContent") == {"application/json"}
    assert kinds("/v1/models/NAME:streamGenerateContent") == {"application/json", "text/event-stream"}


@check_each("face", PROTOCOLS)
def test_requests_and_answers_are_what_the_document_says(face: str):
    app = App(gateway())
    body = BODIES[face]
    assert not flaw(body, (PROTOCOLS[face].request or {}))
    path = next(
        path
        for (_, path), route in all_routes().items()
        if route.client_protocol == face and not route.fields.get("stream")
    )
    good = run(ask(app, "POST", path, body=body))
    assert good.status == 200
    assert not flaw(good.json, (PROTOCOLS[face].reply or {}))
    bad = run(ask(app, "POST", path, body=b"[]"))
    assert bad.status == 400
    assert not flaw(bad.json, PROTOCOLS[face].error)


def test_pages_are_what_the_document_says():
    app = App(gateway())
    for (method, path), route in sorted(all_routes().items()):
        if method == "GET" and route.level != "admin" and "NAME" not in path:
            schema = PAGES[route.page].reply
            answer = run(ask(app, method, path))
            if answer.status == 200 and schema is not None and "$ref" in schema:
                assert not flaw(answer.json, schema)


def test_the_document_and_its_page_are_served():
    app = App(gateway())
    answer = run(ask(app, "GET", "/openapi.json"))
    assert (answer.json["openapi"], answer.json["paths"].keys()) == ("3.1.0", DOCUMENT["paths"].keys())
    answer = run(ask(app, "GET", "/docs"))
    assert (answer.status, answer.header("content-type")) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in answer.header("content-security-policy")


def test_the_page_runs_nothing_and_loads_nothing():
    found: list[tuple[str, dict[str, str | None]]] = []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append((tag, dict(attrs)))

    Reader().feed(page("1.2.3").decode())
    assert not {tag for tag, _ in found} & {"script", "link", "img", "iframe", "object"}
    assert {attributes["href"] for _, attributes in found if "href" in attributes} == {"openapi.json"}
    text = page("<b>").decode()
    assert "<b>" not in text.replace("<b>GET", "").replace("<b>POST", "").replace("<b>DELETE", "")
    assert all(path in text for path in DOCUMENT["paths"])

"""The document and the codecs say the same: what a face writes is in it to the last field, and what it lists is read.

The codecs read leniently and by hand, so the schemas of `openapi` are held to them here, through the document as it is
served. For what is written, every object of the document is closed first: a field that it does not list is a flaw.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.protocols.request_mutations import RICH, captured
from tests.protocols.stream_helpers import fed
from tests.server.asgi_client import Parrot, ask, gateway, line, run
from tests.server.test_auth import BODIES as SMALL
from toolspeak import errors
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Failure,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    UsageSeen,
    fold,
)
from toolspeak.core.types import JSONObject, JSONValue, Request, Usage
from toolspeak.errors import NotKeptError, ToolspeakError, UpstreamError
from toolspeak.server.app import App
from toolspeak.server.openapi import PAGES, Page, document
from toolspeak.server.openapi import PROTOCOLS as DESCRIBED
from toolspeak.server.proxy.client_protocols import ClientProtocol, client_protocol
from toolspeak.server.routes import all_routes

pytestmark = pytest.mark.requirement("G3")

FIXTURES = Path(__file__).parents[1] / "protocols" / "fixtures"
FACES = tuple(DESCRIBED)
BODIES = {name: each.request or {} for name, each in DESCRIBED.items()}
REPLIES = {name: each.reply or {} for name, each in DESCRIBED.items()}
ERRORS = {name: each.error for name, each in DESCRIBED.items()}
PROTOCOLS = tuple(RICH)
#: What goes out beside an answer.
TOLD = {"id": "r1", "plan": "inline", "requests": 1, "warnings": ["tool calls emulated"]}
NAMING: dict[str, Any] = {"id": "id_1", "created": 1, "model": "m", "extension": TOLD}


# ---------------------------------------------------------------------------------------------- holding to the document


def schemas() -> dict[str, Any]:
    return document("1.2.3")["components"]["schemas"]


def named(reference: JSONObject) -> Any:
    return schemas()[reference["$ref"].rpartition("/")[2]]


def closed(schema: Any) -> Any:
    """The schema, in which no object may hold more than is listed, unless it says that it may."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(each) for key, each in schema.items()}
    if isinstance(made.get("properties"), dict) and made.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


@cache
def validator(reference: str, strict: bool) -> Any:
    parts = closed(copy.deepcopy(schemas())) if strict else schemas()
    return jsonschema_rs.validator_for(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$ref": reference,
            "components": {"schemas": parts},
        }
    )


def flaw(value: JSONValue, schema: JSONObject, *, strict: bool = True) -> str:
    """Where a value is not what the document says; nothing if it is."""
    found = next(validator(schema["$ref"], strict).iter_errors(value), None)
    return f"{found.message} at {list(found.instance_path)}" if found else ""


def test_a_field_too_many_and_one_too_few_are_seen():
    app = App(gateway())
    body: Any = run(ask(app, "POST", "/v1/chat/completions", body=SMALL["openai_chat"])).json
    kind = REPLIES["openai_chat"]
    assert not flaw(body, kind)
    assert flaw({**body, "hologram": 1}, kind)
    assert flaw({key: value for key, value in body.items() if key != "id"}, kind)
    body["choices"][0]["message"]["hologram"] = 1
    assert flaw(body, kind)
    assert not flaw(body, kind, strict=False)


def test_what_may_hold_more_than_is_listed_says_so():
    assert {name for name, schema in schemas().items() if schema.get("additionalProperties")} == {
        *("AnthropicUsage", "AnthropicUse", "CustomCall", "FunctionCall"),
        *("GeminiPart", "GeminiTool", "GeminiUsage"),
    }


# ------------------------------------------------------------------------------------------------ what is written


@cache
def spoken(name: str) -> ClientProtocol:
    return client_protocol(name, b"alt=sse")


def requests(name: str) -> Iterator[Request]:
    """Requests whose answers are worded differently: one with everything, and one with nothing but words."""
    if name in RICH:
        yield spoken(name).decode(RICH[name])
    yield spoken(name).decode(SMALL[name])
    if name == "openai_chat":
        yield spoken(name).decode({**SMALL[name], "functions": [{"name": "get_weather"}]})


def written(name: str, request: Request, events: list[Event]) -> JSONValue:
    made = spoken(name)
    reply = fold(events)
    ordered: dict[str, Any] = {"events": events} if made.ordered else {}
    return msgspec.json.decode(made.reply(reply, request, **NAMING, **ordered))


def check_answer(name: str, said: Any) -> None:
    failed = "error" in said and (name != "openai_responses" or "object" not in said)
    assert not flaw(said, ERRORS[name] if failed else REPLIES[name])


def answers(protocol: str) -> Iterator[list[Event]]:
    """What the collected answers of a protocol's services mean."""
    codec = import_module(f"toolspeak.protocols.{protocol}")
    for path in sorted((FIXTURES / protocol).iterdir()):
        yield fed(codec.ReplyDecoder(path.suffix != ".json"), [path.read_bytes()])


@check_each("protocol", PROTOCOLS)
@check_each("name", FACES)
def test_every_whole_answer_is_what_the_document_says(name: str, protocol: str):
    for events in answers(protocol):
        for request in requests(name):
            check_answer(name, written(name, request, events))
            if not any(isinstance(event, Failure | Finish) for event in events):
                check_answer(name, written(name, request, [*events, Finish("stop")]))


@check_each("protocol", PROTOCOLS)
@check_each("name", ["ollama", "ollama_generate", "gemini_list"])
def test_every_line_of_a_stream_is_what_the_document_says(name: str, protocol: str):
    named = name.removesuffix("_list")
    made = spoken(named) if named == name else client_protocol("gemini")
    naming = {key: value for key, value in NAMING.items() if key != "extension"}
    for events in answers(protocol):
        encoder = made.encoder(next(requests(named)), **naming)
        data = encoder.encode(events) + encoder.close(TOLD)
        for piece in msgspec.json.decode(data) if named != name else map(msgspec.json.decode, data.splitlines()):
            check_answer(named, piece)


#: Also the words of models that nobody offered.
CALLED = st.sampled_from(["get_weather", "run", "crm__find"]) | st.text(min_size=1, max_size=9)
GIVEN = st.sampled_from(['{"city":"Paris"}', '{"input":"x"}', "{}", "", "[1]", '{"a":'])
COUNT = st.integers(0, 10**9)
PIECE = st.one_of(
    st.builds(lambda text: [TextDelta(text)], st.text(max_size=9)),
    st.builds(lambda text: [ReasoningDelta(text)], st.text(max_size=9)),
    st.builds(lambda *counts: [UsageSeen(Usage(*counts))], COUNT, COUNT, COUNT, COUNT),
    st.tuples(CALLED, st.text(max_size=9), GIVEN, st.booleans()),
)


def happened(pieces: list[Any]) -> list[Event]:
    """The events of a turn; every call has a number of its own."""
    events: list[Event] = []
    for index, piece in enumerate(pieces):
        if isinstance(piece, tuple):
            name, identifier, arguments, ends = piece
            events += [CallStart(index, name, identifier), CallArgs(index, arguments)]
            events += [CallEnd(index)] if ends else []
        else:
            events += piece
    return events


@pytest.mark.parametrize("name", FACES)
@given(pieces=st.lists(PIECE, max_size=6), reason=st.sampled_from(get_args(FinishReason)))
def test_whatever_a_model_does_is_written_as_the_document_says(name: str, pieces: list[Any], reason: FinishReason):
    events = [*happened(pieces), Finish(reason)]
    for request in requests(name):
        check_answer(name, written(name, request, events))


def every_error(kind: type[ToolspeakError] = ToolspeakError) -> Iterator[type[ToolspeakError]]:
    yield kind
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield from every_error(each)


@check_each("name", FACES)
def test_every_error_is_what_the_document_says(name: str):
    said = [kind("`x` is wrong") for kind in set(every_error()) if not issubclass(kind, UpstreamError | NotKeptError)]
    said += [
        NotKeptError("it is gone"),
        UpstreamError("it broke", upstream_status=429, code="limit", error_type="t", param="p"),
    ]
    for error in said:
        _, body = spoken(name).error(error)
        assert not flaw(msgspec.json.decode(body), ERRORS[name])


def test_every_page_is_what_the_document_says():
    app = App(gateway(line("one", Parrot(), models=("m",))))
    checked: set[str] = set()
    for (method, path), route in sorted(all_routes().items()):
        page = PAGES.get(route.page, Page(""))
        if method == "HEAD" or route.level == "admin" or page.reply is None or page.reply == {"type": "object"}:
            continue
        body = {"model": "m", **SMALL.get(route.page.partition("_")[0], {})} if page.request else b""
        answer = run(ask(app, method, path.replace("NAME", "m"), body=body))
        assert not flaw(answer.json, page.reply if answer.status == 200 else ERRORS[route.error_protocol]), path
        checked |= {route.page} if answer.status == 200 else set()
    assert checked >= {"health", "version", "models", "model", "gemini_models", "gemini_count", "anthropic_count"}


# ---------------------------------------------------------------------------------------------------- what is read


#: Where the collected requests say more than is asked for: a whole call in place of the name of a tool.
TIDY: dict[str, Any] = {"openai_chat": {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}}}


@check_each("name", PROTOCOLS)
def test_what_clients_send_is_what_the_document_says(name: str):
    assert not flaw({**RICH[name], **TIDY.get(name, {})}, BODIES[name])
    for body in captured(name):
        counting = name == "anthropic" and "max_tokens" not in body
        schema = PAGES["anthropic_count"].request if counting else BODIES[name]
        assert schema is not None and not flaw(body, schema, strict=False)


@check_each("name", PROTOCOLS)
def test_every_field_that_a_codec_reads_is_in_the_document(name: str):
    read: Any = import_module(f"toolspeak.protocols.{name}.request")
    assert {*read._REQUEST_FIELDS} <= named(BODIES[name])["properties"].keys() | {"thread"}


def made_up(schema: Any) -> st.SearchStrategy[Any]:
    """Values of a schema. Of what is open, only the kinds that it lists are made."""
    if "$ref" in schema:
        return st.deferred(lambda: made_up(named(schema)))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([made_up(each) for each in schema["anyOf"] if "additionalProperties" not in each])
    return MAKERS[schema.get("type", "null")](schema)


def _object(schema: Any) -> st.SearchStrategy[Any]:
    needed = schema.get("required", [])
    fields = {name: made_up(each) for name, each in schema.get("properties", {"type": {"enum": ["object"]}}).items()}
    return st.fixed_dictionaries(
        {name: fields[name] for name in fields if name in needed},
        optional={name: fields[name] for name in fields if name not in needed},
    )


def _text(schema: Any) -> st.SearchStrategy[str]:
    if "pattern" in schema:
        return st.from_regex(schema["pattern"].replace("$", r"\Z"))
    return st.text(min_size=schema.get("minLength", 0), max_size=9)


MAKERS: dict[str, Callable[[Any], st.SearchStrategy[Any]]] = {
    "object": _object,
    "array": lambda schema: st.lists(made_up(schema.get("items", {})), min_size=schema.get("minItems", 0), max_size=3),
    "string": _text,
    "integer": lambda schema: st.integers(schema.get("minimum", -(2**31)), schema.get("maximum", 2**31)),
    "number": lambda schema: st.floats(schema.get("minimum", 0), schema.get("maximum", 1)),
    "boolean": lambda schema: st.booleans(),
    "null": lambda schema: st.none(),
}


@pytest.mark.parametrize("name", FACES)
@given(data=st.data())
def test_whatever_the_document_allows_is_read(name: str, data: st.DataObject):
    body: Any = data.draw(made_up(BODIES[name]))
    assert spoken(name).decode(msgspec.json.encode(body)).protocol

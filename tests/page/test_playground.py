"""The Playground in a browser: where its tools come from, and what makes a setting the default."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.page.conftest import watched
from tests.page.http_requests import asked
from tests.page.page_server import Served, served
from tests.page.test_accessibility import axe, reach, violations
from tests.page.test_start import fits
from toolspeak.config import load
from toolspeak.server.proxy.tool_loop.loop import LoopTools
from toolspeak.server.proxy.upstream_router import PAGE
from toolspeak.tools.files import file_tools

__all__ = ["axe"]

pytestmark = [pytest.mark.system("browser"), pytest.mark.requirement("H2")]

PET = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "mother": {"$ref": "#/components/schemas/Pet"}},
}
OPENAPI = {
    "openapi": "3.1.0",
    "paths": {
        "/pets/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
            "get": {
                "operationId": "get pet",
                "summary": "Find a pet.",
                "parameters": [{"$ref": "#/components/parameters/Lang"}],
            },
            "put": {"operationId": "get pet", "requestBody": {"$ref": "#/components/requestBodies/Pet"}},
            "delete": {"summary": "<b>Remove</b> a pet."},
        }
    },
    "components": {
        "schemas": {"Pet": PET},
        "parameters": {
            "Lang": {"name": "lang", "in": "query", "description": "A language.", "schema": {"enum": ["en"]}}
        },
        "requestBodies": {
            "Pet": {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
        },
    },
}
SWAGGER = {
    "swagger": "2.0",
    "paths": {
        "/pets": {
            "post": {
                "operationId": "addPet",
                "parameters": [
                    {"name": "dry", "in": "query", "type": "boolean"},
                    {"name": "token", "in": "header", "type": "string"},
                    {
                        "name": "pet",
                        "in": "body",
                        "required": True,
                        "schema": {"type": "array", "items": {"type": "string"}},
                    },
                ],
            }
        }
    },
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(loops=lambda: {PAGE: LoopTools(file_tools(tmp_path, write=False))}) as running:
        yield running


@pytest.fixture(params=[(1440, "light"), (390, "dark")], ids=["desktop", "phone"])
def playground(browser: Any, server: Served, faults: list[str], request: Any) -> Iterator[Any]:
    width, scheme = request.param
    context = browser.new_context(
        viewport={"width": width, "height": 844}, color_scheme=scheme, reduced_motion="reduce"
    )
    opened = watched(context, server, faults)
    opened.goto(server.link())
    opened.wait_for_selector(".composer")
    opened.goto(f"{server.url}/#/playground")
    opened.get_by_role("heading", name="Playground").wait_for()
    yield opened
    context.close()
    assert not faults


def declared(page: Any) -> dict[str, Any]:
    """The tools in the JSON field, by name."""
    text = page.get_by_label("Tools as JSON").evaluate("field => field.value")
    return {tool["name"]: tool for tool in json.loads(text)}


def read(page: Any, document: object) -> None:
    page.get_by_label("OpenAPI document").fill(document if isinstance(document, str) else json.dumps(document))
    page.get_by_role("button", name="Read operations").click()


def test_tools_of_the_server_are_offered_but_not_run(playground: Any, server: Served):
    playground.get_by_text("Import from the server (MCP)").click()
    playground.get_by_role("checkbox", name="read_file").check()
    playground.get_by_role("button", name="Add tools (1)").click()
    playground.get_by_text("Your tools: read_file").wait_for()
    assert declared(playground)["read_file"]["parameters"]["properties"]["path"]["type"] == "string"
    playground.get_by_label("clock").uncheck()
    server.script.calls["notes"] = ("read_file", {"path": "notes.txt"})
    playground.get_by_label("Question").fill("Look into my notes.")
    playground.get_by_role("button", name="Run", exact=True).click()
    column = playground.get_by_role("region", name="Automatic")
    column.get_by_text("valid arguments").wait_for()
    assert "→" not in column.inner_text() and len(server.script.asked) == 2
    assert fits(playground)


def test_operations_of_an_openapi_document_become_tools(playground: Any):
    playground.get_by_text("Import from OpenAPI").click()
    read(playground, OPENAPI)
    for name in ("get_pet", "get_pet_2", "delete_pets_id"):
        playground.get_by_role("checkbox", name=name, exact=False).first.wait_for()
    playground.get_by_text("<b>Remove</b> a pet.").wait_for()
    for box in playground.get_by_role("group", name="Tools to choose").locator("input").all():
        box.check()
    playground.get_by_role("button", name="Add tools (3)").click()
    tools = declared(playground)
    get, put = tools["get_pet"], tools["get_pet_2"]
    assert get["description"] == "Find a pet."
    assert get["parameters"]["properties"] == {
        "id": {"type": "integer"},
        "lang": {"description": "A language.", "enum": ["en"]},
    }
    assert get["parameters"]["required"] == ["id"]
    assert put["parameters"]["required"] == ["id", "name"]
    assert put["parameters"]["properties"]["mother"] == {}  # it would refer to itself
    read(playground, SWAGGER)
    playground.get_by_role("checkbox", name="addPet").check()
    playground.get_by_role("button", name="Add tools (1)").click()
    assert declared(playground)["addPet"]["parameters"] == {
        "type": "object",
        "properties": {"dry": {"type": "boolean"}, "body": {"type": "array", "items": {"type": "string"}}},
        "required": ["body"],
    }
    assert len(declared(playground)) == 4 and fits(playground)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("openapi: 3.1.0", "Convert a YAML document"),
        ("{}", "no openapi or swagger version"),
        ({**OPENAPI, "paths": {}}, "no operations"),
    ],
    ids=["yaml", "another object", "empty"],
)
def test_what_is_no_openapi_document_is_said(page: Any, server: Served, document: object, words: str):
    page.goto(f"{server.url}/#/playground")
    page.get_by_text("Import from OpenAPI").click()
    read(page, document)
    page.get_by_role("status").get_by_text(words).wait_for()


def test_references_that_multiply_are_cut(page: Any, server: Served):
    schemas = {
        f"S{number}": {"properties": {f"p{each}": {"$ref": f"#/components/schemas/S{number + 1}"} for each in range(9)}}
        for number in range(20)
    }
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}}
    document = {
        "openapi": "3.1.0",
        "paths": {"/x": {"post": {"operationId": "grow", "requestBody": body}}},
        "components": {"schemas": schemas},
    }
    page.goto(f"{server.url}/#/playground")
    page.get_by_text("Import from OpenAPI").click()
    read(page, document)
    page.get_by_role("checkbox", name="grow").check()
    page.get_by_role("button", name="Add tools (1)").click()
    assert len(json.dumps(declared(page))) < 200_000


def test_a_setting_becomes_the_default_of_a_model_and_is_taken_back(playground: Any, server: Served, tmp_path: Path):
    def plan() -> str:
        asked(server, "hello")
        return "native" if server.script.asked[-1].tools else "emulated"

    assert plan() == "emulated"
    playground.get_by_role("button", name="Make this the default").first.click()
    playground.get_by_text("small-model now uses Raw, for every client").wait_for()
    assert plan() == "native"
    text = playground.locator(".slot pre.code").inner_text()
    assert tomllib.loads(text) == {"models": {"scripted:small-model": {"mode": "off"}}}
    file = tmp_path / "toolspeak" / "config.toml"
    file.parent.mkdir()
    file.write_text(text)
    config = load(env={"XDG_CONFIG_HOME": str(tmp_path)}, project=False)
    assert config.settings_for("scripted:small-model").mode == "off"
    playground.get_by_role("combobox", name="Calls").first.select_option("auto")
    playground.get_by_role("button", name="Make this the default").first.click()
    playground.get_by_text("small-model uses its configured settings again").wait_for()
    assert plan() == "emulated" and fits(playground)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Any, server: Served, axe: Path, scheme: str, faults: list[str]):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    page = watched(context, server, faults)
    page.goto(server.link())
    page.wait_for_selector(".composer")
    page.goto(f"{server.url}/#/playground/?model=other-model")
    page.get_by_role("heading", name="Playground").wait_for()
    assert page.get_by_role("combobox", name="Model").first.input_value() == "other-model"
    page.get_by_text("Import from the server (MCP)").click()
    page.get_by_text("Import from OpenAPI").click()
    read(page, OPENAPI)
    page.get_by_role("button", name="Make this the default").first.click()
    page.get_by_text("other-model now uses Raw").wait_for()
    assert violations(page, axe) == []
    context.close()
    assert not faults


def test_a_default_is_made_by_keyboard(page: Any, server: Served):
    page.goto(f"{server.url}/#/playground")
    page.get_by_role("heading", name="Playground").wait_for()
    reach(page, ".slot button.link")
    page.keyboard.press("Enter")
    page.get_by_text("now uses Raw").wait_for()

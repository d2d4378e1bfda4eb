"""Responses that were given before: shown, listed and deleted for whom they were given to, and for nobody else."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai.types.responses import Response, ResponseItem
from pydantic import TypeAdapter

from tests.cases import check_each
from tests.server.asgi_client import Answer, Parrot, Team, ask, bearer, line, run
from tests.server.live_proxy import QUESTION, RESULTS, SCHEMAS, Two, live

pytestmark = pytest.mark.requirement("G5")

SAID = "A text that the model wrote."
ITEMS: TypeAdapter[Any] = TypeAdapter(ResponseItem)


class Place:
    """A server, and what its holders of keys do there."""

    def __init__(self) -> None:
        self.team = Team(line("one", Parrot(SAID)), required=True)
        self.anna, self.berta = self.team.key("anna"), self.team.key("berta")

    async def made(self, text: Any = "Hello?", **fields: Any) -> dict[str, Any]:
        body = {"model": "m", "input": text, **fields}
        answer = await ask(self.team.app, "POST", "/v1/responses", bearer(self.anna), body)
        assert answer.status == 200, answer.body
        if not fields.get("stream"):
            return answer.json
        last = [each for each in answer.body.decode().split("\n\n") if "response.completed" in each][-1]
        return json.loads(last.partition("data: ")[2])["response"]

    async def asks(self, method: str, path: str, key: str = "") -> Answer:
        return await ask(self.team.app, method, path, bearer(key or self.anna))


@check_each("stream", [True, False])
@check_each("prefix", ["/v1", ""])
def test_a_response_comes_back_as_it_was_given(stream: bool, prefix: str):
    async def scenario() -> None:
        place = Place()
        made = await place.made(stream=stream)
        found = await place.asks("GET", f"{prefix}/responses/{made['id']}")
        assert (found.status, found.json) == (200, made)
        assert Response.model_validate(found.json).output_text == SAID

    run(scenario())


@pytest.mark.requirement("R-T8")
@check_each(("method", "tail"), [("GET", ""), ("DELETE", ""), ("GET", "/input_items")])
def test_what_is_another_s_is_not_there_and_stays(method: str, tail: str):
    async def scenario() -> None:
        place = Place()
        made = await place.made()
        theirs = await place.asks(method, f"/v1/responses/{made['id']}{tail}", place.berta)
        nobodys = await place.asks(method, f"/v1/responses/resp_none{tail}", place.berta)
        assert (theirs.status, nobodys.status) == (404, 404)
        assert theirs.body == nobodys.body  # nothing tells the two apart
        assert (await place.asks("GET", f"/v1/responses/{made['id']}")).status == 200
        assert (await ask(place.team.app, method, f"/v1/responses/{made['id']}{tail}")).status == 401

    run(scenario())


def test_what_is_deleted_is_gone_with_its_parts():
    async def scenario() -> None:
        place = Place()
        made = await place.made()
        path = f"/v1/responses/{made['id']}"
        deleted = await place.asks("DELETE", path)
        assert (deleted.status, deleted.json) == (200, {"id": made["id"], "object": "response", "deleted": True})
        for method, tail in (("GET", ""), ("DELETE", ""), ("GET", "/input_items")):
            assert (await place.asks(method, path + tail)).status == 404
        for body in (
            {"input": "Hello?", "previous_response_id": made["id"]},
            {"input": [{"type": "item_reference", "id": made["output"][0]["id"]}]},
        ):
            answer = await ask(place.team.app, "POST", "/v1/responses", bearer(place.anna), {"model": "m", **body})
            assert (answer.status, "not stored here" in answer.message) == (400, True)

    run(scenario())


def test_what_was_not_to_be_kept_is_not_there():
    async def scenario() -> None:
        place = Place()
        made = await place.made(store=False)
        assert (await place.asks("GET", f"/v1/responses/{made['id']}")).status == 404

    run(scenario())


def test_what_was_sent_is_listed_with_all_that_came_before():
    async def scenario() -> None:
        place = Place()
        first = await place.made("One?")
        second = await place.made([{"role": "user", "content": "Two?"}], previous_response_id=first["id"])
        path = f"/v1/responses/{second['id']}/input_items"
        listed = (await place.asks("GET", f"{path}?order=asc")).json
        assert [item["content"][0]["text"] for item in listed["data"]] == ["One?", SAID, "Two?"]
        assert [item["role"] for item in listed["data"]] == ["user", "assistant", "user"]
        assert (listed["object"], listed["has_more"]) == ("list", False)
        assert (listed["first_id"], listed["last_id"]) == (listed["data"][0]["id"], listed["data"][-1]["id"])
        for item in listed["data"]:
            ITEMS.validate_python(item)
        # The newest first, where nobody says otherwise; the same ids each time.
        newest = (await place.asks("GET", path)).json
        assert newest["data"] == listed["data"][::-1]
        ids = [item["id"] for item in newest["data"]]
        page = (await place.asks("GET", f"{path}?limit=1&after={ids[0]}")).json
        assert ([item["id"] for item in page["data"]], page["has_more"]) == ([ids[1]], True)
        end = (await place.asks("GET", f"{path}?after={ids[2]}")).json
        assert (end["data"], end["first_id"], end["has_more"]) == ([], None, False)

    run(scenario())


@check_each("query", ["limit=0", "limit=101", "limit=x", "limit=%C2%B2", "limit=", "order=up", "after=gone"])
def test_a_query_that_makes_no_sense_is_refused(query: str):
    async def scenario() -> None:
        place = Place()
        made = await place.made()
        answer = await place.asks("GET", f"/v1/responses/{made['id']}/input_items?{query}")
        assert (answer.status, query.partition("=")[0] in answer.message) == (400, True)

    run(scenario())


def test_no_stream_comes_of_what_is_kept():
    async def scenario() -> None:
        place = Place()
        made = await place.made()
        assert (await place.asks("GET", f"/v1/responses/{made['id']}?stream=true")).status == 400
        assert (await place.asks("GET", f"/v1/responses/{made['id']}?stream=false")).status == 200

    run(scenario())


@check_each("path", ["/v1/responses/", "/v1/responses//input_items", "/v1/responses/a/b"])
def test_no_other_path_is_one_of_these(path: str):
    async def scenario() -> None:
        assert (await Place().asks("GET", path)).status == 404
        assert (await Place().asks("DELETE", path)).status == 404

    run(scenario())


@pytest.mark.requirement("G4")
def test_openai_s_own_client_reads_lists_and_deletes():
    tools: Any = [{"type": "function", "name": name, "parameters": schema} for name, schema in SCHEMAS.items()]
    with live(Two()) as place, openai.OpenAI(base_url=f"{place.url}/v1", api_key="none", max_retries=0) as client:
        first = client.responses.create(model="m", input=QUESTION, tools=tools)
        results: Any = [
            {"type": "function_call_output", "call_id": item.call_id, "output": RESULTS[item.name]}
            for item in first.output
            if item.type == "function_call"
        ]
        second = client.responses.create(model="m", input=results, tools=tools, previous_response_id=first.id)
        assert client.responses.retrieve(second.id) == second
        sent = list(client.responses.input_items.list(second.id, order="asc", limit=2))  # on several pages
        kinds = [item.type for item in sent]
        assert kinds[0] == "message"
        assert kinds.count("function_call") == kinds.count("function_call_output") == 2
        for item in sent:
            ITEMS.validate_python(item.model_dump(exclude_none=True))
        client.responses.delete(second.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(second.id)
        assert client.responses.retrieve(first.id).id == first.id

"""Requests made up from the proxy's own description, good ones and bad ones: none makes it fail or hang.

About 200 with every run where schemathesis is installed, 8,000 by `make test-api`.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.server.live_proxy import Live, Two, live
from toolspeak.engine.planning.strategy import Settings
from toolspeak.server.openapi import document
from toolspeak.server.routes import all_routes

schemathesis = pytest.importorskip(
    "schemathesis", reason="requests are not made up: `make test-api` installs what does"
)
requests = pytest.importorskip("requests")

#: Requests altogether, half of them wrong in some way.
REQUESTS = int(os.environ.get("TOOLSPEAK_API_REQUESTS", "200"))
#: Seconds for one answer.
PATIENCE = 20.0
#: The model that the proxy has, so that some requests are answered.
MODEL = "m"
#: What a model does, told with a status of the server: no call, or no JSON, where one was demanded.
PLANNED = ("no call that `tool_choice` allows", "no answer in the requested format")
PLACES = sorted((method, path.replace("NAME", "{name}")) for method, path in all_routes() if method != "HEAD")
#: A request without body and parameters cannot be wrong, and there is only one.
CHANGING = [place for place in PLACES if place[0] == "POST"]
WAYS = [
    *((*place, mode) for place in CHANGING for mode in ("positive", "negative")),
    *((*place, "positive") for place in PLACES if place not in CHANGING),
]
#: How the proxy is set up: tools by text, and native ones.
SETTINGS = ("force", "off")
SHARE = -(-REQUESTS // (2 * len(CHANGING) * len(SETTINGS)))


def _known_model(value: Any) -> Any:
    """The description with the one model that there is, where a model is named."""
    if isinstance(value, list):
        return [_known_model(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("description") == "a model listed by GET /v1/models":
        return {"enum": [MODEL]}
    if value.get("name") == "name" and value.get("in") == "path":
        return {**value, "schema": {"enum": [MODEL]}}
    return {key: _known_model(each) for key, each in value.items()}


SCHEMA = schemathesis.openapi.from_dict(_known_model(copy.deepcopy(document("test"))))


@pytest.fixture(scope="module", params=SETTINGS)
def place(request: pytest.FixtureRequest) -> Iterator[Live]:
    with live(Two(), settings=Settings(mode=request.param)) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with requests.Session() as session:
        session.trust_env = False
        yield session


def _problem(answer: Any) -> str:
    """What is wrong with an answer, whatever was asked; nothing if nothing is."""
    body = answer.content
    if answer.status_code >= 500 and not (answer.status_code == 502 and any(word in answer.text for word in PLANNED)):
        return "it failed"
    if answer.headers["content-type"][0].startswith("application/json"):
        try:
            json.loads(body)
        except ValueError:
            return "it is no JSON"
    return "" if answer.status_code < 400 or b"error" in body else "it does not say what is wrong"


@pytest.mark.requirement("G3", "R-T11")
@pytest.mark.parametrize(("method", "path", "mode"), WAYS)
def test_no_request_that_can_be_made_up_breaks_the_proxy(method: str, path: str, mode: str, place: Live, session: Any):
    operation = SCHEMA[path][method]
    strategy = operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode))

    @settings(
        max_examples=SHARE,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType] - it is a list of them
    )
    @given(strategy)
    def check(case: Any) -> None:
        answer = case.call(base_url=place.url, session=session, timeout=PATIENCE)
        problem = _problem(answer)
        assert not problem, f"{problem}: {answer.status_code} {answer.text[:300]}\n{case.as_curl_command()}"

    check()

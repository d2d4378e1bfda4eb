"""Who is let in: every route, every way to show a key, every trick; and what one caller cannot see of another."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import HELLO, Answer, Parrot, Team, ask, bearer, line, run
from toolspeak.config import Secret
from toolspeak.engine.planning.strategy import Settings
from toolspeak.errors import ConfigError
from toolspeak.key_value import FileState, MemoryState
from toolspeak.server import unsupported as unserved
from toolspeak.server.access.api_keys import ApiKeys
from toolspeak.server.access.auth import Access, Caller, Credential, credentials
from toolspeak.server.routes import all_routes, find_route

GEMINI = {"contents": [{"role": "user", "parts": [{"text": "Hello?"}]}]}
BODIES: dict[str, dict[str, Any]] = {
    "openai_chat": HELLO,
    "openai_responses": {"model": "m", "input": "Hello?"},
    "anthropic": {**HELLO, "max_tokens": 10},
    "gemini": GEMINI,
    "ollama": {**HELLO, "stream": False},
    "ollama_generate": {"model": "m", "prompt": "Hello?", "stream": False},
}

#: Every route that there is, with what it demands. A new route fails here until somebody has thought about it.
OPEN = {
    ("GET", "/health"),
    ("HEAD", "/health"),
    ("GET", "/ready"),
    ("HEAD", "/ready"),
    ("POST", "/toolspeak/session"),
} | {("GET", "/toolspeak/session")}
ADMIN = {
    ("DELETE", "/toolspeak/session"),
    ("DELETE", "/toolspeak/sessions/NAME"),
    ("POST", "/toolspeak/sessions/NAME"),
    ("POST", "/toolspeak/link"),
    ("GET", "/metrics"),
    ("HEAD", "/metrics"),
    ("POST", "/toolspeak/connection"),
    ("POST", "/toolspeak/connection/use"),
    ("POST", "/toolspeak/default"),
    ("POST", "/toolspeak/import"),
    ("POST", "/toolspeak/judgement"),
    ("POST", "/toolspeak/prepare"),
    ("POST", "/toolspeak/probe"),
    ("POST", "/toolspeak/suite"),
    ("POST", "/toolspeak/sessions"),
    ("POST", "/toolspeak/requests/NAME/replay"),
    ("GET", "/toolspeak/sessions/NAME"),
    ("HEAD", "/toolspeak/sessions/NAME"),
} | {
    ("GET", f"/toolspeak/{name}")
    for name in "about clients connection evaluations models requests sessions statistics suite tools".split()
}
PAGES = {"/", "/version", "/openapi.json", "/docs", "/models", "/v1/models", "/v1beta/models"} | {
    "/api/tags",
    "/api/ps",
    "/api/version",
    "/api/hello",
    "/models/NAME",
    "/v1/models/NAME",
    "/v1beta/models/NAME",
    "/toolspeak/requests/NAME",
    "/toolspeak/page/NAME",
}
POSTS = {
    *(prefix + path for prefix in ("", "/v1") for path in ("/chat/completions", "/responses", "/messages")),
    *(prefix + "/messages/count_tokens" for prefix in ("", "/v1")),
    *(
        f"{prefix}/models/NAME:{action}"
        for prefix in ("", "/v1", "/v1beta")
        for action in ("generateContent", "streamGenerateContent", "countTokens")
    ),
    "/api/chat",
    "/api/generate",
    "/api/show",
}
RESPONSES = {f"{prefix}/responses/NAME" for prefix in ("", "/v1")}
PAGES |= RESPONSES | {f"{path}/input_items" for path in RESPONSES}
CLIENT = {(method, path) for path in PAGES for method in ("GET", "HEAD")} | {("POST", path) for path in POSTS}
CLIENT |= {("DELETE", path) for path in RESPONSES}

SHUT = check_each(("method", "path"), sorted({*CLIENT, *ADMIN}), ids=lambda value: value.replace("/", "_"))

#: Ways to show a key.
SHOWN: dict[str, Callable[[str], tuple[str, dict[str, str]]]] = {
    "bearer": lambda key: ("", {"Authorization": f"Bearer {key}"}),
    "lower": lambda key: ("", {"authorization": f"bearer   {key} "}),
    "x-api-key": lambda key: ("", {"x-api-key": key}),
    "api-key": lambda key: ("", {"api-key": key}),
    "x-goog-api-key": lambda key: ("", {"x-goog-api-key": key}),
    "x-toolspeak-key": lambda key: ("", {"x-toolspeak-key": key}),
    "query": lambda key: (f"?alt=sse&key={key}", {}),
    "twice": lambda key: ("", {"Authorization": f"Bearer {key}", "x-api-key": key}),
    "beside a vendor's": lambda key: ("", {"Authorization": "Bearer sk-vendor", "x-api-key": key}),
}


def asked(team: Team, method: str, path: str, headers: dict[str, str] | Sequence[tuple[str, str]] = ()) -> Answer:
    route = find_route(method, path.partition("?")[0])
    body = BODIES.get(route.client_protocol, HELLO) if route is not None and method == "POST" else b""
    return run(ask(team.app, method, path, headers, body))


def test_every_route_is_known_and_says_what_it_demands():
    demanded = {place: route.level for place, route in all_routes().items()}
    expected = {**dict.fromkeys(CLIENT, "client"), **dict.fromkeys(OPEN, "open"), **dict.fromkeys(ADMIN, "admin")}
    assert demanded == expected


# ---- the matrix


@pytest.mark.requirement("R-T9")
@SHUT
def test_no_route_answers_without_a_key_that_holds(method: str, path: str):
    team = Team()
    revoked = team.key("gone")
    team.keys.revoke("gone")
    good = team.key("anna")
    for key in ("", "sk-vendor", "tsk-wrong", "tsk-", revoked, good[:-1], good.upper(), good + "x", f"{good},{good}"):
        for name, show in SHOWN.items():
            query, headers = show(key)
            answer = asked(team, method, path + query, headers)
            assert answer.status == 401, (key, name)
            assert answer.header("www-authenticate") == "Bearer"
    others = [
        {"Authorization": f"Basic {good}"},
        {"Cookie": f"toolspeak_session={good}"},
        {"x-key": good},
        {"key": good},
    ]
    for headers in others:
        assert asked(team, method, path, headers).status == 401, headers
    for query in (f"?api_key={good}", f"?KEY={good}", f"?key={good}x", f"#key={good}"):
        assert asked(team, method, path + query).status == 401, query


@pytest.mark.requirement("R-T9")
@SHUT
def test_no_path_trick_gets_round_a_key(method: str, path: str):
    team = Team()
    tricks = [
        f"/{path}",
        f"{path}/",
        f"{path}//",
        f"/.{path}",
        f"/%2e{path}",
        f"/health/..{path}",
        f"/health/%2e%2e{path}",
        f"/health%2f..{path}",
        f"{path}%2f",
        f"{path};/health",
        f"{path}%00",
        f"{path}%0d%0a",
        f"{path}%23/health",
        f"{path}%3f/health",
        path.upper(),
        path.replace("/", "\\"),
        path.replace("/", "%5c"),
        f"http://localhost/health{path}",
        f"{path}/health",
        f"/health/{path}",
    ]
    for trick in tricks:
        assert asked(team, method, trick).status == 401, trick


@pytest.mark.requirement("R-T9")
@SHUT
def test_no_host_or_origin_gets_round_a_key(method: str, path: str):
    team = Team()
    for host in ("localhost", "127.0.0.1", "[::1]", "localhost#", "x/health?", "health", "a@localhost", ""):
        headers = [("x-forwarded-host", "localhost"), ("x-forwarded-for", "127.0.0.1"), ("forwarded", "for=127.0.0.1")]
        headers += [("x-original-url", "/health"), ("x-rewrite-url", "/health"), ("x-http-method-override", "GET")]
        answer = run(ask(team.app, method, path, headers, host=host))
        assert answer.status in (401, 403), host


@pytest.mark.requirement("R-T9")
def test_no_other_method_gets_round_a_key():
    team = Team()
    for path in sorted({path for _, path in all_routes()}):
        for method in ("PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "POST ", "DELETE"):
            assert asked(team, method, path).status in (401, 403), (method, path)


@pytest.mark.requirement("R-T9")
def test_what_is_not_served_is_not_told_without_a_key_either():
    team = Team()
    words = [word for table in (unserved._OLLAMA, unserved._OPENAI, unserved._ANTHROPIC) for word in table]  # pyright: ignore[reportPrivateUsage]
    paths = [
        head + word for word in (*words, "nowhere", "") for head in ("/", "/v1/", "/api/", "/v1beta/", "/toolspeak/")
    ]
    for path in paths:
        for method in ("GET", "POST", "DELETE"):
            route = find_route(method, path)
            if route is None or route.level != "open":
                assert asked(team, method, path).status == 401, (method, path)


@pytest.mark.requirement("R-T9", "G6")
@check_each("way", SHOWN)
def test_a_key_is_taken_wherever_clients_show_it(way: str):
    team = Team()
    query, headers = SHOWN[way](team.key("anna"))
    for method, path in sorted(CLIENT):
        # Some pages are not there (yet), and no request has the id NAME.
        assert asked(team, method, path + query, headers).status in (200, 404), (method, path)
    assert asked(team, "POST", "/v1/chat/completions" + query, headers).status == 200
    assert asked(team, "GET", "/v1/models" + query, headers).status == 200


def test_whoever_watches_over_the_server_needs_no_key():
    team = Team()
    for path in ("/health", "/ready"):
        assert asked(team, "GET", path, bearer("tsk-wrong")).status == 200


@pytest.mark.requirement("R-T7")
def test_on_this_machine_clients_need_no_key_but_a_wrong_one_is_refused():
    team = Team(required=False)
    for headers in ({}, bearer("sk-vendor"), {"x-api-key": "dummy"}, bearer("")):
        assert asked(team, "POST", "/v1/chat/completions", headers).status == 200
    for headers in (bearer("tsk-wrong"), {"x-toolspeak-key": "dummy"}):
        assert asked(team, "POST", "/v1/chat/completions", headers).status == 401


@pytest.mark.requirement("R-T7")
@check_each(("method", "path"), sorted(ADMIN))
def test_what_others_asked_needs_more_than_being_on_this_machine(method: str, path: str):
    team = Team(required=False)
    assert asked(team, method, path).status == 401
    assert asked(team, method, path, bearer(team.key("anna"))).status == 403
    # Nothing is probed here, no request has the id NAME, and there is no store.
    known = {
        ("POST", "/toolspeak/connection"): 400,
        ("POST", "/toolspeak/connection/use"): 400,
        ("POST", "/toolspeak/default"): 400,
        ("POST", "/toolspeak/judgement"): 400,
        ("POST", "/toolspeak/probe"): 400,
        ("POST", "/toolspeak/suite"): 400,
        ("POST", "/toolspeak/requests/NAME/replay"): 404,
        ("GET", "/toolspeak/sessions/NAME"): 400,
        ("GET", "/toolspeak/statistics"): 400,
        ("HEAD", "/toolspeak/sessions/NAME"): 400,
        ("POST", "/toolspeak/sessions/NAME"): 400,
        ("DELETE", "/toolspeak/sessions/NAME"): 400,
        ("POST", "/toolspeak/sessions"): 400,
    }
    assert asked(team, method, path, bearer(team.key("root", admin=True))).status == known.get((method, path), 200)


@pytest.mark.requirement("R-T7")
def test_the_printed_code_becomes_a_cookie_once():
    team = Team()
    code = team.access.sessions.new_code()
    begun = run(ask(team.app, "POST", "/toolspeak/session", {}, {"code": code}))
    cookie, *flags = begun.header("set-cookie").split("; ")
    assert begun.status == 200
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(flags)
    assert run(ask(team.app, "GET", "/toolspeak/requests", {"Cookie": cookie})).status == 200
    assert run(ask(team.app, "GET", "/v1/models", {"Cookie": cookie})).status == 200
    made = run(ask(team.app, "POST", "/v1/chat/completions", {"Cookie": cookie}, HELLO))
    place = "/toolspeak/requests/" + made.json["id"].removeprefix("chatcmpl-")
    assert run(ask(team.app, "GET", place, {"Cookie": cookie})).status == 200
    assert run(ask(team.app, "GET", place, bearer(team.key("anna")))).status == 404
    assert run(ask(team.app, "POST", "/toolspeak/session", {}, {"code": code})).status == 401
    assert run(ask(team.app, "DELETE", "/toolspeak/session", {"Cookie": cookie})).status == 200
    assert run(ask(team.app, "GET", "/toolspeak/requests", {"Cookie": cookie})).status == 401


@check_each("body", [b"", b"{}", b"[]", b'{"code":1}', b'{"code":"x"}', b"\xff", b'{"code":"' + b"x" * 2000])
def test_nothing_else_becomes_a_cookie(body: bytes):
    team = Team()
    team.access.sessions.new_code()
    answer = run(ask(team.app, "POST", "/toolspeak/session", {}, body))
    assert answer.status in (400, 401, 413)
    assert answer.header("set-cookie") == ""


def test_a_key_that_cannot_be_looked_up_is_no_key():
    class Broken(MemoryState):
        def get(self, key: str) -> Any:
            raise ConfigError("cannot read the state file `/secret/place`")

    team = Team()
    team.access._keys = ApiKeys(Broken())  # pyright: ignore[reportPrivateUsage]
    answer = asked(team, "GET", "/v1/models", bearer(team.key("anna")))
    assert answer.status == 503
    assert "/secret/place" not in answer.message


@pytest.mark.requirement("R-T9")
def test_holders_of_keys_in_a_file_that_broke_are_told_to_come_back(tmp_path: Path):
    path = tmp_path / "state.json"
    team = Team()
    team.access._keys = ApiKeys(FileState(path))  # pyright: ignore[reportPrivateUsage]
    key = team.access._keys.new("anna")[1]  # pyright: ignore[reportPrivateUsage]
    assert asked(team, "GET", "/v1/models", bearer(key)).status == 200
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2])
    for _ in range(2):
        answer = asked(team, "GET", "/v1/models", bearer(key))
        assert (answer.status, str(tmp_path) in answer.message) == (503, False)
    assert asked(team, "GET", "/v1/models").status == 401
    path.write_bytes(good)
    assert asked(team, "GET", "/v1/models", bearer(key)).status == 200


@pytest.mark.requirement("R-T19")
@check_each("scheme", ["Basic", "Token", "Bearer Bearer", "Other a=b,"])
def test_a_toolspeak_key_behind_another_scheme_is_a_wrong_one_and_goes_no_further(scheme: str):
    team = Team(required=False)
    assert asked(team, "GET", "/v1/models", {"Authorization": f"{scheme} {team.key('anna')}"}).status == 401
    assert asked(team, "GET", "/v1/models", {"Authorization": f"{scheme} sk-vendor"}).status == 200


def test_two_keys_at_once_are_none():
    team = Team()
    headers = {"Authorization": f"Bearer {team.key('anna')}", "x-api-key": team.key("bert")}
    assert asked(team, "GET", "/v1/models", headers).status == 401


def test_a_flood_of_keys_or_parameters_is_refused():
    team = Team(required=False)
    assert asked(team, "GET", "/v1/models", [("x-api-key", f"k{n}") for n in range(9)]).status == 401
    assert asked(team, "GET", "/v1/models?" + "&".join(f"a{n}=1" for n in range(100))).status == 400


def test_credentials_are_found_wherever_they_stand_and_never_show():
    scope = {
        "headers": [
            (b"authorization", b"Bearer one"),
            (b"x-api-key", b" two "),
            (b"x-goog-api-key", b""),
            (b"a", b"b"),
        ],
        "query_string": b"key=th%20ree&alt=sse&key=",
    }
    found = list(credentials(scope))
    assert [(each.header, each.secret.reveal()) for each in found] == [
        ("authorization", "one"),
        ("x-api-key", "two"),
        ("key", "th ree"),
    ]
    assert "one" not in repr(found)


def test_somebody_with_a_toolspeak_key_is_known_by_it_alone():
    keys = ApiKeys(MemoryState())
    key, text = keys.new("anna")
    headers = [(b"x-api-key", text.encode()), (b"authorization", b"Bearer sk-own")]
    caller = Access(keys, required=True).check({"headers": headers}, "client")
    assert (caller.key, caller.tenant, caller.tenants()) == (key, key.id, (key.id,))
    assert [each.secret.reveal() for each in caller.own_keys] == ["sk-own"]


def test_somebody_without_one_is_known_by_its_own_keys():
    one, two = (
        Caller(own_keys=(Credential("key", Secret("a")),)),
        Caller(own_keys=(Credential("x-api-key", Secret("b")),)),
    )
    assert one.tenant == two.tenant == ""
    assert set(one.tenants()) & set(two.tenants()) == {""}


# ---- one caller and another


@pytest.mark.requirement("R-T8")
def test_nobody_sees_what_another_asked():
    team = Team()
    anna, bert, root = team.key("anna"), team.key("bert"), team.key("root", admin=True)
    answer = asked(team, "POST", "/v1/chat/completions", bearer(anna))
    place = "/toolspeak/requests/" + answer.json["id"].removeprefix("chatcmpl-")
    assert asked(team, "GET", place, bearer(anna)).status == 200
    assert asked(team, "GET", place, bearer(bert)).status == 404
    assert asked(team, "GET", place).status == 401
    assert asked(team, "GET", place, bearer(root)).status == 200
    listed = asked(team, "GET", "/toolspeak/requests", bearer(root)).json["requests"]
    assert [entry["model"] for entry in listed] == ["m"]
    assert asked(team, "GET", "/toolspeak/requests/NAME", bearer(root)).status == 404


@pytest.mark.requirement("R-T8")
def test_ids_of_requests_cannot_be_guessed():
    team = Team(required=False)
    ids = {asked(team, "POST", "/v1/chat/completions").json["id"] for _ in range(5)}
    assert len(ids) == 5
    assert all(len(bytes.fromhex(each.removeprefix("chatcmpl-"))) == 16 for each in ids)


TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
CALL = '```json action\n{"tool": "look", "parameters": {}}\n```'


def says(team: Team, key: str, body: dict[str, Any]) -> Any:
    return run(ask(team.app, "POST", "/v1/chat/completions", bearer(key), body)).json


@pytest.mark.requirement("R-T8")
def test_nobody_shares_a_nonce_with_another():
    parrot = Parrot()
    team = Team(line("one", parrot))
    anna, bert = team.key("anna"), team.key("bert")
    for key in (anna, bert, anna):
        says(team, key, {**HELLO, "tools": TOOLS})
    first, other, again = (str(request.messages) for request in parrot.asked)
    assert first == again
    assert first != other


@pytest.mark.requirement("R-T8")
def test_nobody_recalls_the_tools_of_another():
    parrot = Parrot(CALL)
    team = Team(line("one", parrot, settings=lambda model: Settings(marks="fixed")))
    keys = {name: team.key(name) for name in ("anna", "bert")}
    (call,) = says(team, keys["anna"], {**HELLO, "tools": TOOLS})["choices"][0]["message"]["tool_calls"]
    parrot.text = "A bird."
    history = [
        *HELLO["messages"],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "a bird"},
    ]
    noted: dict[str, list[str]] = {}
    for name, key in keys.items():
        identifier = says(team, key, {"model": "m", "messages": history})["id"].removeprefix("chatcmpl-")
        record = asked(team, "GET", f"/toolspeak/requests/{identifier}", bearer(key)).body.decode()
        noted[name] = [code for code in ("tools_recalled", "tools_guessed") if code in record]
    assert noted == {"anna": ["tools_recalled"], "bert": ["tools_guessed"]}


# ---- the canary


@pytest.mark.requirement("R-T2", "R-T9")
def test_no_key_is_in_a_log_a_record_or_an_error(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    team = Team()
    good = team.key("anna", rate=1000)
    seen: list[bytes] = []
    for key in (good, "tsk-canary-canary-canary", "sk-canary-canary"):
        for show in SHOWN.values():
            query, headers = show(key)
            for method, path in sorted(all_routes()):
                answer = asked(team, method, path + query, headers)
                seen += [answer.body, repr(answer.headers).encode()]
    everything = b"".join(seen) + caplog.text.encode()
    for secret in (good, good[4:], "canary"):
        assert secret.encode() not in everything

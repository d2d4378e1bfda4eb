"""The JSON API of the web page: recorded requests, models, metrics, sessions, evaluation results, connections.

The method `page_NAME` handles the page NAME of `routes.toml`; none executes a tool. With several workers, results cover
all of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, get_args
from urllib.parse import parse_qsl

import msgspec

from ...client_settings.table import ANY_KEY, ServerAddress, clients
from ...config import Secret
from ...core.parsing.acceptance import Policy
from ...core.types import JSONObject, JSONValue, is_object
from ...dialects.registry import dialects
from ...engine.planning.strategy import Emulation, Mode
from ...errors import UsageError
from ...evaluation.builtin import Builtin, judge_json
from ...runtime.turn import EngineTurn
from ..access.auth import Caller
from ..access.limits import read_object
from ..asgi import Receive, Scope, header, read_body
from ..observe.counters import Groups, Statistics, StatisticsQuery, add_groups, read_query
from ..proxy.request_settings import merge_settings
from ..proxy.upstream_router import Gateway
from ..recording.recorder import Recorder
from ..recording.replay import replay_import
from ..routes import Route
from .connect import ConnectApi, find_local
from .models import ModelsApi, latest
from .requests import AskWorkers, RequestsApi, no_other_workers
from .sessions import SessionsApi, owner_of

_MAX_BODY_BYTES = 64 * 1024  # size limit for request bodies from the page, except for saved chats
#: Size limits for saved chats, which may contain long tool results, and for imports.
_MAX_CHAT_BYTES, _MAX_IMPORT_BYTES = 16 * 1024 * 1024, 2 * 1024 * 1024
#: Shown if the server runs tools only for other callers.
_NO_PAGE_ACCESS = (
    "This server runs tools only for certain keys. To allow this page, set `page = true` in `[server_tools.NAME]`."
)
#: Default output folder of `toolspeak eval`, and limits on the number and size of results to show.
_RESULTS_FOLDER, _MAX_RESULTS, _MAX_RESULTS_BYTES = "toolspeak-eval", 20, 4 * 1024 * 1024

_Handler: TypeAlias = Callable[[Route, Caller, Scope, Receive], Awaitable[JSONValue]]


class PageApi:
    """Handles the API requests of the page. `secrets` returns what to redact, `keep_secret` adds to it."""

    def __init__(
        self,
        gateway: Callable[[], Gateway],
        recorder: Recorder | None,
        statistics: Statistics,
        secrets: Callable[[], Iterable[Secret]] = tuple,
        store: str = "",
        others: AskWorkers = no_other_workers,
        keep_secret: Callable[[Secret], None] = lambda secret: None,
        key_names: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._others = others
        self._has_workers = others is not no_other_workers
        self._connect_api = ConnectApi(gateway, keep_secret)
        self._gateway = gateway
        self._recording = recorder is not None
        self._requests = RequestsApi(gateway, recorder, secrets, others)
        self._statistics, self._key_names = statistics, key_names
        self._models = ModelsApi(gateway)
        self._has_store, self._sessions = bool(store), SessionsApi(store)

    def find(self, page: str) -> _Handler | None:
        """Return the handler of a page, or None. A handler returns None if its object does not exist."""
        return getattr(self, f"page_{page}", None)

    async def answer_worker(self, what: str, about: JSONObject) -> JSONValue:
        """Answer a query from another worker; return None if there is no result."""
        match what:
            case "statistics":
                query = msgspec.convert(about, StatisticsQuery)
                return msgspec.to_builtins(await asyncio.to_thread(self._statistics.summarize, query), str_keys=True)
            case "probe":
                return self._models.progress()
            case _:
                return await self._requests.answer_worker(what, about)

    async def close(self) -> None:
        await self._models.close()
        await self._connect_api.close()
        self._sessions.close()

    async def page_about(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        from ... import __version__

        gateway = self._gateway()
        await gateway.refresh()
        kinds = {"modes": get_args(Mode), "plans": get_args(Emulation), "policies": get_args(Policy)}
        names = {"models": gateway.models(caller), **kinds, "dialects": dialects()}
        lists = {name: list(values) for name, values in names.items()}
        about = {"recording": self._recording, "keeping": self._has_store, "workers": self._has_workers}
        return {"version": __version__, **about, **lists}

    async def page_record(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return await self._requests.detail(str(route.fields["id"]), caller)

    async def page_records(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return await self._requests.list_requests(_query(scope))

    async def page_replay(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        changes = read_object(await read_body(scope, receive, _MAX_BODY_BYTES))
        return await self._requests.replay(str(route.fields["id"]), caller, changes)

    async def page_profiles(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        profiles = await self._models.profiles(caller)
        others, _ = await self._others("probe", {})
        return profiles | {"probe": latest([profiles["probe"], *others])}

    async def page_probe(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        model = read_object(await read_body(scope, receive, _MAX_BODY_BYTES)).get("model")
        if not isinstance(model, str) or not model:
            raise UsageError("`model` must be a model name")
        return self._models.probe(model, caller)

    async def page_statistics(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        query, statistics = read_query(_query(scope)), self._statistics
        others, late = list[JSONValue](), 0
        if statistics.stored is None:  # otherwise, the store has the numbers of all workers
            others, late = await self._others("statistics", msgspec.to_builtins(query))
        summary = await asyncio.to_thread(statistics.summarize, query)
        for each in others:
            add_groups(summary, msgspec.convert(each, Groups, str_keys=True))
        about = {"key_names": await asyncio.to_thread(self._key_names), "stored": statistics.stored is not None}
        about |= {"since": query.since, "until": query.until, "width": query.width, "late": late}
        return about | {"groups": msgspec.to_builtins(summary, str_keys=True)}

    async def page_connection(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        own_port = (scope.get("server") or ("", 0))[1]
        servers = await find_local(self._gateway().capabilities, own_port) if "find" in _query(scope) else []
        local = [{"provider": each.provider, "url": each.base_url, "models": [*each.models[:3]]} for each in servers]
        return self._connect_api.state | {"local": local}

    async def page_connection_check(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        if self._has_workers:
            hint = "add the upstream to the configuration"
            raise UsageError("a server with several workers cannot connect a model while it runs", hint=hint)
        return await self._connect_api.start(read_object(await read_body(scope, receive, _MAX_BODY_BYTES)), scope)

    async def page_connection_use(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return await self._connect_api.use(caller)

    async def page_default(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        body = read_object(await read_body(scope, receive, _MAX_BODY_BYTES))
        model, changes = body.get("model"), body.get("settings")
        if not isinstance(model, str) or not is_object(changes):
            raise UsageError("`model` must be a model name, and `settings` an object")
        config, name = self._gateway().locate(model, caller)
        if not self._has_workers:  # the other workers would keep the configured settings
            settings = merge_settings(config.settings(name), changes)
            self._gateway().change_settings(config.name, name, settings)
        return {"model": f"{config.provider}:{name}", "changed": not self._has_workers}

    async def page_clients(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        url = f"{scope.get('scheme', 'http')}://{header(scope, b'host')}"
        key = ANY_KEY if caller.keyless_server else "YOUR_TOOLSPEAK_KEY"
        server = ServerAddress(url, _query(scope).get("model") or "MODEL", key).checked()
        return {name: msgspec.to_builtins(server.settings_for(row)) for name, row in clients().items()}

    async def page_import(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        body = read_object(await read_body(scope, receive, _MAX_IMPORT_BYTES))
        # In a thread, because parsing may take long enough to delay other streams.
        return await asyncio.to_thread(asyncio.run, replay_import(body))

    async def page_prepare(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        """Let the embedded model read the tools of a chat before the first question."""
        from ...protocols.openai_chat import decode_request

        request, gateway = decode_request(await read_body(scope, receive, _MAX_CHAT_BYTES)), self._gateway()
        with gateway.lease():
            planned = await gateway.make_turn(gateway.target(request, caller), request, caller)
            if isinstance(planned.turn, EngineTurn):
                await planned.turn.read_ahead()
        return {}

    async def page_chats(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return await asyncio.to_thread(self._sessions.list_sessions, owner_of(caller), _query(scope).get("text", ""))

    async def page_chat(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return await asyncio.to_thread(self._sessions.read, owner_of(caller), str(route.fields["id"]))

    async def page_chat_kept(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        body = await read_body(scope, receive, _MAX_CHAT_BYTES)
        return await self._sessions.save(owner_of(caller), read_object(body))

    async def page_chat_renamed(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        title = read_object(await read_body(scope, receive, _MAX_BODY_BYTES)).get("title")
        return await asyncio.to_thread(self._sessions.rename, owner_of(caller), str(route.fields["id"]), title)

    async def page_chat_removed(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return await asyncio.to_thread(self._sessions.remove, owner_of(caller), str(route.fields["id"]))

    async def page_server_tools(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        gateway = self._gateway()
        loop = gateway.server_tools(caller)
        if loop is None:
            return {"tools": [], "why": _NO_PAGE_ACCESS if gateway.runs_server_tools else ""}
        with gateway.lease():
            await loop.prepare()
        fields = ("name", "description", "parameters", "side_effects")
        return {"tools": [{name: getattr(each, name) for name in fields} for each in loop.offered()], "why": ""}

    async def page_suite(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        """Return the built-in suite, or check the one that was sent."""
        suite = Builtin(text=await read_body(scope, receive, _MAX_IMPORT_BYTES))
        return msgspec.to_builtins(suite.file)

    page_suite_check = page_suite

    async def page_judgement(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        # In a thread, because calls and expected calls are matched in every order.
        return await asyncio.to_thread(judge_json, read_object(await read_body(scope, receive, _MAX_IMPORT_BYTES)))

    async def page_evaluations(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return {"evaluations": await asyncio.to_thread(_read_results)}


def _query(scope: Scope) -> dict[str, str]:
    return dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))


def _read_results() -> list[JSONValue]:
    """Read the evaluation results in the working directory, newest first."""
    results: list[JSONValue] = []
    try:
        files = Path(_RESULTS_FOLDER).glob("**/results.json")
        paths = [path for path in files if path.stat().st_size <= _MAX_RESULTS_BYTES]
        paths.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in paths[:_MAX_RESULTS]:
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                results.append(msgspec.json.decode(path.read_bytes(), type=JSONObject))
    except OSError:
        return []
    return results

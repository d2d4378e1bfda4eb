"""The JSON API of the web page: recorded requests, models, metrics, sessions, evaluation results, connections.

Each page of `routes` has one handler, and none executes a tool. With several workers, results cover all of them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, get_args
from urllib.parse import parse_qsl

import msgspec

from ...client_settings.table import ANY_KEY, ServerAddress, clients
from ...config import Secret
from ...core.parsing.acceptance import Policy
from ...core.types import JSONObject, JSONValue
from ...dialects.registry import DIALECTS
from ...engine.planning.strategy import Emulation, Mode
from ...errors import UsageError
from ..access.auth import Caller
from ..access.limits import read_object
from ..asgi import Receive, Scope, header, read_body
from ..observe.counters import MinuteRow, MinuteSeries, merge_rows
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
        series: MinuteSeries,
        secrets: Callable[[], Iterable[Secret]] = tuple,
        store: str = "",
        others: AskWorkers = no_other_workers,
        keep_secret: Callable[[Secret], None] = lambda secret: None,
    ) -> None:
        self._others = others
        self._connect_api = ConnectApi(gateway, keep_secret)
        self._gateway = gateway
        self._recording = recorder is not None
        self._requests = RequestsApi(gateway, recorder, secrets, others)
        self._minutes = series
        self._models = ModelsApi(gateway)
        self._has_store, self._sessions = bool(store), SessionsApi(store)
        self._pages: dict[str, _Handler] = {
            "about": self._about,
            "evaluations": self._evaluations,
            "probe": self._probe,
            "profiles": self._profiles,
            "record": lambda route, caller, scope, receive: self._requests.detail(str(route.fields["id"]), caller),
            "records": lambda route, caller, scope, receive: self._requests.list_requests(_query(scope)),
            "replay": self._replay,
            "series": self._series,
            "clients": self._clients,
            "connection": self._connection,
            "connection_check": self._check_connection,
            "connection_use": lambda route, caller, scope, receive: self._connect_api.use(caller),
            "import": self._import,
            "chats": self._chats,
            "chat": self._chat,
            "chat_kept": self._save_chat,
            "chat_renamed": self._rename_chat,
            "chat_removed": self._remove_chat,
            "server_tools": self._server_tools,
        }

    def find(self, page: str) -> _Handler | None:
        """Return the handler of a page, or None. A handler returns None if its object does not exist."""
        return self._pages.get(page)

    async def answer_worker(self, what: str, about: JSONObject) -> JSONValue:
        """Answer a query from another worker; return None if there is no result."""
        match what:
            case "series":
                return msgspec.to_builtins(self._minutes.rows(time.time()))
            case "probe":
                return self._models.progress()
            case _:
                return await self._requests.answer_worker(what, about)

    async def close(self) -> None:
        await self._models.close()
        await self._connect_api.close()
        self._sessions.close()

    async def _about(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        from ... import __version__

        gateway = self._gateway()
        await gateway.refresh()
        kinds = {"modes": get_args(Mode), "plans": get_args(Emulation), "policies": get_args(Policy)}
        names = {"models": gateway.models(caller), **kinds, "dialects": DIALECTS}
        lists = {name: list(values) for name, values in names.items()}
        return {"version": __version__, "recording": self._recording, "keeping": self._has_store, **lists}

    async def _replay(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        changes = read_object(await read_body(scope, receive, _MAX_BODY_BYTES))
        return await self._requests.replay(str(route.fields["id"]), caller, changes)

    async def _profiles(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        profiles = await self._models.profiles(caller)
        others, _ = await self._others("probe", {})
        return profiles | {"probe": latest([profiles["probe"], *others])}

    async def _probe(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        model = read_object(await read_body(scope, receive, _MAX_BODY_BYTES)).get("model")
        if not isinstance(model, str) or not model:
            raise UsageError("`model` must be a model name")
        return self._models.probe(model, caller)

    async def _series(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        others, late = await self._others("series", {})
        rows = [self._minutes.rows(time.time()), *(msgspec.convert(each, tuple[MinuteRow, ...]) for each in others)]
        return {"rows": msgspec.to_builtins(merge_rows(rows)), "late": late}

    async def _connection(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        own_port = (scope.get("server") or ("", 0))[1]
        servers = await find_local(self._gateway().capabilities, own_port) if "find" in _query(scope) else []
        local = [{"provider": each.provider, "url": each.base_url, "models": [*each.models[:3]]} for each in servers]
        return self._connect_api.state | {"local": local}

    async def _check_connection(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        if self._others is not no_other_workers:
            hint = "add the upstream to the configuration"
            raise UsageError("a server with several workers cannot connect a model while it runs", hint=hint)
        return await self._connect_api.start(read_object(await read_body(scope, receive, _MAX_BODY_BYTES)))

    async def _clients(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        url = f"{scope.get('scheme', 'http')}://{header(scope, b'host')}"
        key = ANY_KEY if caller.keyless_server else "YOUR_TOOLSPEAK_KEY"
        server = ServerAddress(url, _query(scope).get("model") or "MODEL", key).checked()
        return {name: msgspec.to_builtins(server.settings_for(row)) for name, row in clients().items()}

    async def _import(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        body = read_object(await read_body(scope, receive, _MAX_IMPORT_BYTES))
        # In a thread, because parsing may take long enough to delay other streams.
        return await asyncio.to_thread(asyncio.run, replay_import(body))

    async def _chats(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return await asyncio.to_thread(self._sessions.list_sessions, owner_of(caller), _query(scope).get("text", ""))

    async def _chat(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return await asyncio.to_thread(self._sessions.read, owner_of(caller), str(route.fields["id"]))

    async def _save_chat(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        body = await read_body(scope, receive, _MAX_CHAT_BYTES)
        return await self._sessions.save(owner_of(caller), read_object(body))

    async def _rename_chat(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        title = read_object(await read_body(scope, receive, _MAX_BODY_BYTES)).get("title")
        return await asyncio.to_thread(self._sessions.rename, owner_of(caller), str(route.fields["id"]), title)

    async def _remove_chat(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return await asyncio.to_thread(self._sessions.remove, owner_of(caller), str(route.fields["id"]))

    async def _server_tools(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        gateway = self._gateway()
        loop = gateway.server_tools(caller)
        if loop is None:
            return {"tools": [], "why": _NO_PAGE_ACCESS if gateway.runs_server_tools else ""}
        with gateway.lease():
            await loop.prepare()
        fields = ("name", "description", "side_effects")
        return {"tools": [{name: getattr(each, name) for name in fields} for each in loop.offered()], "why": ""}

    async def _evaluations(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
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

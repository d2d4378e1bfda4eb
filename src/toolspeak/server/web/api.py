"""What the page asks its server for, as JSON: requests that were kept, models, numbers, results of evaluations.

One coroutine for each page of `routes`; nothing here executes a tool. With several workers all of them are told of,
whichever is asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeAlias, get_args
from urllib.parse import parse_qsl

import msgspec

from ...config import Secret
from ...core.parsing.acceptance import Policy
from ...core.types import JSONObject, JSONValue, Tool
from ...dialects.registry import DIALECTS
from ...engine.planning.strategy import Emulation, Mode
from ...errors import UsageError
from ..access.auth import Caller
from ..access.limits import read_object
from ..asgi import Receive, Scope, read_body
from ..proxy.upstream_router import Gateway
from ..recording.minute_series import Row, Series, summed
from ..recording.recorder import Recorder
from ..routes import Route
from .models import ModelsDesk, latest
from .requests import Others, RequestsDesk, alone
from .sessions import SessionsDesk, owner_of

#: What the page sends is short.
_LARGEST_BODY = 64 * 1024
#: Questions and their answers with all rounds; results of tools are long at times.
_LARGEST_CHAT = 16 * 1024 * 1024
#: Told where the server runs tools, but not for who asks.
_NOT_FOR_YOU = (
    "This server runs tools for the holders of some keys. Their table in its configuration does not say `page = true`."
)
#: Where `toolspeak eval` keeps its results unless told otherwise, and how many and how large ones are shown.
_RESULTS, _MOST_RESULTS, _LARGEST_RESULTS = "toolspeak-eval", 20, 4 * 1024 * 1024

_Make: TypeAlias = Callable[[Route, Caller, Scope, Receive], Awaitable[JSONValue]]


class PageApi:
    """Answers the page.

    Args:
        recorder: what was kept; None where nothing is.
        series: what was counted.
        secrets: what must not be shown.
        store: where sessions are.
        others: asks the workers beside this one.
    """

    def __init__(
        self,
        gateway: Callable[[], Gateway],
        recorder: Recorder | None,
        series: Series,
        secrets: Callable[[], Iterable[Secret]] = tuple,
        store: str = "",
        others: Others = alone,
    ) -> None:
        self._others = others
        self._gateway = gateway
        self._recording = recorder is not None
        self._requests = RequestsDesk(gateway, recorder, secrets, others)
        self._numbers = series
        self._models = ModelsDesk(gateway)
        self._sessions = SessionsDesk(store)
        self._pages: dict[str, _Make] = {
            "about": self._about,
            "evaluations": self._evaluations,
            "probe": self._probe,
            "profiles": self._profiles,
            "record": self._record,
            "records": self._records,
            "replay": self._replay,
            "series": self._series,
            "chats": self._chats,
            "chat": self._chat,
            "chat_kept": self._chat_kept,
            "server_tools": self._server_tools,
        }

    def find(self, page: str) -> _Make | None:
        """What makes a page; None when it is none of these. What it makes is None where there is nothing."""
        return self._pages.get(page)

    async def answers(self, what: str, about: JSONObject) -> JSONValue:
        """What another worker asks of this one; None where there is nothing."""
        match what:
            case "series":
                return msgspec.to_builtins(self._numbers.rows(time.time()))
            case "probe":
                return self._models.progress()
            case _:
                return await self._requests.answers(what, about)

    async def close(self) -> None:
        """End what is under way."""
        await self._models.close()
        self._sessions.close()

    # ---- the page itself

    async def _about(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        from ... import __version__

        gateway = self._gateway()
        await gateway.refresh()
        return {
            "version": __version__,
            "recording": self._recording,
            "keeping": self._sessions.keeps,
            "models": list(gateway.models(caller)),
            "modes": list(get_args(Mode)),
            "plans": list(get_args(Emulation)),
            "policies": list(get_args(Policy)),
            "dialects": list(DIALECTS),
        }

    # ---- requests

    async def _records(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return await self._requests.listed(_query(scope).get("after", ""))

    async def _record(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return await self._requests.one(str(route.fields["id"]), caller)

    async def _replay(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        wanted = read_object(await read_body(scope, receive, _LARGEST_BODY))
        return await self._requests.replay(str(route.fields["id"]), caller, wanted)

    # ---- models and numbers

    async def _profiles(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        told = await self._models.profiles(caller)
        others, _ = await self._others("probe", {})
        return told | {"probe": latest([told["probe"], *others])}

    async def _probe(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        model = read_object(await read_body(scope, receive, _LARGEST_BODY)).get("model")
        if not isinstance(model, str) or not model:
            raise UsageError("`model` must be the name of a model, as a text")
        return self._models.probe(model, caller)

    async def _series(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        others, late = await self._others("series", {})
        rows = [self._numbers.rows(time.time()), *(msgspec.convert(each, tuple[Row, ...]) for each in others)]
        return {"rows": msgspec.to_builtins(summed(rows)), "late": late}

    async def _chats(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return await asyncio.to_thread(self._sessions.listed, owner_of(caller), _query(scope).get("text", ""))

    async def _chat(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return await asyncio.to_thread(self._sessions.one, owner_of(caller), str(route.fields["id"]))

    async def _chat_kept(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        body = await read_body(scope, receive, _LARGEST_CHAT)
        return await self._sessions.keep(owner_of(caller), read_object(body))

    async def _server_tools(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        """The tools that the server would run for the caller."""
        gateway = self._gateway()
        loop = gateway.loop(caller)
        if loop is None:
            return {"tools": [], "why": _NOT_FOR_YOU if gateway.has_loops else ""}
        with gateway.lease():
            await loop.prepare()
        return {"tools": [_tool(each) for each in loop.offered()], "why": ""}

    async def _evaluations(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return {"evaluations": await asyncio.to_thread(_results)}


def _tool(tool: Tool) -> JSONValue:
    return {"name": tool.name, "description": tool.description, "side_effects": tool.side_effects}


def _query(scope: Scope) -> dict[str, str]:
    return dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))


def _results() -> list[JSONValue]:
    """The results of evaluations that were made in the working directory, the newest first."""
    folder = Path(_RESULTS)
    try:
        found = [path for path in folder.glob("**/results.json") if path.stat().st_size <= _LARGEST_RESULTS]
        found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        told = [_result(path) for path in found[:_MOST_RESULTS]]
    except OSError:
        return []
    return [each for each in told if each is not None]


def _result(path: Path) -> JSONObject | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=JSONObject)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None

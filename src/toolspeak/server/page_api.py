"""What the page asks its server for, as JSON: requests that were kept, models, numbers, results of evaluations.

One coroutine for each page of `routes`; nothing here executes a tool. Above: `pages`. Below: `recorder`, `shown`,
`replay`, `page_models`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TypeAlias, get_args
from urllib.parse import parse_qsl

import msgspec

from ..config import Secret
from ..core.evidence import Policy
from ..core.model import JSONObject, JSONValue, Tool
from ..core.strategy import Emulation, Mode
from ..dialects.table import DIALECTS
from ..errors import UsageError
from .asgi import Receive, Scope, read_body
from .auth import Caller
from .gateway import Gateway
from .limits import read_object
from .page_models import ModelsDesk
from .page_sessions import SessionsDesk, owner_of
from .recording.recorder import Entry, Recorder
from .recording.replay import replayed
from .recording.series import Series
from .recording.shown import line, under_way, whole
from .routes import Route

__all__ = ["PageApi"]

#: Lines that are told at once; whoever looks for the first time gets all that are kept.
_MOST_LINES = 2000
#: Requests under way that are told: more than anybody looks through.
_MOST_RUNNING = 100
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
        several: whether other workers answer here too, each of which keeps requests of its own.
    """

    def __init__(
        self,
        gateway: Callable[[], Gateway],
        recorder: Recorder | None,
        series: Series,
        secrets: Callable[[], Iterable[Secret]] = tuple,
        store: str = "",
        several: Callable[[], bool] = bool,
    ) -> None:
        self.several = several
        self._gateway = gateway
        self._recorder = recorder
        self._secrets = secrets
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

    async def close(self) -> None:
        """End what is under way."""
        await self._models.close()
        self._sessions.close()

    # ---- the page itself

    async def _about(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        from .. import __version__

        gateway = self._gateway()
        await gateway.refresh()
        return {
            "version": __version__,
            "recording": self._recorder is not None,
            "keeping": self._sessions.keeps,
            "several": self.several(),
            "models": list(gateway.models(caller)),
            "modes": list(get_args(Mode)),
            "plans": list(get_args(Emulation)),
            "policies": list(get_args(Policy)),
            "dialects": list(DIALECTS),
        }

    # ---- requests

    async def _records(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        if self._recorder is None:
            return {"requests": [], "running": [], "recording": False}
        entries = list(self._recorder.after(_after(scope)))[:_MOST_LINES]
        hidden = [secret.reveal() for secret in self._secrets()]
        lines: list[JSONValue] = [line(entry, hidden) for entry in entries]
        now, under = time.time(), islice(self._recorder.running(), _MOST_RUNNING)
        running: list[JSONValue] = [under_way(exchange, began, now, hidden) for exchange, began in under]
        return {"requests": lines, "running": running, "recording": True, "worker": os.getpid()}

    async def _record(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        entry = self._entry(route, caller)
        return await self._whole(entry) if entry is not None else None

    async def _replay(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        entry = self._entry(route, caller)
        if entry is None or self._recorder is None:
            return None
        wanted = read_object(await read_body(scope, receive, _LARGEST_BODY))
        again = await replayed(entry, self._gateway(), caller, wanted)
        again = msgspec.structs.replace(again, number=self._recorder.number())
        return await self._whole(self._recorder.add(again))

    def _entry(self, route: Route, caller: Caller) -> Entry | None:
        """The entry that a path names, if it is the caller's to see."""
        entry = self._recorder.find(str(route.fields["id"])) if self._recorder is not None else None
        return entry if entry is not None and (caller.admin or entry.tenant in caller.tenants()) else None

    async def _whole(self, entry: Entry) -> JSONValue:
        """In a thread, since it may take as long as some pieces of streams that others wait for."""
        hidden = [secret.reveal() for secret in self._secrets()]
        return await asyncio.to_thread(whole, entry, hidden)

    # ---- models and numbers

    async def _profiles(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return await self._models.profiles(caller)

    async def _probe(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        model = read_object(await read_body(scope, receive, _LARGEST_BODY)).get("model")
        if not isinstance(model, str) or not model:
            raise UsageError("`model` must name a model")
        return self._models.probe(model, caller)

    async def _series(self, route: Route, caller: Caller, scope: Scope, receive: Receive) -> JSONValue:
        return {"rows": msgspec.to_builtins(self._numbers.rows(time.time()))}

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


def _after(scope: Scope) -> int:
    """The number behind which somebody wants to know. One that another worker gave means nothing here."""
    query = _query(scope)
    number = query.get("after", "0") if query.get("worker", str(os.getpid())) == str(os.getpid()) else "0"
    return int(number) if number.isascii() and number.isdigit() and len(number) < 16 else 0


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

"""API for recorded requests, used by the web page and the CLI: list, show, replay.

Each worker records its own requests; the list merges those of all workers. The detail of a request is rendered by the
worker that recorded it. A replay runs in the worker that received and authenticated the call.
"""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

import msgspec

from ...config import Secret
from ...core.types import JSONObject, JSONValue
from ...engine.turn.trace import Trace
from ...errors import StoreError, ToolspeakError
from ..access.auth import Caller
from ..asgi import header
from ..proxy.exchange import ExchangeResult, RequestRecord
from ..proxy.upstream_router import Gateway
from ..recording.entries import RecordingEntry
from ..recording.listing import NO_HEADLINE, Headline, headline, parse_query, select
from ..recording.recorder import Recorder
from ..recording.replay import replay_request
from ..recording.views import detail, hidden_texts, running_summary, summary

_MAX_LINES = 2000  # maximum number of requests in a list: as many as one recorder keeps
_MAX_RUNNING = 100
#: How much later than its beginning a request may have been stored.
_STORED_LATER_SECONDS = 3600.0
#: The parts of a request's view that its line in a list lacks.
_DETAILS = frozenset(("changed", "client", "protocol", "server_tools", "settings", "trace", "upstream"))
#: The part of a mark for one worker: its process id and an entry number. A mark has at most 256 of them.
_MARK_PART = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})")
_MAX_MARK_CHARS = 256 * 24

#: Queries the other workers; returns their results and the number of workers that did not respond in time.
AskWorkers: TypeAlias = Callable[[str, JSONObject], Awaitable[tuple[list[JSONValue], int]]]


async def no_other_workers(what: str, about: JSONObject) -> tuple[list[JSONValue], int]:
    """Return no results, for a server with a single process."""
    return [], 0


class _WorkerRequests(msgspec.Struct, frozen=True):
    """The running requests of one worker, and the finished ones since a given request number, newest first."""

    worker: int
    newest: int
    requests: list[JSONObject]
    running: list[JSONObject]


@dataclass(frozen=True)
class RequestsApi:
    """Access to the recorded requests of all workers. Without a recorder, recording is off."""

    gateway: Callable[[], Gateway]
    recorder: Recorder | None
    secrets: Callable[[], Iterable[Secret]] = tuple
    others: AskWorkers = no_other_workers
    #: The headlines of recorded requests by id, because decoding a request takes longer than all else.
    headlines: dict[str, Headline] = field(default_factory=dict[str, Headline])

    async def list_requests(self, params: Mapping[str, str]) -> JSONObject:
        """List the requests after the mark `after` that match `query`, newest first, and the next mark.

        Workers that do not respond in time are counted as `late`; the next call returns their requests.
        """
        if self.recorder is None:
            return {"requests": [], "running": [], "recording": False, "late": 0, "next": ""}
        mark, query = params.get("after", ""), params.get("query", "")
        # The last seen entry number of each worker. Invalid parts are ignored.
        parts = map(_MARK_PART.fullmatch, mark[:_MAX_MARK_CHARS].split(","))
        before = {int(part[1]): int(part[2]) for part in parts if part is not None}
        about: JSONObject = {"after": {str(worker): number for worker, number in before.items()}, "query": query}
        others, late = await self.others("lines", about)
        own = await self._own_requests(before, query)
        workers = [own, *(msgspec.convert(each, _WorkerRequests) for each in others)]
        lines = [each for one in workers for each in one.requests]
        running = [each for one in workers for each in one.running]
        if not mark:
            lines += await self._stored_requests(query, {each["id"] for each in lines})
        if len(workers) > 1:
            lines.sort(key=lambda each: each["time"] + each["timing"]["whole"], reverse=True)
            running.sort(key=lambda each: each["time"], reverse=True)
        reached = (before if late else {}) | {one.worker: one.newest for one in workers}
        mark = ",".join(f"{worker}.{number}" for worker, number in reached.items())
        listed: JSONObject = {"requests": list(lines[:_MAX_LINES]), "running": list(running[:_MAX_RUNNING])}
        listed["unread"] = [term.unread for term in parse_query(query) if term.unread]
        return {**listed, "recording": True, "late": late, "next": mark}

    async def detail(self, identifier: str, caller: Caller) -> JSONValue:
        """Return the detail of a request; None if it is unknown or the caller may not see it."""
        if self.recorder is None:
            return None
        about = _query(identifier, caller)
        view = await self._own_detail(about) or await self._ask_others("whole", about)
        archive = self.recorder.archive
        if view is not None or archive is None:
            return view
        with suppress(ToolspeakError):  # several begin like this, or the store is not available
            stored = await asyncio.to_thread(archive.find, identifier)
            if stored and stored["id"] == identifier and (caller.admin or stored["tenant"] in caller.tenants()):
                return stored
        return None

    async def _stored_requests(self, query: str, listed: Container[str]) -> list[JSONObject]:
        """Return the other requests in the store that match a query, if it has `since`."""
        terms, archive = parse_query(query), self.recorder.archive if self.recorder is not None else None
        moments = {term.field: term.moment for term in terms if term.moment and not term.negated}
        if archive is None or "since" not in moments:
            return []
        until = moments.get("until", time.time()) + _STORED_LATER_SECONDS

        def selected() -> list[JSONObject]:
            views = islice(archive.between(moments["since"], until), _MAX_LINES)
            lines = ({name: part for name, part in view.items() if name not in _DETAILS} for view in views)
            return select((line for line in lines if line["id"] not in listed), terms)

        with suppress(StoreError):  # the requests in memory are listed all the same
            return await asyncio.to_thread(selected)
        return []

    async def replay(self, identifier: str, caller: Caller, changes: Mapping[str, JSONValue]) -> JSONValue:
        """Replay a request and record the replay; None if it is unknown or the caller may not see it."""
        if self.recorder is None:
            return None
        about = _query(identifier, caller)
        entry = self._entry(about)
        if entry is None:
            data = await self._ask_others("kept", about)
            if data is None:
                return None
            entry = msgspec.convert(data, RecordingEntry, dec_hook=lambda kind, text: Secret(text))
        replayed = await replay_request(entry, self.gateway(), caller, changes)
        replayed = msgspec.structs.replace(replayed, number=self.recorder.number())
        return await self._detail(self.recorder.add(replayed))

    async def _ask_others(self, what: str, about: JSONObject) -> JSONValue:
        answers, _ = await self.others(what, about)
        return next(iter(answers), None)

    async def answer_worker(self, what: str, about: JSONObject) -> JSONValue:
        if self.recorder is None:
            return None
        match what:
            case "lines":
                after: dict[str, int] = about["after"]
                numbers = {int(worker): number for worker, number in after.items()}
                return msgspec.to_builtins(await self._own_requests(numbers, about["query"]))
            case "whole":
                return await self._own_detail(about)
            case _:
                entry = self._entry(about)
                return _replay_data(entry) if entry is not None else None

    async def _own_requests(self, after: Mapping[int, int], query: str) -> _WorkerRequests:
        assert self.recorder is not None
        me, now = os.getpid(), time.time()
        last_number = after.get(me, 0)
        hidden, terms = self._secret_values(), parse_query(query)
        entries = list(islice(self.recorder.after(last_number), _MAX_LINES))
        running = list(islice(self.recorder.running(), _MAX_RUNNING))
        newest = entries[0].number if entries else last_number

        def selected() -> tuple[list[JSONObject], list[JSONObject]]:
            ended = [summary(each, hidden, self._headline(each, hidden)) for each in entries]
            unfinished = [
                running_summary(each, self._headline(each, hidden), began, now, hidden) for each, began in running
            ]
            return select(ended, terms), select(unfinished, terms)

        # In a thread, because decoding all requests for the first time may take a second.
        ended, unfinished = await asyncio.to_thread(selected)
        return _WorkerRequests(me, newest, ended, unfinished)

    def _headline(self, source: RecordingEntry | ExchangeResult, hidden: Sequence[str]) -> Headline:
        record = source.record if isinstance(source, RecordingEntry) else source
        about = self.headlines.get(record.id)
        if about is None:
            about = headline(record.client_protocol, source.body, source.fields, hidden_texts(source, hidden))
            if len(self.headlines) >= 2 * _MAX_LINES:
                self.headlines.clear()
            if source.body:  # that of a running request may not have arrived yet
                self.headlines[record.id] = about
        return about

    def _entry(self, about: JSONObject) -> RecordingEntry | None:
        """Return the requested entry if the caller may see it."""
        entry = self.recorder.find(about["id"]) if self.recorder is not None else None
        return entry if entry is not None and (about["admin"] or entry.tenant in about["tenants"]) else None

    async def _own_detail(self, about: JSONObject) -> JSONValue:
        entry = self._entry(about)
        return await self._detail(entry) if entry is not None else self._running(about)

    def _running(self, about: JSONObject) -> JSONValue:
        """Return the list view of a running request, by its id or by the `x-request-id` that its client sent."""
        for result, began in islice(self.recorder.running() if self.recorder is not None else (), _MAX_RUNNING):
            own = about["admin"] or result.tenant in about["tenants"]
            if own and about["id"] in (result.id, header(result.scope, b"x-request-id")):
                return running_summary(result, NO_HEADLINE, began, time.time(), self._secret_values())
        return None

    async def _detail(self, entry: RecordingEntry) -> JSONValue:
        # In a thread, because rendering may take long enough to delay other streams.
        return await asyncio.to_thread(detail, entry, self._secret_values())

    def _secret_values(self) -> list[str]:
        return [secret.reveal() for secret in self.secrets()]


def _query(identifier: str, caller: Caller) -> JSONObject:
    return {"id": identifier, "admin": caller.admin, "tenants": list(caller.tenants())}


def _replay_data(entry: RecordingEntry) -> JSONValue:
    """Return what a replay needs of an entry. It contains secrets and must not leave the server's processes."""
    old, secrets, tools = entry.record, entry.secrets, entry.server_tools
    record = RequestRecord(old.id, old.client_protocol, old.model, "", 0, (), "", Trace("", "", ""))
    needed = RecordingEntry(record, entry.tenant, entry.body, entry.fields, secrets=secrets, server_tools=tools)
    return msgspec.to_builtins(needed, enc_hook=Secret.reveal)

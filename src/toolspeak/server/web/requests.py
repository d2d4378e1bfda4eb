"""The requests that were kept, for the page and the terminal: listed, shown, carried out once more.

Where several workers answer at one address, each keeps its own; here those of all are one list, whoever is asked. A
request that another one keeps is shown by that one, since it has everything at hand; a replay is made by the one that
was asked, which knows its caller.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import islice
from typing import TypeAlias

import msgspec

from ...config import Secret
from ...core.types import JSONObject, JSONValue, Tool
from ...engine.turn.trace import Trace
from ..access.auth import Caller
from ..proxy.exchange import Record
from ..proxy.upstream_router import Gateway
from ..recording.entries import Entry
from ..recording.recorder import Recorder
from ..recording.replay import replayed
from ..recording.views import line, under_way, whole

#: Lines that are told at once; whoever looks for the first time gets all that are kept.
_MOST_LINES = 2000
#: Requests under way that are told: more than anybody looks through.
_MOST_RUNNING = 100
#: No number of an entry, and no process, has more digits; no mark is longer: 256 workers.
_MOST_DIGITS, _LONGEST_MARK = 15, 256 * 24

#: Asks the other workers: what they know, and how many are late.
Others: TypeAlias = Callable[[str, JSONObject], Awaitable[tuple[list[JSONValue], int]]]


async def alone(what: str, about: JSONObject) -> tuple[list[JSONValue], int]:
    """There are no others."""
    return [], 0


class _Told(msgspec.Struct, frozen=True):
    """What one worker tells of its requests: those behind a number, the newest first, and those without an answer."""

    worker: int
    newest: int
    requests: list[JSONObject]
    running: list[JSONObject]


class _Kept(msgspec.Struct, frozen=True):
    """What is needed of a request to carry it out once more; it never leaves the processes of one server."""

    id: str
    face: str
    model: str
    tenant: str
    body: bytes
    fields: dict[str, JSONValue]
    served: tuple[Tool, ...]
    secrets: tuple[str, ...]


class RequestsDesk:
    """The requests of a server.

    Args:
        recorder: what this process keeps; None where nothing is kept.
        secrets: what must not be shown.
        others: asks the workers beside this one.
    """

    def __init__(
        self,
        gateway: Callable[[], Gateway],
        recorder: Recorder | None,
        secrets: Callable[[], Iterable[Secret]] = tuple,
        others: Others = alone,
    ) -> None:
        self._gateway = gateway
        self._recorder = recorder
        self._secrets = secrets
        self._others = others

    # ---- of all workers

    async def listed(self, mark: str) -> JSONObject:
        """What was asked after a mark, the newest first, what is under way, and the mark to go on from.

        A worker that does not answer in time is told of, and its requests come with the next look.
        """
        if self._recorder is None:
            return {"requests": [], "running": [], "recording": False, "late": 0, "next": ""}
        before = _read_mark(mark)
        about: JSONObject = {"after": {str(worker): number for worker, number in before.items()}}
        others, late = await self._others("lines", about)
        told = [self._told(before), *(msgspec.convert(each, _Told) for each in others)]
        lines = [each for one in told for each in one.requests]
        running = [each for one in told for each in one.running]
        if len(told) > 1:
            lines.sort(key=lambda each: each["time"] + each["timing"]["whole"], reverse=True)
            running.sort(key=lambda each: each["time"], reverse=True)
        reached = (before if late else {}) | {one.worker: one.newest for one in told}
        return {
            "requests": list(lines[:_MOST_LINES]),
            "running": list(running[:_MOST_RUNNING]),
            "recording": True,
            "late": late,
            "next": ",".join(f"{worker}.{number}" for worker, number in reached.items()),
        }

    async def one(self, identifier: str, caller: Caller) -> JSONValue:
        """Everything about a request, if it is the caller's to see; None when nobody knows it."""
        if self._recorder is None:
            return None
        about: JSONObject = {"id": identifier, "admin": caller.admin, "tenants": list(caller.tenants())}
        return await self._shown(about) or await self._of_others("whole", about)

    async def replay(self, identifier: str, caller: Caller, wanted: Mapping[str, JSONValue]) -> JSONValue:
        """A request once more, kept here beside the first; None when nobody knows that.

        Raises:
            ToolspeakError: it cannot be carried out.
        """
        if self._recorder is None:
            return None
        about: JSONObject = {"id": identifier, "admin": caller.admin, "tenants": list(caller.tenants())}
        entry = self._entry(about) or _entry_from(await self._of_others("kept", about))
        if entry is None:
            return None
        again = await replayed(entry, self._gateway(), caller, wanted)
        again = msgspec.structs.replace(again, number=self._recorder.number())
        return await self._whole(self._recorder.add(again))

    async def _of_others(self, what: str, about: JSONObject) -> JSONValue:
        found, _ = await self._others(what, about)
        return next(iter(found), None)

    # ---- of this one

    async def answers(self, what: str, about: JSONObject) -> JSONValue:
        """What another worker asks."""
        if self._recorder is None:
            return None
        match what:
            case "lines":
                after: dict[str, int] = about["after"]
                return msgspec.to_builtins(self._told({int(worker): number for worker, number in after.items()}))
            case "whole":
                return await self._shown(about)
            case _:
                entry = self._entry(about)
                return msgspec.to_builtins(_kept(entry)) if entry is not None else None

    def _told(self, after: Mapping[int, int]) -> _Told:
        assert self._recorder is not None
        me, now = os.getpid(), time.time()
        behind = after.get(me, 0)
        hidden = self._hidden()
        entries = list(islice(self._recorder.after(behind), _MOST_LINES))
        running = islice(self._recorder.running(), _MOST_RUNNING)
        return _Told(
            me,
            entries[0].number if entries else behind,
            [line(entry, hidden) for entry in entries],
            [under_way(exchange, began, now, hidden) for exchange, began in running],
        )

    def _entry(self, about: JSONObject) -> Entry | None:
        """The entry that is asked for, if it is the caller's to see."""
        entry = self._recorder.find(about["id"]) if self._recorder is not None else None
        return entry if entry is not None and (about["admin"] or entry.tenant in about["tenants"]) else None

    async def _shown(self, about: JSONObject) -> JSONValue:
        entry = self._entry(about)
        return await self._whole(entry) if entry is not None else None

    async def _whole(self, entry: Entry) -> JSONValue:
        """In a thread, since it may take as long as some pieces of streams that others wait for."""
        return await asyncio.to_thread(whole, entry, self._hidden())

    def _hidden(self) -> list[str]:
        return [secret.reveal() for secret in self._secrets()]


def _read_mark(text: str) -> dict[int, int]:
    """How far somebody has looked: the newest number of each worker. What is no mark is the beginning."""
    found: dict[int, int] = {}
    for each in text[:_LONGEST_MARK].split(","):
        worker, _, number = each.partition(".")
        if _is_number(worker) and _is_number(number):
            found[int(worker)] = int(number)
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def _kept(entry: Entry) -> _Kept:
    record = entry.record
    secrets = tuple(secret.reveal() for secret in entry.secrets)
    fields = dict(entry.fields)
    return _Kept(record.id, record.face, record.model, entry.tenant, entry.body, fields, entry.served, secrets)


def _entry_from(told: JSONValue) -> Entry | None:
    """The entry of another worker, as far as a replay needs it."""
    if told is None:
        return None
    kept = msgspec.convert(told, _Kept)
    record = Record(kept.id, kept.face, kept.model, "", 0, (), "", Trace("", "", ""))
    secrets = tuple(Secret(each) for each in kept.secrets)
    return Entry(record, kept.tenant, kept.body, kept.fields, served=kept.served, secrets=secrets)

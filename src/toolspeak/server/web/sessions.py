"""The sessions of the store, for the page: listed, searched, read as questions and answers, and chats kept among them.

What agents and the terminal have written is gone on with, and never shortened: a question of theirs that is asked
again begins another session. Where there is no store, the list is empty and says why.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from ...core.types import JSONObject, Message
from ...engine.rounds.transcript import Answer, Entry
from ...errors import ConfigError, StoreError, UsageError
from ...store import open_store
from ..access.auth import Caller
from .chats import Exchange, asked_and_answered, exchanges

if TYPE_CHECKING:
    from ...store.journal import SqlJournal
    from ...store.sessions import Store

#: Sessions that are listed, and what of a search counts.
_MOST, _LONGEST = 100, 200
#: What a session says of itself that the page has begun.
_PAGE = "page"


def owner_of(caller: Caller) -> str:
    """Whose sessions a caller sees: its key's; who came by the printed link has those of the terminal."""
    key = caller.key or caller.begun_with
    return key.id if key is not None else ""


class _Kept(msgspec.Struct, frozen=True):
    """What the page gives to be kept: questions with answers, behind the first `keep` ones of a session."""

    exchanges: tuple[Exchange, ...]
    session: str = ""
    keep: int = 0
    model: str = ""


class SessionsDesk:
    """The sessions of who runs the server. `listed` and `one` wait for the database: they are for threads.

    Args:
        url: the store; empty: there is none.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._store: Store | None = None
        self._opening = threading.Lock()

    @property
    def keeps(self) -> bool:
        """Whether there is a store."""
        return bool(self._url)

    def listed(self, owner: str, text: str) -> JSONObject:
        """The sessions of an owner in which a text stands, the last one first."""
        try:
            found = self._opened(owner).sessions(text[:_LONGEST], limit=_MOST)
        except (ConfigError, StoreError) as error:
            return {"sessions": [], "why": str(error)}
        return {"sessions": msgspec.to_builtins(found), "why": ""}

    def one(self, owner: str, identifier: str) -> JSONObject:
        """A session of an owner as questions and answers.

        Raises:
            ToolspeakError: there is none, or it cannot be read.
        """
        return {"id": identifier, "exchanges": exchanges(self._opened(owner).entries(identifier))}

    async def keep(self, owner: str, given: JSONObject) -> JSONObject:
        """Keep questions and their answers; gives the session that they stand in now, and how many it holds.

        Where the session holds fewer than they are to stand behind, nothing is written: some are missing.

        Raises:
            ToolspeakError: they cannot be kept.
        """
        try:
            wanted = msgspec.convert(given, _Kept)
        except msgspec.ValidationError as error:
            raise UsageError(f"these are no questions with answers: {error}") from None
        new = [entry for each in wanted.exchanges for entry in asked_and_answered(each)]
        store = await asyncio.to_thread(self._opened, owner)
        before, whole = await asyncio.to_thread(_beginning, store, wanted.session, wanted.keep)
        held = sum(isinstance(entry, Answer) for entry in before)
        if held < wanted.keep:
            return {"id": wanted.session, "kept": held}
        about: JSONObject = {"from": _PAGE, "model": wanted.model[:_LONGEST]}
        journal = await store.journal(wanted.session if whole else "", about=about)
        try:
            await _write(journal, new if whole else (*before, *new))
        finally:
            await journal.close()
        if not whole:  # the new one is there before the old one goes: nothing is lost in between
            await asyncio.to_thread(_forget, store, wanted.session)
        return {"id": journal.session, "kept": held + len(wanted.exchanges)}

    def _opened(self, owner: str) -> Store:
        if not self._url:
            raise ConfigError("this server was started without a store")
        with self._opening:
            if self._store is None:
                self._store = open_store(self._url)
        return self._store.of(owner)

    def close(self) -> None:
        """Give the connections back."""
        if self._store is not None:
            self._store.close()


def _beginning(store: Store, session: str, keep: int) -> tuple[tuple[Entry, ...], bool]:
    """What stands in a session up to the answer of that number, and whether that is all of it."""
    if not session:
        return (), True
    entries = store.entries(session)
    ends = [number for number, entry in enumerate(entries, 1) if isinstance(entry, Answer)]
    kept = 0 if keep <= 0 else ends[min(keep, len(ends)) - 1] if ends else 0
    return entries[:kept], kept == len(entries)


async def _write(journal: SqlJournal, entries: Iterable[Entry]) -> None:
    for entry in entries:
        if isinstance(entry, Message):
            await journal.say(entry)
            continue
        await journal.begin()
        for made in entry.rounds:
            await journal.plan(made)
        await journal.end(entry)


def _forget(store: Store, session: str) -> None:
    """Remove a chat of the page that was shortened; what somebody else has written stays."""
    if store.info(session).about.get("from") == _PAGE:
        store.remove(session)

"""API for stored sessions, used by the web page: list, search, read, save, rename and delete chats.

Sessions written by agents and the CLI can be continued but are never shortened: repeating one of their questions starts
a new session. Without a store, the list is empty and states the reason.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import msgspec

from ...core.types import JSONObject, JSONValue, Message, Note, TextPart, ToolCall, ToolResult, Usage
from ...engine.rounds.transcript import Answer, CallRecord, CallState, Entry, FileDiff, Round
from ...errors import ConfigError, NoSessionError, StoreError, UsageError
from ...store import open_store
from ...store.session_interface import copy_entries
from ..access.auth import Caller

if TYPE_CHECKING:
    from ...store.sessions import Store

#: Maximum number of listed sessions, and of characters in a search text or model name.
_MAX_SESSIONS, _MAX_CHARS = 100, 200
_PAGE = "page"
#: Fields of an answer that only the page uses, mapped to the codes of the notes that store them.
_NOTE_CODES = {name: f"page_{name}" for name in ("plan", "error", "record", "seconds", "model", "why")}


class ChatCall(msgspec.Struct, frozen=True):
    name: str
    arguments: str = "{}"
    id: str = ""
    result: str = ""
    failed: bool = False
    seconds: float = 0.0
    done: bool = True  # false if the answer was interrupted before there was a result
    diffs: tuple[FileDiff, ...] = ()


class ChatRound(msgspec.Struct, frozen=True):
    text: str = ""
    reasoning: str = ""
    calls: tuple[ChatCall, ...] = ()


class PageAnswer(msgspec.Struct, frozen=True):
    rounds: tuple[ChatRound, ...] = ()
    content: str = ""
    reasoning: str = ""
    status: Literal["complete", "interrupted", "failed"] = "complete"
    input_tokens: int = 0
    output_tokens: int = 0
    plan: str = ""
    error: str = ""
    record: str = ""  # request id of the last round, for the inspector
    seconds: float | None = None  # duration in seconds; None if unknown
    model: str = ""
    why: str = ""  # why there was no call, where one was likely


class QuestionAnswer(msgspec.Struct, frozen=True):
    question: str
    answer: PageAnswer


def to_transcript(exchange: QuestionAnswer) -> tuple[Message, Answer]:
    chat_answer = exchange.answer
    rounds = tuple(Round(each.text, _records(each), each.reasoning) for each in chat_answer.rounds)
    usage = Usage(chat_answer.input_tokens, chat_answer.output_tokens)
    facts = {name: getattr(chat_answer, name) for name in _NOTE_CODES}
    notes = tuple(Note(_NOTE_CODES[name], str(fact)) for name, fact in facts.items() if fact not in ("", None))
    parts = (chat_answer.content, rounds, chat_answer.status, chat_answer.reasoning)
    answer = Answer(*parts, usage=usage, notes=notes, requests=len(rounds) + 1)
    return Message("user", (TextPart(exchange.question),)), answer


def _records(chat_round: ChatRound) -> tuple[CallRecord, ...]:
    """Convert the calls of a round to records whose ids are unique within the round."""
    records: dict[str, CallRecord] = {}
    for number, each in enumerate(chat_round.calls):
        name = each.id if each.id and each.id not in records else f"call_{number}_{each.id}"
        result = ToolResult(name, each.result, each.name, each.failed) if each.done else None
        call = ToolCall(each.name, _parse_arguments(each.arguments), name)
        state: CallState = "finished" if each.done else "started"
        records[name] = CallRecord(call, state, result=result, seconds=each.seconds, diffs=each.diffs)
    return tuple(records.values())


def _parse_arguments(text: str) -> JSONObject:
    """Parse the arguments of a call. Text that is not a JSON object is kept in a single field."""
    try:
        return msgspec.json.decode(text or "{}", type=JSONObject)
    except (msgspec.DecodeError, RecursionError):
        return {"arguments": text}


def from_transcript(entries: Sequence[Entry]) -> list[JSONValue]:
    """Convert a transcript to pairs of question and answer; consecutive user messages become one question."""
    pairs: list[JSONValue] = []
    question: list[str] = []
    for entry in entries:
        if isinstance(entry, Message):
            question += [entry.text] if entry.role == "user" else []
        else:
            pairs.append({"question": "\n\n".join(question), "answer": _answer_view(entry)})
            question = []
    return pairs


def _answer_view(answer: Answer) -> JSONObject:
    details = {note.code: note.detail for note in answer.notes}
    facts: JSONObject = {name: details.get(code, "") for name, code in _NOTE_CODES.items()}
    texts = {"content": answer.content, "reasoning": answer.reasoning}
    status = "interrupted" if answer.status == "running" else answer.status
    tokens = {"input_tokens": answer.usage.input_tokens, "output_tokens": answer.usage.output_tokens}
    rounds = [_round_view(each) for each in answer.rounds]
    seconds = None
    with suppress(ValueError):
        seconds = float(facts["seconds"])
    return {**facts, "rounds": rounds, **texts, "status": status, "warnings": [], **tokens, "seconds": seconds}


def _round_view(model_round: Round) -> JSONObject:
    calls = [_call_view(call) for call in model_round.calls]
    # Only calls have durations, so that of the round is unknown.
    unknown = {"record": "", "seconds": None}
    return {"text": model_round.text, "reasoning": model_round.reasoning, "calls": calls, **unknown}


def _call_view(record: CallRecord) -> JSONObject:
    call, result = record.call, record.result
    arguments = msgspec.json.encode(call.arguments).decode()
    content, error = (result.content, result.error) if result is not None else ("", True)
    outcome = {"result": content, "failed": error, "seconds": record.seconds, "done": result is not None}
    diffs = msgspec.to_builtins(record.diffs)
    return {"id": call.id, "name": call.name, "arguments": arguments, **outcome, "diffs": diffs}


def owner_of(caller: Caller) -> str:
    """Return the owner of a caller's sessions: its key. Users who signed in by link share the terminal's sessions."""
    key = caller.key or caller.session_key
    return key.id if key is not None else ""


class _SaveChat(msgspec.Struct, frozen=True):
    """Request to save questions and answers, replacing everything after the first `keep` of a session."""

    exchanges: tuple[QuestionAnswer, ...]
    session: str = ""
    keep: int = 0
    #: How many answers the page believes to be in the session.
    expected: int | None = None
    model: str = ""
    create: bool = False  # whether to create the session with this id if there is none


class _ContinuedElsewhere(UsageError):
    status = 412


class SessionsApi:
    """Access to the sessions in the store at `url`, if there is one.

    Call `list_sessions`, `read`, `rename` and `remove` in a thread, because they wait for the database.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._store: Store | None = None
        self._open_lock = threading.Lock()

    def list_sessions(self, owner: str, text: str) -> JSONObject:
        """List an owner's sessions that contain a text, newest first."""
        try:
            sessions = self._open(owner).sessions(text[:_MAX_CHARS], limit=_MAX_SESSIONS)
        except (ConfigError, StoreError) as error:
            return {"sessions": [], "why": str(error)}
        return {"sessions": msgspec.to_builtins(sessions), "why": ""}

    def read(self, owner: str, identifier: str) -> JSONObject:
        """Return an owner's session as questions and answers. Raises ToolspeakError if it cannot be read."""
        return {"id": identifier, "exchanges": from_transcript(self._open(owner).entries(identifier))}

    def rename(self, owner: str, identifier: str, title: JSONValue) -> JSONObject:
        """Set the title of an owner's session. Raises ToolspeakError if that is impossible."""
        if not isinstance(title, str) or not title.strip():
            raise UsageError("`title` must be a text")
        self._open(owner).rename(identifier, title)
        return {"id": identifier}

    def remove(self, owner: str, identifier: str) -> JSONObject:
        """Delete an owner's session. Raises ToolspeakError if there is none, or if it is being written."""
        self._open(owner).remove(identifier)
        return {"id": identifier}

    async def save(self, owner: str, body: JSONObject) -> JSONObject:
        """Save questions and answers; return the session id and its number of answers.

        If the session has fewer than `keep` answers, some are missing and nothing is written. Raises ToolspeakError if
        it has more than `expected`: somebody else has continued it.
        """
        try:
            chat = msgspec.convert(body, _SaveChat)
        except msgspec.ValidationError as error:
            raise UsageError(f"invalid chat: {error}") from None
        new = [entry for each in chat.exchanges for entry in to_transcript(each)]
        store = await asyncio.to_thread(self._open, owner)
        before, complete, total = tuple[Entry, ...](), True, 0  # of a session that is to be created
        with suppress(*[NoSessionError] * chat.create):
            before, complete, total = await asyncio.to_thread(_prefix, store, chat.session, chat.keep)
        if chat.expected is not None and total > chat.expected:
            raise _ContinuedElsewhere("the chat was continued elsewhere", hint="save it as a new one")
        if total < chat.keep:
            return {"id": chat.session, "kept": total}
        about: JSONObject = {"from": _PAGE, "model": chat.model[:_MAX_CHARS]}
        # Only sessions that the page started may be shortened.
        writable = complete or (await asyncio.to_thread(store.info, chat.session)).about.get("from") == _PAGE
        session, keep = (chat.session, None if complete else len(before)) if writable else ("", None)
        journal = await store.journal(session, about=about, keep=keep, create=chat.create)
        try:
            await copy_entries(journal, new if writable else (*before, *new))
        finally:
            await journal.close()
        return {"id": journal.session, "kept": max(0, chat.keep) + len(chat.exchanges)}

    def _open(self, owner: str) -> Store:
        if not self._url:
            raise ConfigError("sessions are not stored: this server was started without a store")
        with self._open_lock:
            if self._store is None:
                self._store = open_store(self._url)
        return self._store.of(owner)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


def _prefix(store: Store, session: str, keep: int) -> tuple[tuple[Entry, ...], bool, int]:
    """Return a session's entries up to its `keep`-th answer, whether these are all, and the number of its answers."""
    if not session:
        return (), True, 0
    entries = store.entries(session)
    ends = [number for number, entry in enumerate(entries, 1) if isinstance(entry, Answer)]
    end = 0 if keep <= 0 else ends[min(keep, len(ends)) - 1] if ends else 0
    return entries[:end], end == len(entries), len(ends)

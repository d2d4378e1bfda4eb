"""Stored sessions for the page: list, search, read, and save chats.

Sessions written by agents and the terminal may be continued but are never shortened: repeating one of their questions
starts a new session. Without a store the list is empty and says why.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from ...core.types import JSONObject, JSONValue, Message, Note, TextPart, ToolCall, ToolResult, Usage
from ...engine.rounds.transcript import Answer, CallRecord, Entry, Round
from ...errors import ConfigError, StoreError, UsageError
from ...store import open_store
from ..access.auth import Caller

if TYPE_CHECKING:
    from ...store.journal import SqlJournal
    from ...store.sessions import Store

#: Listed sessions, and characters of a search text or a model name.
_MAX_SESSIONS, _MAX_CHARS = 100, 200
#: Origin of sessions that the page started.
_PAGE = "page"
#: Facts about an answer that only the page has, and the codes of the notes that store them.
_NOTE_CODES = {name: f"page_{name}" for name in ("plan", "error", "record", "seconds")}


# ---- chats as the page sends them


class ChatCall(msgspec.Struct, frozen=True):
    """A tool call with its result."""

    name: str
    arguments: str = "{}"
    id: str = ""
    result: str = ""
    failed: bool = False
    seconds: float = 0.0
    #: False if the answer was interrupted before there was a result.
    done: bool = True


class ChatRound(msgspec.Struct, frozen=True):
    """One model round: text, tool calls and results."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ChatCall, ...] = ()


class ChatAnswer(msgspec.Struct, frozen=True):
    """The answer to a question."""

    rounds: tuple[ChatRound, ...] = ()
    content: str = ""
    reasoning: str = ""
    status: Literal["complete", "interrupted", "failed"] = "complete"
    input_tokens: int = 0
    output_tokens: int = 0
    plan: str = ""
    error: str = ""
    #: Request id of its last round, for the inspector.
    record: str = ""
    #: Duration; None if unknown.
    seconds: float | None = None


class QuestionAnswer(msgspec.Struct, frozen=True):
    """A question and its answer."""

    question: str
    answer: ChatAnswer


def to_transcript(exchange: QuestionAnswer) -> tuple[Message, Answer]:
    """Convert a question and its answer to transcript entries."""
    chat_answer = exchange.answer
    rounds = tuple(Round(each.text, _records(each), each.reasoning) for each in chat_answer.rounds)
    usage = Usage(chat_answer.input_tokens, chat_answer.output_tokens)
    facts = {name: getattr(chat_answer, name) for name in _NOTE_CODES}
    notes = tuple(Note(_NOTE_CODES[name], str(fact)) for name, fact in facts.items() if fact not in ("", None))
    answer = Answer(
        chat_answer.content,
        rounds,
        chat_answer.status,
        chat_answer.reasoning,
        usage=usage,
        notes=notes,
        requests=len(rounds) + 1,
    )
    return Message("user", (TextPart(exchange.question),)), answer


def _records(chat_round: ChatRound) -> tuple[CallRecord, ...]:
    """Convert the calls of a round, with ids that are unique within it."""
    records: dict[str, CallRecord] = {}
    for number, each in enumerate(chat_round.calls):
        name = each.id if each.id and each.id not in records else f"call_{number}_{each.id}"
        result = ToolResult(name, each.result, each.name, each.failed) if each.done else None
        call = ToolCall(each.name, _parse_arguments(each.arguments), name)
        records[name] = CallRecord(call, "finished" if each.done else "started", result=result, seconds=each.seconds)
    return tuple(records.values())


def _parse_arguments(text: str) -> JSONObject:
    """Parse the arguments of a call; text that is not a JSON object is kept as text."""
    try:
        return msgspec.json.decode(text or "{}", type=JSONObject)
    except (msgspec.DecodeError, RecursionError):
        return {"arguments": text}


# ---- stored sessions as the page reads them


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
    facts = {name: details.get(code, "") for name, code in _NOTE_CODES.items()}
    return {
        **facts,
        "rounds": [_round_view(each) for each in answer.rounds],
        "content": answer.content,
        "reasoning": answer.reasoning,
        "status": "interrupted" if answer.status == "running" else answer.status,
        "warnings": [],
        "input_tokens": answer.usage.input_tokens,
        "output_tokens": answer.usage.output_tokens,
        "seconds": _parse_seconds(facts["seconds"]),
    }


def _parse_seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _round_view(model_round: Round) -> JSONObject:
    # The duration of a round is unknown: only its calls have times.
    return {
        "text": model_round.text,
        "reasoning": model_round.reasoning,
        "calls": [_call_view(call) for call in model_round.calls],
        "record": "",
        "seconds": None,
    }


def _call_view(record: CallRecord) -> JSONObject:
    return {
        "id": record.call.id,
        "name": record.call.name,
        "arguments": msgspec.json.encode(record.call.arguments).decode(),
        "result": record.result.content if record.result is not None else "",
        "failed": record.result is None or record.result.error,
        "seconds": record.seconds,
        "done": record.result is not None,
    }


# ---- sessions


def owner_of(caller: Caller) -> str:
    """Return the owner of the sessions a caller sees: its key; a sign-in by link shares the terminal's sessions."""
    key = caller.key or caller.session_key
    return key.id if key is not None else ""


class _SaveChat(msgspec.Struct, frozen=True):
    """Request to save exchanges after the first `keep` exchanges of a session."""

    exchanges: tuple[QuestionAnswer, ...]
    session: str = ""
    keep: int = 0
    model: str = ""


class SessionsApi:
    """Access to the stored sessions. `list_sessions` and `read` block on the database: call them in a thread.

    Args:
        url: the store; empty for none.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._store: Store | None = None
        self._open_lock = threading.Lock()

    @property
    def has_store(self) -> bool:
        """Whether there is a store."""
        return bool(self._url)

    def list_sessions(self, owner: str, text: str) -> JSONObject:
        """List the sessions of an owner that contain a text, newest first."""
        try:
            sessions = self._open(owner).sessions(text[:_MAX_CHARS], limit=_MAX_SESSIONS)
        except (ConfigError, StoreError) as error:
            return {"sessions": [], "why": str(error)}
        return {"sessions": msgspec.to_builtins(sessions), "why": ""}

    def read(self, owner: str, identifier: str) -> JSONObject:
        """Return a session of an owner as questions and answers.

        Raises:
            ToolspeakError: the session does not exist or cannot be read.
        """
        return {"id": identifier, "exchanges": from_transcript(self._open(owner).entries(identifier))}

    async def save(self, owner: str, body: JSONObject) -> JSONObject:
        """Save exchanges; return the session they are in and its number of exchanges.

        If the session has fewer than `keep` exchanges, nothing is written, because some are missing.

        Raises:
            ToolspeakError: they cannot be saved.
        """
        try:
            chat = msgspec.convert(body, _SaveChat)
        except msgspec.ValidationError as error:
            raise UsageError(f"invalid chat: {error}") from None
        new = [entry for each in chat.exchanges for entry in to_transcript(each)]
        store = await asyncio.to_thread(self._open, owner)
        before, complete = await asyncio.to_thread(_prefix, store, chat.session, chat.keep)
        answers = sum(isinstance(entry, Answer) for entry in before)
        if answers < chat.keep:
            return {"id": chat.session, "kept": answers}
        about: JSONObject = {"from": _PAGE, "model": chat.model[:_MAX_CHARS]}
        journal = await store.journal(chat.session if complete else "", about=about)
        try:
            await _write(journal, new if complete else (*before, *new))
        finally:
            await journal.close()
        if not complete:  # only after the new session is written, so nothing can be lost
            await asyncio.to_thread(_remove_page_chat, store, chat.session)
        return {"id": journal.session, "kept": answers + len(chat.exchanges)}

    def _open(self, owner: str) -> Store:
        if not self._url:
            raise ConfigError("this server was started without a store")
        with self._open_lock:
            if self._store is None:
                self._store = open_store(self._url)
        return self._store.of(owner)

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()


def _prefix(store: Store, session: str, keep: int) -> tuple[tuple[Entry, ...], bool]:
    """Return the entries of a session up to its `keep`-th answer, and whether these are all of them."""
    if not session:
        return (), True
    entries = store.entries(session)
    ends = [number for number, entry in enumerate(entries, 1) if isinstance(entry, Answer)]
    end = 0 if keep <= 0 else ends[min(keep, len(ends)) - 1] if ends else 0
    return entries[:end], end == len(entries)


async def _write(journal: SqlJournal, entries: Iterable[Entry]) -> None:
    for entry in entries:
        if isinstance(entry, Message):
            await journal.say(entry)
            continue
        await journal.begin()
        for model_round in entry.rounds:
            await journal.plan(model_round)
        await journal.end(entry)


def _remove_page_chat(store: Store, session: str) -> None:
    """Remove a session if the page started it; sessions of other origins stay."""
    if store.info(session).about.get("from") == _PAGE:
        store.remove(session)

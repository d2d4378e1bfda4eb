"""The sessions of the store, for the page: listed, searched, and one of them as questions and answers.

Read only: what agents and the terminal have written. Where there is no store, the list is empty and says why. Above:
`page_api`. Below: the store, opened when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ..core.model import JSONObject, JSONValue, Message
from ..core.record import Answer, CallRecord, Entry, Round
from ..errors import ConfigError, StoreError
from ..store import open_store

if TYPE_CHECKING:
    from ..store.sessions import Store

__all__ = ["SessionsDesk", "exchanges"]

#: Sessions that are listed, and what of a search counts.
_MOST, _LONGEST = 100, 200


class SessionsDesk:
    """The sessions of who runs the server. Its methods wait for the database: they are for threads.

    Args:
        url: the store; empty: there is none.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._store: Store | None = None

    def listed(self, text: str) -> JSONObject:
        """The sessions in which a text stands, the last one first."""
        try:
            found = self._opened().sessions(text[:_LONGEST], limit=_MOST)
        except (ConfigError, StoreError) as error:
            return {"sessions": [], "why": str(error)}
        return {"sessions": msgspec.to_builtins(found), "why": ""}

    def one(self, identifier: str) -> JSONObject:
        """A session as questions and answers.

        Raises:
            ToolspeakError: there is none, or it cannot be read.
        """
        return {"exchanges": exchanges(self._opened().entries(identifier))}

    def _opened(self) -> Store:
        if not self._url:
            raise ConfigError("this server was started without a store")
        if self._store is None:
            self._store = open_store(self._url)
        return self._store

    def close(self) -> None:
        """Give the connections back."""
        if self._store is not None:
            self._store.close()


def exchanges(entries: Sequence[Entry]) -> list[JSONValue]:
    """A conversation as pairs of a question and its answer; what was said twice in a row is one question."""
    pairs: list[JSONValue] = []
    question: list[str] = []
    for entry in entries:
        if isinstance(entry, Message):
            question += [entry.text] if entry.role == "user" else []
        else:
            pairs.append({"question": "\n\n".join(question), "answer": _answer(entry)})
            question = []
    return pairs


def _answer(answer: Answer) -> JSONObject:
    return {
        "rounds": [_round(each) for each in answer.rounds],
        "content": answer.content,
        "reasoning": answer.reasoning,
        "status": "interrupted" if answer.status == "running" else answer.status,
        "error": "",
        "record": "",
        "plan": "",
        "warnings": [],
        "tokens": answer.usage.input_tokens + answer.usage.output_tokens,
        "seconds": sum(call.seconds for each in answer.rounds for call in each.calls),
    }


def _round(made: Round) -> JSONObject:
    return {
        "text": made.text,
        "reasoning": made.reasoning,
        "calls": [_call(call) for call in made.calls],
        "record": "",
        "seconds": max((call.seconds for call in made.calls), default=0.0),
    }


def _call(made: CallRecord) -> JSONObject:
    return {
        "id": made.call.id,
        "name": made.call.name,
        "arguments": msgspec.json.encode(made.call.arguments).decode(),
        "result": made.result.content if made.result is not None else "",
        "failed": made.result is None or made.result.error,
        "seconds": made.seconds,
    }

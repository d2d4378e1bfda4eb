"""Interpretation: a small model of our own turns an answer that describes a call, or garbles it, into calls.

The small model sees only the answer and the tools, and a grammar constrains it. It may still invent values, so its
calls count only if every value stands in the answer, and if the answer does not just repeat what the model has read.
"""

from collections.abc import Callable, Sequence

import msgspec

from ...core.events import CallArgs, CallEnd, CallStart, Candidate, Event, Judged, Noted, TextDelta, fold
from ...core.types import Message, Note, Options, Request, Tool, ToolCall
from ..planning.capabilities import ProfileMatch
from ..planning.strategy import Settings, plan
from ..prompting.escaping import display_name, restore
from ..prompting.history import since_last_user
from ..prompting.interpreting import interpreting_messages
from .actions import INTERPRETED_CALL
from .answer_readers import EnvelopeOrTextReader, ReadingRules
from .interpretation_checks import AnswerValues, Quotations, leaves
from .request_builder import RequestBuilder

#: Maximum length of an answer in characters. With the tools, it must fit into the small model's context.
MAX_ANSWER = 4_000
_SETTINGS = Settings(plan="envelope", contract_budget=1_500)
_OPTIONS = Options(max_tokens=512, temperature=0.0)
_PROTOCOL = "openai_chat"


class Interpreter(msgspec.Struct, frozen=True):
    """The small model, and what is known about it."""

    model: str
    match: ProfileMatch
    #: Returns the nonces of a request with these tools.
    nonces: Callable[[tuple[Tool, ...]], Callable[[int], str]]


class Interpretation:
    """One request to the interpreter, and the reader of its answer. An `AnswerReader`.

    Args:
        answer: the text of the answer to interpret.
        messages: the conversation before it.
        builder: the builder of the model's own requests, with the offered tools.
    """

    flow = None

    def __init__(
        self, interpreter: Interpreter, answer: str, messages: tuple[Message, ...], builder: RequestBuilder
    ) -> None:
        self._answer = answer
        self._messages = messages
        self._original = builder
        tools = builder.offered_tools
        request = Request(interpreter.model, interpreting_messages(answer), tools, options=_OPTIONS)
        planned = plan(request, interpreter.match, _SETTINGS)
        nonces = interpreter.nonces(tools)
        self._builder = RequestBuilder(request, planned, _SETTINGS, nonces=nonces, protocol=_PROTOCOL)
        self.request = self._builder.build("interpretation")
        self._raw: list[str] = []

    def feed(self, event: Event) -> list[Event]:
        if type(event) is TextDelta:
            self._raw.append(event.text)
        return []

    def close(self, cut: bool) -> list[Event]:
        """Return the events of all calls, or a note why they were rejected."""
        reader = EnvelopeOrTextReader(ReadingRules(self._builder.readable_tools, nonce=self._builder.nonce))
        reply = fold([*reader.feed(TextDelta(restore("".join(self._raw)))), *reader.close(cut)])
        rejected = next((each for each in reply.candidates if each.verdict != "call"), None)
        if rejected is not None:
            return _rejected(reply.candidates, rejected.name, "arguments_invalid")
        calls = [*{_key(call): call for call in reply.calls}.values()]
        if cut or not calls:
            return []
        if (problem := self._problem(calls)) is not None:
            return _rejected(reply.candidates, *problem)
        return [event for index, call in enumerate(calls) for event in _accepted(index, call)]

    def _problem(self, calls: Sequence[ToolCall]) -> tuple[str, str] | None:
        """Return the name of a call that does not count, and the code of the reason; None if all calls count."""
        values = AnswerValues(self._answer)
        original = self._original
        quotations = Quotations(self._answer, self._messages, original.copyable_texts(), original.declared_texts())
        tools = {tool.name: tool for tool in original.offered_tools}
        made = {_key(call) for message in since_last_user(self._messages) for call in message.calls}
        for call in calls:
            tool = tools.get(call.name)
            if tool is None:
                return call.name, "unknown_tool"
            nothing = next(leaves(call.arguments, call.arguments), None) is None
            if values.missing(call.arguments, tool) is not None or (nothing and not quotations.names(call.name)):
                return call.name, "not_in_answer"
            if _key(call) in made:
                return call.name, "already_made"
            if quotations.contain(call):
                return call.name, "echo"
        return None


def _key(call: ToolCall) -> bytes:
    return msgspec.json.encode((call.name, call.arguments), order="deterministic")


def _accepted(index: int, call: ToolCall) -> list[Event]:
    arguments = msgspec.json.encode(call.arguments).decode()
    notes = (*call.notes, Note(INTERPRETED_CALL, f"`{call.name}` was read from the text of the answer"))
    candidate = Candidate(call.name, "call", "accepted", "interpretation", call.arguments, notes=call.notes)
    return [
        CallStart(index, call.name),
        CallArgs(index, arguments),
        CallEnd(index, True, notes),
        Judged(candidate),
    ]


def _rejected(candidates: Sequence[Candidate], name: str, reason: str) -> list[Event]:
    """Return the events of calls that do not count. `reason`: why not that of the tool `name`."""
    judged = [
        Judged(Candidate(each.name, "text", reason, "interpretation", each.arguments, notes=each.notes))
        for each in candidates
    ]
    note = Note("interpretation_rejected", f"the interpreted call of `{display_name(name)}` does not count: {reason}")
    return [*judged, Noted(note)]

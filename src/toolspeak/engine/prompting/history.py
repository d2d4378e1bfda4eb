"""A conversation with calls and results, told as plain text.

`project` tells it in the dialect that the model is asked to speak, so that its own past shows it how; `plain`
tells it in prose, for requests in which no call may be made. Results are foreign text: they stand inside marks
that they cannot close, control tokens in them are neutralised, and only the model's view is shortened.

Each message is told without looking at those behind it, so that a conversation that grows keeps its prefix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from functools import lru_cache
from operator import is_
from typing import Literal

import msgspec

from ...core.types import JSONObject, Media, Message, Note, Part, Role, TextPart, ToolCall, ToolResult
from ...dialects.registry import dialect as dialect_row
from .escaping import fenced, joined, json_text, neutralise, one_line, result_text, shortened, shown_name, written
from .few_shot import template_text
from .past_tools import has_tool_history

#: Every kind of media: a model that is not known to refuse one gets it.
MEDIA_KINDS = frozenset({"image", "audio", "video", "file"})
#: How much of one result a model sees. Coding agents read files of up to some 25,000 tokens at a time.
MAX_RESULT_CHARS = 100_000
#: Before each result where there are several, and where one reports an error: the readers of all dialects know
#: this line and cut a result off that a model invents.
_LABEL = "Tool result:"
#: How much of a call's arguments stands in that line where names alone do not tell results apart.
_MAX_LABEL = 160
#: Roles of messages whose words are not the model's own.
_OTHERS = ("user", "tool")
#: The note with which protocols mark a past call whose arguments are cut or no object; it is told without any.
_INVALID = "arguments_invalid"
#: What is set apart in the words of each role; those of the system are the caller's own.
_LEVELS: dict[Role, Literal["turns", "own"]] = {"user": "turns", "assistant": "own", "tool": "turns"}
_DECIDE = "Which tools, if any, are called next? Reply with the JSON document only."
#: The one word for this in every protocol's `extra`.
_CACHE = "cache_control"
_ANSWER = "These are results of earlier steps. Answer with what is known."


class Projected(msgspec.Struct, frozen=True):
    """Messages, and what was done to them."""

    messages: tuple[Message, ...]
    notes: tuple[Note, ...] = ()


# ---- the two ways to tell a conversation


def project(
    messages: tuple[Message, ...],
    dialect: str,
    *,
    nonce: str | None = None,
    media: Container[str] = MEDIA_KINDS,
    templates: Mapping[str, str] | None = None,
    max_result: int = MAX_RESULT_CHARS,
) -> Projected:
    """The conversation in a dialect, without calls, results and messages of tools.

    Results become a message of the user that asks for the next action, unless the user says something right
    behind them.

    Args:
        messages: what was said, best after `pairing.pair`.
        dialect: how calls and results are written.
        nonce: the mark that both carry.
        media: the kinds of media that the model takes; others become a line of text.
        templates: texts of the caller's own, see `few_shot.TEMPLATES`.
        max_result: how many characters of one result the model sees.
    """
    dialect_row(dialect)
    if _is_told(messages, nonce):
        return Projected(messages)
    return _Teller(
        lambda calls: written(dialect, calls, nonce),
        lambda content: result_text(dialect, content, nonce),
        template_text("continuation", templates),
        nonce,
        media,
        max_result,
    ).tell(messages)


def plain(
    messages: tuple[Message, ...], *, media: Container[str] = MEDIA_KINDS, max_result: int = MAX_RESULT_CHARS
) -> Projected:
    """The conversation in prose: what was called and what came back, in no form that invites a call."""
    if _is_told(messages, None):
        return Projected(messages)
    return _Teller(_in_prose, fenced, _ANSWER, None, media, max_result).tell(messages)


def _is_told(messages: tuple[Message, ...], nonce: str | None) -> bool:
    """Whether the conversation can be told as it is: words only, and nothing in them that must be set apart."""
    if has_tool_history(messages):
        return False
    for message in messages:
        if message.role == "system":
            continue
        level = _LEVELS[message.role]
        for part in message.parts:
            if type(part) is not TextPart or neutralise(part.text, level, nonce) != part.text:
                return False
    return True


def _in_prose(calls: tuple[ToolCall, ...]) -> str:
    return "\n".join(f"(Used {shown_name(call.name)} with {json_text(call.arguments, 'own')})" for call in calls)


def _replaced(part: Media) -> Note:
    return Note("media_replaced", f"the model does not take {part.kind}; a line of text stands for it")


def _in_place_of(part: Media) -> str:
    return f"[{part.kind} left out: this model cannot read it]"


class _Teller:
    """Tells one conversation."""

    def __init__(
        self,
        calls: Callable[[tuple[ToolCall, ...]], str],
        result: Callable[[str], str],
        ask: str,
        nonce: str | None,
        media: Container[str],
        max_result: int,
    ) -> None:
        self._calls = calls
        self._result = result
        self._ask = ask
        self._nonce = nonce
        self._media = media
        self._max_result = max_result
        self._calls_made: dict[str, tuple[int, ToolCall]] = {}  # by their ids, with their places in their turns
        self._results: list[ToolResult] = []  # that have come and are not told yet: they may be out of order
        self._told: list[Message] = []
        self._open = False  # the last message told holds results, and the user may still say something to them
        self._notes: dict[Note, None] = {}

    def tell(self, messages: tuple[Message, ...]) -> Projected:
        for message in messages:
            self._tell(message)
        self._close()
        return Projected(tuple(self._told), tuple(self._notes))

    def _tell(self, message: Message) -> None:
        if message.results or message.role == "tool":
            self._tell_results(message)
        elif message.role == "user" and self._open:
            self._flush()
            self._add(self._parts(message, "turns"))
            self._open = False
        else:
            self._close()
            self._told.append(self._without_calls(message))
            self._calls_made.update({call.id: (at, call) for at, call in enumerate(message.calls)})

    def _note(self, code: str, detail: str) -> None:
        self._notes[Note(code, detail)] = None

    # ---- messages

    def _without_calls(self, message: Message) -> Message:
        parts = message.parts
        if message.role != "system":
            parts = self._parts(message, _LEVELS[message.role])
        if message.calls and message.role == "assistant":
            text = self._calls(self._writable(message.calls))
            parts = joined((*parts, TextPart(f"\n\n{text}" if parts else text)))
        elif message.calls:
            self._note("call_misplaced", f"a call in a message of the {message.role} is left out")
        elif parts is message.parts:
            return message
        return msgspec.structs.replace(message, parts=parts, calls=())

    def _writable(self, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
        for call in calls:
            if any(note.code == _INVALID for note in call.notes):
                self._note(_INVALID, f"the arguments of a past call of `{shown_name(call.name)}` were no JSON object")
        return tuple(call if _is_json(call.arguments) else self._emptied(call) for call in calls)

    def _emptied(self, call: ToolCall) -> ToolCall:
        self._note("arguments_not_json", f"the arguments of a past call of `{shown_name(call.name)}` cannot be written")
        return ToolCall(call.name, {}, call.id)

    def _parts(self, message: Message, level: Literal["turns", "own"]) -> tuple[Part, ...]:
        """The parts as the model may see them; the same object when nothing had to be done."""
        shown = [self._part(part, level) for part in message.parts]
        if all(map(is_, shown, message.parts)):
            return message.parts
        return joined(tuple(part for part in shown if part is not None))

    def _part(self, part: Part, level: Literal["turns", "own"]) -> Part | None:
        if isinstance(part, TextPart):
            text = neutralise(part.text, level, self._nonce)
            if text == part.text:
                return part
            self._note("specials_neutralised", "control tokens or marks in a message are shown as text")
            return msgspec.structs.replace(part, text=text)
        if isinstance(part, Media):
            return self._shown(part)
        if level == "turns":
            return part
        self._note("opaque_dropped", f"a part of kind `{shown_name(part.kind)}` is left out of a past answer")
        return None

    def _shown(self, part: Media) -> Part:
        if part.kind in self._media:
            return part
        self._notes[_replaced(part)] = None
        return TextPart(_in_place_of(part))

    # ---- results

    def _tell_results(self, message: Message) -> None:
        """Results of messages that follow each other become one message: templates want roles to alternate."""
        if not self._open:
            self._told.append(Message("user"))
            self._open = True
        self._results.extend(results_of(message))
        own = self._parts(message, "turns") if message.role != "tool" else ()
        if own:
            self._flush()
            self._add(own)
            self._open = False
        if message.calls:
            self._close()
            self._told.append(self._without_calls(Message("assistant", calls=message.calls)))
            self._calls_made.update({call.id: (at, call) for at, call in enumerate(message.calls)})

    def _flush(self) -> None:
        """Tell the results that have come, in the order of their calls: tools that run side by side end in any."""
        results, self._results = self._results, []
        results.sort(key=self._place)
        labels = self._labels(results)
        for result, label in zip(results, labels, strict=True):
            self._add(tuple(self._result_parts(result, label)))

    def _place(self, result: ToolResult) -> int:
        """Where the call of a result stands in its turn; a result without a call comes last."""
        known = self._calls_made.get(result.id)
        return known[0] if known else len(self._calls_made)

    def _labels(self, results: list[ToolResult]) -> list[str]:
        """Whose each result is: by its name, by the arguments too where names repeat, by a number where even they do.

        A single result needs no label, unless it has to say that the call failed.
        """
        names = [self._name(result) for result in results]
        if len(results) == 1:
            return names if results[0].error else [""]
        shared = {name for name, count in Counter(names).items() if count > 1}
        told = [
            f"{name} {self._arguments(result)}".rstrip() if name in shared else name
            for name, result in zip(names, results, strict=True)
        ]
        same = {label for label, count in Counter(told).items() if count > 1}
        return [f"{label} (call {at})" if label in same else label for at, label in enumerate(told, 1)]

    def _name(self, result: ToolResult) -> str:
        known = self._calls_made.get(result.id)
        return shown_name(result.name or (known[1].name if known else ""), self._nonce)

    def _arguments(self, result: ToolResult) -> str:
        """The arguments of a result's call, on one line and shortened."""
        known = self._calls_made.get(result.id)
        if known is None or not _is_json(known[1].arguments):
            return ""
        text = one_line(json_text(known[1].arguments, "own"), _MAX_LABEL)
        return neutralise(text, "own", self._nonce)

    def _result_parts(self, result: ToolResult, label: str) -> Iterable[Part]:
        content = neutralise(result.content, "foreign", self._nonce)
        if content != result.content:
            self._note("specials_neutralised", "control tokens or marks in a result are shown as text")
        if len(content) > self._max_result:
            self._note("result_cut", f"a result of {len(content)} characters is shown in part")
            content = shortened(content, self._max_result)
        line = f"{_LABEL} {label}{' (it failed)' if result.error else ''}\n" if label else ""
        yield TextPart(line + self._result(content))
        for part in result.parts:
            if isinstance(part, Media):
                yield self._shown(part)
            else:
                self._note("opaque_dropped", f"a part of kind `{shown_name(part.kind)}` is left out of a result")

    def _add(self, parts: tuple[Part, ...]) -> None:
        """Add to the message that holds the results."""
        last = self._told[-1]
        gap = (TextPart("\n\n"),) if last.parts and parts else ()
        self._told[-1] = msgspec.structs.replace(last, parts=joined((*last.parts, *gap, *parts)))

    def _close(self) -> None:
        """Nobody said anything to the results: ask for the next action."""
        if self._open:
            self._flush()
            self._add((TextPart(self._ask),))
            self._open = False


def results_of(message: Message) -> tuple[ToolResult, ...]:
    """The results that a message brings. What a message of a tool says without any is one."""
    if message.role != "tool" or message.results:
        return message.results
    parts = tuple(part for part in message.parts if not isinstance(part, TextPart))
    return (ToolResult("", message.text, message.name, parts=parts),)


def _is_json(arguments: JSONObject) -> bool:
    try:
        msgspec.json.encode(arguments)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False
    return True


# ---- the decision


def decision_messages(
    messages: tuple[Message, ...], prompt: str, *, media: Container[str] = MEDIA_KINDS
) -> tuple[Message, ...]:
    """The conversation as a decision is made on it: the prompt, the user's words, the latest answer without calls.

    Messages that would be empty are left out, and a conversation that would end with the model's own words gets
    a last line of the user's, since some servers would go on with them.
    """
    latest = max((at for at, message in enumerate(messages) if message.role == "assistant"), default=-1)
    kept = [
        msgspec.structs.replace(message, calls=(), results=())
        for at, message in enumerate(messages)
        if message.parts and (message.role == "user" or at == latest)
    ]
    if kept and kept[-1].role == "assistant":
        kept.append(Message("user", (TextPart(_DECIDE),)))
    return (Message("system", (TextPart(prompt),)), *plain(tuple(kept), media=media).messages)


def without_media(messages: tuple[Message, ...], media: Container[str]) -> Projected:
    """The conversation as it is, with a line of text for each thing that the model does not take."""
    if not any(map(_shows_media, messages)):
        return Projected(messages)
    notes: dict[Note, None] = {}

    def taken(part: Part) -> bool:
        return not isinstance(part, Media) or part.kind in media

    def part_of(part: Part) -> Part:
        if not isinstance(part, Media) or taken(part):
            return part
        notes[_replaced(part)] = None
        return TextPart(_in_place_of(part))

    def result_of(result: ToolResult) -> ToolResult:
        left_out = [part for part in result.parts if isinstance(part, Media) and not taken(part)]
        notes.update({_replaced(part): None for part in left_out})
        content = "\n".join(filter(None, (result.content, *map(_in_place_of, left_out))))
        return msgspec.structs.replace(result, content=content, parts=tuple(filter(taken, result.parts)))

    def message_of(message: Message) -> Message:
        if all(map(taken, message.parts)) and all(taken(part) for each in message.results for part in each.parts):
            return message
        parts, results = tuple(map(part_of, message.parts)), tuple(map(result_of, message.results))
        return msgspec.structs.replace(message, parts=parts, results=results)

    return Projected(tuple(map(message_of, messages)), tuple(notes))


def _shows_media(message: Message) -> bool:
    shown = [part for result in message.results for part in result.parts] if message.results else ()
    return any(isinstance(part, Media) for part in (*message.parts, *shown))


def cached_to(messages: tuple[Message, ...], stable: str) -> tuple[Message, ...]:
    """The conversation with a mark behind a text that stays the same, so that a service caches it up to there."""
    for at, message in enumerate(messages):
        for place, part in enumerate(message.parts):
            if isinstance(part, TextPart) and stable in part.text:
                end = part.text.index(stable) + len(stable)
                marked = TextPart(part.text[:end], {**part.extra, _CACHE: {"type": "ephemeral"}})
                rest = (TextPart(part.text[end:], part.extra),) if part.text[end:] else ()
                parts = (*message.parts[:place], marked, *rest, *message.parts[place + 1 :])
                return (*messages[:at], msgspec.structs.replace(message, parts=parts), *messages[at + 1 :])
    return messages


def without_system(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The conversation for a model without a system role: the user says what the system says."""
    if not any(message.role == "system" for message in messages):
        return messages
    head = next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))
    said = [message.text for message in messages[:head] if message.text]
    told = [
        msgspec.structs.replace(message, role="user") if message.role == "system" else message
        for message in messages[head:]
    ]
    text = "\n\n".join(said)
    if not text:
        return tuple(told)
    if not told or told[0].role != "user":
        return (Message("user", (TextPart(text),)), *told)
    begun = joined((TextPart(f"{text}\n---\n\n"), *told[0].parts))
    return (msgspec.structs.replace(told[0], parts=begun), *told[1:])


# ---- questions about a conversation


def since_last_user(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """What came after the user last said something. A message that only brings results says nothing."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if message.role == "user" and (message.parts or not message.results):
            # Results that the user brought along with words were there before the words.
            return messages[at + 1 :]
    return messages


def is_answered(messages: tuple[Message, ...]) -> bool:
    """Whether the user speaks after an answer in words, so that what is said now may ask for nothing."""
    spoke = False
    for message in reversed(messages):
        if message.role == "assistant":
            return spoke and not message.calls and bool(message.text)
        if message.role == "tool" or message.results:
            return False
        spoke = spoke or message.role == "user"
    return False


def untrusted_texts(messages: tuple[Message, ...]) -> tuple[str, ...]:
    """Texts that a model may repeat and that are not its own: results, and what the user said.

    The user's words count, since people paste what others wrote. System text is the caller's, and what the
    model said before is not somebody else's call.
    """
    found: dict[str, None] = {}
    for message in messages:
        for result in message.results:
            found[result.content] = None
        if message.role in _OTHERS:
            found[message.text] = None
    found.pop("", None)
    return tuple(found)


def nonce_is_free(nonce: str, messages: tuple[Message, ...]) -> bool:
    """Whether no text of somebody else's holds the nonce."""
    # Like `untrusted_texts`, but texts need not be gathered and told apart for this: that would read long ones twice.
    for message in messages:
        for result in message.results:
            if nonce in result.content:
                return False
        if message.role in _OTHERS and nonce in message.text:
            return False
    return True


def stop_sequences(dialect: str) -> tuple[str, ...]:
    """Where an answer in this dialect can be stopped: at a result that the model begins to invent."""
    return _stops_at(dialect_row(dialect).result[0])


@lru_cache(maxsize=128)  # more than there are dialects
def _stops_at(mark: str) -> tuple[str, ...]:
    opener = mark.strip().removesuffix(">").removesuffix(":")
    return (f"\n{opener}", f"\n{_LABEL}")

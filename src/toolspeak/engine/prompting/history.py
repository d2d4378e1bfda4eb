"""History projection: renders past calls and results as plain text.

`project` renders them in the dialect that the model should write, so past calls serve as examples. `plain` renders
them as prose, for requests in which the model must not make calls. Results are untrusted: they are wrapped in markers
that they cannot close, their control tokens are neutralised, and long results are shortened in the prompt.

Rendering a message never depends on later messages, so a growing conversation keeps its cached prefix.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from functools import lru_cache, partial
from operator import is_, ne
from typing import Literal

import msgspec

from ...core.schema.json_values import encode_json
from ...core.types import Media, Message, Note, Part, Role, TextPart, ToolCall, ToolResult
from ...dialects.registry import dialect as dialect_row
from ..context.shortening import shorten
from .escaping import (
    calls_text,
    code_fence,
    display_name,
    join_text_parts,
    json_text,
    neutralise,
    one_line,
    result_text,
)
from .templates import template_text
from .tool_use_detection import has_tool_history

#: All kinds of media. By default, a model is assumed to accept all of them.
MEDIA_KINDS = frozenset({"image", "audio", "video", "file"})
#: Maximum length of one result in the prompt. Coding agents read files of up to about 25,000 tokens at a time.
MAX_RESULT_CHARS = 100_000
#: Size of the messages that are kept, as JSON and as rendered, twice at most; and what a part counts beside its text.
MAX_RENDERED_CHARS, _PART_SIZE = 4_000_000, 500
#: Label before a result, used if there are several results or the call failed. The parsers of all dialects recognise
#: it, and discard results that the model itself writes.
_LABEL = "Tool result:"
#: Maximum length of the arguments in a label, which are added if several results have the same tool name.
_MAX_LABEL = 160
#: Roles whose text may come from third parties.
_UNTRUSTED_ROLES = ("user", "tool")
#: Note code for a past call whose arguments are truncated or not an object. The call is rendered without arguments.
_INVALID = "arguments_invalid"
#: The escaping level of each role. System text is trusted because the caller wrote it.
_LEVELS: dict[Role, Literal["turns", "own"]] = {"user": "turns", "assistant": "own", "tool": "turns"}
_DECIDE = "Which tools, if any, are called next? Reply with the JSON document only."
#: The key in `extra` that marks a prompt prefix to cache, the same for every protocol.
_CACHE = "cache_control"
#: The user message before an assistant message that starts the conversation.
_BEGIN = "(The assistant starts the conversation.)"
#: The assistant message between a tool result and a message of the user.
_RECEIVED = "(The result was received.)"
_ANSWER = "These are results of earlier steps. Answer with what is known."


class Projection(msgspec.Struct, frozen=True, gc=False):
    """Rendered or repaired messages, and notes about the changes."""

    messages: tuple[Message, ...]
    notes: tuple[Note, ...] = ()


# ---- projections


def project(
    messages: tuple[Message, ...],
    dialect: str,
    *,
    nonce: str | None = None,
    media: Container[str] = MEDIA_KINDS,
    templates: Mapping[str, str] | None = None,
) -> Projection:
    """Render the structured calls and results of a conversation as text in a dialect.

    Results become a user message that asks for the next action, unless text from the user follows directly.

    Args:
        messages: the conversation, normally already repaired by `call_result_pairing.pair`.
        dialect: the format of calls and results.
        nonce: the word that call and result markers must carry.
        media: the kinds of media that the model accepts. Others are replaced with a line of text.
        templates: custom templates that override `templates.TEMPLATES`.
    """
    dialect_row(dialect)
    if _is_plain_text(messages, nonce):
        return Projection(messages)
    ask = template_text("continuation", templates)
    renderer = partial(
        _HistoryRenderer,
        lambda calls: calls_text(dialect, calls, nonce),
        lambda content: result_text(dialect, content, nonce),
        ask,
        nonce,
        media,
    )
    groups = _groups(messages)
    if groups is None:
        return renderer().render(messages)
    style = (dialect, nonce, ask, frozenset(kind for kind in MEDIA_KINDS if kind in media))
    rendered = [_rendered.get(style, group, renderer) for group in groups]
    notes = dict.fromkeys(note for each in rendered for note in each.notes)
    return Projection(tuple(message for each in rendered for message in each.messages), tuple(notes))


def plain(messages: tuple[Message, ...], *, media: Container[str] = MEDIA_KINDS) -> Projection:
    """Render past calls and results as prose, which does not encourage the model to make more calls."""
    if _is_plain_text(messages, None):
        return Projection(messages)

    def in_prose(calls: tuple[ToolCall, ...]) -> str:
        return "\n".join(f"(Used {display_name(call.name)} with {json_text(call.arguments, 'own')})" for call in calls)

    return _HistoryRenderer(in_prose, code_fence, _ANSWER, None, media).render(messages)


def _is_plain_text(messages: tuple[Message, ...], nonce: str | None) -> bool:
    """Whether the conversation can be sent unchanged: it has only text, and nothing to neutralise."""
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


def _groups(messages: tuple[Message, ...]) -> list[tuple[Message, ...]] | None:
    """Split a conversation into groups that are rendered independently: calls with their results, and other messages.

    Returns None if a result does not follow its call, because it is then rendered with a call of another group.
    """
    groups: list[tuple[Message, ...]] = []
    start, ids, is_open = 0, set[str](), False
    for at, message in enumerate(messages):
        if message.results or message.role == "tool":
            if message.calls or not ids.issuperset(result.id for result in results_of(message)):
                return None
            is_open = message.role == "tool" or not message.parts
            continue
        if message.role == "user" and is_open:
            is_open = False
            continue
        if at > start:
            groups.append(messages[start:at])
        start, ids, is_open = at, {call.id for call in message.calls}, False
    groups.append(messages[start:])
    return groups


class _RenderedGroups:
    """Groups of messages that were rendered before, because agents resend the whole conversation every time.

    A group is found by the identity of its messages, which the entry keeps alive. What was not used for a whole
    generation is forgotten.
    """

    def __init__(self) -> None:
        self._young: dict[tuple[object, ...], tuple[tuple[Message, ...], Projection]] = {}
        self._old = self._young
        self._size = 0

    def get(
        self, style: tuple[object, ...], group: tuple[Message, ...], renderer: "Callable[[], _HistoryRenderer]"
    ) -> Projection:
        key = (style, *map(id, group))
        kept = self._young.get(key)
        if kept is not None:
            return kept[1]
        kept = self._old.get(key) or (group, renderer().render(group))
        source = encode_json(group)
        size = sum(map(_text_size, kept[1].messages)) + len(source or b"")
        if source is None or size > MAX_RENDERED_CHARS:
            return kept[1]
        if self._size + size > MAX_RENDERED_CHARS:
            self._old, self._young, self._size = self._young, {}, 0
        self._young[key] = kept
        self._size += size
        return kept[1]


def _text_size(message: Message) -> int:
    return sum(len(part.text) if isinstance(part, TextPart) else _PART_SIZE for part in message.parts) + _PART_SIZE


_rendered = _RenderedGroups()


def _media_part(part: Media, media: Container[str], notes: dict[Note, None]) -> Part:
    """Return a medium, or a line of text in its place if the model does not accept it, with a note."""
    if part.kind in media:
        return part
    notes[Note("media_replaced", f"the model does not accept {part.kind}; it was replaced with a line of text")] = None
    return TextPart(f"[{part.kind} left out: this model cannot read it]")


class _HistoryRenderer(msgspec.Struct, eq=False):
    """Renders the calls and results of one conversation as text."""

    _calls: Callable[[tuple[ToolCall, ...]], str]
    _result: Callable[[str], str]
    _ask: str
    _nonce: str | None
    _media: Container[str]
    _past_calls: dict[str, tuple[int, ToolCall]] = {}  # by id; the number is the position in the message
    _results: list[ToolResult] = []  # not yet rendered, possibly out of order
    _messages: list[Message] = []
    _open: bool = False  # whether the last message has results and user text may follow
    _notes: dict[Note, None] = {}

    def render(self, messages: tuple[Message, ...]) -> Projection:
        for message in messages:
            self._render(message)
        self._close()
        return Projection(tuple(self._messages), tuple(self._notes))

    def _render(self, message: Message) -> None:
        if message.results or message.role == "tool":
            self._add_results(message)
        elif message.role == "user" and self._open:
            self._flush()
            self._add(self._parts(message, "turns"))
            self._open = False
        else:
            self._add_answer(message)

    def _add_answer(self, message: Message) -> None:
        self._close()
        self._messages.append(self._without_calls(message))
        self._past_calls.update({call.id: (at, call) for at, call in enumerate(message.calls)})

    def _note(self, code: str, detail: str) -> None:
        self._notes[Note(code, detail)] = None

    # ---- messages

    def _without_calls(self, message: Message) -> Message:
        parts = message.parts
        if message.role != "system":
            parts = self._parts(message, _LEVELS[message.role])
        if message.calls and message.role == "assistant":
            text = self._calls(tuple(map(self._writable, message.calls)))
            parts = join_text_parts((*parts, TextPart(f"\n\n{text}" if parts else text)))
        elif message.calls:
            self._note("call_misplaced", f"a call in a {message.role} message was dropped")
        elif parts is message.parts:
            return message
        return msgspec.structs.replace(message, parts=parts, calls=())

    def _writable(self, call: ToolCall) -> ToolCall:
        if any(note.code == _INVALID for note in call.notes):
            self._note(_INVALID, f"past arguments of `{display_name(call.name)}` are not a JSON object")
        if encode_json(call.arguments) is not None:
            return call
        self._note("arguments_not_json", f"past arguments of `{display_name(call.name)}` cannot be encoded as JSON")
        return ToolCall(call.name, {}, call.id)

    def _parts(self, message: Message, level: Literal["turns", "own"]) -> tuple[Part, ...]:
        """Return the parts as the model sees them, or the original tuple if nothing changed."""
        parts = [self._part(part, level) for part in message.parts]
        if all(map(is_, parts, message.parts)):
            return message.parts
        return join_text_parts(tuple(part for part in parts if part is not None))

    def _part(self, part: Part, level: Literal["turns", "own"]) -> Part | None:
        if isinstance(part, TextPart):
            text = neutralise(part.text, level, self._nonce)
            if text == part.text:
                return part
            self._note("specials_neutralised", "control tokens or call markers in a message were escaped")
            return msgspec.structs.replace(part, text=text)
        if isinstance(part, Media):
            return _media_part(part, self._media, self._notes)
        if level == "turns":
            return part
        self._note("opaque_dropped", f"a part of kind `{display_name(part.kind)}` was dropped from a past answer")
        return None

    # ---- results

    def _add_results(self, message: Message) -> None:
        """Collect results. Adjacent messages are merged into one, because chat templates require alternating roles."""
        if not self._open:
            self._messages.append(Message("user"))
            self._open = True
        self._results.extend(results_of(message))
        own = self._parts(message, "turns") if message.role != "tool" else ()
        if own:
            self._flush()
            self._add(own)
            self._open = False
        if message.calls:
            self._add_answer(Message("assistant", calls=message.calls))

    def _flush(self) -> None:
        """Render the collected results in the order of their calls, because parallel tools finish in any order."""
        results, self._results = self._results, []
        results.sort(key=lambda result: self._past_calls.get(result.id, (len(self._past_calls), None))[0])
        for result, label in zip(results, self._labels(results), strict=True):
            self._add(tuple(self._result_parts(result, label)))

    def _labels(self, results: list[ToolResult]) -> list[str]:
        """Label each result with its tool name, plus arguments and a number where needed to tell results apart.

        A single result needs no label, unless its call failed.
        """
        names = [self._name(result) for result in results]
        if len(results) == 1:
            return names if results[0].error else [""]
        shared = {name for name, count in Counter(names).items() if count > 1}
        labels = [
            f"{name} {self._arguments(result)}".rstrip() if name in shared else name
            for name, result in zip(names, results, strict=True)
        ]
        same = {label for label, count in Counter(labels).items() if count > 1}
        return [f"{label} (call {at})" if label in same else label for at, label in enumerate(labels, 1)]

    def _name(self, result: ToolResult) -> str:
        entry = self._past_calls.get(result.id)
        return display_name(result.name or (entry[1].name if entry else ""), self._nonce)

    def _arguments(self, result: ToolResult) -> str:
        """Return the arguments of the call that produced this result, shortened to one line."""
        entry = self._past_calls.get(result.id)
        if entry is None or encode_json(entry[1].arguments) is None:
            return ""
        text = one_line(json_text(entry[1].arguments, "own"), _MAX_LABEL)
        return neutralise(text, "own", self._nonce)

    def _result_parts(self, result: ToolResult, label: str) -> Iterable[Part]:
        content = neutralise(result.content, "foreign", self._nonce)
        if content != result.content:
            self._note("specials_neutralised", "control tokens or call markers in a result were escaped")
        if len(content) > MAX_RESULT_CHARS:
            self._note("result_cut", f"a result of {len(content)} characters was shortened")
            content = shorten(content, MAX_RESULT_CHARS)
        line = f"{_LABEL} {label}{' (it failed)' if result.error else ''}\n" if label else ""
        yield TextPart(line + self._result(content))
        for part in result.parts:
            if isinstance(part, Media):
                yield _media_part(part, self._media, self._notes)
            else:
                self._note("opaque_dropped", f"a part of kind `{display_name(part.kind)}` was dropped from a result")

    def _add(self, parts: tuple[Part, ...]) -> None:
        """Add parts to the last message, which contains the results."""
        last = self._messages[-1]
        gap = (TextPart("\n\n"),) if last.parts and parts else ()
        self._messages[-1] = msgspec.structs.replace(last, parts=join_text_parts((*last.parts, *gap, *parts)))

    def _close(self) -> None:
        """Complete an open message of results: no user text followed, so ask for the next action."""
        if self._open:
            self._flush()
            self._add((TextPart(self._ask),))
            self._open = False


def results_of(message: Message) -> tuple[ToolResult, ...]:
    """Return the results of a message. The text of a tool message without structured results counts as a result."""
    if message.role != "tool" or message.results:
        return message.results
    parts = tuple(part for part in message.parts if not isinstance(part, TextPart))
    return (ToolResult("", message.text, message.name, parts=parts),)


# ---- other views of a conversation


def decision_messages(messages: tuple[Message, ...], prompt: str) -> tuple[Message, ...]:
    """Build the messages of a decision request: the prompt, the user's text, and the text of the latest answer.

    Empty messages are left out. A user line is appended after a final assistant message, because some servers would
    otherwise continue that message.
    """
    latest = max((at for at, message in enumerate(messages) if message.role == "assistant"), default=-1)
    relevant = [
        msgspec.structs.replace(message, calls=(), results=())
        for at, message in enumerate(messages)
        if message.parts and (message.role == "user" or at == latest)
    ]
    if relevant and relevant[-1].role == "assistant":
        relevant.append(Message("user", (TextPart(_DECIDE),)))
    return (Message("system", (TextPart(prompt),)), *plain(tuple(relevant)).messages)


def without_media(messages: tuple[Message, ...], media: Container[str]) -> Projection:
    """Replace media that the model does not accept with a line of text."""
    if not any(map(_has_media, messages)):
        return Projection(messages)
    notes: dict[Note, None] = {}

    def convert_part(part: Part) -> Part:
        return _media_part(part, media, notes) if isinstance(part, Media) else part

    def convert_result(result: ToolResult) -> ToolResult:
        converted = [(part, convert_part(part)) for part in result.parts]
        lines = [new.text for part, new in converted if new is not part and isinstance(new, TextPart)]
        parts = tuple(part for part, new in converted if new is part)
        content = "\n".join(filter(None, (result.content, *lines)))
        return msgspec.structs.replace(result, content=content, parts=parts) if lines else result

    def convert(message: Message) -> Message:
        parts, results = tuple(map(convert_part, message.parts)), tuple(map(convert_result, message.results))
        if all(map(is_, parts, message.parts)) and all(map(is_, results, message.results)):
            return message
        return msgspec.structs.replace(message, parts=parts, results=results)

    return Projection(tuple(map(convert, messages)), tuple(notes))


def _has_media(message: Message) -> bool:
    if Media in map(type, message.parts):
        return True
    return any(Media in map(type, result.parts) for result in message.results) if message.results else False


def mark_cache_prefix(messages: tuple[Message, ...], stable: str) -> tuple[Message, ...]:
    """Mark the end of the stable text so that the upstream caches the prompt up to that point."""
    for at, message in enumerate(messages):
        for place, part in enumerate(message.parts):
            if isinstance(part, TextPart) and stable in part.text:
                end = part.text.index(stable) + len(stable)
                marked = TextPart(part.text[:end], {**part.extra, _CACHE: {"type": "ephemeral"}})
                rest = (TextPart(part.text[end:], part.extra),) if part.text[end:] else ()
                parts = (*message.parts[:place], marked, *rest, *message.parts[place + 1 :])
                return (*messages[:at], msgspec.structs.replace(message, parts=parts), *messages[at + 1 :])
    return messages


def leading_system_messages(messages: tuple[Message, ...]) -> int:
    for at, message in enumerate(messages):
        if message.role != "system":
            return at
    return len(messages)


def without_system(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Move system text into user messages, for models without a system role."""
    if not any(message.role == "system" for message in messages):
        return messages
    head = leading_system_messages(messages)
    text = "\n\n".join(message.text for message in messages[:head] if message.text)
    rest = system_as_user(messages[head:])
    if not text:
        return rest
    if not rest or rest[0].role != "user":
        return (Message("user", (TextPart(text),)), *rest)
    parts = join_text_parts((TextPart(f"{text}\n---\n\n"), *rest[0].parts))
    return (msgspec.structs.replace(rest[0], parts=parts), *rest[1:])


def system_as_user(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Turn system messages into user messages, because many chat templates accept them only at the start."""
    if "system" not in [message.role for message in messages]:
        return messages
    return tuple(
        msgspec.structs.replace(message, role="user") if message.role == "system" else message for message in messages
    )


def alternate_roles(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Merge neighbours of the same role and start with a user message, because many chat templates demand both.

    System messages stay at the start only; later ones become user messages. Templates that know tools do not count
    calls and their results, so an assistant message is inserted between a result and a message of the user.
    """
    roles: list[str] = [message.role for message in messages]
    head = leading_system_messages(messages)
    begins = head == len(roles) or roles[head] != "assistant"
    alternates = "tool" not in roles and all(map(ne, roles, roles[1:])) and not any(each.results for each in messages)
    if begins and head <= 1 and "system" not in roles[head:] and alternates:
        return messages
    merged: list[Message] = []
    for at, message in enumerate(messages):
        if at == head and not begins:
            merged.append(Message("user", (TextPart(_BEGIN),)))
        if at >= head and message.role == "system":
            message = msgspec.structs.replace(message, role="user")
        for part in _without_results(message):
            if merged and part.role == "user" and part.parts and (merged[-1].role == "tool" or merged[-1].results):
                merged.append(Message("assistant", (TextPart(_RECEIVED),)))
            if merged and merged[-1].role == part.role and part.role != "tool":
                merged[-1] = _merge(merged[-1], part)
            else:
                merged.append(part)
    return tuple(merged)


def _without_results(message: Message) -> tuple[Message, ...]:
    """Split a user message into its results and its text."""
    if not message.results or not message.parts or message.role == "tool":
        return (message,)
    return (msgspec.structs.replace(message, parts=()), msgspec.structs.replace(message, results=()))


def _merge(first: Message, second: Message) -> Message:
    """Merge two messages of one role. Names that differ are written into the text."""
    if first.name != second.name:
        first, second = _with_name_in_text(first), _with_name_in_text(second)
    gap = (TextPart("\n\n"),) if first.parts and second.parts else ()
    return msgspec.structs.replace(
        first,
        parts=join_text_parts((*first.parts, *gap, *second.parts)),
        reasoning="\n\n".join(filter(None, (first.reasoning, second.reasoning))),
        calls=first.calls + second.calls,
        results=first.results + second.results,
        extra={**first.extra, **second.extra},
    )


def _with_name_in_text(message: Message) -> Message:
    if not message.name:
        return message
    parts = join_text_parts((TextPart(f"{message.name}: "), *message.parts))
    return msgspec.structs.replace(message, name="", parts=parts)


# ---- questions about a conversation


def since_last_user(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages after the user's last message. A user message with only results does not count."""
    for at, message in reversed([*enumerate(messages)]):
        if message.role == "user" and (message.parts or not message.results):
            # Results in this message come before the user's text, so they are not included.
            return messages[at + 1 :]
    return messages


def is_answered(messages: tuple[Message, ...]) -> bool:
    """Whether the user is replying to a text answer. Such a reply does not necessarily request anything."""
    user_replied = False
    for message in reversed(messages):
        if message.role == "assistant":
            return user_replied and not message.calls and bool(message.text)
        if message.role == "tool" or message.results:
            return False
        user_replied = user_replied or message.role == "user"
    return False


def untrusted_texts(messages: tuple[Message, ...]) -> tuple[str, ...]:
    """Return the texts from which a model may copy a call: tool results and user text.

    User text counts because people paste text from others. System text and the model's past answers are trusted.
    """
    texts: dict[str, None] = {}
    for message in messages:
        for result in message.results:
            texts[result.content] = None
        if message.role in _UNTRUSTED_ROLES:
            texts[message.text] = None
    texts.pop("", None)
    return tuple(texts)


def nonce_is_free(nonce: str, messages: tuple[Message, ...]) -> bool:
    """Whether the nonce is absent from all untrusted texts."""
    # `untrusted_texts` is not used here: it hashes every text, so long texts would be scanned twice.
    for message in messages:
        for result in message.results:
            if nonce in result.content:
                return False
        if message.role in _UNTRUSTED_ROLES and nonce in message.text:
            return False
    return True


def stop_sequences(dialect: str) -> tuple[str, ...]:
    """Return the dialect's stop sequences, which stop a model that begins to invent a tool result."""
    return _stops_at(dialect_row(dialect).result[0])


@lru_cache(maxsize=128)  # larger than the number of dialects
def _stops_at(mark: str) -> tuple[str, ...]:
    opener = mark.strip().removesuffix(">").removesuffix(":")
    return (f"\n{opener}", f"\n{_LABEL}")

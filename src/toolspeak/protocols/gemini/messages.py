"""Contents, with the system instruction beside them, to messages and back.

Calls and results often have no ids here: they get some by name and order, which are not sent. Thinking stands twice
in a message: its text in `reasoning`, its part, with the signature that alone makes it worth sending back, among the
parts. `extra` keeps `order` (how parts, calls and results follow each other, if unusual) and `calls` (by position:
what the part of a call says besides, such as its signature).
"""

from __future__ import annotations

from collections.abc import Iterable

from ...core.types import (
    JSONObject,
    JSONValue,
    Media,
    Message,
    Note,
    Opaque,
    Part,
    Request,
    Role,
    ToolCall,
    ToolResult,
    is_object,
)
from ...errors import UsageError
from ..shared.fields import array_field, object_field, read_arguments, speaks, text_field, to_wire, without
from ..shared.whole_calls import Pairing, in_call_order, sent_id
from .parts import decode_media, decode_part, encode_parts, is_thought
from .wire import PART, PROTOCOL, proto

_ROLES: dict[str, Role] = {"user": "user", "model": "assistant", "function": "user", "": "user"}
_CALL, _RESULT = "functionCall", "functionResponse"
#: Words in `extra` that are ours.
ORDER, CALLS, _ROLE = "order", "calls", "role"
#: Results, parts, calls: the order in which they usually stand.
_USUAL = "rpc"
#: What a reader may see of arguments that are no JSON object.
_SHOWN = 80
#: https://ai.google.dev/gemini-api/docs/thought-signatures: what a call carries that Gemini itself did not make.
_NO_SIGNATURE = "skip_thought_signature_validator"
_SIGNATURE = "thoughtSignature"


# ------------------------------------------------------------------------------------------------ from the wire


def decode_system(value: JSONValue) -> tuple[Message, ...]:
    """The system instruction as a message, if there is one."""
    if value is None:
        return ()
    if isinstance(value, str):  # some clients take it for a text
        value = {"parts": [{"text": value}]}
    content = proto(object_field(value, "systemInstruction"))
    parts = tuple(decode_part(part, path) for part, path in _parts(content, "systemInstruction"))
    return (Message("system", parts, extra=without(content, "parts", ORDER, CALLS)),) if parts else ()


def decode_contents(value: JSONValue) -> tuple[Message, ...]:
    """The messages of a request body; a single content may stand for a list of one."""
    listed = [value] if is_object(value) else array_field(value, "contents")
    ids = Pairing()
    return tuple(
        _message(proto(object_field(item, f"contents[{at}]")), f"contents[{at}]", ids) for at, item in enumerate(listed)
    )


def _parts(content: JSONObject, path: str) -> list[tuple[JSONObject, str]]:
    """The parts of a content, each with its path."""
    listed = array_field(content.get("parts"), f"{path}.parts")
    return [(proto(object_field(part, f"{path}.parts[{at}]")), f"{path}.parts[{at}]") for at, part in enumerate(listed)]


class _Content:
    """The parts of one content, sorted by what they are."""

    def __init__(self, ids: Pairing) -> None:
        self._ids = ids
        self.parts: list[Part] = []
        self.calls: list[ToolCall] = []
        self.results: list[ToolResult] = []
        self.thoughts: list[str] = []
        self.beside: JSONObject = {}
        self._order: list[str] = []

    @property
    def order(self) -> str:
        """How results, parts and calls follow each other; nothing, if as usual."""
        usual = sorted(self._order, key=_USUAL.index)
        return "" if usual == self._order else "".join(self._order)

    def add(self, part: JSONObject, path: str) -> None:
        if _CALL in part:
            self._call(part, path)
            self._order.append("c")
        elif _RESULT in part:
            self._result(part, path)
            self._order.append("r")
        else:
            found = decode_part(part, path)
            if is_thought(found):
                self.thoughts.append(text_field(part.get("text"), f"{path}.text"))
            self.parts.append(found)
            self._order.append("p")

    def _call(self, part: JSONObject, path: str) -> None:
        path = f"{path}.{_CALL}"
        body = proto(object_field(part[_CALL], path))
        name = text_field(body.get("name"), f"{path}.name")
        if not name:
            raise UsageError(f"`{path}.name` is missing")
        rest = without(part, _CALL)
        inner = without(body, "name", "id", "args")
        arguments = read_arguments(body.get("args"))
        notes: tuple[Note, ...] = ()
        if arguments is None:
            notes = (Note("arguments_invalid", f"no JSON object: {str(body['args'])[:_SHOWN]}"),)
        if inner:
            rest[_CALL] = inner
        if rest:
            self.beside[str(len(self.calls))] = rest
        identifier = self._ids.call(name, text_field(body.get("id"), f"{path}.id"))
        self.calls.append(ToolCall(name, arguments or {}, identifier, notes))

    def _result(self, part: JSONObject, path: str) -> None:
        path = f"{path}.{_RESULT}"
        body = proto(object_field(part[_RESULT], path))
        name = text_field(body.get("name"), f"{path}.name")
        identifier = self._ids.result(name, text_field(body.get("id"), f"{path}.id"))
        response = body.get("response")
        content, error = _said(response)
        extra = without(body, "name", "id", "response", "parts")
        if response is not None and response != _response(content, error):
            extra["response"] = response
        beside = without(part, _RESULT)
        if beside:
            extra["part"] = beside
        parts = tuple(_result_part(inner, where) for inner, where in _parts(body, path))
        self.results.append(ToolResult(identifier, content, name, error, parts, extra))


def _result_part(part: JSONObject, path: str) -> Media | Opaque:
    return decode_media(part, path) or Opaque(PART, part)


def _said(response: JSONValue) -> tuple[str, bool]:
    """What a response says, and whether that is an error. `output` and `error` are the documented keys."""
    match response:
        case None:
            return "", False
        case {"error": str() as text} if len(response) == 1:
            return text, True
        case {"output": str() as text} | {"result": str() as text} if len(response) == 1:
            return text, False
        case _:
            return to_wire(response).decode(), False


def _response(content: str, error: bool) -> JSONObject:
    return {"error" if error else "output": content}


def _message(value: JSONObject, path: str, ids: Pairing) -> Message:
    name = text_field(value.get("role"), f"{path}.role")
    role = _ROLES.get(name)
    if role is None:
        raise UsageError(f"`{path}.role` is `{name}`", hint="use user or model")
    content = _Content(ids)
    for part, where in _parts(value, path):
        content.add(part, where)
    extra = without(value, "role", "parts", ORDER, CALLS)
    if content.order:
        extra[ORDER] = content.order
    if content.beside:
        extra[CALLS] = content.beside
    only_results = role == "user" and content.results and not content.parts and not content.calls
    return Message(
        "tool" if only_results else role,
        tuple(content.parts),
        "".join(content.thoughts),
        tuple(content.calls),
        tuple(content.results),
        extra=extra,
    )


# -------------------------------------------------------------------------------------------------- to the wire


def encode_contents(request: Request) -> tuple[JSONObject | None, list[JSONObject]]:
    """The system instruction, if there is one, and the contents."""
    system: JSONObject = {"parts": []}
    contents: list[JSONObject] = []
    names: dict[str, str] = {}
    joinable = False
    for message in in_call_order(request.messages):
        ours = speaks(message, request, PROTOCOL)
        extra = message.extra if ours else {}
        if message.role == "system":
            system["parts"] += encode_parts(message.parts, ours)
            system |= without(extra, "parts")
            continue
        names |= {call.id: call.name for call in message.calls}
        parts = _encode_parts(message, extra, names, ours)
        rest = without(extra, ORDER, CALLS)
        only_results = message.role != "assistant" and bool(parts) and len(parts) == len(message.results) and not rest
        if only_results and joinable:
            contents[-1]["parts"] += parts  # the results of one turn belong into one content
        elif parts:
            contents.append({"role": "model" if message.role == "assistant" else "user", "parts": parts, **rest})
        joinable = only_results or (joinable and not parts)
    return (system if system["parts"] else None), contents


def _encode_parts(message: Message, extra: JSONObject, names: dict[str, str], ours: bool) -> list[JSONObject]:
    parts = encode_parts(message.parts, ours)
    if message.reasoning and not (ours and any(map(is_thought, message.parts))):
        parts.insert(0, {"text": message.reasoning, "thought": True})
    beside = extra.get(CALLS)
    calls = _encode_calls(message.calls, beside if is_object(beside) else {}, ours)
    found = {
        "r": [_encode_result(result, names, ours) for result in message.results],
        "p": parts,
        "c": calls,
    }
    order = extra.get(ORDER)
    if not isinstance(order, str) or any(order.count(kind) != len(wire) for kind, wire in found.items()):
        order = "".join(kind * len(found[kind]) for kind in _USUAL)
    queues = {kind: iter(wire) for kind, wire in found.items()}
    return [next(queues[kind]) for kind in order if kind in queues]


def _encode_calls(calls: Iterable[ToolCall], beside: JSONObject, ours: bool) -> list[JSONObject]:
    wire: list[JSONObject] = []
    for at, call in enumerate(calls):
        body: JSONObject = {"name": call.name, "args": call.arguments}
        if sent_id(call.id):
            body["id"] = call.id
        rest = beside.get(str(at))
        rest = rest if is_object(rest) else {}
        inner = rest.get(_CALL)
        part = {_CALL: {**(inner if is_object(inner) else {}), **body}, **without(rest, _CALL)}
        if not ours and not at:  # the first call of a step is the one that is signed
            part[_SIGNATURE] = _NO_SIGNATURE
        wire.append(part)
    return wire


def _encode_result(result: ToolResult, names: dict[str, str], ours: bool) -> JSONObject:
    extra = result.extra if ours else {}
    given = extra.get("response")
    same = "response" in extra and _said(given) == (result.content, result.error)
    body: JSONObject = {"name": result.name or names.get(result.id, "")}
    if sent_id(result.id):
        body["id"] = result.id
    body["response"] = given if same else _response(result.content, result.error)
    parts = encode_parts(result.parts, ours)
    if parts:
        body["parts"] = parts
    beside = extra.get("part")
    wire: JSONObject = {_RESULT: {**body, **without(extra, "response", "part")}}
    return {**wire, **beside} if is_object(beside) else wire

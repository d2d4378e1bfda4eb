"""Calls written as JSON: an object, an array of objects, or a document that holds such an array.

Reads the tokens of the tolerant JSON reader and finds in them, by a table of key names, the name and the
arguments of each call, also when the arguments come first. A plain call that came whole is read at once.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from ..core.json_repair.containers import MAX_DEPTH, MAX_SIZE
from ..core.json_repair.parser import Transducer
from ..core.json_repair.tokens import ARRAY, END_ARRAY, END_OBJECT, END_STRING, KEY, OBJECT, PART, SCALAR, STRING, Token
from ..core.parsing.call_builder import CallBuilder
from ..core.parsing.fast_paths import Run
from ..core.parsing.whole_values import whole_object
from .bodies import Body, Context, string_run
from .nonce_match import is_nonce

_Role = Literal["name", "arguments", "calls", "nonce", "meta", "other"]

#: What the keys of a call object mean. A `function` or `tool` whose value is an object holds the call.
ROLES: dict[str, _Role] = {
    "name": "name",
    "tool": "name",
    "function": "name",
    "action": "name",
    "tool_name": "name",
    "function_name": "name",
    "arguments": "arguments",
    "parameters": "arguments",
    "args": "arguments",
    "input": "arguments",
    "action_input": "arguments",
    "tool_input": "arguments",
    "tool_calls": "calls",
    "calls": "calls",
    "tools": "calls",
    "function_call": "calls",
    "nonce": "nonce",
    "id": "meta",
    "type": "meta",
    "index": "meta",
    "call_id": "meta",
    "tool_call_id": "meta",
    "thought": "meta",
    "reply": "meta",
    "content": "meta",
    "reasoning": "meta",
}
#: Where tools are also declared, only the one spelling that no declaration uses counts.
_CANONICAL: dict[str, _Role] = {"name": "name", "arguments": "arguments", "id": "meta"}
#: A document, its list, a call and the object inside it are four; a brace that opens more of them is no call.
_MAX_FRAMES = 8
#: LangChain's way to say that no tool is needed.
_FINAL_ANSWERS = frozenset({"Final Answer"})

#: How nearly every call begins, up to its arguments, and how it ends. Any other name is read in tokens.
_S = r"[ \t\r\n]*+"
_KEY = rf'{_S}"([a-z_]{{3,16}}+)"{_S}:{_S}'
_HEAD = re.compile(rf'\{{{_KEY}"(?!functions\.)([a-zA-Z0-9_./:-]{{1,64}}+)"{_S},{_KEY}(?=\{{)').match
_TAIL = re.compile(rf"{_S}\}}").match
#: The values around the arguments: the object that they stand in, and the name.
_AROUND = 2


def read_whole(context: Context, buf: str, pos: int, canonical: bool = False) -> int:
    """Read the call at `pos` at once, when it came whole and is plain: a name, then its arguments, and nothing else.

    The position behind it, or 0, and nothing has happened, when `JsonCalls` must read it.
    """
    head = _HEAD(buf, pos)
    roles = _CANONICAL if canonical else ROLES
    if head is None or roles.get(head[1]) != "name" or roles.get(head[3]) != "arguments":
        return 0
    allowance = context.desk.allowance
    arguments = whole_object(buf, head.end(), context.stops, allowance, _AROUND)
    tail = _TAIL(buf, arguments.end) if arguments is not None else None
    if arguments is None or tail is None or tail.end() - pos > MAX_SIZE:
        return 0
    if context.builder().take_call(head[2], arguments):
        allowance.left -= arguments.values + _AROUND
        return tail.end()
    context.withdraw()
    return 0


class _Frame:
    """An object that is, or holds, a call; or an array of them."""

    __slots__ = ("argued", "builder", "is_list", "named", "role")

    def __init__(self, is_list: bool, builder: CallBuilder | None = None) -> None:
        self.is_list = is_list
        self.builder = builder
        self.role: _Role = "other"
        self.named = False
        self.argued = False


class JsonCalls(Body):
    """One JSON value that consists of calls. `exact` refuses keys that no call has."""

    def __init__(self, context: Context, canonical: bool = False, keyed: bool = False) -> None:
        super().__init__(context)
        self._keyed = keyed  # keys are the names of tools, their values the arguments
        self._json = Transducer(stops=context.stops, allowance=context.desk.allowance)
        self._roles: dict[str, _Role] = _CANONICAL if canonical else ROLES
        self._frames: list[_Frame] = []
        self._exact = context.evidence.wrapper != "strong"
        self._mode: Literal["frame", "text", "arguments", "skip"] = "frame"
        self._depth = 0
        self._parts: list[str] = []
        self._quotes_before = False
        self._batch: list[Token] = []
        self._last_key = ""
        self._told = 0  # how many notes of the reader some call carries

    # ---- reading

    def feed(self, buf: str, pos: int, final: bool) -> int:
        json = self._json
        seen = self.context.desk.calls_seen
        while self.state == "open" and self.context.desk.calls_seen == seen and not self.context.vain:
            new = json.feed(buf, pos, final, self._pause())
            stuck = new == pos and not json.tokens
            self._drain()
            if self.state == "open" and json.status != "open":
                self._complete()
            if stuck:
                break
            pos = new
        return pos

    def _pause(self) -> int:
        """How many containers are open where a token may turn everything: all but those inside a value."""
        inside = self._depth - self._json.in_string if self._mode in ("arguments", "skip") else 0
        return len(self._json.closers) - inside if inside else MAX_DEPTH

    def _complete(self) -> None:
        if self._json.status != "complete":
            self._fail("not_json")
            return
        self.state = "done"
        self._note_rest()

    def _note_rest(self) -> None:
        """What was repaired behind the last call."""
        late = self._json.notes[self._told :]
        builder = self.context.builders[-1] if self.context.builders else None
        if builder is not None and builder.state == "tail":
            builder.note(*late)
        elif builder is not None and builder.state == "done":
            for note in late:
                self.context.desk.note(note.code, note.detail)

    def finish(self) -> None:
        in_list = len(self._frames) == 1 and self._frames[0].is_list and bool(self.context.builders)
        if in_list and self._json.closers == "]":
            self.state = "done"
            self.context.desk.note("missing_closer", "the bracket behind the last call is missing")
            return
        if in_list:
            self.context.builder().cut()
        for frame in self._frames:
            if frame.builder is not None and not frame.is_list:
                frame.builder.cut()
        self.state = "failed"

    def run(self) -> Run | None:
        return string_run(self._json, self._frames[-1].builder) if self._mode == "arguments" else None

    def _drain(self) -> None:
        tokens, self._json.tokens = self._json.tokens, []
        for token in tokens:
            if self.state != "open":
                return
            self._token(token)
        self._forward()

    def _fail(self, reason: str, *others: CallBuilder) -> None:
        self.state = "failed"
        for builder in others:
            builder.fail(reason)
        for frame in self._frames:
            if frame.builder is not None and not frame.is_list:
                frame.builder.note(*self._json.notes)
                frame.builder.fail(reason)

    # ---- the meaning of tokens

    def _token(self, token: Token) -> None:
        if self._mode == "arguments":
            self._batch.append(token)
            self._nest(token)
        elif self._mode == "skip":
            self._nest(token)
        elif self._mode == "text":
            self._text(token)
        else:
            self._frame_token(token)

    def _nest(self, token: Token) -> None:
        """Follow a value to its end."""
        kind = token[0]
        if kind in (OBJECT, ARRAY, STRING):
            self._depth += 1
        elif kind in (END_OBJECT, END_ARRAY, END_STRING):
            self._depth -= 1
        if self._depth == 0 and kind not in (KEY, PART):
            self._forward()
            self._mode = "frame"

    def _forward(self) -> None:
        """Hand the argument tokens so far to the builder."""
        if self._batch:
            batch, self._batch = self._batch, []
            builder = self._frames[-1].builder
            assert builder is not None
            builder.tokens(batch)

    def _text(self, token: Token) -> None:
        """Collect a name or a nonce."""
        if token[0] == PART:
            self._parts.append(token[1])
            if "inner_quotes" in self._json.codes and not self._quotes_before:
                self._fail("no_name")  # nobody's tool is called that
            return
        self._mode = "frame"
        text = msgspec.json.decode('"' + "".join(self._parts) + '"', type=str).strip()
        frame = self._frames[-1]
        if frame.role == "nonce":
            self._see_nonce(text)
        elif frame.builder is not None and not frame.named:
            frame.named = True
            self._named(frame.builder, text)

    def _see_nonce(self, text: str) -> None:
        context = self.context
        if context.desk.nonce is not None and is_nonce(text, context.desk.nonce):
            context.evidence = msgspec.structs.replace(context.evidence, nonce=True)
            for frame in self._frames:
                if frame.builder is not None:
                    frame.builder.evidence = context.evidence

    def _named(self, builder: CallBuilder, name: str) -> None:
        if name in _FINAL_ANSWERS:
            builder.fail("final_answer")
            self._fail("final_answer")
            return
        accepted = builder.take_name(name.removeprefix("functions."))
        if not accepted and (self._exact or builder.stops_region):
            self._fail(builder.reason)
        self.context.vain = not accepted

    def _frame_token(self, token: Token) -> None:
        kind, text = token
        if kind == KEY:
            self._key(text)
        elif kind in (OBJECT, ARRAY):
            self._enter(kind == ARRAY)
        elif kind in (END_OBJECT, END_ARRAY):
            self._leave()
        else:
            self._scalar(token)

    def _key(self, text: str) -> None:
        frame = self._frames[-1]
        frame.role = self._roles.get(text, "other")
        self._last_key = text
        if self._keyed and (frame.role == "other" or self.context.desk.knows(text)):
            self._name_key(frame, text)
        frame.argued = frame.argued or frame.role == "arguments"
        if frame.role == "other" and self._exact:
            self._fail("not_a_call")

    def _name_key(self, frame: _Frame, text: str) -> None:
        """`{"get_weather": {...}}`: the key is the name. Each further key is a call of its own."""
        builder = frame.builder
        assert builder is not None  # keys stand in objects only
        if frame.named:
            if builder.state in ("live", "held"):
                self._end_call(builder)
            if self.context.desk.full:
                self._fail("not_a_call")
                return
            frame.builder = builder = self.context.builder()
        frame.named = True
        frame.role = "arguments"
        self._named(builder, text)

    def _enter(self, is_list: bool) -> None:
        """A container begins where a call, a list of calls, or a value of a call may stand."""
        if not self._frames:
            self._frames.append(_Frame(is_list, None if is_list else self.context.builder()))
            return
        frame = self._frames[-1]
        if len(self._frames) >= _MAX_FRAMES or (frame.is_list and self.context.desk.full):
            self._fail("not_a_call")
            return
        if self._keyed and not (is_list or frame.is_list or frame.named) and self.context.desk.tools is None:
            self._name_key(frame, self._last_key)  # any name may be a tool's, also one that is a role elsewhere
            self._value(OBJECT)
        elif frame.is_list and not is_list:
            self._frames.append(_Frame(False, self.context.builder()))
        elif not frame.is_list and frame.role == "name" and not is_list:
            self._frames.append(_Frame(False, frame.builder))
        elif not frame.is_list and frame.role == "calls":
            frame.named = True  # a document, not a call
            self._frames.append(_Frame(is_list, None if is_list else self.context.builder()))
        else:
            self._value(OBJECT if not is_list else ARRAY)

    def _value(self, kind: int) -> None:
        """A container that is no frame: arguments, or something to skip."""
        frame = self._frames[-1]
        self._depth = 1
        if frame.role == "arguments" and not frame.is_list:
            self._mode = "arguments"
            self._batch.append((kind, ""))
        else:
            self._mode = "skip"

    def _leave(self) -> None:
        frame = self._frames.pop()
        builder = frame.builder
        if frame.is_list or builder is None:
            return
        if self._frames and self._frames[-1].builder is builder:
            self._frames[-1].named = True
            self._frames[-1].argued = frame.argued
            return  # the inner object of {"function": {...}}
        if self._exact and self.context.desk.tools is None and not frame.argued and builder.state == "held":
            self._fail("not_a_call", builder)  # {"name": "Ada"} is a person
            return
        if builder.state in ("live", "held"):
            self._end_call(builder)
        elif not frame.named:
            builder.fail("no_name")

    def _end_call(self, builder: CallBuilder) -> None:
        builder.note(*self._json.notes)
        self._told = len(self._json.notes)
        builder.end()

    def _scalar(self, token: Token) -> None:
        """A string or another scalar as the value of a key, or as an item where a call was due."""
        frame = self._frames[-1]  # the value begins with a bracket, so there is one
        is_string = token[0] == STRING
        self._depth = 1 if is_string else 0
        if frame.is_list:
            self._mode = "skip" if is_string else "frame"
        elif frame.role == "arguments":
            self._mode = "arguments" if is_string else "frame"
            self._batch.append(token)
            if token[0] == SCALAR:
                self._forward()
        elif is_string and frame.role in ("name", "nonce"):
            self._parts = []
            self._mode = "text"
            self._quotes_before = "inner_quotes" in self._json.codes
        else:
            self._mode = "skip" if is_string else "frame"
            if frame.role == "name" and self._exact:
                self._fail("no_name")

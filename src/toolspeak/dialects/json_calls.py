"""Calls written as JSON: an object, an array of objects, or a document that contains such an array.

The keys of an object identify the tool name and the arguments, in any order. The tokens come from the lenient JSON
parser. A fast path reads simple calls that are completely in the buffer.
"""

import re
from typing import Literal

import msgspec

from ..core.json_repair.containers import MAX_DEPTH, MAX_SIZE
from ..core.json_repair.parser import JSONParser
from ..core.json_repair.tokens import ARRAY, END_ARRAY, END_OBJECT, END_STRING, KEY, OBJECT, PART, SCALAR, STRING, Token
from ..core.parsing.call_builder import CallBuilder
from ..core.parsing.fast_paths import FastPath, whole_object
from ..core.types import Note
from .body_grammars import BlockContext, Body, is_nonce, string_fast_path

_Role = Literal["name", "arguments", "calls", "nonce", "meta", "other"]

#: Roles of the keys of a call object. A `function` or `tool` whose value is an object contains the call.
_KEYS: dict[_Role, str] = {
    "name": "name tool function action tool_name function_name recipient_name",
    "arguments": "arguments parameters args kwargs input action_input tool_input tool_arguments function_arguments",
    "calls": "tool_calls calls tools tool_uses tool_call function_call",
    "nonce": "nonce",
    "meta": "id type index call_id tool_call_id thought reply content reasoning",
}
ROLES: dict[str, _Role] = {key: role for role, keys in _KEYS.items() for key in keys.split()}
#: Roles in blocks that may also declare tools, where only `arguments` distinguishes a call from a declaration.
_CANONICAL: dict[str, _Role] = {"name": "name", "arguments": "arguments", "id": "meta"}
#: Maximum nesting depth of a call. A document, a list, a call and its inner object are four levels.
_MAX_FRAMES = 8
#: Keys of a call that are never its arguments.
_OUTER_KEYS = frozenset({"id", "type", "index", "call_id", "tool_call_id"})
#: Tool names that LangChain uses for an answer without a call.
_FINAL_ANSWERS = frozenset({"Final Answer"})

#: Patterns for the fast path: a call up to its arguments, and its end.
_S = r"[ \t\r\n]*+"
_KEY = rf'{_S}"([a-z_]{{3,16}}+)"{_S}:{_S}'
_HEAD = re.compile(rf'\{{{_KEY}"(?!functions\.)([a-zA-Z0-9_./:-]{{1,64}}+)"{_S},{_KEY}(?=\{{)').match
_TAIL = re.compile(rf"{_S}\}}").match
#: JSON values outside the arguments: the call object and the name.
_OUTER_VALUES = 2


def read_whole(block: BlockContext, buf: str, pos: int, canonical: bool = False) -> int:
    """Read a complete call at `pos` that contains only a name and arguments.

    Returns the position after the call. Returns 0 without side effects for any other text, which `JsonCalls` must read.
    """
    head = _HEAD(buf, pos)
    roles = _CANONICAL if canonical else ROLES
    if head is None or roles.get(head[1]) != "name" or roles.get(head[3]) != "arguments":
        return 0
    allowance = block.context.allowance
    arguments = whole_object(buf, head.end(), block.stops, allowance, _OUTER_VALUES)
    tail = _TAIL(buf, arguments.end) if arguments is not None else None
    if arguments is None or tail is None or tail.end() - pos > MAX_SIZE:
        return 0
    if block.builder().take_call(head[2], arguments):
        allowance.remaining -= arguments.values + _OUTER_VALUES
        return tail.end()
    block.withdraw()
    return 0


class _Frame(msgspec.Struct, eq=False):
    """An open object that is or contains a call, or an open array of such objects."""

    is_list: bool
    builder: CallBuilder | None = None
    role: _Role = "other"
    has_name: bool = False
    has_arguments: bool = False
    #: Whether the arguments are keys of the call itself, beside its name.
    flat: bool = False
    #: Whether a key is the name of the tool, so that its value is the arguments.
    named_by_key: bool = False
    #: Whether a key says what kind of thing the object is.
    typed: bool = False
    #: Whether this entry of a list is not a call, although others are.
    refused: bool = False

    def separate(self) -> None:
        """Note that another member may be between the name and the arguments."""
        if self.builder is not None and self.has_name != self.has_arguments:
            self.builder.apart = True


class JsonCalls(Body):
    """Reads a JSON value that consists of calls."""

    def __init__(self, block: BlockContext, canonical: bool = False, keyed: bool = False) -> None:
        super().__init__(block)
        self._keyed = keyed  # keys are tool names and their values are arguments
        self._json = JSONParser(stops=block.stops, allowance=block.context.allowance)
        self._roles: dict[str, _Role] = _CANONICAL if canonical else ROLES
        self._frames: list[_Frame] = []
        self._mode: Literal["frame", "text", "arguments", "skip"] = "frame"
        self._depth = 0
        self._parts: list[str] = []
        self._quotes_before = False
        self._batch: list[Token] = []
        self._last_key = ""
        self._notes_passed = 0  # number of parser notes already added to a call
        self._follows_call = False  # a call was found earlier in the same list

    @property
    def _exact(self) -> bool:
        """Whether the value may still be something other than calls, so that anything unusual rejects it."""
        return self.block.evidence.wrapper != "strong" and not self.block.has_started

    def feed(self, buf: str, pos: int, final: bool) -> int:
        json = self._json
        calls_before = self.block.context.calls_seen
        while self.state == "open" and self.block.context.calls_seen == calls_before and not self.block.vain:
            new = self._take_whole(buf, pos) or json.feed(buf, pos, final, self._pause())
            stuck = new == pos and not json.tokens
            self._drain()
            if self.state == "open" and json.status != "open":
                self._complete()
            if stuck:
                break
            pos = new
        return pos

    def _take_whole(self, buf: str, pos: int) -> int:
        """Take arguments that are completely in the buffer. Returns the position after them, or 0."""
        if self._mode != "frame" or not 0 < len(self._frames) < _MAX_FRAMES:
            return 0
        frame = self._frames[-1]
        if frame.builder is None or frame.role != "arguments" or frame.flat:
            return 0
        depth = 1 if frame.named_by_key else sum(each.builder is frame.builder for each in self._frames)
        new = frame.builder.take_member(self._json, buf, pos, self.block.stops, depth)
        if new:
            self._end_keyed()
        return new

    def _pause(self) -> int:
        """Return the nesting depth at which the parser must pause: the depth of the calls, not of their values."""
        inside = self._depth - self._json.in_string if self._mode in ("arguments", "skip") else 0
        return len(self._json.closers) - inside if inside else MAX_DEPTH

    def _complete(self) -> None:
        if self._json.status != "complete":
            self._fail("not_json")
            return
        self.state = "done"
        self._note_rest()

    def _note_rest(self) -> None:
        """Record the repairs that the parser made after the last call."""
        late = self._json.notes[self._notes_passed :]
        builder = self.block.builders[-1] if self.block.builders else None
        if builder is not None and builder.state == "tail":
            builder.note(*late)
        elif builder is not None and builder.state == "done":
            for note in late:
                self.block.context.note(note.code, note.detail)

    def finish(self) -> None:
        in_list = len(self._frames) == 1 and self._frames[0].is_list and bool(self.block.builders)
        if in_list and self._json.closers == "]":
            self.state = "done"
            self.block.context.note("missing_closer", "missing closing bracket after the last call")
            return
        if in_list:
            self.block.builder().cut()
        for frame in self._frames:
            if frame.builder is not None and not frame.is_list:
                frame.builder.cut()
        self.state = "failed"

    def fast_path(self) -> FastPath | None:
        return string_fast_path(self._json, self._frames[-1].builder) if self._mode == "arguments" else None

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

    def _refuse(self, frame: _Frame, reason: str) -> None:
        """Reject an object without a name: alone if it follows a call in a list, otherwise with all around it."""
        self._follows_call = self._follows_call or any(other.state == "tail" for other in self.block.builders)
        if frame.has_name or not (self._in_list and self._follows_call):
            self._fail(reason)
            return
        assert frame.builder is not None  # only objects have keys
        frame.builder.fail(reason)
        frame.has_name = frame.refused = True

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
        """Track the nesting depth until the current value ends."""
        kind = token[0]
        if kind in (OBJECT, ARRAY, STRING):
            self._depth += 1
        elif kind in (END_OBJECT, END_ARRAY, END_STRING):
            self._depth -= 1
        if self._depth == 0 and kind not in (KEY, PART):
            self._forward()
            self._mode = "frame"
            self._end_keyed()

    def _forward(self) -> None:
        """Pass the collected argument tokens to the builder."""
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
                self._fail("no_name")  # tool names contain no quotes
            return
        self._mode = "frame"
        text = msgspec.json.decode('"' + "".join(self._parts) + '"', type=str).strip()
        frame = self._frames[-1]
        if frame.role == "nonce":
            self._see_nonce(text)
        elif frame.builder is not None and not frame.has_name:
            frame.has_name = True
            self._take_name(frame.builder, text)

    def _see_nonce(self, text: str) -> None:
        block = self.block
        if block.context.nonce is None:
            return
        is_right = is_nonce(text, block.context.nonce)
        block.evidence = msgspec.structs.replace(block.evidence, nonce=is_right, unmarked_counts=None)
        for frame in self._frames:
            if frame.builder is not None:
                frame.builder.evidence = block.evidence

    def _take_name(self, builder: CallBuilder, name: str) -> None:
        if name in _FINAL_ANSWERS:
            builder.fail("final_answer")
            self._fail("final_answer")
            return
        accepted = builder.take_name(name.removeprefix("functions."))
        if not accepted and ((self._exact and not self._in_list) or builder.stops_region):
            self._fail(builder.reason)
        self.block.vain = not accepted

    @property
    def _in_list(self) -> bool:
        return self.block.in_list or any(frame.is_list for frame in self._frames)

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
        frame.role = "other" if frame.refused else self._roles.get(text, "other")
        if frame.refused:
            return
        self._last_key = text
        frame.typed = frame.typed or text == "type"
        if self._is_name(frame, text):
            self._name_key(frame, text)
        elif not self._exact and (frame.role in ("other", "meta") or frame.flat):
            self._flat_key(frame, text)
        frame.has_arguments = frame.has_arguments or frame.role == "arguments"
        if frame.role == "other" and (self._exact or self._is_bare_call(frame)):
            self._refuse(frame, "not_a_call")

    def _is_bare_call(self, frame: _Frame) -> bool:
        """Whether the object is a call without marks whose start has been emitted. It has no other keys."""
        is_live = frame.builder is not None and frame.builder.state == "live"
        return is_live and self.block.evidence.wrapper != "strong"

    def _is_name(self, frame: _Frame, text: str) -> bool:
        """Whether a key is the name of a tool, and its value the arguments."""
        knows = self.block.context.knows
        if self._keyed:
            return frame.role == "other" or bool(knows(text))
        return frame.role == "other" and not (self._exact or frame.has_name) and bool(knows(text))

    def _flat_key(self, frame: _Frame, text: str) -> None:
        """Use a key beside the name as an argument, as in `{"name": "get_weather", "city": "Paris"}`."""
        builder = frame.builder
        if builder is None or builder.state not in ("live", "held") or text in _OUTER_KEYS:
            return
        if not self.block.context.schema(builder.name).declares(text):
            return
        if frame.has_arguments and not frame.flat:
            builder.note(Note("stray_text", f"`{text[:64]}` is beside the arguments"))
            return
        if not frame.flat:
            self._batch.append((OBJECT, ""))
        frame.flat = True
        frame.role = "arguments"
        self._batch.append((KEY, text))
        self._forward()

    def _name_key(self, frame: _Frame, text: str) -> None:
        """Use the key as the tool name, as in `{"get_weather": {...}}`. Each further key begins another call."""
        builder = frame.builder
        assert builder is not None  # only objects have keys
        if frame.has_name:
            if self.block.context.full:
                self._fail("not_a_call")
                return
            frame.builder = builder = self.block.builder()
        frame.has_name = frame.named_by_key = True
        frame.role = "arguments"
        self._take_name(builder, text)

    def _enter(self, is_list: bool) -> None:
        """Enter an object or array: a call, a list of calls, or a value inside a call."""
        if not self._frames:
            self._frames.append(_Frame(is_list, None if is_list else self.block.builder()))
            return
        frame = self._frames[-1]
        if len(self._frames) >= _MAX_FRAMES or (frame.is_list and self.block.context.full):
            self._fail("not_a_call")
            return
        if self._keyed and not (is_list or frame.is_list or frame.has_name) and self.block.context.tools is None:
            self._name_key(frame, self._last_key)  # without a list of tools, any key may be a tool name
            self._value(OBJECT)
        elif frame.is_list and not is_list:
            self._frames.append(_Frame(False, self.block.builder()))
        elif not frame.is_list and frame.role == "name" and not (is_list or frame.has_name):
            self._frames.append(_Frame(False, frame.builder))
        elif not frame.is_list and frame.role == "calls":
            frame.has_name = True  # this object contains the calls, so it needs no name
            self._frames.append(_Frame(is_list, None if is_list else self.block.builder()))
        else:
            self._value(OBJECT if not is_list else ARRAY)

    def _value(self, kind: int) -> None:
        """Enter an object or array without calls: the arguments, or a value to skip."""
        frame = self._frames[-1]
        self._depth = 1
        if frame.role == "arguments" and not frame.is_list:
            self._mode = "arguments"
            self._batch.append((kind, ""))
        else:
            self._mode = "skip"
            frame.separate()

    def _leave(self) -> None:
        frame = self._frames.pop()
        builder = frame.builder
        if frame.is_list or builder is None:
            return
        if self._frames and self._frames[-1].builder is builder:
            self._frames[-1].has_name = True
            self._frames[-1].has_arguments = frame.has_arguments
            return  # the inner object of {"function": {...}}
        described = self.block.context.tools is None or frame.typed or self._in_list
        if self._exact and described and not frame.has_arguments and builder.state == "held":
            self._fail("not_a_call", builder)  # {"name": "Ada"} may describe a person
            return
        if builder.state in ("live", "held"):
            if frame.flat:
                builder.tokens([(END_OBJECT, "")])
            self._end_call(builder)
        elif not frame.has_name:
            builder.fail("no_name")

    def _end_keyed(self) -> None:
        """End a call whose name is a key, together with its value. The next key begins another call."""
        frame = self._frames[-1]
        if frame.named_by_key and frame.builder is not None and frame.builder.state in ("live", "held"):
            self._end_call(frame.builder)

    def _end_call(self, builder: CallBuilder) -> None:
        builder.note(*self._json.notes)
        self._notes_passed = len(self._json.notes)
        builder.end()

    def _scalar(self, token: Token) -> None:
        """Read a scalar: the value of a key, or an array item in place of a call."""
        frame = self._frames[-1]  # never empty here: the outermost value is an object or array
        is_string = token[0] == STRING
        self._depth = 1 if is_string else 0
        if frame.is_list:
            self._mode = "skip" if is_string else "frame"
        elif frame.role == "arguments":
            self._mode = "arguments" if is_string else "frame"
            self._batch.append(token)
            if token[0] == SCALAR:
                self._forward()
                self._end_keyed()
        elif is_string and frame.role in ("name", "nonce"):
            self._parts = []
            self._mode = "text"
            self._quotes_before = "inner_quotes" in self._json.codes
        else:
            self._mode = "skip" if is_string else "frame"
            frame.separate()
            if frame.role == "name" and self._exact:
                self._refuse(frame, "no_name")

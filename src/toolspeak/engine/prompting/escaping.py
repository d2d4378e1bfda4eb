"""Foreign text that a model may read without being led astray by it.

Chat templates write control tokens as plain text (`<|im_start|>`, `[INST]`, `</s>`), and many servers turn that
very text back into the token, wherever it stands. A space behind the first character is enough to keep them
from doing so. Only the model's view is changed; whoever stores the conversation keeps it as it was. Pure functions, linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from ...core.parsing.arguments import to_json
from ...core.parsing.tags import NAMESPACES
from ...core.types import JSONValue, Part, TextPart, ToolCall
from ...dialects.openings import ACTION_FENCES, LINES, LITERALS, OPENINGS, RESULT_FENCES, RESULTS
from ...dialects.registry import dialect as dialect_row
from ...dialects.registry import render_calls
from ...dialects.rendering import with_nonce

#: `turns`: what opens or closes a role, for text whose author may speak of everything else. `foreign`: also the
#: tokens around calls, results and thinking, for tool results and declarations. `own`: `turns` and every mark of a
#: call or a result, but not of thinking, for what the model itself has said before.
Level = Literal["turns", "foreign", "own"]

#: Names longer than this are cut where they are shown.
MAX_NAME = 200
#: Names of which it is remembered whether they can be shown: those of some forty agents.
_KEPT_NAMES = 1024

# ---- the tables

#: Tags that tokenisers know as control tokens. Those with bars (`<|...|>`) need no list.
_TURN_TAGS = (
    "s bos eos unk pad sop eop BOS_TOKEN EOS_TOKEN PAD start_of_turn end_of_turn start_of_image end_of_image "
    "start_of_audio end_of_audio seed:bos seed:eos longcat_s longcat_system longcat_user longcat_assistant"
).split()
#: Numbered ones.
_NUMBERED_TAGS = "reserved_ SPECIAL_ extra_id_ unused".split()
_CALL_TAGS = (
    "tool_call tool_calls tool_response tool_responses toolcall function_call function_calls function_response "
    "function_results tool_result tool_results TOOLCALL TOOL_RESPONSE AVAILABLE_TOOLS start_function_call "
    "end_function_call start_function_response end_function_response start_function_declaration "
    "end_function_declaration longcat_tool_call escape arg_key arg_value"
).split()
_THINKING_TAGS = "think thinking longcat_think".split()
_TURN_WORDS = (
    "INST SYSTEM_PROMPT AVAILABLE_TOOLS MODEL_SETTINGS PREFIX MIDDLE SUFFIX IMG IMG_BREAK IMG_END AUDIO BEGIN_AUDIO"
).split()
_CALL_WORDS = "TOOL_CALLS TOOL_RESULTS TOOL_CONTENT TOOL_CALL TOOL_REQUEST ARGS CALL_ID".split()
_THINKING_WORDS = ["THINK"]

_PREFIX = f"(?:[a-z]{{1,16}}:|{'|'.join(map(re.escape, NAMESPACES))})?"
#: What no list is needed for: bars in angle or square brackets, Llama's and GLM's brackets, MiniMax's tildes.
_SHAPES = (
    r"<(?=[|｜]{1,4}[\w\"/\\])",
    r"<(?=/?[\w:▁]{1,40}[|｜]>)",
    r"<(?=<?/?SYS>)",
    r"\[(?=[|｜][\w/])",
    r"\[(?=gMASK\]|e~\[)",
    r"\](?=~!?b[\]\[]|<\]minimax)",
)


def _tags(names: Sequence[str]) -> str:
    """Tags of these names; separators are folded as in `core.reading.markup`, and any prefix will do."""
    spelled = "|".join(re.escape(name).replace("_", "[_▁]") for name in sorted(names))
    return rf"<(?=/?{_PREFIX}(?:{spelled})(?![\w:.▁-]))"


def _words(names: Sequence[str]) -> str:
    return rf"\[(?=/?(?:{'|'.join(names)})\])"


_TURNS = [*_SHAPES, rf"<(?=(?:{'|'.join(_NUMBERED_TAGS)})\d)", _tags(_TURN_TAGS), _words(_TURN_WORDS)]
_FOREIGN = [*_TURNS, _tags([*_CALL_TAGS, *_THINKING_TAGS]), _words([*_CALL_WORDS, *_THINKING_WORDS])]
#: What the readers of all dialects take for a mark, on top.
_MARK_TAGS = [name for name in {*OPENINGS, *RESULTS} if name.isidentifier() or "-" in name]
_MARK_WORDS = [mark.strip("[]/") for mark in LITERALS if mark.startswith("[TOOL")]
_OWN = [*_TURNS, _tags([*_MARK_TAGS, *_CALL_TAGS]), _words([*_CALL_WORDS, *_MARK_WORDS])]

_PATTERNS: dict[Level, re.Pattern[str]] = {
    "turns": re.compile("|".join(_TURNS)),
    "foreign": re.compile("|".join(_FOREIGN)),
    "own": re.compile("|".join(_OWN)),
}
#: Marks that count as the first word of a line; the last character is set apart.
_LINE_MARK = re.compile(
    rf"(?:^|(?<=>))([ \t\r\u00a0]*+(?:{'|'.join(re.escape(mark[:-1]) for mark in LINES if len(mark) > 3)}))",
    re.MULTILINE,
)
_FENCE_INFO = "|".join(map(re.escape, sorted(ACTION_FENCES | RESULT_FENCES)))
_ACTION_FENCE = re.compile(rf"((?:`{{3}}|~{{3}})[^\S\n]{{0,64}})(?=(?:{_FENCE_INFO}|tool[ :][\w.-]{{1,127}})(?:\s|\Z))")
_TICKS = re.compile(r"`+")


# ---- text


def neutralise(text: str, level: Level = "foreign", nonce: str | None = None) -> str:
    """The text with every control token and mark of this level, and the nonce, set apart so that it is only text."""
    if "<" in text or "[" in text or "]" in text:
        text = _PATTERNS[level].sub(r"\g<0> ", text)
    if level == "own":
        text = _ACTION_FENCE.sub(r"\1x-", text)
        text = _LINE_MARK.sub(r"\1 ", text)
    if nonce is not None and nonce in text:
        text = text.replace(nonce, f"{nonce[:1]}-{nonce[1:]}")
    return text


def one_line(text: str, limit: int) -> str:
    """The text on one line and without control tokens; cut behind `limit` characters."""
    flat = " ".join(text.split())
    return neutralise(flat if len(flat) <= limit else f"{flat[: limit - 1]}…")


def plain_name(name: str) -> bool:
    """Whether a name can stand in a prompt as it is: one line, and no control token or mark in it."""
    return 0 < len(name) <= MAX_NAME and _has_no_mark(name)


@lru_cache(maxsize=_KEPT_NAMES)
def _has_no_mark(name: str) -> bool:
    """Kept, since every request asks for the names of its tools."""
    return name.isprintable() and neutralise(name, "own") == name


def shown_name(name: str, nonce: str | None = None) -> str:
    """A name as it is shown; one that is no plain name is made one."""
    if nonce is not None and nonce in name:
        name = neutralise(name, "own", nonce)
    return name if plain_name(name) else one_line(neutralise(name, "own"), MAX_NAME) or "unnamed"


def shortened(text: str, limit: int) -> str:
    """The text, or its head and its tail with a line between them that says how much is missing."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    missing = len(text) - limit
    return f"{text[:head]}\n[... {missing} characters left out ...]\n{text[len(text) - tail :]}"


def fenced(text: str, info: str = "") -> str:
    """The text in a code fence that nothing inside can close."""
    ticks = "`" * max(3, max((len(run) for run in _TICKS.findall(text)), default=0) + 1)
    return f"{ticks}{info}\n{text}\n{ticks}"


def joined(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The parts with plain texts that follow each other made one: many servers take a message as one text only."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, TextPart) and isinstance(last, TextPart) and not part.extra and not last.extra:
            found[-1] = TextPart(last.text + part.text)
        else:
            found.append(part)
    return tuple(found)


# ---- JSON


def json_text(value: JSONValue, level: Level = "foreign") -> str:
    """Strict JSON in which control tokens are escaped, so that the value is still the same.

    Tokens begin with characters that strict JSON holds in this company only between quotes, so an escape is
    always allowed there.
    """
    return _PATTERNS[level].sub(lambda found: f"\\u{ord(found.group()):04x}", to_json(value))


# ---- calls

#: Stand for the first characters of control tokens while a call is written: no text holds these on purpose.
_STAND_INS = {"<": "\ufdd0", "[": "\ufdd1", "]": "\ufdd2"}
#: How such a character is written where text is JSON or Python, where it is markup, and where it is raw.
_JSON = {mark: f"\\u{ord(char):04x}" for char, mark in _STAND_INS.items()}
_ENTITIES = {mark: f"&#{ord(char)};" for char, mark in _STAND_INS.items()}
_RAW = {mark: f"{char} " for char, mark in _STAND_INS.items()}


def written(dialect: str, calls: tuple[ToolCall, ...], nonce: str | None) -> str:
    """Calls as the model should have written them, with nothing in them that opens a role or another call."""
    hidden = tuple(_hidden(call, nonce) for call in calls)
    text = render_calls(dialect, hidden, nonce)
    if any(mark in text for mark in _STAND_INS.values()):
        for mark, escape in _escapes(dialect).items():
            text = text.replace(mark, escape)
    return text


@lru_cache(maxsize=128)  # more than there are dialects
def _escapes(dialect: str) -> dict[str, str]:
    """How a character is escaped in this dialect, as one call tells."""
    sample = render_calls(dialect, [ToolCall("f", {"a": "<"})])
    if "&lt;" in sample:
        return _ENTITIES
    return _JSON if '"<"' in sample else _RAW


def _hidden(call: ToolCall, nonce: str | None) -> ToolCall:
    """The call with stand-ins for the first characters of control tokens, in keys as well as in values."""
    source = to_json(call.arguments)
    safe = _PATTERNS["foreign"].sub(lambda found: _STAND_INS[found.group()], source)
    arguments = call.arguments if safe is source else msgspec.json.decode(safe, type=dict[str, JSONValue])
    return ToolCall(shown_name(call.name, nonce), arguments)


# ---- results


def result_text(dialect: str, content: str, nonce: str | None) -> str:
    """A result in the marks of the dialect, of which nothing inside can close the last one."""
    before, after = dialect_row(dialect).result
    if before.startswith("```"):
        info = with_nonce(before, nonce).removeprefix("```").removesuffix("\n")
        return fenced(content, info)
    if nonce is not None:
        after = f"{after[:-1]} {nonce}>" if after.startswith("\n</") else after or f"\n(end of result {nonce})"
    return with_nonce(before, nonce) + content + after

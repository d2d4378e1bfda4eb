"""Escaping of untrusted text in prompts: neutralises control tokens and call markers.

Chat templates write control tokens as plain text (`<|im_start|>`, `[INST]`, `</s>`), and many servers convert such text
back into the token wherever it occurs. An invisible character (a word joiner) after the first character prevents this.
Only the prompt is changed, never the stored conversation. `restore` removes the word joiners from what a model copies,
so a file that is read and written back stays the same. All functions are pure and take linear time.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Literal

import msgspec

from ...core.parsing.arguments import to_json
from ...core.parsing.tags import NAMESPACES
from ...core.plugin_hook import depends_on_dialects
from ...core.types import JSONValue, Part, TextPart, ToolCall
from ...dialects.mark_tables import RESULT_FENCES, mark_tables, result_tag
from ...dialects.registry import added_dialects, render_calls
from ...dialects.registry import dialect as dialect_row
from ...dialects.rendering import with_nonce

#: Which tokens to neutralise. `turns`, for user text: tokens that open or close a role. `foreign`, for tool results and
#: tool definitions: also tokens around calls, results and reasoning. `own`, for the model's past answers: `turns` and
#: all call and result markers, but not reasoning.
Level = Literal["turns", "foreign", "own"]

#: Maximum length of a tool name. Longer names are truncated for display.
MAX_NAME = 200
#: Number of checked names to cache: enough for the tools of about forty agents.
_NAME_CACHE_SIZE = 1024

#: Tags that some tokenisers treat as control tokens. Tags with bars (`<|...|>`) are matched by `_SHAPES`.
_TURN_TAGS = (
    "s bos eos unk pad sop eop BOS_TOKEN EOS_TOKEN PAD start_of_turn end_of_turn start_of_image end_of_image "
    "start_of_audio end_of_audio seed:bos seed:eos longcat_s longcat_system longcat_user longcat_assistant"
).split()
#: Tag prefixes that are followed by a number, such as `extra_id_0`.
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

#: Breaks a token: the word joiner, which has no width. A model that leaves it out restores the text by itself.
BREAK = "\u2060"
_RESTORABLE = re.compile(r"(?<=[<\[\]])(?:\u2060|\\u2060)")
_PREFIX = f"(?:[a-z]{{1,16}}:|{'|'.join(map(re.escape, NAMESPACES))})?"
#: Control tokens recognised by shape: bars in angle or square brackets, Llama's and GLM's brackets, MiniMax's tildes.
_SHAPES = (
    r"<(?=[|｜]{1,4}[\w\"/\\])",
    r"<(?=/?[\w:▁]{1,40}[|｜]>)",
    r"<(?=<?/?SYS>)",
    r"\[(?=[|｜][\w/])",
    r"\[(?=gMASK\]|e~\[)",
    r"\](?=~!?b[\]\[]|<\]minimax)",
    rf"[<\[\]](?={BREAK})",  # so that no word joiner of the text itself is removed later
)


def _tags(names: Sequence[str]) -> str:
    """Build a pattern for tags with these names and any namespace prefix. `_` also matches `▁`."""
    spellings = "|".join(re.escape(name).replace("_", "[_▁]") for name in sorted(names))
    return rf"<(?=/?{_PREFIX}(?:{spellings})(?![\w:.▁-]))"


def _words(names: Sequence[str]) -> str:
    return rf"\[(?=/?(?:{'|'.join(names)})\])"


@depends_on_dialects
@cache
def _patterns() -> dict[Level, re.Pattern[str]]:
    """Return the pattern of the control tokens and markers of each level."""
    tables, added = mark_tables(), list(added_dialects())
    new_tags = [tag for row in added for tag in (*row.tags, result_tag(row)) if tag and "|" not in tag]
    new_marks = [
        rf"{re.escape(mark[0])}(?={re.escape(mark[1:])})" for row in added for mark in row.literals if mark[0] != "✿"
    ]
    turns = [*_SHAPES, rf"<(?=(?:{'|'.join(_NUMBERED_TAGS)})\d)", _tags(_TURN_TAGS), _words(_TURN_WORDS)]
    words = _words([*_CALL_WORDS, *_THINKING_WORDS])
    foreign = [*turns, _tags([*_CALL_TAGS, *_THINKING_TAGS, *new_tags]), words, *new_marks]
    # Call and result markers of all dialects.
    mark_tags = [name for name in {*tables.openings, *tables.results} if name.isidentifier() or "-" in name]
    mark_words = [mark.strip("[]/") for mark in tables.literals if mark.startswith("[TOOL")]
    own = [*turns, _tags([*mark_tags, *_CALL_TAGS]), _words([*_CALL_WORDS, *mark_words]), *new_marks]
    levels: dict[Level, list[str]] = {"turns": turns, "foreign": foreign, "own": own}
    return {level: re.compile("|".join(branches)) for level, branches in levels.items()}


@depends_on_dialects
@cache
def _line_mark() -> re.Pattern[str]:
    """Return the pattern of markers that only count at the start of a line.

    They are neutralised by a space before their last character, which is not part of the match.
    """
    marks = "|".join(
        f"{re.escape(mark[:-1])}(?={re.escape(mark[-1])})" for mark in mark_tables().lines if len(mark) > 3
    )
    return re.compile(rf"(?:^|(?<=>))([ \t\r\u00a0]*+(?:{marks}))", re.MULTILINE)


@depends_on_dialects
@cache
def _action_fence() -> re.Pattern[str]:
    """Return the pattern of the beginning of a code fence that contains calls or results."""
    infos = "|".join(map(re.escape, sorted({*mark_tables().action_fences, *RESULT_FENCES})))
    return re.compile(rf"((?:`{{3}}|~{{3}})[^\S\n]{{0,64}})(?=(?:{infos}|tool[ :][\w.-]{{1,127}})(?:\s|\Z))")


_TICKS = re.compile(r"`+")


def neutralise(text: str, level: Level = "foreign", nonce: str | None = None) -> str:
    """Neutralise the nonce and all control tokens and markers of this level, so that they are ordinary text."""
    if "<" in text or "[" in text or "]" in text:
        text = _patterns()[level].sub(rf"\g<0>{BREAK}", text)
    if level == "own":
        text = _action_fence().sub(r"\1x-", text)
        text = _line_mark().sub(r"\1 ", text)
    if nonce is not None and nonce in text:
        text = text.replace(nonce, f"{nonce[:1]}-{nonce[1:]}")
    return text


def restore(text: str) -> str:
    """Remove the word joiners that `neutralise` has added, from text or from JSON that a model has copied."""
    return _RESTORABLE.sub("", text) if BREAK in text or "\\u2060" in text else text


def one_line(text: str, limit: int, level: Level = "foreign") -> str:
    """Put the text on one line, truncate it to `limit` characters, and neutralise its control tokens."""
    flat = " ".join(text.split())
    return neutralise(flat if len(flat) <= limit else f"{flat[: limit - 1]}…", level)


def is_plain_name(name: str) -> bool:
    """Whether a name can be used unchanged in a prompt: printable, not too long, no control tokens or markers."""
    return 0 < len(name) <= MAX_NAME and _has_no_mark(name)


@lru_cache(maxsize=_NAME_CACHE_SIZE)  # called for every tool in every request
def _has_no_mark(name: str) -> bool:
    return name.isprintable() and neutralise(name, "own") == name


def display_name(name: str, nonce: str | None = None) -> str:
    """Make a name safe to show in prompts and messages."""
    if nonce is not None and nonce in name:
        name = neutralise(name, "own", nonce)
    return name if is_plain_name(name) else one_line(name, MAX_NAME, "own") or "unnamed"


def code_fence(text: str, info: str = "") -> str:
    """Put the text in a code fence that its content cannot close."""
    ticks = "`" * max(3, max((len(run) for run in _TICKS.findall(text)), default=0) + 1)
    return f"{ticks}{info}\n{text}\n{ticks}"


def join_text_parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Merge adjacent text parts, because many servers accept only one text part per message."""
    merged: list[Part] = []
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, TextPart) and isinstance(last, TextPart) and not part.extra and not last.extra:
            merged[-1] = TextPart(last.text + part.text)
        else:
            merged.append(part)
    return tuple(merged)


def json_text(value: JSONValue, level: Level = "foreign") -> str:
    """Encode a value as strict JSON with control tokens escaped.

    The value is preserved: in strict JSON, a control token can only start inside a string, where escapes are allowed.
    """
    return _patterns()[level].sub(lambda match: f"\\u{ord(match.group()):04x}", to_json(value))


#: Unicode noncharacters that replace the first characters of control tokens while a call is rendered.
_STAND_INS = {"<": "\ufdd0", "[": "\ufdd1", "]": "\ufdd2"}
#: How each replaced character is escaped in JSON or Python, and in raw text.
_JSON = {mark: f"\\u{ord(char):04x}" for char, mark in _STAND_INS.items()}
_RAW = {mark: f"{char}{BREAK}" for char, mark in _STAND_INS.items()}


def calls_text(dialect: str, calls: tuple[ToolCall, ...], nonce: str | None) -> str:
    """Render past calls in a dialect, with control tokens in their arguments escaped."""
    text = render_calls(dialect, tuple(_with_stand_ins(call, nonce) for call in calls), nonce)
    if any(mark in text for mark in _STAND_INS.values()):
        for mark, escape in _escapes(dialect).items():
            text = text.replace(mark, escape)
    return text


@lru_cache(maxsize=128)  # larger than the number of dialects
def _escapes(dialect: str) -> dict[str, str]:
    """Render a sample call to find out how this dialect escapes characters."""
    sample = render_calls(dialect, [ToolCall("f", {"a": "<"})])
    return _JSON if '"<"' in sample else _RAW


def _with_stand_ins(call: ToolCall, nonce: str | None) -> ToolCall:
    """Replace the first characters of control tokens, in keys and values, with placeholders."""
    source = to_json(call.arguments)
    safe = _patterns()["foreign"].sub(lambda match: _STAND_INS[match.group()], source)
    arguments = call.arguments if safe is source else msgspec.json.decode(safe, type=dict[str, JSONValue])
    return ToolCall(display_name(call.name, nonce), arguments)


def result_text(dialect: str, content: str, nonce: str | None) -> str:
    """Wrap a result in the dialect's markers so that its content cannot close them."""
    before, after = dialect_row(dialect).result
    if before.startswith("```"):
        info = with_nonce(before, nonce).removeprefix("```").removesuffix("\n")
        return code_fence(content, info)
    if nonce is not None:
        after = f"{after[:-1]} {nonce}>" if after.startswith("\n</") else after or f"\n(end of result {nonce})"
    return with_nonce(before, nonce) + content + after

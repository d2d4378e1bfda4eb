"""Dialect registry: one row per dialect, with the openings it accepts and how it renders calls and results."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..core.types import ToolCall, ToolResult
from ..errors import UnknownDialectError
from . import rendering as styles
from .rendering import Style


class Dialect(msgspec.Struct, frozen=True):
    """A dialect: a text format for tool calls and results."""

    name: str
    #: Names of the openings (see `openings`) that belong to the dialect.
    accepts: frozenset[str]
    #: Renders the calls.
    style: Style
    #: Text before and after all calls of a turn.
    before: str = ""
    after: str = ""
    #: Text before and after each tool result.
    result: tuple[str, str] = ("<tool_response>\n", "\n</tool_response>")
    #: Model families that use the dialect.
    families: str = ""


def _row(
    name: str,
    accepts: str,
    style: Style,
    around: tuple[str, str] = ("", ""),
    result: tuple[str, str] = ("<tool_response>\n", "\n</tool_response>"),
    families: str = "",
) -> Dialect:
    return Dialect(name, frozenset(accepts.split()), style, *around, result, families)


_FENCE_RESULT = ("```json result\n", "\n```")
_OBSERVATION = ("Observation: ", "")

#: The selectable dialects. The parser accepts many more variants; see `openings`.
DIALECTS: dict[str, Dialect] = {
    row.name: row
    for row in (
        _row("action", "action", styles.fenced, result=_FENCE_RESULT, families="the default contract"),
        _row("tool_line", "json", styles.line, result=_FENCE_RESULT, families="goose, forge"),
        _row("hermes", "hermes", styles.hermes, families="Hermes, Qwen 2.5 and 3, many others"),
        _row(
            "tool_calls",
            "tool_calls",
            styles.json_list,
            ("<tool_calls>", "</tool_calls>"),
            families="Hunyuan, Jamba, Apriel",
        ),
        _row(
            "invoke",
            "tool_calls tags",
            styles.invoke,
            ("<function_calls>\n", "\n</function_calls>"),
            families="Claude-like",
        ),
        _row(
            "minimax",
            "hermes tags",
            styles.invoke,
            ("<minimax:tool_call>\n", "\n</minimax:tool_call>"),
            families="MiniMax M2",
        ),
        _row(
            "dsml",
            "tool_calls tags",
            styles.dsml,
            ("<｜DSML｜tool_calls>\n", "\n</｜DSML｜tool_calls>"),
            families="DeepSeek V3.2 and V4",
        ),
        _row("qwen_xml", "hermes tags", styles.qwen_xml, families="Qwen3-Coder, Nemotron 3, Step 3.5, Seed"),
        _row("glm", "hermes", styles.glm, families="GLM 4.5 and later, Poolside"),
        _row("tool_tag", "tool_tag tags", styles.tool_tag, families="Cline, Roo, Morph"),
        _row("react", "react", styles.react, result=_OBSERVATION, families="ReAct agents"),
        _row("decision", "json", styles.decision, families="two-phase emulation"),
        _row("envelope", "json", styles.envelope, families="constrained emulation"),
        _row("llama", "llama", styles.llama, families="Llama 3.1 to 3.3"),
        _row("pythonic", "pythonic action", styles.pythonic, families="Llama 3.2 and 4"),
        _row("lfm2", "lfm2", styles.python_list, ("<|tool_call_start|>", "<|tool_call_end|>"), families="LFM2"),
        _row("olmo", "tool_calls", styles.python_lines, ("<function_calls>", "</function_calls>"), families="OLMo 3"),
        _row(
            "mistral", "mistral", styles.mistral, ("[TOOL_CALLS]", ""), ("[TOOL_RESULTS]", "[/TOOL_RESULTS]"), "Mistral"
        ),
        _row(
            "devstral",
            "mistral",
            styles.devstral,
            result=("[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
            families="Devstral, Ministral",
        ),
        _row(
            "deepseek",
            "deepseek",
            styles.deepseek,
            ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
            ("<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
            "DeepSeek V3, R1",
        ),
        _row(
            "kimi_k2",
            "kimi_k2",
            styles.kimi_k2,
            ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
            families="Kimi K2",
        ),
        _row(
            "kimi_k3", "kimi_k3", styles.kimi_k3, ("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"), families="Kimi K3"
        ),
        _row("granite", "granite", styles.json_list, ("<|tool_call|>", ""), families="Granite 3"),
        _row(
            "command_r",
            "command_r",
            styles.command_r,
            ("<|START_ACTION|>", "<|END_ACTION|>"),
            families="Command R7B, A",
        ),
        _row("functionary", "tags", styles.functionary, families="Functionary 3.1"),
        _row("phi", "phi action", styles.phi, families="Phi-4-mini, Firefunction"),
        _row("gemma", "gemma", styles.gemma, families="Gemma 4"),
        _row("functiongemma", "functiongemma", styles.functiongemma, families="FunctionGemma"),
        _row("harmony", "harmony", styles.harmony, families="gpt-oss"),
        _row("nemotron", "nemotron", styles.json_list, ("<TOOLCALL>", "</TOOLCALL>"), families="Nemotron Nano 2"),
        _row("gigachat", "gigachat", styles.gigachat, families="GigaChat 3"),
        _row("xlam", "json", styles.xlam, families="xLAM"),
        _row(
            "longcat",
            "longcat",
            styles.between("<longcat_tool_call>", "</longcat_tool_call>"),
            families="LongCat",
        ),
        _row(
            "internlm",
            "internlm",
            styles.between("<|action_start|>", "<|action_end|>", arguments="parameters", after_opener="<|plugin|>"),
            families="InternLM 2 and 3",
        ),
        _row(
            "inkling",
            "inkling",
            styles.between("<|content_invoke_tool_json|>", "<|end_message|>", arguments="args"),
            families="Inkling",
        ),
        _row(
            "lmstudio",
            "lmstudio",
            styles.between("[TOOL_REQUEST]", "[END_TOOL_REQUEST]"),
            families="models behind LM Studio",
        ),
        _row("apertus", "apertus", styles.keyed_list, ("<|tools_prefix|>", "<|tools_suffix|>"), families="Apertus"),
        _row("functionary_v32", "functionary", styles.recipients, families="Functionary 3.2"),
        _row("bracket", "bracket", styles.between("[TOOL_CALL]", "[/TOOL_CALL]"), families="MiniMax, agents"),
        _row(
            "tool_use",
            "tool_use",
            styles.tool_use,
            result=("<tool_use_result>\n", "\n</tool_use_result>"),
            families="Cherry Studio",
        ),
    )
}


def dialect(name: str) -> Dialect:
    """Return the dialect with this name."""
    row = DIALECTS.get(name)
    if row is None:
        raise UnknownDialectError(f"unknown dialect `{name}`", hint=f"use auto or one of {', '.join(DIALECTS)}")
    return row


def marks_of(name: str) -> frozenset[str] | None:
    """Return the openings that a dialect accepts; None for `auto`, which accepts all of them."""
    return None if name == "auto" else dialect(name).accepts


def render_calls(name: str, calls: Sequence[ToolCall], nonce: str | None = None) -> str:
    """Render calls in the form in which the model should write them."""
    row = dialect(name)
    body = row.style(calls, nonce)
    return styles.with_nonce(row.before, nonce) + body + row.after


def render_result(name: str, result: ToolResult, nonce: str | None = None) -> str:
    """Render a tool result for the model. The nonce distinguishes real results from forged ones."""
    before, after = dialect(name).result
    return styles.with_nonce(before, nonce) + result.content + after

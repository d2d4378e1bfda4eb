"""Parse context of one answer: the tools on offer, the policy, and the events to emit.

Shared by the scanner and the readers of all dialects; independent of any dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from ..events import Event, Noted, ReasoningDelta, TextDelta
from ..json_repair.containers import MAX_VALUES, Allowance
from ..schema.argument_schema import ArgumentSchema
from ..types import JSONValue, Note, Tool
from .acceptance import Policy
from .tool_index import toolkit

#: Tools with irreversible effects, however they are declared.
ALWAYS_SIDE_EFFECTS = frozenset({"shell"})
_ANY_OBJECT = ArgumentSchema.of(None)
#: No model intends more calls in one answer, and each costs time.
MAX_CALLS = 2048
#: Rejected and pending candidates cost time as well.
MAX_CANDIDATES = 2 * MAX_CALLS
#: Similar names are searched only for short names, because the search is not linear.
_MAX_NEAR_MISS = 64

#: Finds the arguments of all calls of a tool in an untrusted text; None when there are too many places to check.
EchoFinder = Callable[[str, str], Sequence[JSONValue] | None]
#: Collects texts that the model may have copied into an argument, only when they are needed.
Texts = Callable[[], tuple[str, ...]]


class ParseContext:
    """State shared by the scanner and every reader of one answer."""

    def __init__(
        self,
        tools: tuple[Tool, ...] | None,
        policy: Policy = "standard",
        nonce: str | None = None,
        untrusted: tuple[str, ...] = (),
        find_calls: EchoFinder | None = None,
        copied: Texts = tuple,
    ) -> None:
        self.policy: Policy = policy
        self.nonce = nonce
        self._kit = None if tools is None else toolkit(tools)
        self.tools = None if self._kit is None else self._kit.by_name
        self.commits = 0  # calls whose start has been emitted
        self.final_answer = False  # the model has announced its final answer (ReAct)
        self.calls_valid = 0
        self.candidates = 0  # candidates that readers of text have begun
        self.allowance = Allowance()  # shared by all values of the answer
        self.calls_seen = 0  # calls that are complete, or were refused after their start
        self._untrusted = untrusted
        self._copied = copied
        self._compared_further: tuple[str, ...] | None = None  # texts to compare calls after the first of a block with
        self._find_calls = find_calls
        self._echoes: dict[tuple[str, str], Sequence[JSONValue] | None] = {}
        self._next_index = 0
        self._events: list[Event] = []
        self._text: list[str] = []
        self._text_is_reasoning = False

    # ---- tools

    @property
    def names(self) -> frozenset[str]:
        """The names on offer; empty when the tools are unknown."""
        return frozenset() if self._kit is None else self._kit.names

    def knows(self, name: str) -> bool | None:
        """Whether `name` is on offer; None when the tools are unknown."""
        return None if self.tools is None else name in self.tools

    def schema(self, name: str) -> ArgumentSchema:
        """The schema of a tool's arguments; any object when it has none."""
        if self._kit is None or name not in self._kit.by_name:
            return _ANY_OBJECT
        return self._kit.schema(name)

    def side_effects(self, name: str) -> bool:
        """Whether a call of this tool has side effects."""
        tool = (self.tools or {}).get(name)
        return name in ALWAYS_SIDE_EFFECTS or (tool is not None and tool.side_effects)

    def near_miss(self, name: str) -> str:
        """The tool with the most similar name, or an empty string."""
        if not self.tools or len(name) > _MAX_NEAR_MISS:
            return ""
        folded = {tool.lower().replace("-", "_"): tool for tool in self.tools}
        matches = get_close_matches(name.lower().replace("-", "_"), list(folded)[:512], n=1, cutoff=0.6)
        return folded[matches[0]] if matches else ""

    # ---- echoes

    def may_echo(self, name: str, further: bool = False) -> bool:
        """Whether an untrusted text mentions this tool, so its calls must be compared.

        `further`: another call precedes it in the same block. A text that the model copied into an argument of that
        call may have closed it and opened this one, so copied texts are compared as well.
        """
        return any(name in text for text in self._compared(further))

    def is_echo(self, name: str, arguments: JSONValue, further: bool = False) -> bool:
        """Whether an untrusted text contains this call, or too many similar places to be sure."""
        echoes = [self._calls_in(text, name) for text in self._compared(further) if name in text]
        return any(calls is None or arguments in calls for calls in echoes)

    def _compared(self, further: bool) -> tuple[str, ...]:
        if not further:
            return self._untrusted
        if self._compared_further is None:
            self._compared_further = (*self._untrusted, *self._copied())
        return self._compared_further

    def _calls_in(self, text: str, name: str) -> Sequence[JSONValue] | None:
        if (text, name) not in self._echoes:
            self._echoes[text, name] = self._find_calls(text, name) if self._find_calls else ()
        return self._echoes[text, name]

    # ---- events

    @property
    def full(self) -> bool:
        """Whether a limit on calls, candidates or values is reached."""
        return self.calls_seen >= MAX_CALLS or self.candidates >= MAX_CANDIDATES or self.allowance.exhausted

    def note_full(self) -> None:
        """Note which limit ended the search for calls."""
        limit = f"{MAX_CANDIDATES} candidates"
        if self.calls_seen >= MAX_CALLS:
            limit = f"{MAX_CALLS} calls"
        elif self.allowance.exhausted:
            limit = f"{MAX_VALUES} values"
        self.note("too_many_calls", f"gave up looking for calls after {limit}")

    def next_index(self) -> int:
        """Number the next call."""
        self._next_index += 1
        return self._next_index - 1

    def say(self, text: str, reasoning: bool = False) -> None:
        """Emit text of the answer or of the reasoning."""
        if not text:
            return
        if reasoning is not self._text_is_reasoning:
            self._flush_text()
            self._text_is_reasoning = reasoning
        self._text.append(text)

    def emit(self, *events: Event) -> None:
        """Emit events other than text."""
        self._flush_text()
        self._events.extend(events)

    def note(self, code: str, detail: str = "") -> None:
        """Emit a note about the turn."""
        self.emit(Noted(Note(code, detail)))

    def collect(self) -> list[Event]:
        """Take the events since the last call."""
        self._flush_text()
        events, self._events = self._events, []
        return events

    def _flush_text(self) -> None:
        if self._text:
            text = "".join(self._text)
            self._text = []
            self._events.append(ReasoningDelta(text) if self._text_is_reasoning else TextDelta(text))

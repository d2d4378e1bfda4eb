"""The desk of one turn: the tools on offer, the policy, and the events that go out.

Readers of all dialects work at the same desk; it knows no dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from ..events import Event, Noted, ReasoningDelta, TextDelta
from ..json_repair.containers import MAX_VALUES, Allowance
from ..schema.arguments import ArgumentSchema
from ..types import JSONValue, Note, Tool
from .acceptance import Policy
from .tool_index import toolkit

#: Tools whose effects nobody can take back, however they are declared.
ALWAYS_SIDE_EFFECTS = frozenset({"shell"})
_ANY_OBJECT = ArgumentSchema.of(None)
#: Nobody means so many calls in one answer; each costs time here, and more where it is carried out.
MAX_CALLS = 2048
#: Nor does anybody write so many things that may be calls: those that are none, or wait, cost time as well.
MAX_CANDIDATES = 2 * MAX_CALLS
#: Near misses are looked for in short names only: the search is not linear.
_MAX_NEAR_MISS = 64

#: Gives the arguments of the calls of a tool that stand in an untrusted text; None when there are too many to tell.
EchoFinder = Callable[[str, str], Sequence[JSONValue] | None]
#: Gives texts that the model may have copied into an argument; gathered only when they are needed.
Texts = Callable[[], tuple[str, ...]]


class Desk:
    """Shared by the scanner and every reader of one turn."""

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
        self.commits = 0  # calls that have gone out; readers and the scanner compare it
        self.final_answer = False  # the model has said that it is done (ReAct)
        self.calls_valid = 0
        self.candidates = 0  # whatever may have been a call, as far as readers of text go
        self.allowance = Allowance()  # for the values that readers read
        self.calls_seen = 0  # calls that have been completed or refused after they went out
        self._untrusted = untrusted
        self._copied = copied
        self._for_further: tuple[str, ...] | None = None  # what calls after the first of a block are compared with
        self._find_calls = find_calls
        self._echoes: dict[tuple[str, str], Sequence[JSONValue] | None] = {}
        self._next_index = 0
        self._events: list[Event] = []
        self._text: list[str] = []
        self._text_is_reasoning = False

    # ---- tools

    @property
    def names(self) -> frozenset[str]:
        """The names on offer; none when nobody said what is."""
        return frozenset() if self._kit is None else self._kit.names

    def knows(self, name: str) -> bool | None:
        """Whether `name` is on offer; None when nobody said what is."""
        return None if self.tools is None else name in self.tools

    def schema(self, name: str) -> ArgumentSchema:
        """The schema of a tool's arguments; any object when it has none."""
        if self._kit is None or name not in self._kit.by_name:
            return _ANY_OBJECT
        return self._kit.schema(name)

    def side_effects(self, name: str) -> bool:
        """Whether a call of this tool changes the world."""
        tool = (self.tools or {}).get(name)
        return name in ALWAYS_SIDE_EFFECTS or (tool is not None and tool.side_effects)

    def near_miss(self, name: str) -> str:
        """The tool that was probably meant, or nothing."""
        if not self.tools or len(name) > _MAX_NEAR_MISS:
            return ""
        folded = {tool.lower().replace("-", "_"): tool for tool in self.tools}
        found = get_close_matches(name.lower().replace("-", "_"), list(folded)[:512], n=1, cutoff=0.6)
        return folded[found[0]] if found else ""

    # ---- echoes

    def may_echo(self, name: str, further: bool = False) -> bool:
        """Whether some untrusted text mentions this tool, so that its calls must be compared.

        `further`: a call precedes it in the same block. A text that the model copied into an argument of that call
        may have closed it and opened this one, so that the texts that may have been copied count as well.
        """
        return any(name in text for text in self._compared(further))

    def is_echo(self, name: str, arguments: JSONValue, further: bool = False) -> bool:
        """Whether an untrusted text holds this very call, or so much that looks like it that nobody can tell."""
        found = [self._calls_in(text, name) for text in self._compared(further) if name in text]
        return any(calls is None or arguments in calls for calls in found)

    def _compared(self, further: bool) -> tuple[str, ...]:
        if not further:
            return self._untrusted
        if self._for_further is None:
            self._for_further = (*self._untrusted, *self._copied())
        return self._for_further

    def _calls_in(self, text: str, name: str) -> Sequence[JSONValue] | None:
        if (text, name) not in self._echoes:
            self._echoes[text, name] = self._find_calls(text, name) if self._find_calls else ()
        return self._echoes[text, name]

    # ---- what goes out

    @property
    def full(self) -> bool:
        """Whether so many calls, or things that may be some, have been seen that no more are looked for."""
        return self.calls_seen >= MAX_CALLS or self.candidates >= MAX_CANDIDATES or self.allowance.spent

    def note_full(self) -> None:
        """Say that no more are looked for."""
        most = f"{MAX_CANDIDATES} candidates"
        if self.calls_seen >= MAX_CALLS:
            most = f"{MAX_CALLS} calls"
        elif self.allowance.spent:
            most = f"{MAX_VALUES} values"
        self.note("too_many_calls", f"behind {most} no more are looked for")

    def next_index(self) -> int:
        """The number of the next call."""
        self._next_index += 1
        return self._next_index - 1

    def say(self, text: str, reasoning: bool = False) -> None:
        """Text of the answer or of the thinking."""
        if not text:
            return
        if reasoning is not self._text_is_reasoning:
            self._flush_text()
            self._text_is_reasoning = reasoning
        self._text.append(text)

    def emit(self, *events: Event) -> None:
        """Anything but text."""
        self._flush_text()
        self._events.extend(events)

    def note(self, code: str, detail: str = "") -> None:
        """A note about the turn."""
        self.emit(Noted(Note(code, detail)))

    def collect(self) -> list[Event]:
        """The events since the last call."""
        self._flush_text()
        events, self._events = self._events, []
        return events

    def _flush_text(self) -> None:
        if self._text:
            text = "".join(self._text)
            self._text = []
            self._events.append(ReasoningDelta(text) if self._text_is_reasoning else TextDelta(text))

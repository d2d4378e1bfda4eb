"""Parse context of one answer: the available tools, the policy, and the events to emit.

The scanner and the readers of all dialects share it. It does not depend on any dialect.
"""

from collections.abc import Callable, Iterable
from typing import Literal

from ..events import Event, Noted, ReasoningDelta, TextDelta
from ..json_repair.containers import MAX_VALUES, Allowance
from ..schema.argument_schema import ArgumentSchema
from ..schema.work_limit import WorkLimit
from ..types import JSONValue, Note, Tool
from .acceptance import Policy
from .echoes import EchoSearch, WrittenText
from .tool_index import SimilarNames, toolkit

#: Tools that always count as having side effects, however they are declared.
ALWAYS_SIDE_EFFECTS = frozenset({"shell"})
_ANY_OBJECT = ArgumentSchema.of(None)
#: Limit on calls in one answer. No model intends more, and each call costs time.
MAX_CALLS = 2048
#: Limit on candidates in one answer, because rejected and pending ones cost time as well.
MAX_CANDIDATES = 2 * MAX_CALLS
#: Number of unknown names in one answer for which a similar name is searched. Nobody reads more suggestions.
MAX_NEAR_MISSES = 8

#: Returns texts that the model may have copied. Called only when they are needed.
Texts = Callable[[], tuple[str, ...]]


class ParseContext:
    """State shared by the scanner and every reader of one answer."""

    def __init__(
        self,
        tools: tuple[Tool, ...] | None,
        policy: Policy = "standard",
        nonce: str | None = None,
        untrusted: tuple[str, ...] = (),
        copied: Texts = tuple,
        declared: Texts = tuple,
        *,
        unmarked_counts: bool = False,
        confirms: bool = False,
    ) -> None:
        self.policy: Policy = policy
        self.nonce = nonce
        self.unmarked_counts: Literal[True] | None = True if unmarked_counts and nonce is not None else None
        self._confirms = confirms
        self._kit = None if tools is None else toolkit(tools)
        self.tools = None if self._kit is None else self._kit.by_name
        #: Notes on schemas that were needed and are not fully understood, by tool.
        self.schema_notes: dict[str, tuple[Note, ...]] = {}
        self.commits = 0  # number of calls whose start has been emitted
        self.cut = False  # the answer was cut off
        self.final_answer = False  # the model has announced its final answer (ReAct)
        self.calls_valid = 0
        self.candidates = 0  # number of candidates found in text so far
        self.allowance = Allowance()  # shared by all JSON of the answer
        self.work = WorkLimit()  # shared by the arguments of all calls
        self.calls_seen = 0  # number of calls that were started and have ended
        self._untrusted = untrusted
        self._copied = copied
        self._declared = declared
        self._echoes: EchoSearch | None = None  # in the untrusted texts
        self._copies: EchoSearch | None = None  # in the copied texts as well
        #: What the model has written, if there is a text from which it may have copied a call.
        self.written = WrittenText() if untrusted or copied is not tuple else None
        self._near_misses: dict[str, str] = {}  # similar tool names by unknown name
        self._next_index = 0
        self._events: list[Event] = []
        self._text: list[str] = []
        self._text_is_reasoning = False

    @property
    def names(self) -> frozenset[str]:
        """The names of the available tools; empty if the tools are unknown."""
        return frozenset() if self._kit is None else self._kit.names

    def knows(self, name: str) -> bool | None:
        """Whether a tool named `name` is available; None if the tools are unknown."""
        return None if self.tools is None else self.resolve(name) in self.tools

    def resolve(self, name: str) -> str:
        """Return the tool that a name means. Case, `-` and `_` make no difference if only one tool matches."""
        return name if self._kit is None else self._kit.resolve(name)

    def schema(self, name: str) -> ArgumentSchema:
        """Return the schema of a tool's arguments; it accepts any object if the tool has none."""
        name = self.resolve(name)
        if self._kit is None or name not in self._kit.by_name:
            return _ANY_OBJECT
        schema = self._kit.schema(name)
        if schema.notes:
            self.schema_notes[name] = self._kit.schema_notes(name)
        return schema

    def side_effects(self, name: str) -> bool:
        tool = (self.tools or {}).get(name)
        return name in ALWAYS_SIDE_EFFECTS or (tool is not None and tool.side_effects)

    def needs_nonce(self, name: str) -> bool:
        """Whether calls to this tool must carry the nonce even if others need not."""
        return self._confirms and self.side_effects(name)

    def near_miss(self, name: str) -> str:
        """Return the most similar tool name; an empty string if there is none, or after `MAX_NEAR_MISSES` names."""
        if self._kit is None:
            return ""
        if name not in self._near_misses and len(self._near_misses) < MAX_NEAR_MISSES:
            self._near_misses[name] = self._kit.derive(SimilarNames).closest(name)
        return self._near_misses.get(name, "")

    def may_echo(self, name: str, broad: bool = False) -> bool:
        """Whether an untrusted text mentions this tool, so that `is_echo` must check its calls.

        `broad`: nothing shows that the call is the model's own. It carries no nonce, or another call precedes it in
        its block: text copied into an argument of that call may have closed it and opened this one. Such a call is
        compared with the copied texts as well.
        """
        return self._search(broad).may_contain(name)

    def is_echo(self, name: str, arguments: Iterable[JSONValue], broad: bool = False, *flags: bool) -> bool:
        """Whether untrusted texts contain every part of this call, with any of these forms of its arguments.

        `flags`: further arguments of `EchoSearch.contains`.
        """
        search = self._search(broad)
        if any(search.contains(name, each, *flags) for each in arguments):
            return True
        return self.written is not None and any(search.contains_passage(name, each, self.written) for each in arguments)

    def _search(self, broad: bool) -> EchoSearch:
        if broad:
            if self._copies is None:
                self._copies = EchoSearch((*self._untrusted, *self._copied()), self._declared())
            return self._copies
        if self._echoes is None:
            self._echoes = EchoSearch(self._untrusted, self._declared())
        return self._echoes

    @property
    def full(self) -> bool:
        """Whether a limit on calls, candidates or values has been reached."""
        return self.calls_seen >= MAX_CALLS or self.candidates >= MAX_CANDIDATES or self.allowance.exhausted

    def note_full(self) -> None:
        """Emit a note that says which limit ended the search for calls."""
        limit = f"{MAX_CANDIDATES} candidates"
        if self.calls_seen >= MAX_CALLS:
            limit = f"{MAX_CALLS} calls"
        elif self.allowance.exhausted:
            limit = f"{MAX_VALUES} values"
        self.note("too_many_calls", f"gave up looking for calls after {limit}")

    def next_index(self) -> int:
        self._next_index += 1
        return self._next_index - 1

    def say(self, text: str, reasoning: bool = False) -> None:
        """Emit text as part of the answer or of the reasoning."""
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
        """Return the events emitted since the last call."""
        self._flush_text()
        events, self._events = self._events, []
        return events

    def _flush_text(self) -> None:
        if self._text:
            text = "".join(self._text)
            self._text = []
            self._events.append(ReasoningDelta(text) if self._text_is_reasoning else TextDelta(text))

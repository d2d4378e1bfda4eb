"""Native tool calls from an upstream, checked as strictly as calls in text.

A model also writes the arguments of native calls. The same call builder repairs, coerces and validates both kinds,
so later stages need not know where a call came from.
"""

from collections.abc import Callable, Iterator

from ...core.events import CallArgs, CallEnd, CallStart, Event
from ...core.json_repair.containers import MAX_DEPTH
from ...core.json_repair.parser import JSONParser
from ...core.json_repair.tokens import Token
from ...core.parsing.acceptance import Evidence
from ...core.parsing.call_builder import CallBuilder
from ...core.parsing.context import ParseContext
from ...core.parsing.fast_paths import whole_object
from ...core.types import Note

#: How much of the text after the arguments a note quotes. Models may write any amount.
_MAX_TRAILING_CHARS = 64
#: Appended to complete arguments, because the parser needs a following character to be sure of their end.
_TERMINATOR = "}"


class JsonPieces:
    """One JSON value received in chunks, and the beginning of any text after it.

    `shortcut` may read a part of the value at a position of a text. It returns the position after it, or 0.
    """

    def __init__(self, shortcut: Callable[[str, int], int] = lambda text, pos: 0) -> None:
        self.json = JSONParser()
        self._shortcut = shortcut
        self._unread = ""

    def feed(self, piece: str, final: bool = False) -> Iterator[list[Token]]:
        """Yield tokens as they become certain, with `json` positioned right after them. Exhaust the iterator."""
        json = self.json
        text = self._unread + piece if self._unread else piece
        pos, stuck = 0, False
        while json.status == "open" and not stuck:
            new = self._shortcut(text, pos) or json.feed(text, pos, final, pause=MAX_DEPTH)
            tokens, json.tokens = json.tokens, []
            stuck = new == pos and not tokens
            pos = new
            if tokens:
                yield tokens
        self._unread = text[pos:] if json.status == "open" else text[pos:].lstrip()[:_MAX_TRAILING_CHARS]

    @property
    def trailing_text(self) -> str:
        """The text after the value, shortened."""
        return self._unread.rstrip() if self.json.status == "complete" else ""


class _NativeCall:
    """One call whose arguments are received in chunks.

    If the answer is not streamed (`whole`), the arguments are collected first. Nearly all arguments are valid JSON that
    fits the schema, so they take a fast path.
    """

    def __init__(self, context: ParseContext, name: str, whole: bool) -> None:
        nonce = None if context.nonce is None else False  # a native call has no place for it
        evidence = Evidence("native", "strong", nonce=nonce, unmarked_counts=context.unmarked_counts)
        self._builder = CallBuilder(context, evidence)
        self._accepted = self._builder.take_name(name)
        self._pieces = JsonPieces()
        self._has_arguments = False  # whether anything but white space was received
        self._unread: list[str] | None = [] if whole and self._accepted else None
        self._over = False

    @property
    def index(self) -> int:
        """The number that the call has once it is emitted."""
        return self._builder.index

    def feed(self, fragment: str, final: bool = False) -> None:
        """Add a chunk of the arguments."""
        if self._unread is not None:
            self._unread.append(fragment)
            return
        if not self._accepted:
            return
        self._has_arguments = self._has_arguments or bool(fragment.strip())
        tokens = [token for certain in self._pieces.feed(fragment, final) for token in certain]
        if tokens:
            self._builder.tokens(tokens)

    def whole(self) -> bool:
        """Parse the remaining input and return whether the arguments are complete."""
        if self._unread is not None:
            text, self._unread = "".join(self._unread), None
            self._over = self._take_plain(text)
            if not self._over:
                self.feed(text)
        if self._over:
            return True
        self.feed("", final=True)
        return self._pieces.json.status == "complete"

    def _take_plain(self, text: str) -> bool:
        """Accept arguments that need neither repair nor coercion; return whether this succeeded."""
        arguments = whole_object(text + _TERMINATOR, 0, ())
        return arguments is not None and arguments.end == len(text) and self._builder.take_arguments(arguments)

    def end(self, cut: bool) -> None:
        """End the call. `cut`: the answer was cut off, so the call may be incomplete."""
        if not self._accepted:
            return
        json = self._pieces.json
        whole = self.whole()
        if self._over:
            return
        # The upstream may forget closing brackets, but an open string has lost an unknown part of a value.
        if not whole and json.status == "open" and (cut or json.in_string):
            self._builder.cut()
            return
        if self._has_arguments:
            self._close()
        if json.status == "hopeless":
            self._builder.fail("not_json")
        else:
            self._builder.end()

    def _close(self) -> None:
        json = self._pieces.json
        json.close_all()  # the upstream says the call is complete, so only closing brackets are missing
        self._builder.tokens(json.tokens)
        self._builder.note(*json.notes)
        if self._pieces.trailing_text:
            self._builder.note(Note("trailing_text", self._pieces.trailing_text))


class NativeCalls:
    """The native calls of one answer, numbered consecutively from `first`. `whole`: the answer is not streamed."""

    def __init__(self, context: ParseContext, first: int = 0, *, whole: bool = False) -> None:
        self._context = context
        self._first = first
        self._whole = whole
        self._open: dict[int, _NativeCall] = {}
        self._ids: dict[int, str] = {}  # by the new number of the call
        self._unnumbered: list[tuple[_NativeCall, str]] = []  # calls that were not emitted yet, with their ids

    def feed(self, event: CallStart | CallArgs | CallEnd) -> list[Event]:
        call = self._open.get(event.index)
        if isinstance(event, CallStart):
            self._start(event)
        elif call is not None and isinstance(event, CallArgs):
            call.feed(event.fragment)
        elif call is not None and call.whole():
            # An incomplete call stays open until the end of the answer shows whether it was cut off.
            self._end(event.index, cut=False)
        return self._collect()

    def _start(self, event: CallStart) -> None:
        if event.index in self._open:  # some upstreams give all calls the same number
            self._end(event.index, cut=False)
        call = self._open[event.index] = _NativeCall(self._context, event.name, self._whole)
        self._unnumbered.append((call, event.id))

    def close(self, cut: bool) -> list[Event]:
        """End the answer and every call that is still open."""
        for index in sorted(self._open):
            self._end(index, cut)
        return self._collect()

    def _end(self, index: int, cut: bool) -> None:
        self._open.pop(index).end(cut)

    def _collect(self) -> list[Event]:
        if self._unnumbered:
            self._ids.update({call.index: identifier for call, identifier in self._unnumbered})
            self._unnumbered = [(call, identifier) for call, identifier in self._unnumbered if call.index < 0]
        return [self._numbered(event) for event in self._context.collect()]

    def _numbered(self, event: Event) -> Event:
        if isinstance(event, CallArgs):
            return CallArgs(event.index + self._first, event.fragment)
        if isinstance(event, CallStart):
            return CallStart(event.index + self._first, event.name, self._ids[event.index])
        if isinstance(event, CallEnd):
            return CallEnd(event.index + self._first, event.valid, event.notes)
        return event

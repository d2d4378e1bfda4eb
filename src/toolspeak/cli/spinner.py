"""Spinner for long work on a terminal: its stage and the seconds so far. Prints nothing in pipes."""

import sys
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from ..core.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

REFRESHES_PER_SECOND = 8
_DELAY = 0.5  # seconds without a spinner, so that quick work does not flicker
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Stage:
    """What is going on, and for how long, as a line for rich to draw."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self._began = monotonic()

    def __rich__(self) -> "RenderableType":
        from rich.text import Text

        seconds = monotonic() - self._began
        if not self.text or seconds < _DELAY:
            return Text("")
        frame = _FRAMES[int(seconds * REFRESHES_PER_SECOND) % len(_FRAMES)]
        parts = ((frame, "cyan"), (f" {seconds:.0f} s ", "dim"), printable(self.text, ""))
        return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


class Spinner:
    """Shows a stage on stderr, if that is a terminal. As a context manager, hides it at the end."""

    def __init__(self, text: str = "") -> None:
        self._live: Any = None
        self._stage = Stage()
        if text:
            self.show(text)

    def show(self, text: str) -> None:
        """Show a stage. The seconds count from the first one after `hide`."""
        if self._live is None and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._stage = Stage()
            console = Console(stderr=True)
            self._live = Live(self._stage, console=console, transient=True, refresh_per_second=REFRESHES_PER_SECOND)
            self._live.start()
        self._stage.text = text

    def hide(self) -> None:
        """Hide the spinner, so that other output can follow."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()

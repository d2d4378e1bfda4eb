"""A chat in the terminal that shows text, calls and results while they arrive. Built on `Agent.stream` and rich.

    python examples/streaming_terminal.py

Type a question; Ctrl-D ends the chat. Without further settings, the small model that `make run` has downloaded answers.
For another model, set TOOLSPEAK_MODEL (such as ollama:qwen3:8b) and, if it is elsewhere, TOOLSPEAK_BASE_URL.
"""

import os

from rich.console import Console, Group
from rich.live import Live
from rich.markdown import Markdown
from rich.text import Text

import toolspeak as ts
from toolspeak.agent.events import CallStarted, ResultReady, TextPiece, WorkFinished

MODEL = os.environ.get("TOOLSPEAK_MODEL", "embedded:")
WEATHER = {"Oslo": "rain, 12 degrees", "Rome": "sun, 21 degrees", "Lima": "fog, 17 degrees"}


@ts.tool(read_only=True)
def get_weather(city: str) -> str:
    """The weather of a city"""
    return WEATHER.get(city, "unknown")


def show_answer(console: Console, agent: ts.Agent, question: str, session: str | None) -> str:
    """Show the answer as it arrives. Returns the session, so that the next question belongs to the same conversation."""
    calls: dict[str, Text] = {}
    text = ""
    with Live(console=console, refresh_per_second=12) as live:
        for event in agent.stream(question, session):
            match event:
                case TextPiece(piece):
                    text += piece
                case CallStarted(call):
                    # A call comes from the model, so it is shown as plain text: `Text` does not read markup.
                    calls[call.id] = Text(f"… {call.name}({call.arguments})", "yellow")
                case ResultReady(call, result):
                    color = "red" if result.error else "green"
                    calls[call.id] = Text(f"✓ {call.name}({call.arguments}) -> {result.content}", color)
                case WorkFinished(result):
                    session = result.session
                    text = result.content or result.why
                case _:
                    continue
            live.update(Group(*calls.values(), Markdown(text)))
    return session or ""


def main() -> None:
    console, session = Console(), None
    with ts.Agent(MODEL, [get_weather]) as agent:
        while True:
            try:
                question = console.input("[bold]> [/bold]")
            except EOFError:
                return
            if question.strip():
                session = show_answer(console, agent, question, session)


if __name__ == "__main__":
    main()

"""Minimal tools for tests of wrappers and approval."""

from __future__ import annotations

import asyncio

from toolspeak.core.types import JSONObject, Tool
from toolspeak.tools.base import CallContext, Executable, ToolOutput


class Say:
    """Says what it was made with, and counts."""

    def __init__(self, name: str = "say", text: str = "hello", *, side_effects: bool = False, final: bool = False):
        schema = {"type": "object", "properties": {"what": {"type": "string"}, "more": {"type": "string"}}}
        self.tool = Tool(name, "Says it.", schema, side_effects)
        self.text = text
        self.final = final
        self.runs = 0

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        self.runs += 1
        return ToolOutput(self.text, final=self.final)


def run(subject: Executable, arguments: JSONObject | None = None, context: CallContext | None = None) -> ToolOutput:
    """Run one call from its beginning to its end."""
    return asyncio.run(subject.run(arguments or {}, context or CallContext("call_1")))

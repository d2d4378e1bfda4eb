"""The `final_output` tool: the model calls it with its answer when the task is done."""

from ..core.types import JSONObject, JSONValue, Tool
from ..errors import ToolError
from .base import CallContext, ToolOutput

_PARAMETERS: JSONValue = {
    "type": "object",
    "properties": {"summary": {"type": "string", "description": "The answer for the user, complete in itself."}},
    "required": ["summary"],
    "additionalProperties": False,
}


class FinalOutput:
    """A tool that ends the agent's run. Its summary becomes the answer."""

    tool = Tool(
        "final_output", "Call this once the task is done, with the answer for the user.", _PARAMETERS, read_only=True
    )

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Return the summary as the final output. Raises ToolError if `summary` is not a string."""
        summary = arguments.get("summary")
        if not isinstance(summary, str):
            raise ToolError("`summary` must be a text")
        return ToolOutput(summary, final=True)

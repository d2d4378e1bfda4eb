"""What the tags of calls are called. Folded names, see `core.reading.markup`. Only data."""

from __future__ import annotations

#: Tags that carry a call, with the attributes that may name it.
CALL_TAGS = frozenset({"function", "invoke", "call", "tool"})
NAME_ATTRIBUTES = ("name", "tool", "function")
#: Tags whose text is the name of the call.
NAME_TAGS = frozenset({"tool_name", "name", "function_name", "function", "tool"})
#: Of those, the ones that say so themselves: they need no marks around them if arguments follow in tags.
LONE_NAME_TAGS = frozenset({"tool_name", "function_name", "name"})
#: Tags inside a block that say something about the call which nobody needs.
META_TAGS = frozenset({"server_name", "id", "call_id", "tool_call_id", "type"})
#: Tags that carry a parameter, with the attributes that may name it.
PARAMETER_TAGS = frozenset({"parameter", "param", "argument", "arg"})
KEY_ATTRIBUTES = ("name", "key")
#: Tags around all parameters: they mean nothing themselves.
CONTAINER_TAGS = frozenset({"parameters", "arguments", "args", "tool_input", "input", "params", "tool_sep"})
#: Tags around calls.
BLOCK_TAGS = frozenset(
    {"tool_call", "tool_calls", "function_call", "function_calls", "toolcall", "tool-call", "tool_use"}
)
#: Tags that end a call when they close, whatever opened it.
CALL_ENDS = CALL_TAGS | BLOCK_TAGS
#: MiniMax M3 puts this before every tag.
NOISE = "]<]minimax[>["
CDATA, CDATA_END = "<![CDATA[", "]]>"

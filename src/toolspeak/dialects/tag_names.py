"""Folded names of the tags in calls (see `core.parsing.tags`). Only data."""

from __future__ import annotations

#: Tags that carry a call, with the attributes that may name it.
CALL_TAGS = frozenset({"function", "invoke", "call", "tool"})
NAME_ATTRIBUTES = ("name", "tool", "function")
#: Tags whose text is the name of the call.
NAME_TAGS = frozenset({"tool_name", "name", "function_name", "function", "tool"})
#: Name tags that need no surrounding marks if arguments follow in tags.
LONE_NAME_TAGS = frozenset({"tool_name", "function_name", "name"})
#: Tags with metadata of a call, which is ignored.
META_TAGS = frozenset({"server_name", "id", "call_id", "tool_call_id", "type"})
#: Tags that carry a parameter, with the attributes that may name it.
PARAMETER_TAGS = frozenset({"parameter", "param", "argument", "arg"})
KEY_ATTRIBUTES = ("name", "key")
#: Tags around all parameters, without a meaning of their own.
CONTAINER_TAGS = frozenset({"parameters", "arguments", "args", "tool_input", "input", "params", "tool_sep"})
#: Tags around calls.
BLOCK_TAGS = frozenset(
    {"tool_call", "tool_calls", "function_call", "function_calls", "toolcall", "tool-call", "tool_use"}
)
#: Tags whose closing tag ends a call, whatever opened it.
CALL_ENDS = CALL_TAGS | BLOCK_TAGS
#: MiniMax M3 puts this before every tag.
NOISE = "]<]minimax[>["
CDATA, CDATA_END = "<![CDATA[", "]]>"

"""Names of the tags used in calls, normalized as in `core.parsing.tags`."""

#: Tags around one call, and the attributes that may contain the tool name.
CALL_TAGS = frozenset({"function", "invoke", "call", "tool"})
NAME_ATTRIBUTES = ("name", "tool", "function")
#: Tags whose text is the tool name.
NAME_TAGS = frozenset({"tool_name", "name", "function_name", "function", "tool"})
#: Name tags that also count outside a call block, if argument tags follow.
LONE_NAME_TAGS = frozenset({"tool_name", "function_name", "name"})
#: Tags with call metadata, which is ignored.
META_TAGS = frozenset({"server_name", "id", "call_id", "tool_call_id", "type"})
#: Tags around one parameter, and the attributes that may contain its key.
PARAMETER_TAGS = frozenset({"parameter", "param", "argument", "arg"})
KEY_ATTRIBUTES = ("name", "key")
#: Tags that only group the parameters of a call.
CONTAINER_TAGS = frozenset({"parameters", "arguments", "args", "tool_input", "input", "params", "tool_sep"})
#: Tags around one or more calls.
BLOCK_TAGS = frozenset(
    {
        *("tool_call", "tool_calls", "function_call", "function_calls", "toolcall", "tool-call", "tool_use"),
        *("longcat_tool_call", "dots_function_call", "seed:tool_call"),
    }
)
#: Blocks in which `<parameter=KEY>` and the value are on one line, so that a line break belongs to the value.
INLINE_BLOCKS = frozenset({"seed:tool_call"})
#: Tags whose closing tag ends a call, whichever tag opened it.
CALL_ENDS = CALL_TAGS | BLOCK_TAGS
#: Token that MiniMax M3 writes before every tag.
NOISE = "]<]minimax[>["
CDATA, CDATA_END = "<![CDATA[", "]]>"
#: Tags around reasoning.
REASONING_TAGS = frozenset({"think", "thinking", "thought"})
#: Marks that begin a tool result.
RESULTS = frozenset(
    """tool_response tool_result tool_results tool_output tool_outputs tool_use_result |tool_response |tool_response|
    |tool_outputs| |tool_outputs_begin| |tool_output_begin| |START_TOOL_RESULT| function_result function_results
    function_response function_output start_function_response observation |observation|""".split()
) | {
    # the model pretends that a new turn begins, which only the caller may do
    *("|im_start|", "|start_header_id|", "|start_of_role|", "start_of_turn")
}
#: Tokens that end an answer.
ANSWER_ENDS = frozenset(
    """|im_end| |eot_id| |eom_id| |end_of_sentence| |endoftext| |end_of_text| |end_of_turn| |assistant_end|
    |END_OF_TURN_TOKEN| end_of_turn""".split()
)

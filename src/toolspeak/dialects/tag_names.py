"""Names of the tags used in calls. `tags.toml` lists and explains them."""

import pkgutil

import msgspec

#: All tables of tags and marks with a fixed meaning, in their order.
TABLES = msgspec.toml.decode(pkgutil.get_data(__package__ or "", "tags.toml") or b"", type=dict[str, tuple[str, ...]])
CALL_TAGS = frozenset(TABLES["call"])
NAME_TAGS, LONE_NAME_TAGS = frozenset(TABLES["name"]), frozenset(TABLES["lone_name"])
#: Attributes that may contain the tool name, and those that may contain the key of a parameter.
NAME_ATTRIBUTES, KEY_ATTRIBUTES = ("name", "tool", "function"), ("name", "key")
META_TAGS = frozenset(TABLES["meta"])
PARAMETER_TAGS = frozenset(TABLES["parameter"])
CONTAINER_TAGS = frozenset(TABLES["container"])
BLOCK_TAGS = frozenset(TABLES["block"])
#: Blocks in which `<parameter=KEY>` and the value are on one line, so that a line break belongs to the value.
INLINE_BLOCKS = frozenset({"seed:tool_call"})
#: Tags whose closing tag ends a call, whichever tag opened it.
CALL_ENDS = CALL_TAGS | BLOCK_TAGS
#: Token that MiniMax M3 writes before every tag.
NOISE = "]<]minimax[>["
CDATA, CDATA_END = "<![CDATA[", "]]>"
REASONING_TAGS = frozenset(TABLES["reasoning"])
RESULTS = frozenset(TABLES["result"])
ANSWER_ENDS = frozenset(TABLES["answer_end"])

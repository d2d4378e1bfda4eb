"""Cases of the shared corpus that toolspeak reads differently from the project they come from, with the reason.

The corpus records what other projects expect of their own parsers. Each entry names the behaviour of the
mission (or of the reliability rules, `R-`) that decides the case the other way.
"""

from __future__ import annotations

#: (deciding rule, why, ids)
GROUPS: list[tuple[str, str, str]] = [
    (
        "R-E6",
        "a call has the name of the tool, not its spelling in the answer",
        "ds2api-SupportsToolCallsWrapper ds2api-SupportsDSMLWrapper ds2api-UnescapesHTMLEntity",
    ),
    (
        "B5",
        "keys that the schema does not forbid are kept; without a schema a string stays a string",
        "aisdk-hermes-016 aisdk-hermes-150 aisdk-hermes-206 aisdk-qwen_xml-052 aisdk-tool_tag_xml-038 "
        "aisdk-tool_tag_xml-039 aisdk-yaml_in_xml-007 aisdk-yaml_in_xml-013",
    ),
    (
        "B7",
        "only calls whose arguments fit their schema are calls",
        "aisdk-hermes-032 aisdk-hermes-112 aisdk-hermes-116  sglang-hunyuan-135 "
        "sglang-llama_python_tag_json-087 sglang-llama_python_tag_json-090 sglang-llama_python_tag_json-093 "
        "sglang-minimax_m3-185 sglang-minimax_m3-186 sglang-poolside_xml-203 sglang-poolside_xml-205",
    ),
    ("B6", "a call counts without its closing tag if its values are complete", "sglang-minicpm5_xml-161"),
    ("B7", "text follows a call without marks", "aisdk-tool_tag_xml-069"),
    ("B7", "a tag with a sentence in it, in the middle of a line, is a mention", "toolbridge-067"),
    (
        "B4",
        "the arguments can be repaired (inner quotes, doubled encoding, an extra closer), so they are",
        "aisdk-hermes-030 aisdk-hermes-050 aisdk-hermes-051 aisdk-hermes-052 aisdk-hermes-055 "
        "aisdk-hermes-138 zeroclaw-L3871",
    ),
    (
        "B6",
        "the closing tag of the call never came, so the call may have been cut off",
        "toolbridge-022 toolbridge-068 toolbridge-069 toolbridge-137 zeroclaw-L5129",
    ),
    (
        "B4",
        "a value between tags is what was written: entities and CDATA sections inside it are not decoded",
        "aisdk-qwen_xml-044 aisdk-qwen_xml-048 aisdk-tool_tag_xml-004 aisdk-tool_tag_xml-020 aisdk-tool_tag_xml-049 "
        "aisdk-tool_tag_xml-052 toolbridge-032 toolbridge-095",
    ),
    ("B4", "a value ends at its own closing tag, not where a tag of a call begins", "aisdk-qwen_xml-064"),
    ("B12", "a value without its closing tag, before another call, may be half of one", "aisdk-qwen_xml-063"),
    ("B12", "quotes around a text between tags belong to it", "sglang-glm_xml-048"),
    ("B12", "so does white space", "aisdk-tool_tag_xml-077 aisdk-yaml_in_xml-032"),
    ("B4", "text beside elements is not dropped: an element with both is text", "toolbridge-128"),
    (
        "B11",
        "the call was complete when its last brace came; what follows cannot take it back",
        "aisdk-hermes-126 aisdk-hermes-127 aisdk-hermes-129 aisdk-hermes-131 aisdk-hermes-164 aisdk-hermes-165 "
        "aisdk-hermes-169 sglang-inkling_tokens-058",
    ),
    (
        "B2",
        "a bare object at the start of a line that fits a known tool is a call",
        "aisdk-hermes-145 aisdk-hermes-191 aisdk-yaml_in_xml-014",
    ),
    (
        "B1",
        "several blocks are several calls, whatever their dialects",
        "forge-038 ollama-deepseek3-064 ollama-gemma4-117",
    ),
    (
        "R-E6",
        "NaN and a key that occurs twice are refused",
        "aisdk-tool_tag_xml-089 aisdk-tool_tag_xml-118 aisdk-tool_tag_xml-119 sglang-inkling_tokens-057",
    ),
    (
        "A13",
        "arguments are an object: a plain text is its one member `input`",
        "lc-json lc-mrkl lc-react-json lc-xml",
    ),
    (
        "B3",
        "not how any model family writes calls: marks made up for a test, a shell prompt, names of one program's tools",
        "aisdk-hermes-213 aisdk-hermes-214 aisdk-hermes-217 goose-emu-single_shell_command "
        "goose-emu-text_then_shell_command goose-emu-unclosed_execute_block_flushed  zeroclaw-L3580 "
        "zeroclaw-L4921",
    ),
    (
        "B8",
        "the recorded arguments are not what the text says (values lost, markup kept, lines torn apart)",
        "aisdk-qwen_xml-039 aisdk-tool_tag_xml-056  aisdk-tool_tag_xml-090 "
        "ollama-deepseek3-026 ollama-lfm2-129  toolbridge-088 toolbridge-147",
    ),
    (
        "B5",
        "elements whose closing tags are wrong fit no schema, so they go back to the model as a repair turn",
        "aisdk-tool_tag_xml-106",
    ),
    ("R-E6", "elements nested deeper than 64 are refused", "toolbridge-002"),
    (
        "B5",
        "a tag named like a tool whose only argument is a text takes what it holds for that text",
        "aisdk-tool_tag_xml-047",
    ),
    (
        "B5",
        "by most of the corpus itself: CDATA is unwrapped, `null` is null where null is allowed, an inline value without "
        "schema is text, a call without arguments has none",
        "aisdk-qwen_xml-036 aisdk-tool_tag_xml-013 goose-parse_xml_tool_call_multiple_params sglang-gigachat3-024",
    ),
]

DIFFERENCES: dict[str, tuple[str, str]] = {name: (rule, why) for rule, why, names in GROUPS for name in names.split()}

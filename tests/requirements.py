"""The behaviours that toolspeak promises and that are built, one sentence each.

A test that proves one of them carries its id: `@pytest.mark.requirement("B4")`. `test_requirements.py` checks
both directions: no behaviour without a test, no mark without a behaviour. Plain ids are what toolspeak does
for its user; ids that begin with `R-` are about reliability and safety.
"""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "B1": (
        "The default contract is a fenced block with the info string `json action` that holds "
        '{"tool": NAME, "parameters": {...}}; several blocks are several calls; a nonce follows the info string.'
    ),
    "B2": (
        "Also understood: a bare line with tool and args, `<tool_call>` JSON, `<invoke>` with parameters, "
        "Thought/Action/Action Input, and the decision document."
    ),
    "B3": "The formats that model families were trained on are recognised whatever format was asked for.",
    "B4": "Broken JSON is read as it was meant, and every repair is recorded as a named note.",
    "B5": "Arguments are aligned to the tool's schema and validated; what still does not fit is not a call.",
    "B6": "A call that was cut off is never returned as complete.",
    "B7": (
        "Ordinary JSON, examples in prose or fences and text inside reasoning are not calls; each candidate "
        "carries its evidence, a policy decides, and the decision can be explained."
    ),
    "B8": (
        "Streaming is live: text, names and argument fragments flow as soon as they are certain, and a chunk "
        "boundary never changes the result."
    ),
    "B9": "A tool result that the model invents after its own call is cut off.",
    "B10": "Reasoning is separated from the text.",
    "B11": (
        "What has been streamed is never taken back: a name goes out when the evidence stands, a value only when "
        "it can no longer change, and a call that turns out wrong is closed as valid JSON and noted."
    ),
    "R-E2": "With a nonce, only marks that carry it open a call.",
    "R-E4": "A candidate whose name and arguments also stand in an untrusted text is text, not a call.",
    "R-E5": "A mark opens a call only at the start of a line, outside fences, inline code and reasoning.",
    "R-E6": (
        "With tools given, only their exact names are called; duplicate keys, NaN, infinities, lone surrogates, "
        "too deep and too large arguments are refused."
    ),
    "R-T12": "Parsing takes time linear in the length of the text, however hostile it is.",
}

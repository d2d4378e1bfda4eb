"""Runs SGLang's tool-call detectors for `bench/accuracy.py`, in an environment of its own, without an engine or torch.

Reads one case per line from standard input, as JSON, and answers with the calls of every detector and the CPU time that
it took. The folder given as the only argument holds the packages `sglang.srt.function_call` and `sglang.srt.parser`, the
OpenAI protocol models and the environment settings of a released wheel, all unchanged. Replaced by empty stand-ins are
`xgrammar` and `sglang.utils`, which only constrain what a model writes. No detector gets a tokenizer.
"""

from __future__ import annotations

import json
import logging
import sys
from contextlib import suppress
from time import process_time
from types import ModuleType
from typing import Any

#: Imported by the detectors, but not used to parse.
STAND_INS = ("xgrammar", "xgrammar.structural_tag", "sglang.utils")
#: This one follows a template that only a checkpoint has.
LEFT_OUT = "response_template"


class StandIn(ModuleType):
    """A module in which every name is an empty model."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        from pydantic import BaseModel

        return type(name, (BaseModel,), {})


def load(folder: str) -> tuple[Any, Any]:
    """Import the parser and the type of its tools."""
    sys.path.insert(0, folder)
    sys.modules.update({name: StandIn(name) for name in STAND_INS})
    from sglang.srt.entrypoints.openai.protocol import Tool  # type: ignore[reportMissingImports]
    from sglang.srt.function_call.function_call_parser import (  # type: ignore[reportMissingImports]
        FunctionCallParser,
    )

    return FunctionCallParser, Tool


def detectors(parser: Any) -> list[str]:
    """The first name of each detector; some have several."""
    names = {kind: name for name, kind in reversed(parser.ToolCallParserEnum.items()) if name != LEFT_OUT}
    return sorted(names.values())


def calls_of(parser: Any, name: str, tools: list[Any], text: str) -> list[list[Any]]:
    _, items = parser(tools, name).parse_non_stream(text)
    return [[item.name, json.loads(item.parameters or "{}")] for item in items]


def measured(parser: Any, name: str, tools: list[Any], case: dict[str, Any]) -> dict[str, Any]:
    """The calls that one detector finds; null if it fails."""
    calls, best = None, float("inf")
    for _ in range(case["repeats"]):
        started = process_time()
        with suppress(Exception):
            calls = calls_of(parser, name, tools, case["text"])
        best = min(best, process_time() - started)
    return {"calls": calls, "seconds": best}


def main() -> None:
    logging.disable()
    parser, tool = load(sys.argv[1])
    names = detectors(parser)
    print(json.dumps(names), flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        tools = [tool.model_validate(each) for each in case["tools"]]
        print(json.dumps({name: measured(parser, name, tools, case) for name in names}), flush=True)


if __name__ == "__main__":
    main()

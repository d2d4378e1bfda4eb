"""Random model output into the scanner, for a while.

What must hold for any text whatever: nothing is raised; the text as a whole, one character at a time and in
random pieces give the same reply; the streamed arguments of each call are strict JSON and equal to what the
reply holds; `parse` agrees with the scanner; the time is bounded by the length.

Coverage-guided by atheris where it is installed, otherwise driven by hypothesis, which shrinks what it finds.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import random
import sys
from collections.abc import Iterable
from time import monotonic, process_time
from typing import Any

HAVE_ATHERIS = importlib.util.find_spec("atheris") is not None
atheris: Any = importlib.import_module("atheris") if HAVE_ATHERIS else None
if HAVE_ATHERIS:
    with atheris.instrument_imports(include=["toolspeak"]):
        import toolspeak as ts
else:
    import toolspeak as ts

#: What the marks, grammars and mistakes of all dialects are made of; random characters come between.
#: Separated by two spaces or a line break.
_MARKS = r"""
<tool_call>  </tool_call>  <tool_call k7q2xm>  </tool_call k7q2xm>  <tool_cal  <tool_calls>  </tool_calls>  <|tool_call|>
<|tool_call>  <tool_call|>  <tool_response>  </tool_response>  <function=read_file>  </function>  <parameter=path>
</parameter>  <function_calls>  </function_calls>  <invoke name="read_file">  </invoke>  <parameter name="path">
<function name="read_file">  <read_file>  </read_file>  <path>  </path>  <arg_key>  </arg_key>  <arg_value>  </arg_value>
<think>  </think>  <thinking>  </thinking>  [THINK]  [/THINK]  [TOOL_CALLS]  [TOOL_CALLS]read_file  [ARGS]  [CALL_ID]
[TOOL_RESULTS]  <|python_tag|>  <|eom_id|>  <｜tool▁calls▁begin｜>  <｜tool▁call▁begin｜>  <｜tool▁sep｜>  <｜tool▁call▁end｜>
<|tool▁calls▁begin|>  <｜｜DSML｜｜invoke name="read_file">  <｜DSML｜parameter name="path" string="true">  <|channel|>
<|start|>assistant  <|message|>  <|call|>  <|constrain|>json  commentary to=functions.read_file  analysis  final
<|tool_calls_section_begin|>  <|tool_call_begin|>  functions.read_file:0  <|tool_call_argument_begin|>  <|tool_call_end|>
<|START_ACTION|>  <|END_ACTION|>  <start_function_call>  <end_function_call>  call:read_file{  <escape>  <TOOLCALL>[
]</TOOLCALL>  <minimax:tool_call>  <|tool_call_start|>[  ]<|tool_call_end|>  ```  ````  ~~~  ```json  ```python
```json action  ```json action k7q2xm  ```tool_code  `  {"tool": "read_file", "args": {  {"name": "read_file", "arguments": {
{"tool":  {"name":  "read_file"  "search"  "arguments":  "parameters":  "args":  "path":  "a.py"  {"tools": [
{"calls": [  "reply": "  read_file(path="  [read_file(  )]  read_file  Thought: hm  Action: read_file  Action Input: {
Action:  Action Input:  Observation: ok  Final Answer:  {  }  }}  [  ]  :  ,  "  '  \  \n  \u00e9  \ud800  \"
“  ”  ‘  ’  ：  ，  ｛  ｝  true  True  None  NaN  Infinity  -1  1e999  3.5  // c  /* c */  &lt;  &quot;  <![CDATA[  ]]>
"""
FRAGMENTS = [part for line in _MARKS.strip().splitlines() for part in line.split("  ")]
FRAGMENTS += [*"\n \t\u00a0\u200b\ud800\0é你😀\u2028", "\n\n", "\r\n", "I will call "]

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "line": {"type": "integer"}, "tags": {"type": "array"}},
                "required": required,
            },
        },
    }
    for name, required in (("read_file", ["path"]), ("write_file", []), ("search", []))
]
POLICIES = ("strict", "standard", "eager")

#: CPU seconds a text may take: far above what it does take, far below what anything quadratic would.
BASE_SECONDS = 0.5
SECONDS_PER_CHARACTER = 500e-6

executions = 0


def check(text: str, choice: int, seed: int) -> None:
    """Raise if anything that must hold for `text` does not; `choice` picks the options, `seed` the splits."""
    global executions  # noqa: PLW0603
    executions += 1
    options: dict[str, Any] = {
        "tools": TOOLS if choice & 1 else None,
        "policy": POLICIES[(choice >> 1) % len(POLICIES)],
        "nonce": "k7q2xm" if choice & 8 else None,
        "untrusted": ('<tool_call>{"name": "search", "arguments": {}}</tool_call>',) if choice & 16 else (),
    }
    started = process_time()
    whole = scan([text], options)
    seconds = process_time() - started
    assert seconds <= BASE_SECONDS + SECONDS_PER_CHARACTER * len(text), f"{seconds:.2f} s for {len(text)} characters"
    reply = ts.fold(whole)
    check_arguments(whole, reply)
    assert ts.fold(scan(text, options)) == reply, "one character at a time"
    pieces = split(text, random.Random(seed))
    assert ts.fold(scan(pieces, options)) == reply, f"split as {pieces!r}"
    parsed = ts.parse(text, **options)
    assert (parsed.text, parsed.calls) == (reply.text, reply.calls), "parse differs from the scanner"


def scan(chunks: Iterable[str], options: dict[str, Any]) -> list[Any]:
    scanner = ts.Scanner(**options)
    events: list[Any] = []
    for chunk in chunks:
        events += scanner.feed(chunk)
    return events + list(scanner.close())


def check_arguments(events: list[Any], reply: Any) -> None:
    """The fragments of each call that ended well are strict JSON and are what the reply holds."""
    fragments: dict[int, list[str]] = {}
    valid: dict[int, Any] = {}
    for event in events:
        kind = type(event).__name__
        if kind == "CallArgs":
            fragments.setdefault(event.index, []).append(event.fragment)
        elif kind == "CallEnd":
            # Ended, well or not: what was streamed is strict JSON.
            value = json.loads("".join(fragments.get(event.index, [])) or "{}", parse_constant=refuse)
            if event.valid:
                valid[event.index] = value
    assert [valid[index] for index in sorted(valid)] == [call.arguments for call in reply.calls]


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def split(text: str, source: random.Random) -> list[str]:
    """The text in pieces of random lengths, some of them empty."""
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = start + source.choice((0, 1, 1, 2, 3, 4, 7, 16, 60))
        pieces.append(text[start:end])
        start = end
    return pieces


def text_of(data: bytes) -> str:
    """A byte below 95 is a printable character, one above stands for a fragment."""
    return "".join(chr(byte + 32) if byte < 95 else FRAGMENTS[(byte - 95) % len(FRAGMENTS)] for byte in data)


def run_hypothesis(seconds: float, first_seed: int) -> None:
    """Batches of hypothesis examples, each with another seed, until the time is up."""
    from hypothesis import HealthCheck, Phase, given, note, settings
    from hypothesis import seed as seeded
    from hypothesis import strategies as st

    deadline = monotonic() + seconds
    batch = first_seed
    found = False

    @settings(
        max_examples=1000,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=[HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.too_slow],
    )
    @given(st.binary(max_size=100).map(text_of), st.integers(0, 31), st.integers(0, 2**32))
    def examples(text: str, choice: int, seed: int) -> None:
        nonlocal found
        if monotonic() > deadline and not found:
            return
        note(f"text: {text!r}")
        try:
            check(text, choice, seed)
        except Exception:
            found = True  # from now on hypothesis looks for the smallest such text, however long that takes
            raise

    while monotonic() < deadline:
        batch += 1
        seeded(batch)(examples)()


def run_atheris(seconds: float, rest: list[str]) -> None:
    """Guided by coverage; the first two bytes choose options and splits."""

    def target(data: bytes) -> None:
        if len(data) > 2:
            check(text_of(data[2:]), data[0], data[1])

    limits = [f"-max_total_time={int(seconds)}", "-max_len=512", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *limits, *rest], target)
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31), help="hypothesis only")
    engines = ["atheris", "hypothesis"] if HAVE_ATHERIS else ["hypothesis"]
    parser.add_argument("--engine", choices=engines, default=engines[0])
    arguments, rest = parser.parse_known_args()
    print(f"fuzzing for {arguments.seconds:g} s with {arguments.engine}, seed {arguments.seed}", flush=True)
    if arguments.engine == "atheris":
        run_atheris(arguments.seconds, rest)
        return
    try:
        run_hypothesis(arguments.seconds, arguments.seed)
    finally:
        print(f"{executions} executions")


if __name__ == "__main__":
    main()

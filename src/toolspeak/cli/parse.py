"""`toolspeak parse`: extract tool calls from model output as JSON."""

from typing import Any

import msgspec

import toolspeak as ts

from ._io import CliError, chunks, read_text, read_tools, usage_errors, write_json


def command(
    file: str, tools: str | None, untrusted: tuple[str, ...], candidates: bool, stream: bool, **options: Any
) -> None:
    if stream and candidates:
        raise CliError("--stream and --candidates are mutually exclusive", hint="omit one of them")
    if [file, *untrusted, tools].count("-") > 1:
        raise CliError("stdin can be read only once", hint="replace one - with the path of a file")
    options |= {"tools": None if tools is None else read_tools(tools), "untrusted": tuple(map(read_text, untrusted))}
    with usage_errors():
        if stream:
            scanner = ts.Scanner(**options)
            for chunk in chunks(file):
                _write_events(scanner.feed(chunk))
            _write_events(scanner.close())
        else:
            _print_result(file, options, candidates=candidates)


def _print_result(file: str, options: dict[str, Any], *, candidates: bool) -> None:
    parsed = ts.parse(read_text(file), **options)
    calls = [{"name": call.name, "arguments": call.arguments} for call in parsed.calls]
    result: dict[str, Any] = {"text": parsed.text, "reasoning": parsed.reasoning, "calls": calls}
    result |= {"complete": parsed.complete, "notes": _plain(parsed.notes)}
    if candidates:
        result["candidates"] = _plain(parsed.candidates)
    write_json(result, indent=2)


def _write_events(events: list[Any]) -> None:
    for event in events:
        write_json({"type": type(event).__name__, **_plain(event)})


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=str)

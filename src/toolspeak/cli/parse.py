"""`toolspeak parse`: extract tool calls from model output as JSON."""

from typing import Any, cast

import click
import msgspec

import toolspeak as ts

from ._io import CliError, chunks, read_json, read_text, usage_errors, write_json


@click.command("parse")
@click.option("--tools", metavar="TOOLS.JSON", help="Tools offered to the model: a JSON list in OpenAI's format.")
@click.option(
    "--policy",
    type=click.Choice(["strict", "standard", "eager"]),
    default="standard",
    show_default=True,
    help="How much evidence a call needs.",
)
@click.option("--dialect", metavar="NAME", default="auto", show_default=True, help="Call notation of the text.")
@click.option("--nonce", metavar="WORD", help="Accept only call markers that carry this nonce.")
@click.option(
    "--untrusted",
    metavar="FILE",
    multiple=True,
    help="Untrusted text that the model was given; calls copied from it are ignored. Repeatable.",
)
@click.option("--candidates", is_flag=True, help="Also print all call candidates with their verdicts and reasons.")
@click.option("--stream", is_flag=True, help="Print one JSON line per event as the text arrives.")
@click.argument("file", default="-")
def command(
    file: str, tools: str | None, untrusted: tuple[str, ...], candidates: bool, stream: bool, **options: Any
) -> None:
    """Extract tool calls from FILE (default: stdin) as JSON.

    Prints one object: {"text", "reasoning", "calls": [{"name", "arguments"}], "complete", "notes"}.
    """
    if stream and candidates:
        raise CliError("--stream and --candidates are mutually exclusive", hint="omit one of them")
    if [file, *untrusted, tools].count("-") > 1:
        raise CliError("stdin can be read only once", hint="replace one - with the path of a file")
    options |= {"tools": _read_tools(tools), "untrusted": tuple(map(read_text, untrusted))}
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


def _read_tools(name: str | None) -> list[Any] | None:
    if name is None:
        return None
    value = read_json(name, "the tools file")
    if isinstance(value, dict):
        value = cast(dict[str, Any], value).get("tools")  # accept a whole request body, too
    if not isinstance(value, list):
        hint = 'use [{"type": "function", ...}]'
        raise CliError(f"the tools file `{name}` does not contain a list of tools", hint=hint)
    return cast(list[Any], value)

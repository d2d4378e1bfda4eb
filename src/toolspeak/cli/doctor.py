"""`toolspeak doctor`: what is wrong with the upstreams, and what to change.

A thin face over `toolspeak.doctor`: findings on stdout as they come, progress on stderr where that is a terminal.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click
import msgspec

from ..config import Config
from ..core.text import UNSEEN, printable
from ._io import write_json
from .config import loaded, usage_errors

if TYPE_CHECKING:
    from ..doctor import Finding, Patient

_PROTOCOLS = ["openai", "openai_responses", "anthropic", "gemini", "ollama"]
_COLOURS = {"ok": "green", "note": "yellow", "fail": "red", "skipped": "bright_black"}
#: Back to the start of the line, and nothing on it.
_ERASE = "\r\x1b[K"

_EXAMPLES = """\b
Exit status:
  0  nothing is broken; there may be notes
  1  something does not work
  2  the command line or the configuration is wrong
\b
Examples:
  toolspeak doctor
  toolspeak doctor --upstream http://127.0.0.1:9000/v1 --model qwen3:8b
  toolspeak doctor --upstream near --json
  toolspeak doctor --model anthropic:claude-sonnet-4-5
"""


@click.command("doctor", epilog=_EXAMPLES)
@click.option("--upstream", default="", metavar="URL|NAME", help="Look at this one: an address, or a configured name.")
@click.option("--protocol", type=click.Choice(_PROTOCOLS), help="What the upstream speaks.")
@click.option(
    "--model", default="", metavar="NAME", help="Ask for this model.  [default: configured, or the first listed]"
)
@click.option("--timeout", default=60.0, show_default=True, metavar="SECONDS", help="Wait so long for an answer.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(upstream: str, protocol: str | None, model: str, timeout: float, as_json: bool) -> None:
    """Check the configuration and every upstream, and say what to change.

    A handful of small requests goes to each upstream: its models, a sentence, a streamed one, and two with a tool. Keys
    are never printed. Without --upstream the upstreams are those of the configuration.
    """
    from ..doctor import failed, patients

    with usage_errors():
        config = loaded({"protocol": protocol} if protocol else None)
        found = patients(config, upstream, model, max(1.0, timeout))
    shown = _Shown(config, as_json)
    results = asyncio.run(_examined(found, shown))
    broken = any(failed(findings) for _, findings in results)
    if as_json:
        told = [{**_about(patient), "checks": msgspec.to_builtins(findings)} for patient, findings in results]
        write_json({"ok": not broken, "upstreams": told}, indent=2)
    else:
        shown.end([finding for _, findings in results for finding in findings])
    if broken:
        raise click.exceptions.Exit(1)


async def _examined(found: list[Patient], shown: _Shown) -> list[tuple[Patient, list[Finding]]]:
    from ..doctor import examine

    results: list[tuple[Patient, list[Finding]]] = []
    for patient in found:
        shown.begin(patient)
        findings: list[Finding] = []
        async for finding in examine(patient, shown.progress):
            shown.finding(finding)
            findings.append(finding)
        results.append((patient, findings))
    return results


def _about(patient: Patient) -> dict[str, str]:
    return {
        "name": patient.name,
        "base_url": patient.where,
        "protocol": patient.protocol,
        "model": patient.model,
    }


class _Shown:
    """Findings as a person reads them; nothing, where they are to be JSON."""

    def __init__(self, config: Config, silent: bool) -> None:
        self._silent = silent
        self._colour = False if config.environment().get("NO_COLOR") else None
        self._terminal = sys.stderr.isatty()

    def _echo(self, text: str) -> None:
        if not self._silent:
            click.echo(text, color=self._colour)

    def progress(self, check: str) -> None:
        """What is being looked at."""
        if self._terminal:
            click.echo(f"{_ERASE}  ...   {check}", nl=False, err=True)

    def begin(self, patient: Patient) -> None:
        """The upstream that is next."""
        model = f", model {patient.model}" if patient.model else ""
        self._echo(click.style(f"{patient.name} at {patient.where}{model}", bold=True))

    def finding(self, finding: Finding) -> None:
        """What was found."""
        if self._terminal:
            click.echo(_ERASE, nl=False, err=True)
        status = click.style(f"{finding.status:<8}", fg=_COLOURS[finding.status])
        self._echo(f"  {status}{finding.check:<15}{printable(finding.says, UNSEEN)}")
        if finding.fix:
            self._echo(f"{'':<25}-> {printable(finding.fix, UNSEEN)}")

    def end(self, findings: list[Finding]) -> None:
        """How it went altogether."""
        failures, notes = (sum(each.status == status for each in findings) for status in ("fail", "note"))
        if failures:
            self._echo(f"{failures} of {len(findings)} checks failed")
        else:
            self._echo("everything works" + (f", with {notes} notes" if notes else ""))

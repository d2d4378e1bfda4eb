"""`toolspeak doctor`: check the upstreams and suggest fixes.

Findings go to stdout as they arrive, progress to stderr if it is a terminal.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click
import msgspec

from ..core.text import counted
from ._io import Spinner, clean, echo, write_json
from .config import load_config, usage_errors

if TYPE_CHECKING:
    from ..doctor import CheckResult, DoctorTarget

_COLOURS = {"ok": "green", "note": "yellow", "fail": "red", "skipped": "bright_black"}


def command(
    upstream: str = "", protocol: str | None = None, model: str = "", timeout: float = 60.0, as_json: bool = False
) -> None:
    from ..doctor import doctor_targets, failed

    with usage_errors():
        config = load_config({"protocol": protocol} if protocol else None)
        targets = doctor_targets(config, upstream, model, max(1.0, timeout))
    output = _FindingsPrinter(as_json)
    results = asyncio.run(_run_checks(targets, output))
    broken = any(failed(findings) for _, findings in results)
    if as_json:
        reports = [{**_about(target), "checks": msgspec.to_builtins(findings)} for target, findings in results]
        write_json({"ok": not broken, "upstreams": reports}, indent=2)
    else:
        output.end([finding for _, findings in results for finding in findings])
    if broken:
        raise click.exceptions.Exit(1)


async def _run_checks(
    targets: list[DoctorTarget], output: _FindingsPrinter
) -> list[tuple[DoctorTarget, list[CheckResult]]]:
    from ..doctor import examine

    results: list[tuple[DoctorTarget, list[CheckResult]]] = []
    for target in targets:
        output.begin(target)
        findings: list[CheckResult] = []
        async for finding in examine(target, output.progress):
            output.finding(finding)
            findings.append(finding)
        results.append((target, findings))
    return results


def _about(target: DoctorTarget) -> dict[str, str]:
    return {"name": target.name, "base_url": target.where, "protocol": target.protocol, "model": target.model}


class _FindingsPrinter:
    """Prints findings as text; prints nothing in JSON mode."""

    def __init__(self, silent: bool) -> None:
        self._silent = silent
        self._spinner = Spinner()

    def _echo(self, text: str, indent: int = 0) -> None:
        self._spinner.hide()
        if not self._silent:
            echo(text, indent=indent)

    def progress(self, check: str) -> None:
        self._spinner.show(check)

    def begin(self, target: DoctorTarget) -> None:
        model = f", model {target.model}" if target.model else ""
        where = f" at {target.where}" if target.base_url else ""
        self._echo(click.style(clean(f"{target.name}{where}{model}"), bold=True))

    def finding(self, finding: CheckResult) -> None:
        status = click.style(f"{finding.status:<8}", fg=_COLOURS[finding.status])
        self._echo(f"  {status}{finding.check:<15}{clean(finding.says)}", 25)
        if finding.fix:
            self._echo(f"{'':<25}-> {clean(finding.fix)}", 28)

    def end(self, findings: list[CheckResult]) -> None:
        failures, notes = (sum(each.status == status for each in findings) for status in ("fail", "note"))
        if failures:
            self._echo(f"{failures} of {len(findings)} checks failed")
        else:
            self._echo("All checks passed" + (f" ({counted(notes, 'note')})" if notes else ""))

"""`shell`: the tool by which a model runs commands. In a sandbox, after approval, within limits.

Where there is no sandbox, every command has to be allowed by a person or by a rule that a person wrote, and runs as a
plain process with the same limits as far as the system enforces them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack

import msgspec

from ..core.types import JSONObject, Tool
from ..errors import ToolDenied, ToolError, UsageError
from .approval import Approval
from .base import CallContext, ToolOutput
from .processes import Ended, Limits, Outcome, Stop, limited, run_process
from .sandbox import Inside, Sandbox, counts_apart, environment, work_folder
from .threads import in_thread, threadsafe

#: What a plain process learns besides; a sandbox has its own.
_PLAIN = ("HOME", "PATH", "SHELL", "TMPDIR")

_ENDS: dict[Ended, str] = {
    "timeout": "ended after {limits.seconds:g} seconds",
    "cancelled": "cancelled",
    "processes": "ended: it had started more than {limits.processes} processes",
    "memory": "ended: it used more than {limits.memory} bytes of memory",
    "output": "ended: it wrote more than {limits.flood} bytes",
}


class Shell:
    """Runs commands in a work directory.

    `sandbox` is True (the default: one is used if there can be any), `"require"` or False. `env` names variables for
    commands, with their values; of the environment around us only harmless parts are passed on.

    Raises:
        UsageError: the work directory cannot be used, or a required sandbox cannot be made.
    """

    def __init__(
        self,
        work: str | os.PathLike[str],
        approval: Approval,
        *,
        sandbox: bool | str = True,
        network: bool = False,
        readable: tuple[str, ...] = (),
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        # Passed on in parts, not read for settings.
        self._variables = dict(os.environ)  # noqa: TID251
        self.work = work_folder(work)
        self._approval = approval
        self._limits = limits or Limits()
        self._own = dict(env or {})
        box = Sandbox(self.work, network, tuple(os.path.realpath(path) for path in readable))
        #: Why commands do not run in a sandbox; empty when they do.
        self.problem = box.problem() if sandbox else "the sandbox is switched off"
        if self.problem and sandbox == "require":
            raise UsageError(f"a sandbox is required: {self.problem}")
        self._sandbox = None if self.problem else box
        self._program = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        #: What the model is told.
        self.tool = self._described()

    @property
    def sandboxed(self) -> bool:
        """Whether commands can do no harm outside the work directory; with a network they can."""
        return self._sandbox is not None and not self._sandbox.network

    def _described(self) -> Tool:
        place = "in a sandbox" if self._sandbox else "on this machine"
        reach = "with network access" if self._sandbox is None or self._sandbox.network else "without network access"
        text = (
            f"Run a command with {os.path.basename(self._program)}, {place}, {reach}. It starts in the work directory "
            f"{self.work}. Nothing that it starts outlives it. Standard output and errors come back together."
        )
        seconds = int(self._limits.seconds)
        properties: JSONObject = {
            "command": {"type": "string", "description": "The command line."},
            "timeout": {
                "type": "integer",
                "minimum": 1,
                "maximum": max(1, seconds),
                "description": f"Seconds after which it is ended; {seconds} if left out.",
            },
        }
        schema = {"type": "object", "properties": properties, "required": ["command"], "additionalProperties": False}
        return Tool("shell", text, schema, side_effects=True)

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Ask, run, and tell.

        Raises:
            ToolDenied: the answer was no.
            ToolError: the arguments are wrong, or the command cannot be started.
        """
        command, limits = self._read(arguments)
        decision = await self._approval.decide(self.tool, arguments, context, sandboxed=self.sandboxed)
        if not decision.allowed:
            raise ToolDenied(f"the command was not allowed: {decision.reason}")
        return _told(await self._watched(command, limits, threadsafe(context.emit)), limits)

    def _read(self, arguments: JSONObject) -> tuple[str, Limits]:
        command, seconds = arguments.get("command"), arguments.get("timeout")
        if not isinstance(command, str) or not command.strip():
            raise ToolError("`command` must be a text that is not empty")
        if "\0" in command:
            raise ToolError("`command` must not hold a NUL character")
        if seconds is None:
            return command, self._limits
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds > 0:
            raise ToolError("`timeout` must be a number of seconds above 0")
        return command, msgspec.structs.replace(self._limits, seconds=min(float(seconds), self._limits.seconds))

    async def _watched(self, command: str, limits: Limits, emit: Callable[[str], None]) -> Outcome:
        """In a thread; who is cancelled waits until nothing is left of the command."""
        stop = Stop()
        running = asyncio.ensure_future(in_thread(lambda: self._run(command, limits, stop, emit)))
        try:
            return await asyncio.shield(running)
        except OSError as error:
            raise ToolError(f"the command cannot be started: {error.strerror or error}") from None
        except asyncio.CancelledError:
            stop.set()
            await _finished(running)
            raise
        finally:
            await _finished(running)
            stop.close()

    def _run(self, command: str, limits: Limits, stop: Stop, emit: Callable[[str], None]) -> Outcome:
        alone = self._sandbox is not None and counts_apart()
        line = limited([self._program, "-c", command], limits, alone=alone)
        with ExitStack() as stack:
            inside = Inside(line, (), -1)
            if self._sandbox is not None:
                inside = stack.enter_context(self._sandbox.around(line))
                env = self._sandbox.environment(self._variables)
            else:
                plain = {name: self._variables[name] for name in _PLAIN if name in self._variables}
                env = {**environment(self._variables), **plain}
            env |= self._own
            return run_process(
                inside.command,
                folder=self.work,
                env=env,
                limits=limits,
                stop=stop,
                emit=emit,
                keep=inside.keep,
                first=inside.first,
            )


async def _finished(running: asyncio.Future[Outcome]) -> None:
    """Wait for the end, however often somebody else loses patience: a process must not be left behind."""
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            continue


def _told(outcome: Outcome, limits: Limits) -> ToolOutput:
    """The outcome in the model's terms."""
    said: list[str] = []
    if outcome.ended:
        said.append(f"[{_ENDS[outcome.ended].format(limits=limits)}]")
    elif outcome.code < 0:
        said.append(f"[ended by signal {-outcome.code}]")
    elif outcome.code:
        said.append(f"[exit code {outcome.code}]")
    elif not outcome.output:
        said.append("[no output]")
    text = outcome.output
    if said and text and not text.endswith("\n"):
        text += "\n"
    return ToolOutput(text + "".join(said), error=bool(outcome.ended or outcome.code))

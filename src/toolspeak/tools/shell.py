"""The `shell` tool: runs commands in a sandbox, after approval, within resource limits.

Without a sandbox, every command needs approval by the user or by a rule. It then runs as an ordinary process, with the
limits that the operating system can enforce.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack

import msgspec

from ..core.text import system_reason
from ..core.types import JSONObject, Tool
from ..errors import ToolDenied, ToolError, UsageError
from .approval import Approval
from .base import CallContext, ToolOutput
from .processes import EndReason, ProcessLimits, ProcessResult, StopSignal, limit_command, run_process
from .sandbox import Sandbox, SandboxedCommand, counts_processes_apart, harmless_environment, work_folder
from .threads import in_thread, threadsafe

#: Environment variables that are also passed on without a sandbox. A sandbox sets its own values.
_UNSANDBOXED_VARIABLES = ("HOME", "PATH", "SHELL", "TMPDIR")

_END_TEXTS: dict[EndReason, str] = {
    "timeout": "ended after {limits.seconds:g} seconds",
    "cancelled": "cancelled",
    "processes": "ended: it had started more than {limits.processes} processes",
    "memory": "ended: it used more than {limits.memory} bytes of memory",
    "output": "ended: it wrote more than {limits.flood} bytes",
}


class Shell:
    """Runs commands in a work directory.

    `sandbox` is True (the default: use one if possible), `"require"` or False. `env` adds environment variables; of the
    surrounding environment, only harmless variables are passed on.
    Raises UsageError if the work directory cannot be used, or a required sandbox is not available.
    """

    def __init__(
        self,
        work: str | os.PathLike[str],
        approval: Approval,
        *,
        sandbox: bool | str = True,
        network: bool = False,
        readable: tuple[str, ...] = (),
        limits: ProcessLimits | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        # Only some variables are passed on to commands, and no settings are read from the environment.
        self._variables = dict(os.environ)  # noqa: TID251
        self.work = work_folder(work)
        self._approval = approval
        self._limits = limits or ProcessLimits()
        self._own = dict(env or {})
        box = Sandbox(self.work, network, tuple(os.path.realpath(path) for path in readable))
        #: Why commands do not run in a sandbox; empty if they do.
        self.problem = box.problem() if sandbox else "the sandbox is switched off"
        if self.problem and sandbox == "require":
            raise UsageError(f"a sandbox is required: {self.problem}")
        self._sandbox = None if self.problem else box
        self._program = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        self.tool = self._definition()

    @property
    def sandboxed(self) -> bool:
        """Whether commands cannot do harm outside the work directory. False if they have network access."""
        return self._sandbox is not None and not self._sandbox.network

    def _definition(self) -> Tool:
        place = "in a sandbox" if self._sandbox else "on this machine"
        reach = "with network access" if self._sandbox is None or self._sandbox.network else "without network access"
        text = (
            f"Run a command with {os.path.basename(self._program)}, {place}, {reach}. It starts in the work directory "
            f"{self.work}. Nothing that it starts outlives it. Standard output and errors come back together."
        )
        seconds = int(self._limits.seconds)
        timeout: JSONObject = {"type": "integer", "minimum": 1, "maximum": max(1, seconds)}
        timeout["description"] = f"Seconds after which it is ended; {seconds} if left out."
        command: JSONObject = {"type": "string", "description": "The command line."}
        properties = {"command": command, "timeout": timeout}
        schema = {"type": "object", "properties": properties, "required": ["command"], "additionalProperties": False}
        return Tool("shell", text, schema, side_effects=True)

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        """Run a command. Raises ToolDenied if it was not approved, and ToolError if it cannot be started."""
        command, limits = self._parse_arguments(arguments)
        decision = await self._approval.decide(self.tool, arguments, context, sandboxed=self.sandboxed)
        if not decision.allowed:
            raise ToolDenied(f"the command was not allowed: {decision.reason}")
        return _tool_output(await self._run_in_thread(command, limits, threadsafe(context.emit)), limits)

    def _parse_arguments(self, arguments: JSONObject) -> tuple[str, ProcessLimits]:
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

    async def _run_in_thread(self, command: str, limits: ProcessLimits, emit: Callable[[str], None]) -> ProcessResult:
        """Run the command in a thread. On cancellation, wait until all of its processes have ended."""
        stop = StopSignal()
        running = asyncio.ensure_future(in_thread(lambda: self._run(command, limits, stop, emit)))
        try:
            return await asyncio.shield(running)
        except OSError as error:
            raise ToolError(f"the command cannot be started: {system_reason(error)}") from None
        except asyncio.CancelledError:
            stop.set()
            await _wait_until_done(running)
            raise
        finally:
            await _wait_until_done(running)
            stop.close()

    def _run(self, command: str, limits: ProcessLimits, stop: StopSignal, emit: Callable[[str], None]) -> ProcessResult:
        alone = self._sandbox is not None and counts_processes_apart()
        line = limit_command([self._program, "-c", command], limits, alone=alone)
        with ExitStack() as stack:
            inside = SandboxedCommand(line, (), -1)
            if self._sandbox is not None:
                inside = stack.enter_context(self._sandbox.wrap(line))
                env = self._sandbox.environment(self._variables)
            else:
                plain = {name: self._variables[name] for name in _UNSANDBOXED_VARIABLES if name in self._variables}
                env = {**harmless_environment(self._variables), **plain}
            env |= self._own
            return run_process(
                inside.command,
                folder=self.work,
                env=env,
                limits=limits,
                stop=stop,
                emit=emit,
                pass_fds=inside.pass_fds,
                info_fd=inside.info_fd,
            )


async def _wait_until_done(running: asyncio.Future[ProcessResult]) -> None:
    """Wait for the command to end, even if cancelled repeatedly: no process may be left running."""
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            continue


def _tool_output(outcome: ProcessResult, limits: ProcessLimits) -> ToolOutput:
    text, status = outcome.output, ""
    if outcome.ended:
        status = f"[{_END_TEXTS[outcome.ended].format(limits=limits)}]"
    elif outcome.code:
        status = f"[exit code {outcome.code}]" if outcome.code > 0 else f"[ended by signal {-outcome.code}]"
    elif not text:
        status = "[no output]"
    line_end = "\n" if status and text and not text.endswith("\n") else ""
    return ToolOutput(text + line_end + status, error=bool(outcome.ended or outcome.code))

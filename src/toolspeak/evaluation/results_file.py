"""Results file of an evaluation: one JSON line per case, so a run can be interrupted and resumed.

If a case has several lines, the last one counts. A case that ended in an upstream error is recorded as unfinished, so
the next run repeats it.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from ..core.text import system_reason
from ..core.types import JSONObject
from ..engine.planning.strategy import Mode
from ..errors import UsageError


class EvalSetting(msgspec.Struct, frozen=True):
    """Everything except the case itself that may affect an answer."""

    suite: str
    version: str
    model: str
    base_url: str = ""
    mode: Mode = "auto"
    plan: Literal["", "inline", "decision", "envelope"] = ""
    dialect: str = ""
    marks: Literal["auto", "nonce", "fixed"] = "auto"
    retries: int = 2
    temperature: float | None = 0.0
    max_tokens: int | None = None
    others: tuple[str, ...] = ()  # other non-default settings, as `name=value`
    constrain: bool = True  # whether to request constrained output if the upstream supports it
    adapter: str = ""  # name and hash of the LoRA adapter of an embedded model

    @property
    def label(self) -> str:
        """A short name that is unique within a run."""
        form = "" if self.constrain else "unconstrained"
        return " ".join(part for part in (self.mode, self.plan, form, *self._manner) if part)

    @property
    def way(self) -> str:
        """A short name, in the syntax of `variants` if possible."""
        name = "native" if self.mode == "off" else self.plan if self.mode == "force" and self.plan else self.mode
        return " ".join((f"{name}+grammar" if name == self.plan and self.constrain else name, *self._manner))

    @property
    def _manner(self) -> tuple[str, ...]:
        marks = "" if self.marks == "auto" else f"{self.marks} marks"
        adapter = f"with {self.adapter}" if self.adapter else ""
        return tuple(part for part in (self.dialect, marks, adapter) if part)


class CaseResult(msgspec.Struct):
    setting: EvalSetting
    case: str
    category: str
    correct: bool
    #: Fault code and explanation; empty for a correct answer.
    fault: str = ""
    detail: str = ""
    #: Error message of a failed request. The case counts as wrong, and the next run repeats it.
    error: str = ""
    #: The plan and the calls of each round.
    plans: list[str] = []
    calls: list[list[JSONObject]] = []
    text: str = ""
    #: The calls in the last answer that were not accepted, with the reason of each.
    rejected: list[str] = []
    requests: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0


def _without_variant(setting: EvalSetting) -> EvalSetting:
    """Return the setting with the fields that select a calling variant reset."""
    return msgspec.structs.replace(setting, mode="auto", plan="", dialect="", marks="auto", constrain=True, adapter="")


_DECODER = msgspec.json.Decoder(CaseResult)


@contextmanager
def file_errors(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        message = f"cannot store results in `{path}`: {system_reason(error)}"
        raise UsageError(message, hint="choose another folder with --out, or free some space") from error


class ResultsFile:
    """The results file. Creates its folder. Raises UsageError if the file is invalid, or cannot be read or written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: dict[tuple[EvalSetting, str], CaseResult] = {}
        #: Whether the last line is incomplete, for example after a power failure. Its case is repeated.
        self.cut_off = False
        with file_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        for number, line in enumerate(lines, 1):
            self._read(line, number, last=number == len(lines))

    def _read(self, line: bytes, number: int, *, last: bool) -> None:
        try:
            record = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            if last and not line.endswith(b"\n"):
                self.cut_off = True
                return
            hint = "choose another folder with --out, or remove the file"
            raise UsageError(f"line {number} of `{self._path}` is not a valid result", hint=hint) from None
        self._records[record.setting, record.case] = record

    def add(self, record: CaseResult) -> None:
        with file_errors(self._path):
            if self.cut_off:  # remove the incomplete line, because the next one would be appended to it
                self.cut_off = False
                whole, end, _ = self._path.read_bytes().rpartition(b"\n")
                self._path.write_bytes(whole + end)
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(record) + b"\n")
        self._records[record.setting, record.case] = record

    def finished(self, setting: EvalSetting, case: str) -> bool:
        record = self._records.get((setting, case))
        return record is not None and not record.error

    def like(self, setting: EvalSetting) -> list[EvalSetting]:
        """Return the stored settings that differ from this one only in the calling variant, in order."""
        mine = _without_variant(setting)
        return list(dict.fromkeys(each for each, _ in self._records if _without_variant(each) == mine))

    def all(self, setting: EvalSetting) -> list[CaseResult]:
        return [record for (each, _), record in self._records.items() if each == setting]

    def of(self, setting: EvalSetting, cases: Iterable[str]) -> list[CaseResult]:
        """Return the results of these cases, including errors, in the order of the cases."""
        return [record for record in (self._records.get((setting, case)) for case in cases) if record is not None]

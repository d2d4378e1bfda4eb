"""The journal of a run: one line of JSON for each finished case, so that a run can be stopped and gone on with.

A line says in which setting which case was asked, what came and whether it was right. The last line of a case counts.
A case that ended in an error of the upstream is told, but not finished: the next run asks it again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from ..core.types import JSONObject
from ..engine.planning.strategy import Mode
from ..errors import UsageError


class Setting(msgspec.Struct, frozen=True):
    """Everything that answers depend on, besides the case."""

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
    #: Other settings that the configuration changes, as `name=value`.
    others: tuple[str, ...] = ()
    #: Whether the upstream is asked to enforce the form of calls, where it can.
    constrain: bool = True
    #: The adapter of a model that runs here: its name and its hash.
    adapter: str = ""

    @property
    def label(self) -> str:
        """What tells it from the others of a run."""
        form = "" if self.constrain else "unconstrained"
        return " ".join(part for part in (self.mode, self.plan, form, *self._manner) if part)

    @property
    def way(self) -> str:
        """The same in the words of `ways`, where there are some."""
        name = "native" if self.mode == "off" else self.plan if self.mode == "force" and self.plan else self.mode
        return " ".join((f"{name}+grammar" if name == self.plan and self.constrain else name, *self._manner))

    @property
    def _manner(self) -> tuple[str, ...]:
        marks = "" if self.marks == "auto" else f"{self.marks} marks"
        adapter = f"with {self.adapter}" if self.adapter else ""
        return tuple(part for part in (self.dialect, marks, adapter) if part)


class Record(msgspec.Struct, frozen=True):
    """One case in one setting, asked and judged."""

    setting: Setting
    case: str
    category: str
    correct: bool
    #: What is wrong with the answer, if anything, in a word and in words.
    fault: str = ""
    detail: str = ""
    #: What went wrong with the asking; such a case counts as wrong, and is asked again by the next run.
    error: str = ""
    #: The plans that were carried out, and the calls that were made, one entry a round.
    plans: list[str] = []
    calls: list[list[JSONObject]] = []
    text: str = ""
    requests: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0


def _but_way(setting: Setting) -> Setting:
    """The setting without what says how to call."""
    return msgspec.structs.replace(setting, mode="auto", plan="", dialect="", marks="auto", constrain=True, adapter="")


_DECODER = msgspec.json.Decoder(Record)


@contextmanager
def keeping(path: Path) -> Generator[None]:
    """What the disk says to reading and writing there, as a mistake that can be mended."""
    try:
        yield
    except OSError as error:
        told = f"results cannot be kept in `{path}`: {error.strerror or error}"
        raise UsageError(told, hint="name another folder with --out, or make room") from error


class Journal:
    """The file of finished cases; its folder is made.

    Raises:
        UsageError: the file holds something else, or cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: dict[tuple[Setting, str], Record] = {}
        #: Whether the last line was cut off, as by a machine that went down; what it told is asked again.
        self.cut_off = False
        with keeping(path):
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
            hint = "name another folder with --out, or remove the file"
            raise UsageError(f"line {number} of `{self._path}` is not a line of a journal", hint=hint) from None
        self._records[record.setting, record.case] = record

    def add(self, record: Record) -> None:
        """Keep a case, in the file before this returns."""
        with keeping(self._path):
            self._write(msgspec.json.encode(record) + b"\n")
        self._records[record.setting, record.case] = record

    def _write(self, line: bytes) -> None:
        self._repair()
        with self._path.open("ab") as file:
            file.write(line)

    def _repair(self) -> None:
        """Drop a line that was cut off: it is no record, and would spoil the next one."""
        if self.cut_off:
            self.cut_off = False
            whole, end, _ = self._path.read_bytes().rpartition(b"\n")
            self._path.write_bytes(whole + end)

    def finished(self, setting: Setting, case: str) -> bool:
        """Whether the case need not be asked again."""
        record = self._records.get((setting, case))
        return record is not None and not record.error

    def like(self, setting: Setting) -> list[Setting]:
        """Every setting that differs from this one in the way to call alone, in the order in which they were asked."""
        mine = _but_way(setting)
        return list(dict.fromkeys(each for each, _ in self._records if _but_way(each) == mine))

    def all(self, setting: Setting) -> list[Record]:
        """What is known of a setting."""
        return [record for (each, _), record in self._records.items() if each == setting]

    def of(self, setting: Setting, cases: Iterable[str]) -> list[Record]:
        """What is known of these cases, in their order; errors too."""
        found = (self._records.get((setting, case)) for case in cases)
        return [record for record in found if record is not None]

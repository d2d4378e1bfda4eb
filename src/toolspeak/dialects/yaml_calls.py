"""A call written as YAML between marks: `name: get_weather`, then `arguments:` with indented lines."""

import re

from ..core.json_repair.containers import MAX_SIZE
from ..core.parsing.tags import MORE
from ..core.types import JSONObject, is_object
from .body_grammars import BlockContext, Body
from .json_calls import ROLES
from .value_parsing import read_yaml

_NAME_KEYS = sorted(key for key, role in ROLES.items() if role == "name")
_FIRST_LINE = re.compile(rf"(?:{'|'.join(_NAME_KEYS)}):[ \t]{{1,8}}[^\s({{\[<]").match
#: Maximum length of a line. Longer ones are not YAML that a model writes.
_MAX_LINE = 64 * 1024
_FIRST_LINE_PARTIAL = re.compile(r"[a-z_]{1,16}+(?::[ \t]{0,8}+)?\Z").match


def yaml_ahead(buf: str, at: int, final: bool) -> bool | None:
    """Whether a call in YAML begins at `at`; None if more text is needed."""
    if _FIRST_LINE(buf, at) is not None:
        return True
    return None if not final and _FIRST_LINE_PARTIAL(buf, at) is not None else False


class YamlCall(Body):
    """Reads one call in YAML, line by line, up to the closing mark of its block."""

    def __init__(self, block: BlockContext) -> None:
        super().__init__(block)
        self._lines: list[str] = []
        self._size = 0
        self._stop = re.compile("|".join(map(re.escape, block.stops))).search

    def _step(self, buf: str, pos: int, final: bool) -> int:
        newline = buf.find("\n", pos, pos + _MAX_LINE)
        is_long = newline < 0 and len(buf) - pos >= _MAX_LINE
        if newline < 0 and not final and not is_long:
            return MORE
        line = buf[pos:] if newline < 0 else buf[pos : newline + 1]
        self._size += len(line)
        if is_long or self._size > MAX_SIZE:
            self.state = "failed"
            return pos
        end = self._end_in(line)
        self._lines.append(line[:end])
        if end < len(line):
            self._complete()
        return pos + end

    def _end_in(self, line: str) -> int:
        """Return where a line ends the call. A closing mark that is indented or inside a line is part of a value."""
        stop = self._stop(line)
        if stop is None:
            return len(line)
        before, after = line[: stop.start()], line[stop.end() :].lstrip(" \t\r\n")
        is_end = len(before) < 2 if not before.strip() else not after or after[0] == "<"
        return stop.start() if is_end else len(line)

    def finish(self) -> None:
        self.state = "failed"

    def _complete(self) -> None:
        call = read_yaml("".join(self._lines), self.block.context.allowance)
        key = next((key for key in _NAME_KEYS if isinstance((call or {}).get(key), str)), "")
        if call is None or not key:
            self.state = "failed"
            return
        builder = self.block.builder()
        if not builder.take_name(str(call.pop(key))):
            self.block.vain = True
            self.state = "done"
            return
        builder.take_values(_arguments(call))
        self.state = "done"


def _arguments(call: JSONObject) -> JSONObject:
    """Return the arguments of a call without its name: the value of their key, or all other keys."""
    for key, value in call.items():
        if ROLES.get(key) == "arguments" and len(call) == 1 and (value is None or is_object(value)):
            return value or {}
    return call

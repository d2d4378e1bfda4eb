"""The product's own tools, as the agent, the server and the page offer them, and what they give back.

The file tools are the real ones, in a folder made for the purpose. The shell, and the page's calculator and clock, are imitated, because a
sandbox or a browser for each call would take too long; a test compares them with the real ones. Dice and weather are a matter of chance.
Above: `product`. Below: toolspeak's tools.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from toolspeak.core.types import JSONObject, Tool
from toolspeak.errors import ToolspeakError
from toolspeak.tools.approval import Approval
from toolspeak.tools.base import CallContext, Executable, ToolOutput
from toolspeak.tools.files import file_tools
from toolspeak.tools.final_output import FinalOutput
from toolspeak.tools.shell import Shell
from toolspeak.tools.wrappers import ReadMore, Remainders

__all__ = ["CALCULATOR", "CLOCK", "DICE", "ZONES", "Desk", "calculate", "clock_text", "local_tools", "weather_tool"]

CLOCK = Tool(
    "clock",
    "Returns the current date and time in a time zone or city.",
    {
        "type": "object",
        "properties": {"zone": {"type": "string", "description": "such as Europe/Oslo; default: the user's own"}},
    },
)
CALCULATOR = Tool(
    "calculator",
    "Evaluates an arithmetic expression with + - * / % ^ and brackets.",
    {
        "type": "object",
        "properties": {"expression": {"type": "string", "description": "such as (3 + 4) * 2"}},
        "required": ["expression"],
    },
)
DICE = Tool(
    "dice",
    "Rolls dice and returns the results.",
    {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 1, "maximum": 100},
            "sides": {"type": "integer", "minimum": 2, "maximum": 1000},
        },
    },
)


def weather_tool(rng: random.Random) -> Tool:
    """The tool of the page's and the manual's examples, as people would copy it."""
    about = rng.choice(
        ["The weather in a city.", "The weather of a city", "Weather in a city.", "Get the current weather."]
    )
    param: JSONObject = {"type": "string"}
    if rng.random() < 0.3:
        param["description"] = rng.choice(["Name of the city", "The city", "City, such as Paris"])
    return Tool("get_weather", about, {"type": "object", "properties": {"city": param}, "required": ["city"]})


# ---- the local tools

_SANDBOXED = ("on this machine, with network access", "in a sandbox, without network access")


@cache
def _defined() -> tuple[Tool, ...]:
    """The definitions of the agent's tools, in its order, with a mark for the work directory."""
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(folder, Approval(), sandbox=False)
        told = shell.tool.description.replace(shell.work, "{work}")
        tools = [*(each.tool for each in file_tools(folder)), Tool("shell", told, shell.tool.parameters)]
    return (*tools, ReadMore(Remainders()).tool, FinalOutput().tool)


def local_tools(work: str, sandboxed: bool) -> dict[str, Tool]:
    """The agent's tools by name, for a work directory."""
    found = {tool.name: tool for tool in _defined()}
    told = found["shell"].description.replace("{work}", work)
    told = told.replace(*_SANDBOXED) if sandboxed else told
    return {**found, "shell": Tool("shell", told, found["shell"].parameters)}


# ---- the calculator

#: Other ways to write an expression, each with its usual form.
_SPELLINGS = [
    (re.compile(pattern, re.IGNORECASE), usual)
    for pattern, usual in (
        (r"\*\*", "^"),
        (r"[×·]|\btimes\b|\bmultiplied by\b|(?<=\d)(?<!\b0)\s*x\s*(?=\d)", "*"),
        (r"[÷]|\bdivided by\b", "/"),
        (r"[−–]|\bminus\b", "-"),
        (r"\bplus\b", "+"),
        (r"(\d)\s*(?:%|percent) of\b", r"\1 / 100 *"),
        (r"(?<=\d),(?=\d{3}(?!\d))", ""),
        (r"=[\s?]*$", ""),
    )
]
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?(?:e[+-]?\d+)?|\.\d+)|([-+*/%^()]))", re.IGNORECASE)


class _Sum:
    """The page's calculator: a parser for + - * / % ^ and brackets."""

    def __init__(self, text: str) -> None:
        for spelling, usual in _SPELLINGS:
            text = spelling.sub(usual, text)
        self._tokens: list[float | str] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                advice = "use numbers with + - * / % ^ and brackets, such as (3 + 4) * 2"
                raise ValueError(f"cannot read `{text[at : at + 12]}`; {advice}")
            self._tokens.append(float(match.group(1)) if match.group(1) else match.group(2))
            at = match.end()
        self._at = 0

    def value(self) -> float:
        value = self._sum()
        if self._at < len(self._tokens):
            raise ValueError(f"`{_told(self._tokens[self._at])}` is in the wrong place")
        return value

    def _next(self) -> float | str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _single(self) -> float:
        token = self._next()
        self._at += 1
        if isinstance(token, float):
            return token
        if token in ("-", "+"):
            return -self._power() if token == "-" else self._power()
        if token == "(":
            value = self._sum()
            closing = self._next()
            self._at += 1
            if closing != ")":
                raise ValueError("a bracket is not closed")
            return value
        raise ValueError("the expression is incomplete" if token is None else f"`{token}` is in the wrong place")

    def _power(self) -> float:
        base = self._single()
        if self._next() != "^":
            return base
        self._at += 1
        return math.pow(base, self._power())

    def _product(self) -> float:
        value = self._power()
        while (sign := self._next()) in ("*", "/", "%"):
            self._at += 1
            other = self._power()
            value = value * other if sign == "*" else _divided(value, other) if sign == "/" else math.fmod(value, other)
        return value

    def _sum(self) -> float:
        value = self._product()
        while (sign := self._next()) in ("+", "-"):
            self._at += 1
            other = self._product()
            value = value + other if sign == "+" else value - other
        return value


def _divided(value: float, other: float) -> float:
    if other:
        return value / other
    return math.nan if not value else math.copysign(math.inf, value)


def _told(value: float | str) -> str:
    """A number as JavaScript writes it, for the sizes that people compute with."""
    if isinstance(value, str):
        return value
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(int(value)) if value == int(value) and abs(value) < 1e21 else repr(value)


def calculate(text: str) -> str:
    """What the page's calculator gives. Raises ValueError with its message."""
    return _told(_Sum(text).value())


def _printed(asked: re.Match[str]) -> str:
    """What Python prints for a sum: whole numbers stay whole unless they are divided."""
    value = _Sum(asked[1]).value()
    return str(int(value)) if value == int(value) and not re.search(r"[./]", asked[1]) else repr(value)


# ---- the clock

#: Time zones: places that are said for them, hours from UTC in January and in July, and what the zone is called then.
_ZONES = """
Europe/Oslo Oslo,Norway 1 2 CET CEST|Europe/Berlin Berlin,Germany,Munich,Hamburg,Cologne,Frankfurt 1 2 CET CEST|Europe/Paris Paris,France,Lyon,Marseille,Nice 1 2 CET CEST
Europe/Madrid Madrid,Spain,Barcelona,Seville,Valencia 1 2 CET CEST|Europe/Rome Rome,Italy,Milan,Naples,Venice 1 2 CET CEST|Europe/Vienna Vienna,Austria 1 2 CET CEST
Europe/Warsaw Warsaw,Poland 1 2 CET CEST|Europe/Prague Prague 1 2 CET CEST|Europe/Stockholm Stockholm,Sweden 1 2 CET CEST
Europe/Zurich Zurich,Switzerland 1 2 CET CEST|Europe/Amsterdam Amsterdam 1 2 CET CEST|Europe/Brussels Brussels,Belgium 1 2 CET CEST
Europe/Copenhagen Copenhagen,Denmark 1 2 CET CEST|Europe/Budapest Budapest,Hungary 1 2 CET CEST|Europe/London London,England,Manchester,Edinburgh 0 1 GMT BST
Europe/Lisbon Lisbon,Portugal,Porto 0 1 WET WEST|Europe/Athens Athens,Greece 2 3 EET EEST|Europe/Helsinki Helsinki,Finland 2 3 EET EEST
Europe/Kyiv Kyiv,Ukraine 2 3 EET EEST|Europe/Bucharest Bucharest,Romania 2 3 EET EEST|Europe/Istanbul Istanbul,Turkey 3 3 GMT+3 GMT+3
Europe/Dublin Dublin,Ireland 0 1 GMT GMT+1|Asia/Tokyo Tokyo,Japan,Osaka,Kyoto 9 9 GMT+9 GMT+9|Asia/Seoul Seoul,South_Korea 9 9 GMT+9 GMT+9
Asia/Shanghai Shanghai,Beijing,China 8 8 GMT+8 GMT+8|Asia/Singapore Singapore 8 8 GMT+8 GMT+8|Asia/Hong_Kong Hong_Kong 8 8 GMT+8 GMT+8
Asia/Bangkok Bangkok,Thailand 7 7 GMT+7 GMT+7|Asia/Kolkata Kolkata,India,Mumbai,Delhi,Chennai 5.5 5.5 GMT+5:30 GMT+5:30|Asia/Dubai Dubai 4 4 GST GST
Asia/Kathmandu Kathmandu,Nepal 5.75 5.75 GMT+5:45 GMT+5:45|Asia/Manila Manila 8 8 GMT+8 GMT+8|Asia/Jakarta Jakarta 7 7 GMT+7 GMT+7
America/New_York New_York,Boston,Miami,Washington,Philadelphia,Atlanta -5 -4 GMT-5 GMT-4|America/Chicago Chicago,Houston,Dallas,Austin,New_Orleans -6 -5 GMT-6 GMT-5|America/Denver Denver,Salt_Lake_City -7 -6 GMT-7 GMT-6
America/Los_Angeles Los_Angeles,San_Francisco,Seattle,San_Diego,Las_Vegas,California -8 -7 GMT-8 GMT-7|America/Toronto Toronto,Montreal,Ottawa -5 -4 GMT-5 GMT-4|America/Sao_Paulo São_Paulo,Rio_de_Janeiro -3 -3 GMT-3 GMT-3
America/Argentina/Buenos_Aires Buenos_Aires -3 -3 GMT-3 GMT-3|America/Bogota Bogotá -5 -5 GMT-5 GMT-5|America/Lima Lima,Peru -5 -5 GMT-5 GMT-5
America/Mexico_City Mexico_City -6 -6 GMT-6 GMT-6|Australia/Sydney Sydney,Canberra 11 10 GMT+11 GMT+10|Australia/Brisbane Brisbane 10 10 GMT+10 GMT+10
Pacific/Auckland Auckland,New_Zealand 13 12 GMT+13 GMT+12|Africa/Nairobi Nairobi,Kenya 3 3 GMT+3 GMT+3|Africa/Lagos Lagos 1 1 GMT+1 GMT+1
Africa/Johannesburg Johannesburg 2 2 GMT+2 GMT+2|Asia/Ho_Chi_Minh Hanoi,Vietnam 7 7 GMT+7 GMT+7|Asia/Karachi Karachi,Pakistan 5 5 GMT+5 GMT+5|Asia/Dhaka Dhaka,Bangladesh 6 6 GMT+6 GMT+6|Asia/Taipei Taipei,Taiwan 8 8 GMT+8 GMT+8|Asia/Kuala_Lumpur Kuala_Lumpur,Malaysia 8 8 GMT+8 GMT+8|Europe/Moscow Moscow 3 3 GMT+3 GMT+3
Africa/Accra Accra,Ghana 0 0 GMT GMT|Atlantic/Reykjavik Reykjavik,Iceland 0 0 GMT GMT|Europe/Sofia Sofia,Bulgaria 2 3 EET EEST|Europe/Riga Riga,Latvia 2 3 EET EEST|America/Halifax Halifax -4 -3 GMT-4 GMT-3|Australia/Perth Perth 8 8 GMT+8 GMT+8
Pacific/Honolulu Honolulu,Hawaii -10 -10 GMT-10 GMT-10|UTC UTC 0 0 UTC UTC
"""
ZONES: dict[str, tuple[tuple[str, ...], float, float, str, str]] = {
    name: (tuple(said.replace("_", " ").split(",")), float(winter), float(summer), called, later)
    for name, said, winter, summer, called, later in (
        each.split() for each in _ZONES.strip().replace("\n", "|").split("|")
    )
}


def clock_text(moment: datetime, zone: str) -> str:
    """What the page's clock gives at a moment of January, February, June or July. Raises ValueError with its message."""
    if zone not in ZONES:
        raise ValueError(f"Invalid time zone specified: {zone}")
    _, winter, summer, called, later = ZONES[zone]
    hours, name = (summer, later) if moment.month in (6, 7) else (winter, called)
    there = moment.astimezone(timezone(timedelta(hours=hours)))
    return f"{there:%A}, {there.day} {there:%B %Y} at {there:%H:%M:%S} {name}"


# ---- all of them

_SKIES = (
    "sunny", "cloudy", "light rain", "heavy rain", "snow", "clear sky", "fog", "thunderstorms", "partly cloudy", "drizzle", "windy", "overcast", "hail", "sleet",
)  # fmt: skip
#: Commands whose output hangs on the clock, on chance or on what is installed: they are imitated.
_PYTHON = re.compile(r'python3 -c "print\(([-+*/%(). \d]+)\)"')
#: Programs that print texts, and what they print.
_PROGRAM, _PRINTS = re.compile(r"python3 (\S+\.py)"), re.compile(r'print\("([^"]*)"\)')
_DATE = re.compile(r"(?:TZ=(\S+) )?date \+(\S+)")
_SHUFFLED = re.compile(r"shuf -r -i (\d+)-(\d+) -n (\d+)")
#: What the environment of a command holds.
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


class _Bench(NamedTuple):
    """A folder and the file tools for it."""

    folder: tempfile.TemporaryDirectory[str]
    path: Path
    tools: dict[str, Executable]


@cache
def _bench() -> _Bench:
    """The folder of this process; it goes when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="desk")
    path = Path(folder.name).resolve()
    return _Bench(folder, path, {each.tool.name: each for each in file_tools(path)})


class Desk:
    """Runs calls of the product's tools in a folder of their own."""

    def __init__(self, rng: random.Random, work: str, home: str, moment: datetime) -> None:
        self._rng = rng
        self._work = work
        self._home = home
        self._moment = moment
        self._told: set[int] = set()
        own: dict[str, Callable[[JSONObject], str]] = {
            "calculator": lambda given: calculate(str(given["expression"])),
            "clock": lambda given: clock_text(self._moment, str(given.get("zone") or self._home)),
            "dice": self._dice,
            "get_weather": self._weather,
        }
        self._own = own

    @cached_property
    def path(self) -> Path:
        """The folder, empty at first. It belongs to the process, so a desk is done with before the next one begins."""
        for each in _bench().path.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        return _bench().path

    def run(self, name: str, given: JSONObject) -> ToolOutput:
        """What a call gives."""
        if name == "shell":
            return self._shell(str(given["command"]))
        if name not in self._own:
            assert self.path == _bench().path
            try:
                return asyncio.run(_bench().tools[name].run(given, CallContext()))
            except ToolspeakError as error:
                return ToolOutput(str(error), error=True)
        try:
            return ToolOutput(self._own[name](given))
        except ValueError as error:  # as the page tells it
            return ToolOutput(f"error: {error}", error=True)

    def _shell(self, command: str) -> ToolOutput:
        for pattern, told in ((_PYTHON, _printed), (_DATE, self._date), (_SHUFFLED, self._shuffled)):
            if found := pattern.fullmatch(command):
                return ToolOutput(f"{told(found)}\n")
        if found := _PROGRAM.fullmatch(command):
            return ToolOutput("".join(f"{each}\n" for each in _PRINTS.findall((self.path / found[1]).read_text())))
        ran = subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=self.path,
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=20,
        )
        text = ran.stdout.decode(errors="replace").replace(str(self.path), self._work)
        status = f"[exit code {ran.returncode}]" if ran.returncode else "" if text else "[no output]"
        line_end = "\n" if status and text and not text.endswith("\n") else ""
        return ToolOutput(text + line_end + status, error=bool(ran.returncode))

    def _date(self, asked: re.Match[str]) -> str:
        moment = self._moment
        if zone := asked[1]:
            _, winter, summer, *_ = ZONES[zone]
            moment = moment.astimezone(timezone(timedelta(hours=summer if moment.month in (6, 7) else winter)))
        return moment.strftime(asked[2])

    def _shuffled(self, asked: re.Match[str]) -> str:
        low, high, count = map(int, asked.groups())
        return "\n".join(str(self._rng.randint(low, high)) for _ in range(count))

    def _dice(self, given: JSONObject) -> str:
        count, sides = given.get("count", 1), given.get("sides", 6)
        return ", ".join(str(self._rng.randint(1, sides)) for _ in range(count))

    def _weather(self, given: JSONObject) -> str:
        city, rng = str(given["city"]), self._rng
        warmth = rng.choice([each for each in range(-12, 37) if each not in self._told])
        self._told.add(warmth)
        sky, wind, wet = rng.choice(_SKIES), rng.randint(2, 60), rng.randint(20, 99)
        more: JSONObject = rng.choice(
            [{}, {}, {"wind_kmh": wind}, {"humidity": wet}, {"wind_kmh": wind, "humidity": wet}]
        )
        return rng.choice(
            [
                f"{warmth} °C, {sky}",
                f"{sky}, {warmth} °C",
                f"{city}: {warmth}°C, {sky}, wind {wind} km/h",
                json.dumps({"city": city, "temperature": warmth, "condition": sky, **more}, ensure_ascii=False),
                json.dumps({"temp_c": warmth, "sky": sky, **more}),
            ]
        )

"""Slots of requests, calls and answers about the product's tools: file names, texts of files, what folders hold, what results say.

`{f}` is a value, `{f.size}` what is true of it: of a file its size or its lines, of a folder the largest file in it, of a result the time that it
tells. Above: `product`. Below: `values`, `pools`, `product_tools`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from . import pools
from .product_tools import ZONES
from .values import kind

__all__ = [
    "SLOT",
    "Called",
    "Lines",
    "Pair",
    "Place",
    "Value",
    "attribute",
    "compared",
    "drawn",
    "filled",
    "is_foreign",
]

SLOT = re.compile(r"\{([a-z]\w*)(?:\.(\w+))?\}")
_LINES = Path(__file__).parent / "product" / "lines.note"


class Lines(NamedTuple):
    """Things that stand one a line."""

    things: tuple[str, ...]
    mark: str
    picked: str

    def __str__(self) -> str:
        return "\n".join(f"{self.mark}{each}" for each in self.things)


class Place(str):
    """The path of a file or a folder in the work directory."""

    __slots__ = ()


class Called(str):
    """What a call gave."""

    __slots__ = ()


class Pair(NamedTuple):
    """A value as a call holds it, and as a person says it."""

    value: str | int | float
    said: str

    def __str__(self) -> str:
        return str(self.value)


Value: TypeAlias = str | Lines | Pair


# ---- drawing

_SYLLABLES = "ka lo mir ven tar sol dra bel quin os ren zu ni ham ber lin gra mo ra ti pe ul ford ke jor ba do shi fen wal cor".split()
_STEMS = """
notes todo report draft summary plan budget invoice letter meeting agenda minutes ideas journal diary contacts shopping recipes packing
schedule roster inventory orders sales expenses income prices rooms guests invitation speech essay thesis chapter outline story poem lyrics
readme changelog license roadmap backlog tasks goals review feedback survey results scores ranking measurements readings temperatures
log errors backup settings config users accounts members teams projects clients suppliers products parts tools garden plants birds trips
route hotel flights visa insurance contract lease taxes salary payments receipts donations library books films music songs games
training workout meals menu wishlist gifts birthdays holidays family kids school homework exam vocabulary quotes faq manual setup install
release deploy server network passwords devices sensors robot drone camera paint kitchen bathroom roof car bike boat cat dog horse
""".split()
_ENDINGS = {
    "text": "txt md txt md txt",
    "code": "py py js ts go rs sh c java rb",
    "data": "csv json yaml toml log csv tsv ini xml",
}
#: What a line of a file may tell.
_KEYS = """
deadline budget owner captain winner colour flavour password code name nickname street hotel seat gate platform train bus flight captcha
topic title author editor sponsor leader driver cook dentist doctor teacher landlord neighbour plumber lawyer supplier customer client
destination origin capital city village harbour island river mountain animal bird tree flower fruit vegetable drink soup dessert cheese
song album band instrument film actor hero villain book chapter poem motto slogan mascot team coach stadium score record
model brand engine fuel battery colour-code material fabric size pattern size-chart shelf drawer box locker key badge licence
access-word keyword codeword passphrase token label tag branch version release server host database table user group role
project milestone task blocker status priority phase sprint reviewer room floor building entrance parking wifi printer meeting-point
""".split()
_FOLDERS = """
docs src tests data notes archive drafts reports images letters old backup config scripts logs invoices recipes projects music photos
downloads assets lib examples exports shared private work home uni taxes travel 2023 2024 2025 january june tmp build
""".split()


def _coined(rng: random.Random) -> str:
    return "".join(rng.choice(_SYLLABLES) for _ in range(rng.randint(2, 3)))


def _stem(rng: random.Random) -> str:
    roll = rng.random()
    word = rng.choice(_STEMS) if rng.random() < 0.72 else _coined(rng)
    if roll < 0.5:
        return word
    if roll < 0.62:
        return f"{word}{rng.choice(['-', '_', ''])}{rng.choice([str(rng.randint(1, 30)), 'v2', 'old', 'new', 'final', '2024', '2025'])}"
    if roll < 0.8:
        return f"{word}{rng.choice(['-', '_', '-'])}{rng.choice([rng.choice(_STEMS), _coined(rng)])}"
    if roll < 0.88:
        return word.upper() if rng.random() < 0.4 else word.capitalize()
    return word


def _file(kind_: str) -> Callable[[random.Random], str]:
    def draw(rng: random.Random) -> str:
        endings = " ".join(_ENDINGS.values()) if kind_ == "any" else _ENDINGS.get(kind_, kind_)
        return f"{_stem(rng)}.{rng.choice(endings.split())}"

    return draw


def _folder(rng: random.Random) -> str:
    return rng.choice(_FOLDERS) if rng.random() < 0.7 else _coined(rng)


def _zone(rng: random.Random) -> Pair:
    name = rng.choice([each for each in ZONES if each != "UTC"])
    return Pair(name, rng.choice(ZONES[name][0]))


def _word(rng: random.Random) -> str:
    """A word that stands nowhere else."""
    roll = rng.random()
    if roll < 0.4:
        return _coined(rng)
    return rng.choice([*pools.WORDS, *pools.RARE_WORDS]) if roll < 0.85 else f"{_coined(rng)}{rng.randint(2, 99)}"


@cache
def _notes() -> tuple[str, ...]:
    return tuple(_LINES.read_text(encoding="utf-8").split("\n")[:-1])


def _note(rng: random.Random) -> str:
    return re.sub(r"\{([^{}]+)\}", lambda match: str(kind(match[1]).draw(rng).said), rng.choice(_notes()))


def _other_note(taken: list[str], rng: random.Random) -> str:
    """A note that says nothing of what is asked for."""
    drawn_ = (_note(rng) for _ in range(20))
    return next((each for each in drawn_ if not any(one in each.lower() for one in taken if len(one) > 2)), "")


def _several(draw: Callable[[random.Random], str], low: int, high: int, mark: str, rng: random.Random) -> Lines:
    found: dict[str, None] = {}
    for _ in range(99):
        if len(found) >= rng.randint(low, high):
            break
        found[draw(rng)] = None
    things = tuple(filter(None, found))
    return Lines(things, mark, rng.choice(things) if things else "")


_OWN: dict[str, Callable[[random.Random], Value]] = {
    "textfile": lambda rng: Place(_file("text")(rng)),
    "codefile": lambda rng: Place(_file("code")(rng)),
    "datafile": lambda rng: Place(_file("data")(rng)),
    "anyfile": lambda rng: Place(_file("any")(rng)),
    "folder": lambda rng: Place(_folder(rng)),
    "stem": _stem,
    "zone": _zone,
    "oneword": _word,
    "note": _note,
    "coined": _coined,
    "filler": lambda rng: "x" * int(10 ** rng.uniform(1, 4.8)),
    "key": lambda rng: rng.choice(_KEYS),
}


def drawn(spec: str, rng: random.Random, values: Mapping[str, Value]) -> Value:
    """A value of a kind: one of these, `file(csv)`, `notes(2,6)`, `items(food,2,5)`, `text(...)` with slots, or one of `values`."""
    name, _, body = spec.partition("(")
    body = body.removesuffix(")")
    if name == "file":
        return Place(_file(body)(rng))
    if name == "at":  # a path that is put together
        return Place(filled(body, values, None))
    if name == "text":
        return filled(rng.choice(body.split(";")), values, None)
    if name == "notes":
        low, high = map(int, body.split(","))
        taken = [str(each).lower() for each in values.values()]
        return _several(lambda chance: _other_note(taken, chance), low, high, rng.choice(["", "", "- "]), rng)
    if name == "items":
        of, low, high = body.rsplit(",", 2)
        numbers = re.match(r"(?:id|int|num)\(", of)
        mark = "" if numbers else rng.choice(["- ", "- ", "", "", "* ", "[ ] "])
        return _several(lambda chance: _plain(of, chance), int(low), int(high), mark, rng)
    if spec in _OWN:
        return _OWN[spec](rng)
    found = kind(spec.replace(";", "|")).draw(rng)
    value = found.value if isinstance(found.value, str | int | float) else found.said
    return Pair(value, found.said)


def _plain(spec: str, rng: random.Random) -> str:
    return str(drawn(spec, rng, {}))


# ---- what is true of values


#: Words that only sentences in other languages than English have: numbers are written in digits there.
_FOREIGN = re.compile(
    r"\b(?:[Ww]as|[Ww]ie|[Ww]o|[Ww]er|[Ww]ann|[Ww]elche[rs]?|[Ww]irf|[Ll]ies|[Zz]eig|[Ss]chreibe?|[Ss]etze|[Ss]uche|[Ll]ösche|[Ee]rsetze|[Ll]ege|"
    r"und|mit|von|zu|mal|noch|Leute|Stunden|Stück|Ich|et|de|des|les|du|[Cc]ombien|[Qq]uel(?:le)?s?|[Ll]is|[Ll]ance|[Tt]ire|[Mm]ontre|[Cc]rée|"
    r"[Tt]rouve|[Ss]upprime|[Éé]cris|[Aa]joute|fois|dés|heures|pièces|son|[Tt]ira|[Cc]uánto|minutos|per|Quanto|Additionne|Addiere|Rest)\b|[¿«]| [?!]$"
)


def is_foreign(text: str) -> bool:
    """Whether a request is most likely not English."""
    return bool(_FOREIGN.search(text))


def filled(text: str, values: Mapping[str, Value], folder: Path | None, said: bool = False) -> str:
    """The text with its slots filled, with what calls hold or with what a person says; what is no slot stays."""
    foreign = said and is_foreign(text)

    def one(match: re.Match[str]) -> str:
        name, of = match.groups()
        if name not in values:
            return match.group()
        value = values[name]
        if of:
            return attribute(value, of, folder)
        in_words = said and isinstance(value, Pair) and (isinstance(value.value, str) or not foreign)
        return value.said if in_words and isinstance(value, Pair) else str(value)

    return SLOT.sub(one, text)


def attribute(value: Value, of: str, folder: Path | None) -> str:
    """What is true of a value. Raises KeyError if nothing is called so."""
    if isinstance(value, Place):
        return _PATHS[of](value) if of in _PATHS else _of_disk(value, of, folder)
    if isinstance(value, Lines):
        return _ITEMS[of](value)
    if isinstance(value, Called):
        return _RESULTS[of](value)
    if isinstance(value, Pair) and of == "said":
        return value.said
    return _TEXTS[of](str(value))


def joined(things: list[str]) -> str:
    """Several things as a list in a sentence."""
    return " and ".join(filter(None, (", ".join(things[:-1]), things[-1]))) if things else ""


_ORDINALS = "zeroth first second third fourth fifth sixth seventh eighth ninth tenth".split()
_TEXTS: dict[str, Callable[[str], str]] = {
    "text": str,
    "upper": str.upper,
    "lower": str.lower,
    "title": str.title,
    "cap": lambda text: text[:1].upper() + text[1:],
    "short": lambda text: text.split()[0],
    "ordinal": lambda text: _ORDINALS[int(text)],
}
_PATHS: dict[str, Callable[[str], str]] = {
    "name": lambda path: path.rpartition("/")[2],
    "dir": lambda path: path.rpartition("/")[0],
    "stem": lambda path: path.rpartition("/")[2].rpartition(".")[0],
    "ext": lambda path: path.rpartition(".")[2],
}
_ITEMS: dict[str, Callable[[Lines], str]] = {
    "last": lambda lines: lines.things[-1],
    "first": lambda lines: lines.things[0],
    "second": lambda lines: lines.things[1],
    "last_line": lambda lines: lines.mark + lines.things[-1],
    "mark": lambda lines: lines.mark,
    "count": lambda lines: str(len(lines.things)),
    "highest": lambda lines: max(lines.things, key=float),
    "lowest": lambda lines: min(lines.things, key=float),
    "text": str,
    "pick": lambda lines: lines.picked,
    "pick_line": lambda lines: lines.mark + lines.picked,
    "pick_number": lambda lines: str(lines.things.index(lines.picked) + 1),
    "said": lambda lines: joined(list(lines.things)),
    "plus": lambda lines: " + ".join(lines.things),
    "joined": lambda lines: " ".join(lines.things),
}


def _of_disk(place: Place, of: str, folder: Path | None) -> str:
    """What is true of a file, or of what lies in a folder."""
    assert folder is not None
    here = folder / place
    if here.is_file():
        text = here.read_text(encoding="utf-8")
        lines = text.removesuffix("\n").split("\n")
        return {
            "size": str(len(text.encode())),
            "lines": str(len(lines)),
            "words": str(len(text.split())),
            "body": text.rstrip("\n"),
            "last": lines[-1],
            "first": lines[0],
        }[of]
    files = sorted((each for each in here.iterdir() if each.is_file()), key=lambda each: each.stat().st_size)
    inner = sorted(each.name for each in here.iterdir() if each.is_dir())
    if of in ("largest", "smallest"):
        return files[-1 if of == "largest" else 0].name
    if of in ("largest_size", "smallest_size"):
        return str(files[-1 if of == "largest_size" else 0].stat().st_size)
    names = sorted(each.name for each in files)
    if of in ("newest", "oldest"):
        return sorted(files, key=lambda each: each.stat().st_mtime)[-1 if of == "newest" else 0].name
    sums = " + ".join(str(each.stat().st_size) for each in sorted(files))
    held = {"count": str(len(names)), "said": joined(names), "sum": sums, "folders": joined(inner)}
    return {**held, "all": joined(sorted([*names, *inner])), "folder_count": str(len(inner))}[of]


_CLOCK = re.compile(r"(\w+), (\d+) (\w+) (\d+) at ((\d+):(\d+)):\d+ (\S+)")
_MATCH = re.compile(r"([^:\n]+):(\d+): (.*)")


def _clock(group: int) -> Callable[[str], str]:
    def told(text: str) -> str:
        found = _CLOCK.search(text)
        assert found is not None, text
        return found.group(group)

    return told


def _weekday_after(text: str, days: int) -> str:
    return pools.WEEKDAYS[(pools.WEEKDAYS.index(_clock(1)(text)) + days) % 7]


def _match(group: int) -> Callable[[str], str]:
    def told(text: str) -> str:
        found = _MATCH.match(text)
        assert found is not None, text
        return found.group(group)

    return told


def _numbers(text: str) -> list[str]:
    return re.findall(r"-?\d+(?:\.\d+)?", text)


def _rounded(text: str) -> str:
    """A number as it is told: what floating point adds to it is left out."""
    value = round(float(text), 10 if abs(float(text)) < 1e5 else 6)
    value = value if len(repr(value)) <= 9 else round(value, 2)
    return str(int(value)) if value == int(value) else repr(value)


def _money(text: str) -> str:
    value = round(float(text), 2)
    return str(int(value)) if value == int(value) else f"{value:.2f}"


def _sky(text: str) -> str:
    found = re.search(r'"(?:condition|sky)": "([^"]+)"', text)
    words = re.sub(r"^[^:]*: ", "", text)
    return found.group(1) if found else next(each for each in words.split(", ") if not re.search(r"°|km/h", each))


_WARMTH = re.compile(r'"temp\w*": (-?\d+)|(-?\d+) ?°C')


def _number(text: str) -> str:
    """The number that a result tells; of weather its temperature."""
    weather = _WARMTH.search(text)
    return next(filter(None, weather.groups())) if weather else (_numbers(text) or ["0"])[0]


_RESULTS: dict[str, Callable[[str], str]] = {
    "shown": lambda text: re.sub(r"\n\[\d+ more lines\]$", "", text),
    "said": lambda text: joined(text.split("\n")),
    "count": lambda text: str(len(text.split("\n"))),
    "first": lambda text: text.split("\n")[0],
    "last": lambda text: text.split("\n")[-1],
    "number": lambda text: _numbers(text)[0],
    "n": _rounded,
    "money": _money,
    "whole": lambda text: str(round(float(text))),
    "weekday": _clock(1),
    "day": _clock(2),
    "month": _clock(3),
    "year": _clock(4),
    "tomorrow": lambda text: _weekday_after(text, 1),
    "yesterday": lambda text: _weekday_after(text, -1),
    "in_two_days": lambda text: _weekday_after(text, 2),
    "weekend": lambda text: "Yes" if _clock(1)(text) in ("Saturday", "Sunday") else "No",
    "part_of_day": lambda text: "afternoon" if int(_clock(6)(text)) >= 12 else "morning",
    "time": _clock(5),
    "hour": lambda text: str(int(_clock(6)(text))),
    "minute": lambda text: str(int(_clock(7)(text))),
    "zone": _clock(8),
    "date": lambda text: " ".join(_clock(group)(text) for group in (2, 3, 4)),
    "plus": lambda text: " + ".join(text.split(", ")),
    "times": lambda text: " * ".join(text.split(", ")),
    "highest": lambda text: str(max(map(int, text.split(", ")))),
    "lowest": lambda text: str(min(map(int, text.split(", ")))),
    "one": lambda text: text.split(", ")[0],
    "two": lambda text: text.split(", ")[1],
    "dice": lambda text: joined(text.split(", ")),
    "temp": _number,
    "sky": _sky,
    "file": _match(1),
    "line": _match(2),
    "match": _match(3),
    "value": lambda text: re.split(r"[:=]\s*", _match(3)(text), maxsplit=1)[-1],
    "files": lambda text: joined(list(dict.fromkeys(each[1] for each in _MATCH.finditer(text)))),
    "file_count": lambda text: str(len({each[1] for each in _MATCH.finditer(text)})),
    "lines": lambda text: joined([each[2] for each in _MATCH.finditer(text)]),
}


def compared(called: list[tuple[str, str]], limit: Value | None = None) -> dict[str, Value]:
    """What comes of the results of one round together: where the number is highest, how far they are apart, whether one is over a limit.

    `called`: what each call was about, and what it gave.
    """
    numbers = {about: float(_number(text)) for about, text in called}
    high, low = max(numbers, key=numbers.__getitem__), min(numbers, key=numbers.__getitem__)
    most, least = numbers[high], numbers[low]
    found: dict[str, Value] = {"high": high, "low": low, "most": _rounded(str(most)), "least": _rounded(str(least))}
    return found if limit is None else {**found, "over": "Yes" if most > float(str(limit)) else "No"}

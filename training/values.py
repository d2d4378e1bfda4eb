"""Draws the values of slots: each is a pair of what a call must hold and how a person says it.

A percentage is said as "5%" and called with 0.05; a date is said as "3 May 2024" and called with 2024-05-03. A kind of
value is named in the family files as `num(1,60)`, `pick(a|b)`, `list(city,2,4)`, `day(%d.%m.%Y)`. Above: `family`, `compose`, `seal`.
Below: `pools`. Everything takes the generator of chance as an argument, so that a seed decides all.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date
from typing import NamedTuple

from . import pools

JSON = object


class Drawn(NamedTuple):
    """A value as a call holds it, and as a person says it."""

    value: JSON
    said: str


class Kind(NamedTuple):
    """A kind of value: how it is drawn, and its JSON schema."""

    draw: Callable[[random.Random], Drawn]
    schema: dict[str, JSON]
    #: For enumerations: their values.
    options: tuple[str, ...] = ()
    name: str = ""


_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
).split()


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _integer(low: int, high: int) -> Callable[[random.Random], Drawn]:
    def draw(rng: random.Random) -> Drawn:
        value = rng.randint(low, high)
        if high > 60 and rng.random() < 0.35:  # people like round numbers
            value = min(high, max(low, round(value, -1 if high < 1000 else -2)))
        if 1 <= value <= 20 and rng.random() < 0.15:
            said = "a dozen" if value == 12 and rng.random() < 0.3 else _SMALL[value]
        else:
            said = f"{value:,}" if value >= 1000 and rng.random() < 0.15 and high > 2100 else str(value)
        return Drawn(value, said)

    return draw


def _number_as_name(low: int, high: int) -> Callable[[random.Random], Drawn]:
    def draw(rng: random.Random) -> Drawn:
        value = rng.randint(low, high)
        return Drawn(value, str(value))

    return draw


def _big(low: int, high: int) -> Callable[[random.Random], Drawn]:
    def draw(rng: random.Random) -> Drawn:
        value = rng.randint(low, high)
        digits = max(0, len(str(value)) - rng.choice([1, 1, 2, 2, 3]))
        value = max(low, round(value, -digits))
        roll = rng.random()
        if value >= 1_000_000 and value % 100_000 == 0 and roll < 0.4:
            return Drawn(value, f"{_plain(value / 1_000_000)} million")
        if value >= 1000 and value % 1000 == 0 and roll < 0.12:
            return Drawn(value, f"{value // 1000}k")
        return Drawn(value, f"{value:,}" if roll < 0.55 and value >= 1000 else str(value))

    return draw


def _number(low: float, high: float, digits: int = 1) -> Callable[[random.Random], Drawn]:
    def draw(rng: random.Random) -> Drawn:
        value = rng.uniform(low, high)
        value = round(value, digits) if digits > 1 or rng.random() < 0.45 or high - low < 3 else float(round(value))
        if value < low:
            value = low
        whole = int(value) if value == int(value) else value
        return Drawn(whole, str(whole))

    return draw


def _percent(as_decimal: bool) -> Callable[[random.Random], Drawn]:
    def draw(rng: random.Random) -> Drawn:
        percent = rng.choice(
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 30, 40, 0.5, 1.5, 2.5, 3.5, 4.2, 5.5, 7.25]
        )
        value = round(percent / 100, 6) if as_decimal else percent
        roll = rng.random()
        if as_decimal and roll < 0.15:
            return Drawn(value, _plain(value))
        if not as_decimal and roll < 0.12:
            return Drawn(value, f"{_plain(percent)}%")
        return Drawn(value, f"{_plain(percent)}%" if roll < 0.75 else f"{_plain(percent)} percent")

    return draw


def _probability(rng: random.Random) -> Drawn:
    value = rng.choice([0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 0.8, 0.9])
    said = rng.choice([_plain(value), _plain(value), f"{int(value * 100)}%", f"{int(value * 100)} percent"])
    return Drawn(value, said)


def _day(form: str) -> Callable[[random.Random], Drawn]:
    """A date that is called in a form of its own."""

    def draw(rng: random.Random) -> Drawn:
        drawn = _date(rng)
        return Drawn(date.fromisoformat(str(drawn.value)).strftime(form), drawn.said)

    return draw


def _moment(rng: random.Random) -> Drawn:
    day, clock = _date(rng), _time(rng)
    said = rng.choice(["{0} at {1}", "{0}, {1}", "{1} on {0}"]).format(day.said, clock.said)
    return Drawn(f"{day.value}T{clock.value}:00", said)


def _month_of_year(rng: random.Random) -> Drawn:
    year, month = rng.randint(2021, 2027), rng.randint(1, 12)
    value, name = f"{year}-{month:02}", pools.MONTHS[month - 1]
    return Drawn(
        value, rng.choice([value, f"{name} {year}", f"{name} {year}", f"{name[:3]} {year}", f"{month:02}/{year}"])
    )


def _cents(rng: random.Random) -> Drawn:
    """An amount of money that is called in its smallest unit."""
    value = rng.choice([rng.randint(1, 900) * 100, rng.randint(100, 99999), rng.randint(2, 200) * 50])
    whole = value % 100 == 0 and rng.random() < 0.7
    return Drawn(value, str(value // 100) if whole else f"{value / 100:.2f}")


def _date(rng: random.Random) -> Drawn:
    year, month, day = rng.randint(1995, 2027), rng.randint(1, 12), rng.randint(1, 28)
    if rng.random() < 0.6:
        year = rng.randint(2022, 2026)
    iso = f"{year}-{month:02}-{day:02}"
    name = pools.MONTHS[month - 1]
    ending = {1: "st", 2: "nd", 3: "rd"}.get(day % 10 if day not in (11, 12, 13) else 0, "th")
    forms = [
        iso, iso, f"{name} {day}, {year}", f"{name} {day}{ending}, {year}", f"{day} {name} {year}",
        f"{day}{ending} of {name} {year}", f"{name[:3]} {day}, {year}", f"the {day}{ending} of {name}, {year}",
    ]  # fmt: skip
    if day > 12:
        forms.append(f"{month:02}/{day}/{year}")
    return Drawn(iso, rng.choice(forms))


def _time(rng: random.Random) -> Drawn:
    hour, minute = rng.randint(0, 23), rng.choice([0, 0, 0, 15, 30, 45, rng.randint(0, 59)])
    half, twelve = ("AM" if hour < 12 else "PM"), (hour % 12 or 12)
    clock = f"{twelve}:{minute:02}" if minute or rng.random() < 0.4 else f"{twelve}"
    forms = [
        f"{hour:02}:{minute:02}",
        f"{hour:02}:{minute:02}",
        f"{clock} {half}",
        f"{clock} {half.lower()}",
        f"{clock}{half.lower()}",
    ]
    return Drawn(f"{hour:02}:{minute:02}", rng.choice(forms))


def _duration(rng: random.Random) -> Drawn:
    unit, seconds = rng.choice([("seconds", 1), ("minutes", 60), ("minutes", 60), ("hours", 3600)])
    count = rng.randint(2, 50) if unit != "hours" else rng.randint(2, 6)
    return Drawn(count * seconds, f"{count} {unit}")


def _frequency(rng: random.Random) -> Drawn:
    said, value = rng.choice(
        [("annually", 1), ("monthly", 12), ("quarterly", 4), ("daily", 365), ("semi-annually", 2), ("weekly", 52)]
    )
    return Drawn(value, said)


def _us_city(rng: random.Random) -> Drawn:
    city = rng.choice(list(pools.US_CITIES))
    code, _, state = pools.US_CITIES[city].partition(" ")
    value = f"{city}, {code}"
    return Drawn(value, rng.choice([value, value, f"{city}, {state}", city]))


def _place(rng: random.Random) -> Drawn:
    if rng.random() < 0.3:
        city = rng.choice(list(pools.US_CITIES))
        value = f"{city}, {pools.US_CITIES[city].partition(' ')[0]}"
        return Drawn(value, value)
    return _same(rng.choice(pools.CITIES))


def _currency(rng: random.Random) -> Drawn:
    code = rng.choice(list(pools.CURRENCIES))
    return Drawn(code, code if rng.random() < 0.55 else rng.choice(pools.CURRENCIES[code].split("|")))


def _same(text: str) -> Drawn:
    return Drawn(text, text)


def _text(make: Callable[[random.Random], str]) -> Callable[[random.Random], Drawn]:
    return lambda rng: _same(make(rng))


#: How often a value is made up, so that it must be copied and cannot be remembered.
_MADE_UP = 0.3
_SYLLABLES = "ka lo mir ven tar sol dra wick bel quin os thal ren far zu ni ol ham ber lin sto gra vel mo ra ti pe ul ash ford ke jor ba".split()
#: Kinds of proper names, and kinds of free text, of which new ones can be made up.
_PROPER = frozenset(
    "city company team movie book author song artist playlist game painting painter museum histevent histfigure river mountain star "
    "university restaurant hotel event first species plant dish".split()
)
_FREE = frozenset("topic query task problem sentence phrase review event word".split())


def _coined(rng: random.Random) -> str:
    """A name that nobody has heard."""
    words = [
        "".join(rng.choice(_SYLLABLES) for _ in range(rng.randint(2, 3))).capitalize()
        for _ in range(rng.choice([1, 1, 2]))
    ]
    return " ".join(
        [
            *words,
            *(
                [rng.choice(["Group", "Hall", "Bay", "Seven", "II", "Park", "of the North"])]
                if rng.random() < 0.15
                else []
            ),
        ]
    )


def _wording(rng: random.Random) -> str:
    """Some words in a row that nobody has said."""
    vocabulary = rng.choice(
        [
            pools.TASKS,
            pools.TOPICS,
            pools.QUERIES,
            pools.SENTENCES,
            pools.PROBLEMS,
            pools.PRODUCTS,
            pools.INGREDIENTS,
            pools.WORDS,
        ]
    )
    words = [word for _ in range(2) for word in rng.choice(vocabulary).split()[: rng.randint(1, 4)]]
    return " ".join(words)


def _from(pool: list[str], name: str = "") -> Callable[[random.Random], Drawn]:
    def draw(rng: random.Random) -> Drawn:
        if name in _FREE and rng.random() < _MADE_UP:
            return _same(_wording(rng))
        if name in _PROPER and rng.random() < _MADE_UP:
            return _same(_coined(rng))
        return _same(rng.choice(pool))

    return draw


_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"


def _code(rng: random.Random) -> str:
    letters = "".join(rng.choice(_LETTERS) for _ in range(rng.randint(1, 3)))
    return f"{letters}{rng.choice(['', '-', '_'])}{rng.randint(10, 99999)}"


def _user(rng: random.Random) -> str:
    return (
        rng.choice(pools.FIRST).lower()
        + rng.choice(["", "_", ".", "-"])
        + rng.choice([str(rng.randint(1, 999)), *pools.WORDS[:6]])
    )


def _email(rng: random.Random) -> str:
    return f"{rng.choice(pools.FIRST).lower()}{rng.choice(['', '.' + rng.choice(pools.LAST[:30]).lower()])}@{rng.choice(pools.DOMAINS)}"


def _phone(rng: random.Random) -> str:
    return rng.choice(
        [
            f"+1{rng.randint(2000000000, 9899999999)}",
            f"555-{rng.randint(1000, 9999)}",
            f"+44 20 {rng.randint(1000, 9999)} {rng.randint(1000, 9999)}",
        ]
    )


def _expression(rng: random.Random) -> str:
    numbers = [rng.choice([rng.randint(2, 99), rng.randint(2, 999), round(rng.uniform(1, 50), 1)]) for _ in range(3)]
    form = rng.choice(
        [
            "{0} + {1}",
            "{0} * {1}",
            "{0} - {1}",
            "{0} / {1}",
            "({0} + {1}) * {2}",
            "{0} * {1} + {2}",
            "{0}*{1}",
            "({0} - {1}) / {2}",
            "{0}^2",
        ]
    )
    return form.format(*numbers)


def _path(rng: random.Random) -> str:
    return rng.choice(["", "", rng.choice(pools.FOLDERS) + "/"]) + rng.choice(pools.FILES)


def _url(rng: random.Random) -> str:
    return (
        "https://"
        + rng.choice(["", "www."])
        + rng.choice(pools.DOMAINS)
        + rng.choice(["", "/", "/about", f"/{rng.choice(pools.WORDS)}", f"/blog/{rng.randint(1, 99)}"])
    )


def _matrix(rng: random.Random) -> Drawn:
    rows = [[rng.randint(0, 9) for _ in range(2)] for _ in range(2)]
    return Drawn(rows, str(rows))


#: Kinds of text that are said as they are written.
_TEXTS: dict[str, Callable[[random.Random], str]] = {
    "person": lambda rng: f"{rng.choice(pools.FIRST)} {rng.choice(pools.LAST) if rng.random() < 0.7 else _coined(rng).split()[0]}",
    "email": _email,
    "phone": _phone,
    "code": _code,
    "orderid": lambda rng: rng.choice(["#", "ORD-", "", "A"]) + str(rng.randint(1000, 999999)),
    "sku": lambda rng: f"{rng.choice(_LETTERS)}{rng.choice(_LETTERS)}-{rng.randint(100, 9999)}",
    "tracking": lambda rng: f"{rng.choice(['1Z', 'JD', 'RR'])}{rng.randint(10**8, 10**9)}",
    "user": _user,
    "slug": lambda rng: rng.choice(pools.WORDS) + rng.choice(["-", "_", "-"]) + rng.choice([*pools.WORDS, str(rng.randint(1, 40)), "api", "prod", "db", "v2", "worker", "eu"]),
    "zip": lambda rng: f"{rng.randint(10000, 99950)}",
    "address": lambda rng: f"{rng.randint(1, 999)} {rng.choice(pools.STREETS)}, {rng.choice(pools.CITIES)}",
    "expr": _expression,
    "path": _path,
    "url": _url,
    "ip": lambda rng: ".".join(str(rng.randint(1, 254)) for _ in range(4)),
    "repo": lambda rng: f"{rng.choice(pools.FIRST).lower()}/{rng.choice(pools.WORDS)}",
    "branch": lambda rng: rng.choice(["feature/", "fix/", "", "release-"]) + rng.choice(pools.WORDS),
    "version": lambda rng: f"{rng.choice(['', 'v'])}{rng.randint(0, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 9)}",
    "channel": lambda rng: rng.choice(["#", ""]) + rng.choice(["general", "random", "engineering", "support", "sales"]),
    "cell": lambda rng: f"{rng.choice('ABCDEFG')}{rng.randint(1, 60)}",
    "casenum": lambda rng: rng.choice([f"{rng.randint(10, 24)}-{rng.randint(100, 9999)}", f"CV-{rng.randint(2005, 2024)}-{rng.randint(10, 999)}"]),
    "dna": lambda rng: "".join(rng.choice("ACGT") for _ in range(rng.randint(5, 14))),
    "numstr": lambda rng: rng.choice([str(rng.randint(2, 9999)), f"{rng.randint(2, 255):b}", f"{rng.randint(16, 65535):X}"]),
}  # fmt: skip
_POOLS = {
    "city": pools.CITIES, "country": pools.COUNTRIES, "state": pools.STATES, "first": pools.FIRST,
    "company": pools.COMPANIES, "ticker": pools.TICKERS, "lang": pools.LANGUAGES, "species": pools.SPECIES,
    "plant": pools.PLANTS, "food": pools.FOODS, "dish": pools.DISHES, "ingredient": pools.INGREDIENTS,
    "cuisine": pools.CUISINES, "product": pools.PRODUCTS, "brand": pools.BRANDS, "color": pools.COLORS,
    "car": pools.CARS, "team": pools.TEAMS, "movie": pools.MOVIES, "book": pools.BOOKS, "author": pools.AUTHORS,
    "song": pools.SONGS, "artist": pools.ARTISTS, "playlist": pools.PLAYLISTS, "musicgenre": pools.MUSIC_GENRES,
    "instrument": pools.INSTRUMENTS, "genre": pools.GENRES, "game": pools.GAMES, "painting": pools.PAINTINGS,
    "painter": pools.PAINTERS, "museum": pools.MUSEUMS, "histevent": pools.EVENTS_PAST, "histfigure": pools.FIGURES,
    "river": pools.RIVERS, "mountain": pools.MOUNTAINS, "planet": pools.PLANETS, "star": pools.STARS,
    "element": pools.ELEMENTS, "formula": pools.FORMULAS, "disease": pools.DISEASES, "drug": pools.DRUGS,
    "job": pools.JOBS, "subject": pools.SUBJECTS, "university": pools.UNIVERSITIES, "topic": pools.TOPICS,
    "query": pools.QUERIES, "room": pools.ROOMS, "restaurant": pools.RESTAURANTS, "hotel": pools.HOTELS,
    "event": pools.EVENTS, "task": pools.TASKS, "problem": pools.PROBLEMS, "sentence": pools.SENTENCES,
    "phrase": pools.PHRASES, "review": pools.REVIEWS, "word": pools.WORDS, "rareword": pools.RARE_WORDS,
    "codeword": pools.CODE_WORDS, "service": pools.SERVICES, "table": pools.TABLES, "package": pools.PACKAGES,
    "proglang": pools.PROG_LANGS, "commitmsg": pools.COMMIT_MESSAGES, "command": pools.COMMANDS, "sql": pools.SQLS,
    "mathfunc": pools.FUNCTIONS, "tz": pools.TIME_ZONES, "month": pools.MONTHS, "weekday": pools.WEEKDAYS,
    "domain": pools.DOMAINS, "folder": pools.FOLDERS, "image": pools.IMAGES,
}  # fmt: skip
_STRING: dict[str, JSON] = {"type": "string"}
_INTEGER: dict[str, JSON] = {"type": "integer"}
_NUMBER: dict[str, JSON] = {"type": "number"}
_DRAWS: dict[str, tuple[Callable[[random.Random], Drawn], dict[str, JSON]]] = {
    "pct": (_percent(True), _NUMBER),
    "pctn": (_percent(False), _NUMBER),
    "prob": (_probability, _NUMBER),
    "date": (_date, _STRING),
    "time": (_time, _STRING),
    "moment": (_moment, _STRING),
    "yearmonth": (_month_of_year, _STRING),
    "cents": (_cents, _INTEGER),
    "durations": (_duration, _INTEGER),
    "freq": (_frequency, _INTEGER),
    "uscity": (_us_city, _STRING),
    "place": (_place, _STRING),
    "currency": (_currency, _STRING),
    "matrix": (_matrix, {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}),
    **{name: (_text(make), _STRING) for name, make in _TEXTS.items()},
    **{name: (_from(pool, name), _STRING) for name, pool in _POOLS.items()},
}


def listed(rng: random.Random, words: list[str]) -> str:
    """Several things, as they are said."""
    roll = rng.random()
    if len(words) < 2 or roll < 0.2:
        return ", ".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}" if roll < 0.85 else f"{', '.join(words[:-1])}, and {words[-1]}"


def list_of(inner: Kind, low: int, high: int) -> Kind:
    numeric = inner.schema["type"] in ("integer", "number")

    def draw(rng: random.Random) -> Drawn:
        drawn: dict[str, Drawn] = {}
        several: list[Drawn] = []
        for _ in range(rng.randint(low, high)):
            one = inner.draw(rng)
            if numeric or str(one.value) not in drawn:
                drawn[str(one.value)] = one
                several.append(one)
        values = [one.value for one in several]
        if numeric:
            words = [str(value) for value in values]
            bracket = rng.random() < 0.45 or (low == high == 2)
            return Drawn(
                values,
                f"[{', '.join(words)}]"
                if (bracket and low != 2) or rng.random() < 0.2
                else _pairs(rng, words, low == high == 2),
            )
        return Drawn(values, listed(rng, [one.said for one in several]))

    return Kind(draw, {"type": "array", "items": dict(inner.schema)}, name="list")


def _pairs(rng: random.Random, words: list[str], point: bool) -> str:
    return rng.choice(["({})", "({})", "[{}]"]).format(", ".join(words)) if point else listed(rng, words)


def _choice(body: str, enum: bool) -> Kind:
    options: list[tuple[str, list[str]]] = []
    for option in body.split("|"):
        at = option.find("=", 1)
        value, said = (option, [option]) if at < 0 else (option[:at], option[at + 1 :].split(";"))
        options.append((value, said))

    def draw(rng: random.Random) -> Drawn:
        value, said = rng.choice(options)
        return Drawn(value, rng.choice(said))

    return Kind(
        draw, dict(_STRING), tuple(value for value, _ in options) if enum else (), name="enum" if enum else "pick"
    )


def coded(kind: Kind, codes: dict[str, int]) -> Kind:
    """An enumeration whose values are told by number: said as before."""

    def draw(rng: random.Random) -> Drawn:
        one = kind.draw(rng)
        return Drawn(codes[str(one.value)], one.said)

    return Kind(draw, dict(_INTEGER), name=kind.name)


def _cast(kind: Kind, to: str) -> Kind:
    convert: Callable[[object], object] = {"int": lambda v: int(str(v)), "num": lambda v: float(str(v)), "str": str}[to]
    schema = {"int": _INTEGER, "num": _NUMBER, "str": _STRING}[to]

    def draw(rng: random.Random) -> Drawn:
        one = kind.draw(rng)
        return Drawn(convert(one.value), one.said)

    return Kind(draw, dict(schema), name=kind.name)


def kind(spec: str) -> Kind:
    """The kind of value that a family file names."""
    spec = spec.strip()
    if spec.endswith((":int", ":num", ":str")):
        return _cast(kind(spec[:-4]), spec[-3:])
    if spec == "bool":
        return Kind(lambda rng: Drawn(rng.random() < 0.5, ""), {"type": "boolean"}, name="bool")
    name, _, rest = spec.partition("(")
    body = rest[:-1]
    if name in ("enum", "pick"):
        return _choice(body, name == "enum")
    if name == "list":
        inner, low, high = body.rsplit(",", 2)
        return list_of(kind(inner), int(low), int(high))
    if name == "day":
        return Kind(_day(body), dict(_STRING), name=name)
    if name == "id":  # a number that is a name: nobody rounds it or says it in words
        low, high = (int(each) for each in body.split(","))
        return Kind(_number_as_name(low, high), dict(_INTEGER), name=name)
    if name in ("int", "big"):
        low, high = (int(each) for each in body.split(","))
        return Kind((_integer if name == "int" else _big)(low, high), dict(_INTEGER), name=name)
    if name == "num":
        bounds = body.split(",")
        return Kind(
            _number(float(bounds[0]), float(bounds[1]), *(int(each) for each in bounds[2:])), dict(_NUMBER), name=name
        )
    draw, schema = _DRAWS[name]
    return Kind(draw, dict(schema), name=name)

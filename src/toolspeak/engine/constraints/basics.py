"""Rules that every grammar may need: the characters of JSON, its commas, and the formats that can be written down."""

from __future__ import annotations

from .expressions import Alt, Chars, Literally, Repeat, Rule, Seq, maybe, token

#: A repetition of more than 1,999 is refused by llama.cpp, or taken as unbounded; longer ones are made of blocks.
BLOCK = 256
#: Digits behind the point of a number: more than a double holds.
_MAX_FRACTION = 20

_HEX, _DIGIT = Chars(("09", "af", "AF")), Chars(("09",))
COMMA, COLON, QUOTE = token("comma"), token("colon"), Literally('"')
CHAR = token("char")


def _some(chars: str) -> Chars:
    return Chars(tuple(each * 2 for each in chars))


#: Rules that others use; written down only when used. An escape names no half of a surrogate pair: those are refused.
BASICS: dict[str, Rule] = {
    rule.name.name: rule
    for rule in (
        Rule(token("comma"), Seq((Literally(","), maybe(Literally(" "))))),
        Rule(token("colon"), Seq((Literally(":"), maybe(Literally(" "))))),
        Rule(token("char"), Alt((Chars(('""', "\\\\", "\x00\x1f"), True), Seq((Literally("\\"), token("escape")))))),
        Rule(
            token("escape"),
            Alt((_some('"\\/bfnrt'), Seq((Literally("u"), token("code"))))),
        ),
        Rule(
            token("code"),
            Alt(
                (
                    Seq((Chars(("09", "ac", "AC", "ef", "EF")), Repeat(_HEX, 3, 3))),
                    Seq((Chars(("dd", "DD")), Chars(("07",)), Repeat(_HEX, 2, 2))),
                )
            ),
        ),
        Rule(token("block"), Repeat(CHAR, BLOCK, BLOCK)),
        Rule(token("fraction"), Seq((Literally("."), Repeat(_DIGIT, 1, _MAX_FRACTION)))),
        Rule(token("exponent"), Seq((Chars(("ee", "EE")), maybe(Chars(("++", "--"))), Repeat(_DIGIT, 1, 2)))),
        Rule(token("date"), Alt((Seq((*(_DIGIT,) * 4, Literally("-"), token("month-day"))), token("leap-day")))),
        Rule(
            token("month-day"),
            Alt(
                (
                    Seq((token("long-month"), Literally("-"), token("day-31"))),
                    Seq((token("short-month"), Literally("-"), token("day-30"))),
                    Seq((Literally("02-"), token("day-28"))),
                )
            ),
        ),
        Rule(token("long-month"), Alt((Seq((Literally("0"), _some("13578"))), Seq((Literally("1"), _some("02")))))),
        Rule(token("short-month"), Alt((Seq((Literally("0"), _some("469"))), Literally("11")))),
        Rule(token("day-31"), Alt((token("day-30"), Literally("31")))),
        Rule(token("day-30"), Alt((token("day-28"), Literally("29"), Literally("30")))),
        Rule(
            token("day-28"),
            Alt(
                (
                    Seq((Literally("0"), Chars(("19",)))),
                    Seq((Literally("1"), _DIGIT)),
                    Seq((Literally("2"), Chars(("08",)))),
                )
            ),
        ),
        # Of the years that end a century every fourth has this day, of the others every fourth too.
        Rule(token("leap-day"), Seq((Alt((token("leap-year"), token("leap-century"))), Literally("-02-29")))),
        Rule(token("leap-year"), Seq((_DIGIT, _DIGIT, token("fourth")))),
        Rule(token("leap-century"), Seq((Alt((Literally("00"), token("fourth"))), Literally("00")))),
        Rule(
            token("fourth"),
            Alt(
                (
                    Seq((Literally("0"), _some("48"))),
                    Seq((_some("2468"), _some("048"))),
                    Seq((_some("13579"), _some("26"))),
                )
            ),
        ),
        Rule(token("hour"), Alt((Seq((Chars(("01",)), _DIGIT)), Seq((Literally("2"), Chars(("03",))))))),
        Rule(token("sixty"), Seq((Chars(("05",)), _DIGIT))),
        Rule(token("time"), Seq((token("clock"), Repeat(token("fraction"), 0, 1), token("zone")))),
        Rule(token("clock"), Seq((token("hour"), Literally(":"), token("sixty"), Literally(":"), token("sixty")))),
        Rule(
            token("zone"),
            Alt((Literally("Z"), Seq((Chars(("++", "--")), token("hour"), Literally(":"), token("sixty"))))),
        ),
        Rule(token("date-time"), Seq((token("date"), Literally("T"), token("time")))),
        Rule(
            token("uuid"), Seq((Repeat(_HEX, 8, 8), *(token("uuid-part"),) * 3, Literally("-"), Repeat(_HEX, 12, 12)))
        ),
        Rule(token("uuid-part"), Seq((Literally("-"), Repeat(_HEX, 4, 4)))),
    )
}
#: Formats that are written down as rules, with the fewest and the most characters of each; the others are left to the
#: model.
FORMATS = {"date": (10, 10), "time": (9, 35), "date-time": (20, 46), "uuid": (36, 36)}

"""Patterns of tool names in any language."""

#: The first character of a name: a letter or an underscore.
NAME_START = r"[^\W\d]"
#: Characters of a name, for use in a character class: letters, digits, underscores, and the vowel signs, tone marks and
#: joiners that many languages write between letters.
NAME_CHARS = (
    r"\w\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    r"\u0711-\u07b0\u0900-\u0963\u0966-\u0dff\u0e30-\u0e4e\u0eb0-\u0ece\u0f18-\u0fbc\u1000-\u109f\u1700-\u17d3"
    r"\u17dd\u1ab0-\u1aff\u1dc0-\u1dff\u200c\u200d\u20d0-\u20ff\u3099\u309a\ufe20-\ufe2f"
)
#: An unquoted name, with dots for namespaces.
TOOL_NAME = rf"{NAME_START}[{NAME_CHARS}.-]{{0,127}}+"

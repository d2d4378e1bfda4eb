"""Nemotron Nano 2: a JSON array inside `<TOOLCALL>`."""

from ..dialect import Dialect, tag_openings
from ..rendering import json_list

DIALECT = Dialect(
    "nemotron",
    style=json_list,
    before="<TOOLCALL>",
    after="</TOOLCALL>",
    families="Nemotron Nano 2",
    rank=29,
    tags=tag_openings("nemotron", "TOOLCALL"),
)

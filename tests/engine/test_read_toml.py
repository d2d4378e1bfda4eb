"""The tables and texts that are kept as files: each is found and checked."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import toolspeak.engine
from toolspeak.engine import read_toml


class Place(msgspec.Struct, forbid_unknown_fields=True):
    words: str = ""


def test_a_file_is_read_as_the_type_that_is_asked_for():
    topics = read_toml("refusals/topics.toml", dict[str, dict[str, msgspec.Raw | str | bool | list[str]]])
    assert "weather" in topics and topics["weather"]["names"]


def test_a_file_of_another_form_is_an_error():
    with pytest.raises(msgspec.ValidationError):
        read_toml("refusals/topics.toml", dict[str, Place])


def test_every_file_is_valid_toml():
    folder = Path(toolspeak.engine.__file__).parent
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*.toml")]
    assert names
    for name in names:
        assert read_toml(name, dict[str, object]), name

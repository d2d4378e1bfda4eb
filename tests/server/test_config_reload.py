"""Which configuration a server begins with, and which it goes on with when it is told to read it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolspeak.config import Config, load, trust
from toolspeak.errors import UsageError
from toolspeak.server.process.from_config import usable_config

SEVERAL = '[upstreams.x]\nbase_url = "http://127.0.0.1:9/v1"'
ONE = 'base_url = "http://127.0.0.1:9/v1"'
HERE = 'model = "embedded:"'
NOTHING = ""


class Place:
    """A home with a file of the user's, and a working directory with a file of anybody's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "toolspeak.toml"
        self.own = folder / ".config" / "toolspeak" / "config.toml"
        self.own.parent.mkdir(parents=True)

    def load(self) -> Config:
        return load(env={"HOME": str(self.folder)}, cwd=self.folder)

    def says(self, text: str) -> Config:
        self.own.write_text(text, encoding="utf-8")
        return self.load()

    def asks(self, text: str, *, trusted: bool = False) -> Config:
        self.project.write_text(text, encoding="utf-8")
        if trusted:
            trust(self.load().state(), self.project)
        return self.load()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


KINDS = {"several": [SEVERAL, SEVERAL.replace("x]", "y]")], "one": [ONE], "here": [HERE, NOTHING]}


@pytest.mark.parametrize("old", KINDS)
@pytest.mark.parametrize("new", KINDS)
def test_requests_never_go_to_another_kind_of_place_because_a_file_was_changed(place: Place, old: str, new: str):
    for first in KINDS[old]:
        before = usable_config(place.says(first))
        for following in KINDS[new]:
            after = place.says(following)
            if old == new:
                assert usable_config(after, before=before) is after
            else:
                with pytest.raises(UsageError, match=r"requests would go to .* instead of"):
                    usable_config(after, before=before)


def test_a_file_that_is_gone_changes_nothing(place: Place):
    before = usable_config(place.asks(SEVERAL, trusted=True))
    place.project.unlink()
    with pytest.raises(UsageError, match="requests would go to the embedded model"):
        usable_config(place.load(), before=before)


def test_one_upstream_by_flag_stays_whatever_the_files_say(place: Place):
    before = usable_config(place.says(NOTHING), "http://127.0.0.1:9/v1")
    after = place.says(SEVERAL)
    assert usable_config(after, "http://127.0.0.1:9/v1", before=before) is after


@pytest.mark.requirement("R-T5")
@pytest.mark.parametrize("own", [SEVERAL, ONE, NOTHING])
def test_a_file_that_was_edited_and_not_trusted_again_changes_nothing(place: Place, own: str):
    place.says(own)
    before = usable_config(place.asks(SEVERAL, trusted=True))
    edited = SEVERAL.replace(":9/", ":8/")
    with pytest.raises(UsageError, match=r"cannot set `upstreams` until you trust it.*send SIGHUP again"):
        usable_config(place.asks(edited), before=before)
    assert usable_config(place.asks(edited, trusted=True), before=before).upstream_names() == ("x",)


@pytest.mark.requirement("R-T5")
@pytest.mark.parametrize("wanted", [SEVERAL, ONE])
def test_no_server_begins_with_the_model_here_where_an_untrusted_file_names_another(place: Place, wanted: str):
    config = place.asks(wanted)
    with pytest.raises(UsageError, match=r"`toolspeak trust`.*--upstream URL.*--model embedded:"):
        usable_config(config)
    assert usable_config(config, "http://127.0.0.1:9/v1") is config
    assert usable_config(config, "", "embedded:") is config
    for own in (SEVERAL, ONE, HERE):
        place.says(own)
        usable_config(place.load())


@pytest.mark.requirement("R-T5")
def test_an_untrusted_file_that_names_a_model_says_with_that_where_to_ask_and_is_not_heard(place: Place):
    with pytest.raises(UsageError, match="toolspeak trust"):
        usable_config(place.asks(f'{ONE}\nmodel = "openai:my-model"'))


def test_what_was_untrusted_at_the_start_may_stay_so(place: Place):
    before = usable_config(place.asks(SEVERAL), "", "embedded:")
    usable_config(place.asks(SEVERAL.replace("x]", "y]")), "", "embedded:", before)

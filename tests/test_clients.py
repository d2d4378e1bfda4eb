"""The table of clients, and how shells are told its settings."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.cli.env import SHELLS
from toolspeak.client_settings.table import ANY_KEY, ClientSettings, ServerAddress, client, clients
from toolspeak.errors import UsageError

HERE = ServerAddress("http://127.0.0.1:8788", "qwen3:8b")
by_client = check_each("name", list(clients()))


@by_client
def test_a_client_can_be_pointed_somehow(name: str):
    row = client(name)
    assert row.env or row.files or row.arguments or "{url}" in row.note
    assert "{url}" in msgspec.json.encode(row).decode()


@by_client
def test_nothing_is_left_to_fill_in(name: str):
    text = msgspec.json.encode(HERE.settings_for(client(name))).decode()
    assert not any(word in text for word in ("{url}", "{model}", "{key}"))


@by_client
@pytest.mark.requirement("R-T2")
def test_a_key_stands_in_variables_only(name: str):
    row = client(name)
    assert "{key}" not in "".join((*row.arguments, *(file.text for file in row.files)))


@by_client
def test_its_files_are_what_their_names_say(name: str):
    readers = {"json": json.loads, "toml": tomllib.loads, "yaml": str}
    for file in HERE.settings_for(client(name)).files:
        readers[file.path.rpartition(".")[2]](file.text)
        assert file.path.startswith("~/")
        assert file.path.endswith(file.name)


@by_client
def test_a_file_reaches_a_client_that_is_launched(name: str):
    row = client(name)
    for file in row.files:
        said = "{url}" in "".join(row.arguments) or "{file}" in "".join(row.arguments)
        assert file.variable or said, f"nothing tells {name} of {file.path}"


def test_a_client_is_found_by_the_name_of_its_program():
    assert client("claude") is client("claude-code")


def test_an_unknown_client_is_an_error_that_names_the_nearest():
    with pytest.raises(UsageError, match="unknown client `cloude-code`") as caught:
        client("cloude-code")
    assert "claude-code" in caught.value.hint


@check_each("url", ["http://127.0.0.1:8788/", "http://127.0.0.1:8788/v1", "http://127.0.0.1:8788/v1/"])
def test_an_address_may_end_as_people_write_it(url: str):
    assert ServerAddress(url, "m").checked().url == "http://127.0.0.1:8788"


@check_each(
    ("url", "model"),
    [
        ("http://127.0.0.1'; rm -rf /", "m"),
        ("file:///etc/passwd", "m"),
        ("127.0.0.1:8788", "m"),
        ("http://127.0.0.1:8788", 'm"\nx = "'),
        ("http://127.0.0.1:8788", "$(id)"),
        ("http://127.0.0.1:8788", "-m"),
        ("http://127.0.0.1:8788", ""),
    ],
)
@pytest.mark.requirement("R-T6")
def test_what_could_mean_more_than_a_name_is_refused(url: str, model: str):
    with pytest.raises(UsageError):
        ServerAddress(url, model).checked()


def test_other_braces_are_text():
    row = ClientSettings("x", ("openai",), "y", env={"A": "{env:KEY} {key}"})
    assert HERE.settings_for(row).env == {"A": f"{{env:KEY}} {ANY_KEY}"}


# ---- shells

#: No NUL: no variable can hold one.
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


@given(TEXTS)
def test_sh_gets_the_value_whatever_it_is(value: str):
    command = SHELLS["sh"].export_command("SOME", value) + '\nprintf %s "$SOME"'
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=True)
    assert done.stdout == value.encode()


@check_each(
    ("shell", "value", "command"),
    [
        ("fish", r"a'b\c", r"set -gx A 'a\'b\\c'"),
        ("powershell", "a'b$c", "$env:A = 'a''b$c'"),
    ],
)
def test_other_shells_get_it_quoted_their_way(shell: str, value: str, command: str):
    assert SHELLS[shell].export_command("A", value) == command


@check_each(
    ("shell", "copied", "removed"),
    [
        ("sh", 'export A="$B"', "unset A"),
        ("fish", 'set -gx A "$B"', "set -e A"),
        ("powershell", "$env:A = $env:B", "Remove-Item Env:A -ErrorAction Ignore"),
    ],
)
def test_a_variable_can_be_copied_and_forgotten(shell: str, copied: str, removed: str):
    assert (SHELLS[shell].copy_command("A", "B"), SHELLS[shell].unset_command("A")) == (copied, removed)


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_gets_the_value():
    command = SHELLS["fish"].export_command("SOME", r"it's \ $HOME") + "\nprintf %s $SOME"
    assert subprocess.run(["fish", "-c", command], capture_output=True, check=True).stdout == rb"it's \ $HOME"

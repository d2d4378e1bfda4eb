"""Keys: shown once, kept as a hash, found by it, taken back at once."""

from __future__ import annotations

import hashlib
import stat
import sys
from pathlib import Path

import pytest

from tests.cases import check_each
from toolspeak.errors import UsageError
from toolspeak.key_value import FileState, MemoryState
from toolspeak.server.access.api_keys import ApiKey, ApiKeys


@pytest.fixture
def keys() -> ApiKeys:
    return ApiKeys(MemoryState(), lambda: 1000.0)


def test_a_new_key_is_256_random_bits_behind_a_prefix(keys: ApiKeys):
    texts = {keys.new(f"n{number}")[1] for number in range(20)}
    assert len(texts) == 20
    assert all(text.startswith("tsk-") and len(text) == len("tsk-") + 43 for text in texts)  # 32 bytes in base64


@pytest.mark.requirement("R-T19")
def test_only_the_hash_of_a_key_is_kept_in_a_file_for_its_owner(tmp_path: Path):
    path = tmp_path / "state.json"
    key, text = ApiKeys(FileState(path)).new("anna", ["qwen*"], rate=60, concurrency=2)
    written = path.read_text(encoding="utf-8")
    assert text not in written
    assert text.removeprefix("tsk-") not in written
    assert hashlib.sha256(text.encode()).hexdigest() in written
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ApiKeys(FileState(path)).find(text) == key


def test_a_key_is_found_with_everything_said_about_it(keys: ApiKeys):
    key, text = keys.new("anna", ["a", "b*"], rate=60, concurrency=2, admin=True)
    assert keys.find(text) == key
    assert key == ApiKey(key.id, "anna", ("a", "b*"), 60, 2, True, 1000.0)


@pytest.mark.parametrize(
    "change", [lambda t: t[:-1], lambda t: t + "A", lambda t: t.upper(), lambda t: t[4:], lambda t: ""]
)
def test_anything_else_is_no_key(keys: ApiKeys, change):
    _, text = keys.new("anna")
    assert keys.find(change(text)) is None


@pytest.mark.parametrize("text", ["", "tsk-", "tsk-" + "x" * 10_000, "tsk-\x00", "tsk-ü", "sk-other"])
def test_no_text_that_was_not_given_out_is_a_key(keys: ApiKeys, text: str):
    keys.new("anna")
    assert keys.find(text) is None


def test_a_place_in_the_state_alone_grants_nothing():
    state = MemoryState()
    text = "tsk-forged"
    state.put("key:" + hashlib.sha256(text.encode()).hexdigest(), {"hash": "0" * 64, "key": {"id": "x", "name": "x"}})
    assert ApiKeys(state).find(text) is None
    state.put("key:" + hashlib.sha256(text.encode()).hexdigest(), "something else")
    assert ApiKeys(state).find(text) is None
    assert ApiKeys(state).all() == ()


def test_a_revoked_key_holds_no_more_for_anybody_who_looks(tmp_path: Path):
    path = tmp_path / "state.json"
    key, text = ApiKeys(FileState(path)).new("anna")
    elsewhere = ApiKeys(FileState(path))
    assert elsewhere.find(text) == key
    assert ApiKeys(FileState(path)).revoke("anna") == key
    assert elsewhere.find(text) is None
    with pytest.raises(UsageError, match="unknown key `anna`"):
        elsewhere.revoke("anna")


def test_a_key_can_be_revoked_by_its_id(keys: ApiKeys):
    anna, _ = keys.new("anna")
    bert, text = keys.new("bert")
    keys.revoke(anna.id)
    assert keys.all() == (bert,)
    assert keys.find(text) == bert


def test_keys_are_listed_the_oldest_first():
    now = iter([3.0, 1.0, 2.0])
    keys = ApiKeys(MemoryState(), lambda: next(now))
    for name in "abc":
        keys.new(name)
    assert [key.name for key in keys.all()] == ["b", "c", "a"]


@pytest.mark.requirement("R-T20")
@pytest.mark.parametrize("name", ["", "x" * 65, "a\nb", "a\x1b[31m", "\u2028"])
def test_a_name_that_could_deface_a_log_is_refused(keys: ApiKeys, name: str):
    with pytest.raises(UsageError, match="printable"):
        keys.new(name)


def test_a_name_stands_for_one_key(keys: ApiKeys):
    key, _ = keys.new("anna")
    for name in ("anna", key.id):
        with pytest.raises(UsageError, match="already"):
            keys.new(name)


def test_limits_below_zero_are_refused(keys: ApiKeys):
    with pytest.raises(UsageError, match="must not be negative"):
        keys.new("anna", rate=-1)


@check_each(
    ("models", "names", "may"),
    [
        ((), ("anything",), True),
        (("a",), ("a", "near:a"), True),
        (("near:a",), ("a", "near:a"), True),
        (("near:*",), ("a", "near:a"), True),
        (("near:*",), ("a", "far:a"), False),
        (("a",), ("ab", "near:ab"), False),
        (("fast",), ("big", "near:big", "fast"), True),
    ],
)
def test_a_key_is_for_the_models_it_names(models: tuple[str, ...], names: tuple[str, ...], may: bool):
    assert ApiKey("id", "anna", models).may_use(*names) is may


@pytest.mark.requirement("R-T19")
def test_a_key_in_a_file_ends_at_once_for_a_server_that_has_found_it_before(tmp_path: Path):
    path = tmp_path / "state.json"
    server, owner = ApiKeys(FileState(path)), ApiKeys(FileState(path))
    anna, text = owner.new("anna")
    _, other = owner.new("berta")
    assert [server.find(text) for _ in range(3)] == [anna] * 3
    owner.revoke("anna")
    assert server.find(text) is None
    assert server.find(other) is not None
    path.unlink()
    assert server.find(other) is None


def test_what_is_no_key_is_not_kept_for_one(tmp_path: Path):
    owner = ApiKeys(FileState(tmp_path / "state.json"))
    _, text = owner.new("anna")
    server = ApiKeys(FileState(tmp_path / "state.json"))
    assert server.find(text + "x") is None
    assert server.find(text) is not None
    assert server.find(text + "x") is None

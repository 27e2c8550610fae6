"""Keys: what is kept of them, how they are changed, and what a running service sees of it."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path

import pytest

from perfmodel.errors import InvalidInputError, StoreError
from service.access.key_file import FRESH_S, KeyFile
from service.access.keys import ApiKey, UnknownKeyError, digest_of, new_key
from service.access.scopes import Scope

CREATED = "2026-01-01T00:00:00+00:00"


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def key_of(*scopes: str) -> tuple[str, ApiKey]:
    return new_key("ci", scopes or ["predict"], created_at=CREATED)


def test_a_key_is_kept_as_its_hash_only(tmp_path: Path) -> None:
    token, key = key_of("predict", "observe")
    KeyFile(tmp_path / "keys.json").add(key)
    written = (tmp_path / "keys.json").read_text()
    assert token not in written
    assert token.split("_", 2)[2] not in written
    assert key.digest == hashlib.sha256(token.encode()).hexdigest()
    assert json.loads(written)["keys"][0]["scopes"] == ["observe", "predict"]


def test_keys_differ_and_hold_256_random_bits() -> None:
    tokens = {key_of()[0] for _ in range(200)}
    assert len(tokens) == 200
    # 32 bytes in base64 without padding: ceil(32 * 8 / 6) = 43 characters.
    assert {len(token.split("_", 2)[2]) for token in tokens} == {43}


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    token, key = new_key("site B", ["admin"], created_at=CREATED, rate_per_s=2.5)
    KeyFile(tmp_path / "keys.json").add(key)
    again = KeyFile(tmp_path / "keys.json")
    assert again.find(digest_of(token)) == key
    assert again.find(digest_of(token + "x")) is None
    assert again.find("") is None


def test_a_running_service_sees_new_and_revoked_keys_within_a_second(tmp_path: Path) -> None:
    clock = Clock()
    running = KeyFile(tmp_path / "keys.json", clock=clock)
    assert not running.all()
    edited = KeyFile(tmp_path / "keys.json")
    token, key = key_of()
    edited.add(key)
    clock.now += FRESH_S
    assert running.find(digest_of(token)) == key
    revoked = edited.revoke(key.key_id)
    assert revoked.revoked_at is not None
    clock.now += FRESH_S
    assert running.find(digest_of(token)) is None
    assert [k.key_id for k in running.all()] == [key.key_id]


@pytest.mark.parametrize("harm", ["damage", "removal"])
def test_a_file_that_breaks_while_the_service_runs_changes_nothing(
    tmp_path: Path, harm: str
) -> None:
    clock = Clock()
    token, key = key_of()
    file = KeyFile(tmp_path / "keys.json", clock=clock)
    file.add(key)
    if harm == "damage":
        (tmp_path / "keys.json").write_text('{"format": 1, "keys": [{"id"')
    else:
        (tmp_path / "keys.json").unlink()
    clock.now += FRESH_S
    assert file.find(digest_of(token)) == key


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2, "keys": []}', '{"format": 1}'])
def test_a_file_that_is_broken_at_the_start_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys.json").write_text(text)
    with pytest.raises(StoreError, match=r"keys\.json cannot be read"):
        KeyFile(tmp_path / "keys.json").all()


def test_nothing_is_lost_when_many_edit_at_once(tmp_path: Path) -> None:
    made = [key_of() for _ in range(24)]

    def add(part: list[tuple[str, ApiKey]]) -> None:
        for _, key in part:
            KeyFile(tmp_path / "keys.json").add(key)

    threads = [threading.Thread(target=add, args=(made[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = {key.key_id for key in KeyFile(tmp_path / "keys.json").all()}
    assert kept == {key.key_id for _, key in made}


def test_revoking_what_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    _, key = key_of()
    file = KeyFile(tmp_path / "keys.json")
    file.add(key)
    with pytest.raises(UnknownKeyError, match=key.key_id):
        file.revoke(key.key_id[:-1] + "!")


def test_an_administrator_may_do_everything_and_others_only_their_own() -> None:
    assert all(key_of("admin")[1].allows(scope) for scope in Scope)
    assert [scope for scope in Scope if key_of("observe")[1].allows(scope)] == [Scope.OBSERVE]


@pytest.mark.parametrize(
    ("name", "scopes", "rate", "says"),
    [
        ("", ["predict"], None, "name"),
        ("a\nb", ["predict"], None, "name"),
        ("a" * 65, ["predict"], None, "name"),
        ("a", [], None, "needs a scope"),
        ("a", ["predcit"], None, "predict"),
        ("a", ["predict"], 0.0, "above 0"),
        ("a", ["predict"], float("nan"), "above 0"),
        ("a", ["predict"], float("inf"), "above 0"),
    ],
)
def test_nonsense_is_refused(name: str, scopes: list[str], rate: float | None, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        new_key(name, scopes, created_at=CREATED, rate_per_s=rate)

"""The registry over a local folder and over a real store elsewhere, by several hosts at once."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import made_up_versions
import pytest

from perfmodel.errors import (
    DamagedArtifactError,
    InvalidInputError,
    OvertakenError,
    UnknownModelVersionError,
    UnknownPredictorError,
)
from perfmodel.registry import state_log
from perfmodel.registry.file_store import FileStore, open_store
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.registry.pins import PinNotes
from perfmodel.registry.states import Change, State


@pytest.fixture(scope="session")
def four_versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of four versions, to be copied: to write them to one elsewhere takes longer."""
    made, kept = (tmp_path_factory.mktemp(name) for name in ("made", "kept"))
    for number in "1234":
        folder = made_up_versions.version(made, number)
        content = {p: (folder / p).read_bytes() for p in (*made_up_versions.FILES, "manifest.json")}
        open_store(kept).write_folder(f"default/{number}", content)
    return kept


@pytest.fixture
def registry(files: FileStore, files_folder: Path, four_versions: Path) -> ModelRegistry:
    """Four versions, of which no change speaks."""
    shutil.copytree(four_versions, files_folder, dirs_exist_ok=True)
    return ModelRegistry(files, by="first")


def _states(registry: ModelRegistry) -> dict[str, str]:
    return {one.version: one.state.value for one in registry.listed("default")}


def _other(registry: ModelRegistry, by: str = "second") -> ModelRegistry:
    """Another host on the same store, which remembers nothing of the first."""
    return ModelRegistry(registry.files, by=by)


def test_a_version_is_promoted_and_rolled_back_on_every_host(registry: ModelRegistry) -> None:
    other = _other(registry)
    assert registry.serving("default") == other.serving("default") == "4"
    change = other.promote("default", "2", why="better on T4")
    assert (change.previous, change.by, change.why) == ("4", "second", "better on T4")
    assert registry.serving("default") == "2"
    assert _states(registry) == {
        "4": "retired", "3": "candidate", "2": "serving", "1": "retired",
    }  # fmt: skip
    assert registry.rollback("default").version == "4"
    assert other.serving("default") == "4"
    # 2 was left; 3 never served as far as is known, but it is older than 4 and unspoken of.
    assert other.rollback("default").version == "3"


def test_what_is_published_waits_to_be_promoted(registry: ModelRegistry, tmp_path: Path) -> None:
    folder = made_up_versions.version(tmp_path / "new", "5", seed=1)
    assert registry.publish(folder, "default", why="retrained") == "5"
    assert (_states(registry)["5"], registry.serving("default")) == ("candidate", "4")
    # A version never changes: another of that name gets another.
    assert registry.publish(folder, "default") == "5.2"
    registry.promote("default", "5")
    assert registry.versions.manifest("default", "5")["seed"] == 1
    fetched = _other(registry).versions.fetch("default", "5", tmp_path / "cache")
    assert sorted(p.name for p in fetched.rglob("*.json")) == ["a.json", "b.json", "manifest.json"]


def test_a_damaged_version_is_never_promoted(registry: ModelRegistry, tmp_path: Path) -> None:
    folder = made_up_versions.version(tmp_path / "new", "5")
    content = {p: (folder / p).read_bytes() for p in (*made_up_versions.FILES, "manifest.json")}
    registry.files.write_folder("default/5", {**content, "a.json": b"[]"})
    registry.files.write_folder("default/6", {**content, "manifest.json": b"{}"})
    missing = {path: text for path, text in content.items() if path != "a.json"}
    registry.files.write_folder("default/7", missing)
    for number, says in (("5", "a.json"), ("6", "manifest"), ("7", "a.json")):
        with pytest.raises(DamagedArtifactError, match=says):
            registry.promote("default", number)
    # The registry reads manifests alone, and passes over what has none that is sound.
    assert "6" not in {one.version for one in registry.listed("default") if one.manifest}
    (damaged,) = [one for one in registry.listed("default") if one.version == "6"]
    assert "digest does not match" in damaged.problem


def test_rolling_back_passes_over_a_damaged_version(registry: ModelRegistry) -> None:
    for number in "123":
        registry.promote("default", number)

    def fails_on_2(version: str) -> None:
        if version == "2":
            raise DamagedArtifactError("2 cannot be loaded")

    assert registry.rollback("default", check=fails_on_2).version == "1"


def test_there_is_an_end_of_going_back(registry: ModelRegistry) -> None:
    for expected in "321":
        assert registry.rollback("default").version == expected
    with pytest.raises(InvalidInputError, match="served before 1"):
        registry.rollback("default")


def test_what_does_not_load_is_not_promoted(registry: ModelRegistry) -> None:
    def check() -> None:
        raise DamagedArtifactError("it answers NaN")

    with pytest.raises(DamagedArtifactError, match="NaN"):
        registry.promote("default", "3", check=check)
    assert registry.history("default").changes == ()


def test_a_refused_version_needs_force(registry: ModelRegistry) -> None:
    registry.judge("default", "3", State.REFUSED, why="worse on T4")
    with pytest.raises(InvalidInputError, match="refused: worse on T4"):
        registry.promote("default", "3")
    # To be a shadow, or to wait, takes nothing of that back.
    for state in (State.SHADOW, State.CANDIDATE):
        registry.judge("default", "3", state, why="look")
        with pytest.raises(InvalidInputError, match="refused: worse on T4"):
            registry.promote("default", "3")
    registry.promote("default", "3", force=True)
    assert registry.serving("default") == "3"
    before = registry.history("default").changes
    again = registry.promote("default", "3", why="once more")
    assert (again.is_standing, again.change_id, again.why) == (True, before[-1].change_id, "")
    assert registry.history("default").changes == before
    with pytest.raises(InvalidInputError, match="serves. Promote another"):
        registry.judge("default", "3", State.REFUSED)
    with pytest.raises(InvalidInputError, match="No judgement"):
        registry.judge("default", "2", State.SERVING)


def test_what_is_not_there(registry: ModelRegistry) -> None:
    for name in ("defualt", "..", "a/b", ""):
        for act in (registry.rollback, registry.collect, lambda name: registry.promote(name, "1")):
            with pytest.raises(UnknownPredictorError):
                act(name)
    for version in ("9", "..", "_states", "../default/1", ".hidden"):
        with pytest.raises(UnknownModelVersionError):
            registry.promote("default", version)


class _Meanwhile:
    """A store in which something happens between two looks of a writer at the changes."""

    def __init__(self, files: FileStore, action: Callable[[], object]) -> None:
        self._files = files
        self._action: Callable[[], object] | None = action

    def write(self, path: str, content: bytes) -> None:
        action, self._action = self._action, None
        if action is not None:
            action()
        self._files.write(path, content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


def _against(
    registry: ModelRegistry, first: Callable[[ModelRegistry], object],
    second: Callable[[ModelRegistry], object],
) -> list[str]:  # fmt: skip
    """Let a second host act after a first has decided and before it has written."""
    told = []
    slow = _Meanwhile(registry.files, lambda: second(_other(registry)))
    try:
        first(ModelRegistry(slow, by="first"))
        told.append("stands")
    except OvertakenError as error:
        told.append(error.message)
    return told


@pytest.mark.parametrize(("first_id", "serving"), [("f", "1"), ("0", "2")])
def test_two_promotions_at_once_end_in_one_and_the_other_is_told(
    registry: ModelRegistry, monkeypatch: pytest.MonkeyPatch, first_id: str, serving: str
) -> None:
    # The first has decided on its identifier when the second writes: neither knows of the other.
    ids = iter([first_id * 16, "8" * 16])
    monkeypatch.setattr(state_log.secrets, "token_hex", lambda _: next(ids))
    (told,) = _against(
        registry, lambda r: r.promote("default", "1"), lambda r: r.promote("default", "2")
    )
    assert _other(registry, "third").serving("default") == serving
    assert (serving == "1") == (told == "stands")
    assert told == "stands" or "by second" in told


def test_a_promotion_during_a_rollback(registry: ModelRegistry) -> None:
    registry.promote("default", "2")
    (told,) = _against(
        registry, lambda r: r.rollback("default"), lambda r: r.promote("default", "1")
    )
    serving = _other(registry, "third").serving("default")
    assert serving in ("4", "1") and (serving == "4") == (told == "stands")


def test_a_version_that_is_collected_while_it_is_promoted(registry: ModelRegistry) -> None:
    for number in "1234":
        registry.promote("default", number)
    # 1 and 2 may go; 3 is what a rollback goes back to.
    (told,) = _against(
        registry, lambda r: r.promote("default", "1"), lambda r: r.collect("default", keep=0)
    )
    assert "removed meanwhile" in told or "rollback" in told
    assert (registry.serving("default"), _states(registry).keys()) == ("4", {"3", "4"})


def test_a_version_that_is_collected_while_it_is_loaded(registry: ModelRegistry) -> None:
    for number in "1234":
        registry.promote("default", number)
    with pytest.raises(InvalidInputError, match="is being removed"):
        registry.promote("default", "1", check=lambda: _other(registry).collect("default", keep=0))
    assert registry.serving("default") == "4"


def test_a_version_that_is_promoted_while_it_is_collected(registry: ModelRegistry) -> None:
    for number in "1234":
        registry.promote("default", number)
    _against(registry, lambda r: r.collect("default", keep=1), lambda r: r.promote("default", "1"))
    serving = registry.serving("default")
    assert serving in registry.versions.versions("default"), "what serves was deleted"


def test_many_hosts_at_once_agree(registry: ModelRegistry) -> None:
    made: list[Change] = []

    def act(number: str) -> None:
        host = _other(registry, by=f"host {number}")
        for action in (lambda: host.promote("default", number), lambda: host.rollback("default")):
            try:
                made.append(action())
            except (OvertakenError, InvalidInputError):
                continue

    threads = [threading.Thread(target=act, args=(number,)) for number in "1234"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    hosts = [_other(registry).history("default") for _ in range(3)]
    assert hosts[0] == hosts[1] == hosts[2] == registry.history("default")
    kept = {one.change_id for one in hosts[0].changes}
    assert made and {one.change_id for one in made} <= kept, "a change was lost"


def test_collecting_keeps_what_may_be_needed(registry: ModelRegistry) -> None:
    for number in "1234":
        registry.promote("default", number)
    registry.promote("default", "3")
    # Serving 3, newer 4 (which a rollback goes back to), retired and older: 2 and 1.
    assert registry.collect("default", keep=2) == []
    registry.pins.note("default", "1")
    assert registry.collect("default", keep=0, why="space") == ["2"]
    assert _states(registry) == {"4": "retired", "3": "serving", "1": "retired"}
    assert registry.history("default").changes[-1].why == "space"
    with pytest.raises(UnknownModelVersionError):
        registry.promote("default", "2")
    with pytest.raises(InvalidInputError, match="keep"):
        registry.collect("default", keep=-1)


def test_a_collection_that_died_is_finished_by_the_next(registry: ModelRegistry) -> None:
    for number in "1234":
        registry.promote("default", number)
    # It wrote what it would do, and died.
    registry.log("default").append("1", State.DELETED, action="collect", by="dead")
    with pytest.raises(InvalidInputError, match="being removed"):
        registry.promote("default", "1")
    assert _other(registry).collect("default", keep=9) == ["1"]
    assert "1" not in registry.versions.versions("default")


def test_a_change_that_is_half_written_does_not_count_yet(registry: ModelRegistry) -> None:
    whole = registry.promote("default", "2")
    torn = f"default/_states/0000000009-{'a' * 16}.json"
    registry.files.write(torn, whole.to_bytes()[:40])
    history = _other(registry).history("default")
    assert history.serving == "2" and "0000000009" in history.damaged[0]
    # What comes after it has a number of its own.
    assert registry.promote("default", "3").sequence == 10


def test_pins_are_noted_once_a_day_and_forgotten(files: FileStore) -> None:
    days = [date(2026, 1, 1)]
    pins = PinNotes(files, today=lambda: days[-1])
    assert not pins.is_noted("default", "1")
    pins.note("default", "1")
    pins.note("default", "1")
    assert pins.is_noted("default", "1") and pins.since("default", 7) == {"1"}
    days.append(date(2026, 1, 9))
    assert not pins.is_noted("default", "1")
    assert pins.since("default", 8) == {"1"} and pins.since("default", 7) == set()
    assert files.files("default/_pins") == []
    # A note by a clock that is ahead counts as one of today.
    PinNotes(files, today=lambda: date(2030, 1, 1)).note("default", "2")
    assert pins.since("default", 7) == {"2"}

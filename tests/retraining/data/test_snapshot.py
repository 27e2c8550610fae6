"""What a snapshot lists, and what it says of files that cannot be learned from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from retraining_world import FEW, RetrainingWorld, measurement_of, write_profiles

from perfmodel.errors import TrainingError
from perfmodel.retraining.data.snapshot import take_snapshot
from perfmodel.retraining.data.sources import DataSources
from perfmodel.retraining.settings import RetrainSettings
from perfmodel.store.profiles import ProfileStore
from perfmodel.store.retraining.observed_data import ObservedDataStore


def _sources(world: RetrainingWorld, *profiles: Path, without: tuple[str, ...] = ()) -> list[str]:
    taken = take_snapshot(
        world.folder / "run",
        DataSources(profiles=profiles),
        RetrainSettings(without=without),
        ObservedDataStore(world.database.connections),
        world.said.append,
    )
    return list(taken["sources"])


def test_the_advice_for_a_damaged_journal_file_can_be_followed(world: RetrainingWorld) -> None:
    whole = write_profiles(world.folder / "whole", FEW[:2])
    one = FEW[2]
    store = ProfileStore(world.folder / "p_dmg")
    store.append(measurement_of(one), one.workload.graph)
    (bad,) = store.folder.glob("*/journal/*.json.gz")
    bad.write_bytes(bad.read_bytes()[:-10])
    with pytest.raises(TrainingError, match=re.escape(str(bad))) as refused:
        _sources(world, whole, store.folder)
    (advised,) = re.findall(r"leave out '([^']+)'", refused.value.message)
    assert _sources(world, whole, store.folder, without=(advised,)) == ["whole/made-up-cpu"]


def test_a_folder_has_its_name_however_it_is_put(
    world: RetrainingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_profiles(world.folder / "records", FEW[:2])
    monkeypatch.chdir(folder)
    for put in ((Path("."),), (Path("."), folder, Path("../records"))):
        assert _sources(world, *put) == ["records/made-up-cpu"]

"""Disks that are full while a version is published: real ones, of a few hundred kilobytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from retraining_world import FEW, RetrainingWorld
from small_disks import leave_free, small_disk

from perfmodel.errors import StoreError
from perfmodel.predictors.serving.serving import ServingModel
from perfmodel.store.retraining.retraining_records import RetrainingState

_PAGE = 4096


@pytest.fixture
def models(world: RetrainingWorld) -> Iterator[Path]:
    """A store of models on a small disk of its own; records, runs and database are elsewhere."""
    with small_disk(world.models, 1 << 20) as folder:
        yield folder


def _answers(world: RetrainingWorld) -> list[float]:
    """Ask the version that serves, read anew from the disk."""
    serving = ServingModel.load(world.models / "default" / str(world.registry.serving("default")))
    return [one.time_s for one in serving.predict([sample.workload for sample in FEW])]


def test_a_version_is_published_in_full_or_not_at_all_whatever_is_left_of_the_disk(
    world: RetrainingWorld, models: Path
) -> None:
    first = world.retrain(members=["efficiency"])
    answers = _answers(world)
    claim = world.claim(members=["efficiency"], seed=1)
    free, refused = 0, 0
    while True:
        leave_free(models, free)
        try:
            ending = world.attempt(claim).run()
            break
        except StoreError as error:
            assert "No space left on device" in error.message
        # Nobody sees a part of a version, what serves goes on; a version may be there in full
        # whose promotion did not fit.
        for version in world.registry.versions.versions("default"):
            world.registry.versions.content("default", version)
        assert world.registry.serving("default") == first.version
        assert _answers(world) == answers
        free, refused = free + _PAGE, refused + 1
    assert refused > 5 and ending.state is RetrainingState.DONE
    assert world.registry.serving("default") == ending.version != first.version
    assert set(world.registry.versions.versions("default")) == {first.version, ending.version}
    assert [one.action for one in world.registry.history("default").changes].count("promote") == 2
    # One fit for all attempts.
    assert [line for line in world.said if line == "fit: begins"] == ["fit: begins"] * 2

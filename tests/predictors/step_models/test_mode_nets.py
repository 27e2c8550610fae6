"""Two networks side by side: which steps hear which, and that nothing is lost on the way."""

from __future__ import annotations

from pathlib import Path

import joint_world as world
import numpy as np
import pytest

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.steps.step_table import step_table
from perfmodel.predictors.step_models.mode_nets import ModeNets, is_training
from perfmodel.predictors.step_models.node_settings import NodeNetSettings
from perfmodel.types import Mode

SAMPLES = world.samples()
TABLE, LOGS, WEIGHTS = world.table_of(SAMPLES)
TRAINING = np.array([sample.step.mode is Mode.TRAINING for sample in SAMPLES])
#: The large GPU ran inference alone.
SEEN = ~(TRAINING & np.array([s.step.accelerator.name == "Gpu-L" for s in SAMPLES]))


@pytest.fixture(scope="module")
def nets() -> ModeNets:
    settings = NodeNetSettings(epochs=3)
    return ModeNets.fit(settings, TABLE, LOGS, WEIGHTS, np.flatnonzero(SEEN), fewest=20)


def test_training_steps_are_told_from_inference() -> None:
    assert np.array_equal(is_training(TABLE), TRAINING)


def test_inference_hears_the_network_of_everything_alone(nets: ModeNets) -> None:
    own = np.flatnonzero(~TRAINING)
    assert np.array_equal(nets.log_times(TABLE, own)[0], nets.everything.log_times(TABLE, own)[0])


def test_training_is_the_weighted_mean_of_both(nets: ModeNets) -> None:
    own = np.flatnonzero(TRAINING & SEEN)
    everything, training = nets.training_log_times(TABLE, own)
    nets.training_share = 0.25
    logs, shares = nets.log_times(TABLE, own)
    assert logs == pytest.approx(0.75 * everything + 0.25 * training)
    assert shares.sum(axis=1) == pytest.approx(np.ones(len(own)))


def test_a_device_that_only_ran_inference_hears_the_network_that_knows_it(nets: ModeNets) -> None:
    own = np.flatnonzero(~SEEN)
    assert np.array_equal(nets.log_times(TABLE, own)[0], nets.everything.log_times(TABLE, own)[0])


def test_a_device_without_records_hears_both(nets: ModeNets) -> None:
    new = [s.step for s in world.samples(("Gpu-New",)) if s.step.mode is Mode.TRAINING]
    table = step_table(new)
    assert not np.allclose(nets.log_times(table)[0], nets.everything.log_times(table)[0])


def test_times_of_rows_add_up_to_the_step(nets: ModeNets) -> None:
    for position in (int(np.flatnonzero(TRAINING)[0]), int(np.flatnonzero(~TRAINING)[0])):
        one = step_table([SAMPLES[position].step])
        parts = nets.row_parts(one)
        total = np.log(parts.work_s.sum() + parts.launch_s.sum())
        assert total == pytest.approx(float(nets.log_times(one)[0][0]), abs=1e-5)
        assert total == pytest.approx(float(parts.log_times[0]), abs=1e-5)


def test_the_law_is_learned_for_training_too(nets: ModeNets) -> None:
    own = np.flatnonzero(TRAINING & SEEN)
    assert np.mean(np.abs(nets.log_times(TABLE, own)[0] - LOGS[own])) < 0.1


def test_too_few_training_steps_get_no_network_of_their_own() -> None:
    settings = NodeNetSettings(epochs=1)
    nets = ModeNets.fit(settings, TABLE, LOGS, WEIGHTS, np.flatnonzero(SEEN), fewest=10_000)
    own = np.flatnonzero(TRAINING)
    assert nets.training is None
    assert np.array_equal(nets.log_times(TABLE, own)[0], nets.everything.log_times(TABLE, own)[0])


def test_both_are_read_back(nets: ModeNets, tmp_path: Path) -> None:
    nets.save(tmp_path, "net")
    again = ModeNets.load(tmp_path, "net", training_share=nets.training_share)
    assert np.array_equal(again.log_times(TABLE)[0], nets.log_times(TABLE)[0])
    plain = ModeNets.load(tmp_path, "net", training_share=None)
    assert np.array_equal(plain.log_times(TABLE)[0], nets.everything.log_times(TABLE)[0])
    (tmp_path / "net.training.json").unlink()
    with pytest.raises(DamagedArtifactError):
        ModeNets.load(tmp_path, "net", training_share=0.5)

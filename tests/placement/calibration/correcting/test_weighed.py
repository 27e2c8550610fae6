"""Tests of steps that several residuals explain."""

from __future__ import annotations

import calibration_world as world
import numpy as np
import pytest

from perfmodel.placement.calibration.calibration import Calibration, calibrate
from perfmodel.placement.calibration.correcting.corrected import correct, correct_weighed
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.residual_prior import Noise, ResidualPrior
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.estimate import StepParts

NOISE = Noise(compute=0.03, sync=0.02, sync_share=0.1)
#: As probable that a device is slow as that a host is.
EITHER = ResidualPrior(
    means={}, sds={"device.level.job": 1.0, "host.level.job": 1.0, "fixed.level.job": 0.1},
    noise=NOISE,
)  # fmt: skip


def alone(compute_s: float, machine: str, *, input_s: float = 0.0) -> StepCells:
    return StepCells.of_job(
        StepParts.of(np.array([compute_s])), batch_size=8, ranks=1, hosts=1, largest_share=1,
        host_s=1.0, input_s=input_s, job="job", machine=machine,
    )  # fmt: skip


def observed(cells: StepCells, step_time_s: float, prior: ResidualPrior) -> Calibration:
    return calibrate(world.seen(cells, step_time_s), prior)


def test_a_step_that_device_or_host_may_slow_is_answered_between_both() -> None:
    # Four times as long as predicted where device and host are predicted to take equally long.
    found = observed(alone(1.0, "slow"), 4.0, EITHER)
    assert len(found.weighed) == 2
    fast = alone(0.1, "fast")
    each = [correct([one.posterior], fast) for one in found.weighed]
    device_s, host_s = sorted(float(one.parts.step_time_s[0]) for one in each)
    answered = found.apply(fast)
    assert device_s < float(answered.parts.step_time_s[0]) < host_s
    shares = np.array([one.share for one in found.weighed])
    assert shares.sum() == pytest.approx(1.0)
    logs = np.log([one.parts.step_time_s[0] for one in each])
    sds = np.array([one.log_sd[0] for one in each])
    mean = shares @ logs
    assert np.log(answered.parts.step_time_s[0]) == pytest.approx(mean)
    assert answered.log_sd[0] == pytest.approx(np.sqrt(shares @ (sds**2 + (logs - mean) ** 2)))
    # What was observed is answered alike by both.
    assert found.apply(alone(1.0, "slow")).parts.step_time_s == pytest.approx(4.0, rel=0.05)


def test_another_observation_tells_which_it_is() -> None:
    # On a device ten times as fast the step is as short as the device: it was not the host.
    both = ObservedSteps.join(
        [
            world.seen(alone(1.0, "slow"), 4.0),
            world.seen(alone(0.1, "fast"), 0.4),
        ]
    )
    found = calibrate(both, EITHER)
    assert found.weighed[0].share > 0.9


def test_a_script_that_its_input_holds_up_is_held_up_everywhere() -> None:
    sds = {"device.level.job": 1.5, "device.level.own": 0.2, "feed.level.job": 0.5}
    prior = ResidualPrior(means={"host": -9.0, "fixed": -9.0}, sds=sds, noise=NOISE)
    # Two seconds of input beside a tenth of a second of work: 2.5 s were seen.
    fed = observed(alone(0.1, "fast", input_s=2.0), 2.5, prior)
    slow = fed.apply(alone(0.5, "slow", input_s=2.0)).parts.step_time_s
    assert slow == pytest.approx(2.5, rel=0.1)
    # Without any the device is slow, and slower elsewhere.
    starved = observed(alone(0.1, "fast"), 2.5, prior)
    assert starved.apply(alone(0.5, "slow")).parts.step_time_s > 8.0


def test_steps_of_one_residual_are_as_they_are_alone() -> None:
    several = observed(alone(1.0, "slow"), 4.0, EITHER)
    one = observed(alone(1.0, "slow"), 1.1, EITHER)
    assert len(several.weighed) == 2 and len(one.weighed) == 1
    cells = StepCells.join([alone(0.1, "fast"), alone(0.3, "other"), alone(0.1, "fast")])
    found = correct_weighed([several.weighed, one.weighed], cells, np.array([0, 1, 1]))
    for rows, calibration in (([0], several), ([1, 2], one)):
        expected = calibration.apply(cells.take(np.array(rows)))
        # To the bit: what others are asked about beside it is of no matter.
        assert found.take(np.array(rows)).log_sd.tolist() == expected.log_sd.tolist()
        answered = found.take(np.array(rows)).parts.step_time_s
        assert answered.tolist() == expected.parts.step_time_s.tolist()

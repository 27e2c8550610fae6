"""Tests of what is believed of scripts that were not observed."""

from __future__ import annotations

import math
from dataclasses import replace

import calibration_world as world
import numpy as np
import pytest

from perfmodel.errors import DamagedArtifactError
from perfmodel.placement.calibration.calibration import calibrate
from perfmodel.placement.calibration.correcting.unobserved_script import (
    UnobservedScript,
    typical_script,
)
from perfmodel.placement.calibration.script_gap import LinkGap, ScriptGap, fitted_gap
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field
from perfmodel.placement.estimate import StepParts
from perfmodel.placement.fitted.forms import as_plain, read_constants

#: Of 2 to 8 ranks on up to 2 hosts: e times as long over 2 ranks, and e^0.5 for each doubling.
LINK = LinkGap(
    least=(2.0, 1.0, 1.0),
    most=(8.0, 2.0, 8.0),
    communication=(0.5, 0.5 / math.log(2), 0.0, 0.0),
    tail=-0.3,
)
GAP = ScriptGap(
    usual={Field.DEVICE: 0.5, Field.HOST: 1.5},
    machines={"slow": {Field.DEVICE: 0.9, Field.HOST: 1.5}},
    jobs={"slow": 3},
    sds={Field.DEVICE: 0.8, Field.HOST: 0.4},
    links={"slow": {"wire": LINK}},
)
NOTHING = replace(
    GAP,
    usual={Field.DEVICE: 0.0, Field.HOST: 0.0},
    machines={"slow": {Field.DEVICE: 0.0, Field.HOST: 0.0}},
)


def alone(*, host_s: float, machine: str = "known to nobody", compute_s: float = 1.0) -> StepCells:
    """Return one step of a second on one accelerator."""
    return StepCells.of_job(
        StepParts.of(np.array([compute_s])), batch_size=64, ranks=1, hosts=1, largest_share=1,
        host_s=host_s, machine=machine,
    )  # fmt: skip


def longer(cells: StepCells, gap: ScriptGap = GAP) -> float:
    """Return the logarithm of how many times as long a step is."""
    said = UnobservedScript(world.PRIOR.of_scripts(gap)).apply(cells)
    return float(np.log(said.parts.step_time_s / cells.parts.step_time_s)[0])


def test_a_step_of_the_device_is_longer_by_the_device_alone():
    # A host of a microsecond is never waited for.
    assert longer(alone(host_s=1e-6)) == pytest.approx(0.5, abs=0.01)
    assert longer(alone(host_s=1e-6, machine="slow")) == pytest.approx(0.9, abs=0.01)


def test_a_step_of_the_host_is_longer_by_the_host_alone():
    assert longer(alone(host_s=1000.0)) == pytest.approx(1.5, abs=0.01)


def test_between_both_the_longer_one_decides_more():
    # A second each: before 2^(1/q), after (e^(0.5 q) + e^(1.5 q))^(1/q), with q = 2.5.
    before, after = np.log(2) / 2.5, np.logaddexp(1.25, 3.75) / 2.5
    assert longer(alone(host_s=1.0)) == pytest.approx(after - before, abs=0.01)


def test_without_a_gap_a_step_takes_as_long_as_predicted():
    for host_s in (1e-6, 1.0, 1000.0):
        assert longer(alone(host_s=host_s), NOTHING) == pytest.approx(0.0, abs=1e-12)


def test_the_interval_is_as_wide_as_what_the_step_waits_for():
    script = UnobservedScript(world.PRIOR.of_scripts(GAP))
    # Noise of cells and of measuring, 0.03 each, beside 0.8 and 0.4.
    noise = np.hypot(0.03, world.PRIOR.noise.repeat)
    device, host = (float(script.apply(alone(host_s=h)).log_sd[0]) for h in (1e-6, 1000.0))
    assert device == pytest.approx(np.hypot(0.8, noise), rel=0.01)
    assert host == pytest.approx(np.hypot(0.4, noise), rel=0.01)


def test_an_observed_script_is_echoed_and_the_gap_carries_to_other_kinds():
    # Twice as long as predicted where scripts take e^0.5: on the slow kind e^0.4 times as much.
    cells = alone(host_s=1e-6, machine="fast")
    found = calibrate(world.seen(cells, 2.0), world.PRIOR.of_scripts(GAP))
    assert found.apply(cells).parts.step_time_s[0] == pytest.approx(2.0, rel=0.02)
    there = alone(host_s=1e-6, machine="slow")
    scripts = found.apply(there).parts.step_time_s[0]
    assert np.log(scripts) == pytest.approx(0.9, abs=0.02)
    # Nothing is common to both kinds in this prior: without a gap it stays as predicted.
    plain = calibrate(world.seen(cells, 2.0), world.PRIOR).apply(there).parts.step_time_s[0]
    assert np.log(plain) == pytest.approx(0.0, abs=0.02)


def test_links_of_tables_are_slower_by_what_their_jobs_take():
    cells = world.cells(((4, 1, 4), (16, 4, 4)), (32,))
    there = replace(cells, machine=np.full(2, "slow"), fabric=np.full(2, "wire"))
    mean = GAP.mean(there)
    # 0.5 + 0.5 for each doubling; 16 ranks on 4 hosts are taken for 8 on 2.
    assert mean[Field.COMMUNICATION].tolist() == pytest.approx([1.5, 2.0])
    assert mean[Field.TAIL].tolist() == [-0.3, -0.3]
    said = UnobservedScript(world.PRIOR.of_scripts(GAP)).apply(there)
    longer = np.log(said.parts.communication_s / there.parts.communication_s)
    assert longer.tolist() == pytest.approx([1.5, 2.0])


@pytest.mark.parametrize(("machine", "fabric"), [("slow", "another"), ("another", "wire")])
def test_links_that_no_table_has_are_left_alone(machine: str, fabric: str):
    cells = world.cells(((4, 1, 4),), (32,))
    there = replace(cells, machine=np.full(1, machine), fabric=np.full(1, fabric))
    assert not GAP.mean(there)[[Field.COMMUNICATION, Field.TAIL]].any()
    assert GAP.over(machine, fabric) is None


def test_a_gap_is_stored_and_read():
    assert read_constants(ScriptGap, as_plain(GAP)) == GAP
    broken = as_plain(GAP)
    broken["links"]["slow"]["wire"]["communication"] = (0.5, 0.2)
    with pytest.raises(DamagedArtifactError, match="2 numbers where 4 are needed"):
        read_constants(ScriptGap, broken)
    with pytest.raises(DamagedArtifactError, match="ScriptGap cannot be read"):
        read_constants(ScriptGap, {"usual": {"device": 1.0}})


def test_scripts_are_longer_on_every_kind_that_tables_have():
    gap = fitted_gap()
    assert {"K80", "T4", "V100-SXM2-16GB"} <= gap.machines.keys()
    for mean in (gap.usual, *gap.machines.values()):
        assert all(0 < value < 3 for value in mean.values())
    # That a K80 is slower beside a V100 than its specification lets expect, the predictor knows:
    # it has learned from steps on it, and little of that is left to scripts. (One job, with a step
    # that takes 2.4 times as long on a V100 alone, moves the two by 0.1 against each other.)
    both = [gap.machines[name][Field.DEVICE] for name in ("K80", "V100-SXM2-16GB")]
    assert both[0] == pytest.approx(both[1], abs=0.2)
    assert typical_script().gap is gap


def test_links_were_learned_where_synchronisation_was_logged():
    gap = fitted_gap()
    # In Sia's tables, not in Gavel's.
    assert gap.links.keys() == gap.machines.keys() - {"K80", "V100-SXM2-16GB"}
    # A host of its cluster has four T4; its network was seen between two to four of them.
    assert gap.links["T4"]["pcie|"].most == (4.0, 1.0, 4.0)
    assert gap.links["T4"]["pcie|eth-50g"].most == (16.0, 4.0, 4.0)

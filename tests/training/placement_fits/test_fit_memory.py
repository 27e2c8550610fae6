from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from placement_accuracy.memory import held_out

from perfmodel.devices.catalog import Catalog
from perfmodel.graph.job import Job
from perfmodel.placement.memory.memory import memory_columns
from perfmodel.placement.memory.memory_demand import constants_for
from perfmodel.placement.memory.memory_parts import memory_parts
from perfmodel.placement.memory.memory_profile import MemoryProfile
from perfmodel.training.placement_fits.fit_memory import fit_rows
from perfmodel.training.placement_rows.memory_rows import MemoryRow
from perfmodel.types import Mode

CATALOG = Catalog.default()
DEVICES = ("RTX-3090", "A100-SXM4-80GB", "V100-SXM2-32GB", "RTX-A6000")
#: Times the activations that the runs of each workload really keep.
TRUE_FACTORS = {"zoo/even": 1.0, "zoo/uneven": 1.8, "zoo/plain": 1.1}


def _profile(batch: int) -> MemoryProfile:
    return MemoryProfile(
        parameter_bytes=1e9,
        buffer_bytes=0.0,
        input_bytes=1e6 * batch,
        optimizer_state_bytes=2e9,
        gradient_bytes=1e9,
        activation_corners=np.array([1e8 * batch]),
        gradient_corners=np.array([1e8]),
        optimizer_bytes=0.0,
        largest_parameter_bytes=1e8,
        reserved_ratio=1.0,
    )


def _row(model: str, device: str, batch: int) -> MemoryRow:
    """Make a run that keeps 1.2 GB of runtime, or does not fit into its device."""
    spec, profile = CATALOG.get(device), _profile(batch)
    activations = TRUE_FACTORS[model] * 1e8 * batch
    need = 1.2e9 + profile.held_bytes + max(activations + 1e8, 1e9)
    shown = need if need < spec.memory_bytes else math.nan
    job = Job(model=model, mode=Mode.TRAINING, batch_size=batch, software={"torch": "2.1.0"})
    return MemoryRow(job=job, profile=profile, accelerator=spec, count=1, memory_bytes=shown)


ROWS = [
    _row(model, device, batch)
    for model in TRUE_FACTORS
    for device in DEVICES
    for batch in (40, 80, 120, 160, 200, 300, 400)
]


def test_the_fit_finds_what_stands_around_the_tensors() -> None:
    constants = fit_rows(ROWS)
    scale = 1 + constants["scattered_share"]
    for model, truth in TRUE_FACTORS.items():
        assert constants["workloads"][model]["full"] * scale == pytest.approx(truth, rel=0.08)
    # What all workloads share leaves more open than what each has of its own.
    assert constants["common"]["deviation"] > constants["deviation"]


def test_a_device_left_out_is_answered() -> None:
    held = held_out(ROWS, lambda row: row.accelerator.name)
    with_room = [
        position
        for position, row in enumerate(ROWS)
        if row.memory_bytes < 0.8 * row.accelerator.memory_bytes
    ]
    measured = np.array([ROWS[position].memory_bytes for position in with_room])
    assert np.abs(held.peak_bytes[with_room] / measured - 1).mean() < 0.03
    assert held.false_fits < 0.05
    assert held.false_refusals < 0.15


def test_no_answer_uses_its_own_measurement() -> None:
    changed = [
        dataclasses.replace(row, memory_bytes=row.memory_bytes * 0.5)
        if row.accelerator.name == "RTX-3090"
        else row
        for row in ROWS
    ]
    own = np.array([row.accelerator.name == "RTX-3090" for row in ROWS])
    before, after = (
        held_out(rows, lambda row: row.accelerator.name).peak_bytes for rows in (ROWS, changed)
    )
    assert before[own].tolist() == after[own].tolist()


def test_constants_of_the_package_have_what_an_answer_reads() -> None:
    constants = constants_for(None, fit_rows(ROWS))
    columns = memory_columns(
        memory_parts(_profile(10)), [CATALOG.get("RTX-3090")], constants=constants
    )
    assert columns.peak_bytes[0] > 4e9


def test_replicas_that_share_no_gradients_count_as_one() -> None:
    row = dataclasses.replace(ROWS[0], count=8)
    alone = dataclasses.replace(
        row, job=dataclasses.replace(row.job, model="zoo/transformer-xl-base")
    )
    assert (row.replicas, alone.replicas) == (8, 1)

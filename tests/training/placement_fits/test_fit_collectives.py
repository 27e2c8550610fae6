import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmodel.importers.published import Origin, PublishedCollective
from perfmodel.placement.collectives.collective_constants import Collective, CollectiveConstants
from perfmodel.placement.fitted.forms import as_plain
from perfmodel.placement.topology.links import LinkClass
from perfmodel.training.placement_fits.fit_collectives import fit_constants
from perfmodel.training.placement_rows.collective_rows import CollectiveCells, cells_of, read_cells

DEVICES = {"A100-SXM4-80GB": "nvswitch8", "H100-SXM5-80GB": "nvswitch8"}


def made_up_cells(constants: CollectiveConstants) -> CollectiveCells:
    """Return the times that constants give four operations on two devices."""
    operations = (
        Collective.ALL_REDUCE,
        Collective.ALL_GATHER,
        Collective.REDUCE_SCATTER,
        Collective.ALL_TO_ALL,
    )
    records = [
        PublishedCollective(
            collective=op.value,
            accelerator=device,
            ranks=ranks,
            hosts=1,
            size_bytes=float(size),
            time_s=1.0,
            topology=topology,
            origin=Origin(source="made up", licence="none"),
            backend="nccl",
            dtype="half",
        )
        for op in operations
        for device, topology in DEVICES.items()
        for ranks in (2, 4, 8)
        for size in np.exp2(np.arange(10, 31, 2))
    ]
    cells = cells_of(records)
    return replace(cells, time_s=cells.predicted_s(constants))


def changed(values: dict[str, Any]) -> CollectiveConstants:
    """Return constants of a world with slower switches than ours."""
    values["efficiency"]["nvswitch"] = dict.fromkeys(values["efficiency"]["nvswitch"], 0.6)
    values["link_latency_s"] = {"nvswitch3": 3e-6, "nvswitch4": 2e-6}
    return CollectiveConstants.from_dict(values)


def test_a_fit_finds_the_world_that_made_the_times() -> None:
    world = changed(as_plain(CollectiveConstants.fitted()))
    cells = made_up_cells(world)
    found = fit_constants(cells)
    errors = np.abs(cells.predicted_s(found) / cells.time_s - 1)
    assert errors.mean() < 0.03
    assert found.efficiency[LinkClass.NVSWITCH][Collective.ALL_GATHER] == pytest.approx(
        0.6, rel=0.1
    )
    # What has no row keeps its prior.
    assert found.fill_scale[LinkClass.XGMI] == pytest.approx(1.0, rel=0.01)


def test_shipped_constants_fit_the_tables() -> None:
    folder = os.environ.get("PERFMODEL_DATA")
    if not folder:
        pytest.skip("PERFMODEL_DATA is not set")
    cells = read_cells(Path(folder))
    plain = cells.take(cells.plain)
    errors = np.abs(plain.predicted_s(CollectiveConstants.fitted()) / plain.time_s - 1)
    assert errors.mean() < 0.09

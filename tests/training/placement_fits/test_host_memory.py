from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_up_process_records import CORE

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.codec import spec_from_dict
from perfmodel.importers.own_profiles import HOST_MEMORY, SHARED_CORES
from perfmodel.importers.published import Origin, PublishedCollective
from perfmodel.placement.collectives.collective_constants import CollectiveConstants
from perfmodel.placement.topology.links import LinkClass
from perfmodel.training.placement_fits.fit_collectives import fit_constants
from perfmodel.training.placement_rows.collective_rows import CollectiveCells, cells_of

HOST = LinkClass.HOST_MEMORY
CATALOG = Catalog.default().with_device(spec_from_dict(CORE))
SHIPPED = CollectiveConstants.fitted()
#: The world that the rows below come from.
TRUE = replace(
    SHIPPED,
    efficiency={**SHIPPED.efficiency, HOST: dict.fromkeys(SHIPPED.operations, 0.4)},
    fill_scale={**SHIPPED.fill_scale, HOST: 1.0},
    latency_scale={**SHIPPED.latency_scale, HOST: 1.0},
    link_latency_s={**SHIPPED.link_latency_s, "host-memory": 1e-4},
)


def _records(**changed: object) -> list[PublishedCollective]:
    fields = {
        "accelerator": "cpu-made-up-1c", "hosts": 1, "time_s": 1.0, "topology": HOST_MEMORY,
        "backend": "gloo 2.13.0", "dtype": "float32",
        "origin": Origin(source="made up", licence="none"), **changed,
    }  # fmt: skip
    return [
        PublishedCollective(collective=op, ranks=ranks, size_bytes=size, **fields)  # type: ignore[arg-type]
        for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
        for ranks in (2, 4)
        for size in (1e3, 1e5, 1e7, 1e8)
    ]


def _cells() -> CollectiveCells:
    cells = cells_of(_records(), CATALOG)
    return replace(cells, time_s=cells.predicted_s(TRUE))


def test_ranks_on_cores_have_a_link_of_their_own() -> None:
    cells = _cells()
    assert set(cells.links.tolist()) == {"host-memory"}
    assert set(cells.groups.intra_class.tolist()) == {int(HOST)}
    # Each byte is written and read on either side: a quarter of 8 GB/s.
    assert cells.groups.intra_bytes_per_s[0] == 2e9
    assert cells.plain.all()
    assert not cells_of(_records(topology=SHARED_CORES), CATALOG).plain.any()


def test_they_are_fitted_and_accelerators_stay_as_they_are() -> None:
    accelerators = cells_of(
        [
            PublishedCollective(
                collective="all_reduce", accelerator="H100-SXM5-80GB", ranks=8, hosts=1,
                size_bytes=size, time_s=3e-5 + size / 4e11, topology="nvswitch8",
                backend="nccl 2.0 NCCL", dtype="half",
                origin=Origin(source="made up", licence="none"),
            )
            for size in (1e4, 1e6, 1e8)
        ]
    )  # fmt: skip
    without = fit_constants(accelerators)
    both = fit_constants(_joined(accelerators, _cells()))
    for link in set(LinkClass) - {HOST, LinkClass.NONE}:
        assert both.efficiency[link] == without.efficiency[link]
    assert both.operations == without.operations
    off = np.log(_cells().predicted_s(both) / _cells().predicted_s(TRUE))
    assert np.abs(off).max() < 0.25
    assert np.abs(np.log(_cells().predicted_s(without) / _cells().predicted_s(TRUE))).max() > 0.4


def test_without_rows_the_prior_stands() -> None:
    known = fit_constants(cells_of(_records(topology=SHARED_CORES), CATALOG))
    assert list(known.efficiency[HOST].values()) == pytest.approx([0.2] * 6)
    assert known.link_latency_s["host-memory"] == pytest.approx(2e-5)


def _joined(first: CollectiveCells, second: CollectiveCells) -> CollectiveCells:
    from perfmodel.placement.fabric.groups import CommGroups

    return CollectiveCells(
        groups=CommGroups.join([first.groups, second.groups]),
        **{
            name: np.concatenate([getattr(first, name), getattr(second, name)])
            for name in (
                "collectives", "accelerators", "links", "size_bytes", "time_s", "plain",
            )
        },
    )  # fmt: skip

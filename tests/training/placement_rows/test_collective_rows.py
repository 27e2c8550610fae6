from typing import Any

import numpy as np
import pytest

from perfmodel.errors import TrainingError
from perfmodel.importers.published import Origin, PublishedCollective
from perfmodel.placement.collectives.collective_constants import Collective, CollectiveConstants
from perfmodel.placement.fitted.forms import as_plain
from perfmodel.placement.topology.links import LINKS, LinkClass
from perfmodel.training.placement_rows.collective_rows import cells_of


def record(**changed: Any) -> PublishedCollective:
    """Return a made-up all-reduce of 1 MiB between four H100."""
    fields: dict[str, Any] = {
        "collective": "all_reduce", "accelerator": "H100-SXM5-80GB", "ranks": 4, "hosts": 1,
        "size_bytes": 2.0**20, "time_s": 3e-5, "topology": "nvswitch8", "backend": "nccl 2.0 NCCL",
        "dtype": "half", "origin": Origin(source="made up", licence="none"),
    }  # fmt: skip
    return PublishedCollective(**(fields | changed))


def test_versions_of_a_library_are_one_median() -> None:
    times = (3e-5, 5e-5, 4e-5)
    cells = cells_of([record(time_s=t, backend=f"nccl {i} NCCL") for i, t in enumerate(times)])
    assert cells.time_s.tolist() == [4e-5]
    assert cells.pairs == ["H100-SXM5-80GB all_reduce"]


def test_kernels_of_serving_frameworks_and_small_integers_are_left_out() -> None:
    kept = record()
    others = [record(backend="vllm 0.1 custom", time_s=1.0), record(dtype="int8", time_s=1.0)]
    assert cells_of([kept, *others]).time_s.tolist() == [kept.time_s]
    with pytest.raises(TrainingError, match="NCCL"):
        cells_of(others)


def test_topologies_mean_links() -> None:
    cells = cells_of(
        [
            record(),
            record(topology="h100_pairwise_nvlink", size_bytes=2.0**23, ranks=2),
            record(topology="h100_pairwise_nvlink", size_bytes=2.0**23, ranks=4),
            record(accelerator="Arc-Pro-B60", topology="pcie", backend="oneccl 1 oneCCL"),
        ]
    )
    found = {
        (link, int(ranks)): (int(kind), rate)
        for link, ranks, kind, rate in zip(
            cells.links.tolist(),
            cells.groups.ranks.tolist(),
            cells.groups.intra_class.tolist(),
            cells.groups.intra_bytes_per_s.tolist(),
            strict=True,
        )
    }
    pair = int(LinkClass.NVLINK_PAIR)
    assert found == {
        ("nvswitch4", 4): (int(LinkClass.NVSWITCH), 450e9),
        ("nvlink4-bridge", 2): (pair, 300e9),
        # Four cards of two bridges meet over PCIe 5 x16, 63 GB/s.
        ("nvlink4-bridge", 4): (pair, 63e9),
        ("pcie5-x8", 4): (int(LinkClass.PCIE), 31.5e9),
    }


def test_a_fit_begins_with_the_latencies_that_are_stated() -> None:
    cells = cells_of([record()])
    assert cells.groups.intra_latency_s.tolist() == [LINKS["nvswitch4"].latency_s]


def test_rows_that_show_something_else_are_marked() -> None:
    cells = cells_of(
        [
            record(topology="h100_dgx", size_bytes=4096.0),  # launches of the host
            record(topology="h100_dgx", size_bytes=2.0**24),
            record(topology="nvswitch8", size_bytes=4096.0),
            record(
                accelerator="A40", topology="a40_pairwise_nvlink", collective="send_recv", ranks=2
            ),
        ]
    )
    # in the order of (operation, device, topology, ranks, hosts, size)
    assert cells.plain.tolist() == [False, True, True, False]


def test_answers_use_the_learned_latencies_of_links() -> None:
    cells = cells_of([record(size_bytes=512.0)])
    known = CollectiveConstants.fitted()
    slower = CollectiveConstants.from_dict(
        {**as_plain(known), "link_latency_s": {"nvswitch4": 2 * known.link_latency_s["nvswitch4"]}}
    )
    # A short message is all latency.
    ratio = cells.predicted_s(slower) / cells.predicted_s(known)
    assert np.all((ratio > 1.9) & (ratio < 2.05))
    assert next(cells.by_collective())[0] is Collective.ALL_REDUCE

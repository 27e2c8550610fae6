from __future__ import annotations

import numpy as np
import pytest

from perfmodel.placement.collectives.collectives import Collective, collective_time_s
from perfmodel.placement.collectives.form_curves import FormCurve, fastest_s, form_curves
from perfmodel.placement.topology.groups import CommGroups, LinkClass, join_groups

SIZES = (0.0, 1.0, 4e3, 1e6, 2.6e7, 1e9)


def groups() -> CommGroups:
    """One rank, one host of each link, and three hosts."""
    hosts = [
        CommGroups.one_host([1, 2, 8], link, rate, 2e-6)
        for link, rate in ((LinkClass.NVSWITCH, 4.5e11), (LinkClass.PCIE, 1.2e10))
    ]
    spread = CommGroups(
        ranks=np.array([12.0, 3.0]), hosts=np.array([3.0, 3.0]),
        largest_share=np.array([4.0, 1.0]), smallest_share=np.array([4.0, 1.0]),
        intra_class=np.full(2, int(LinkClass.NVLINK)), inter_class=np.full(2, int(LinkClass.RDMA)),
        intra_bytes_per_s=np.full(2, 1.5e11), intra_latency_s=np.full(2, 2e-6),
        inter_bytes_per_s=np.full(2, 2.5e10), inter_latency_s=np.full(2, 4e-6),
    )  # fmt: skip
    return join_groups([*hosts, spread])


@pytest.mark.parametrize(
    "collective", [Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER]
)
def test_curves_are_the_columns_in_plain_numbers(collective: Collective) -> None:
    asked = groups()
    for row, curves in enumerate(form_curves(collective, asked)):
        one = asked.take(np.array([row]))
        for size, found in zip(SIZES, fastest_s(curves, SIZES), strict=True):
            assert found == collective_time_s(collective, size, one)[0]


def test_one_rank_has_no_curves() -> None:
    first, *others = form_curves(Collective.ALL_REDUCE, groups())
    assert first == ()
    assert fastest_s(first, [1e9]) == [0.0]
    assert all(len(curves) >= 2 for curves in others[:2])


def test_a_knee_gives_back_what_is_not_yet_paid() -> None:
    # 1e-5 + 1e-9 * 1e4 - 4e-10 / (1e-5 + 3e-5) = 1e-5 + 1e-5 - 1e-5.
    curve = FormCurve(1e-5, 1e-9, ((4e-10, 3e-5),))
    assert fastest_s([curve], [1e4]) == [pytest.approx(1e-5)]

from __future__ import annotations

import numpy as np

from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.topology.links import LinkClass


def test_groups_inside_one_host_share_no_network() -> None:
    groups = CommGroups.one_host([1, 4], LinkClass.PCIE, [1e10, 2e10], 5e-6)
    assert groups.largest_share.tolist() == [1, 4]
    assert groups.intra_bytes_per_s.tolist() == [1e10, 2e10]
    assert groups.intra_latency_s.tolist() == [5e-6, 5e-6]
    assert np.isinf(groups.inter_bytes_per_s).all()
    assert groups.inter_class.tolist() == [LinkClass.NONE, LinkClass.NONE]


def test_groups_are_joined_in_order_and_taken_by_mask_or_position() -> None:
    two = CommGroups.one_host([2, 3], LinkClass.PCIE, 1e10)
    one = CommGroups.one_host(8, LinkClass.NVSWITCH, 3e11)
    joined = CommGroups.join([two, one])
    assert joined.ranks.tolist() == [2, 3, 8]
    assert joined.intra_class.tolist() == [LinkClass.PCIE, LinkClass.PCIE, LinkClass.NVSWITCH]
    assert joined.take(joined.ranks > 2).ranks.tolist() == [3, 8]
    assert joined.take(np.array([2, 0])).ranks.tolist() == [8, 2]

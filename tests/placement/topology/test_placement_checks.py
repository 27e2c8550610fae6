from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perfmodel.errors import InvalidPlacementError
from perfmodel.placement.topology.placement_checks import check_placement, resolved_plan
from perfmodel.placement.topology.topology import Network, Node, Placement, Plan, Schedule

EIGHT = Placement(nodes=(Node(accelerator="A100", count=8),))


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"fraction": 0.0}, "/fraction"),
        ({"fraction": float("nan")}, "/fraction"),
        ({"power_limit_w": -1.0}, "/power_limit_w"),
        ({"cpu_cores": 0}, "/cpu_cores"),
        ({"loader_workers": -1}, "/loader_workers"),
        ({"storage_bytes_per_s": float("inf")}, "/storage_bytes_per_s"),
        ({"network": Network(bandwidth_bytes_per_s=0.0)}, "/network/bandwidth_bytes_per_s"),
        ({"network": Network(bandwidth_bytes_per_s=1.0, latency_s=-1.0)}, "/network/latency_s"),
        ({"network": Network(bandwidth_bytes_per_s=1.0, rails=0)}, "/network/rails"),
        (
            {"network": Network(bandwidth_bytes_per_s=1.0, oversubscription=0.9)},
            "/network/oversubscription",
        ),
        ({"plan": Plan(tensor=0)}, "/plan/tensor"),
        ({"plan": Plan(zero_stage=4)}, "/plan/zero_stage"),
        ({"plan": Plan(data=8, tensor=2)}, "/plan/data"),
        ({"plan": Plan(virtual_stages=2)}, "/plan/schedule"),
        ({"plan": Plan(pipeline=2, schedule=Schedule.INTERLEAVED)}, "/plan/virtual_stages"),
    ],
)
def test_placements_made_in_python_are_checked_too(changes: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidPlacementError) as caught:
        check_placement(replace(EIGHT, **changes))
    assert caught.value.pointer == f"/placement{pointer}"


def test_what_makes_sense_is_let_through() -> None:
    check_placement(EIGHT)
    check_placement(replace(EIGHT, fraction=1.0, power_limit_w=250.0, cpu_cores=8))


def test_what_the_other_degrees_leave_over_is_data_parallel() -> None:
    # 8 = 2 tensor x 2 pipeline x 1 context x 2 data.
    assert resolved_plan(replace(EIGHT, plan=Plan(tensor=2, pipeline=2))).data == 2
    stated = Plan(data=2, tensor=4)
    assert resolved_plan(EIGHT, plan=stated) is stated

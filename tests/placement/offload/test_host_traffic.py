"""Copies to and from the memory of a host: arithmetic and laws."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.placement.offload.host_traffic import HostTraffic, copied_bytes_per_s


def test_nothing_offloaded_takes_no_time() -> None:
    none = HostTraffic()
    assert none.exposed_s(np.array([0.1]), np.array([0.2]), 1e9).tolist() == [0.0]
    assert none.update_s == none.pass_bytes == 0


def test_both_directions_of_a_link_are_used_at_once() -> None:
    # Parameters in and activations out take 2 s each way beside a forward pass of 1 s; backward 4 s
    # in and 1 s out beside 2 s.
    both = HostTraffic(parameter_bytes=2e9, activation_bytes=2e9, gradient_bytes=1e9)
    assert both.exposed_s(np.array([1.0]), np.array([2.0]), 1e9).tolist() == [1.0 + 2.0]


def test_a_host_updates_four_billion_parameters_in_a_second() -> None:
    assert HostTraffic(updated=2e9).update_s == pytest.approx(0.5)


def test_a_faster_link_never_hurts() -> None:
    moved = HostTraffic(parameter_bytes=5e9, activation_bytes=3e9, gradient_bytes=9e9)
    rates = np.geomspace(1e9, 1e12, 20)
    late = [float(moved.exposed_s(np.array([0.1]), np.array([0.2]), r)[0]) for r in rates]
    assert late == sorted(late, reverse=True)
    assert late[-1] == 0


def test_links_of_superchips_are_not_slots() -> None:
    known = Catalog.default()
    card, chip = (copied_bytes_per_s(known.get(n)) for n in ("H100-SXM5-80GB", "GH200-96GB"))
    assert card is not None and chip is not None
    # 63 GB/s of a slot of generation 5, and 450 of NVLink-C2C.
    assert chip / card == pytest.approx(450 / 63)
    assert copied_bytes_per_s(known.get("EPYC-9654")) is None
    # The memory of a Jetson is that of its host: nothing is copied, and nothing saved.
    assert copied_bytes_per_s(known.get("Jetson-AGX-Orin-64GB")) is None

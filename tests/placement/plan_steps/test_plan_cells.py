from __future__ import annotations

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.placement.plan_steps.plan_cells import DeviceColumns
from perfmodel.types import Precision


def _score_share(name: str) -> float:
    """Return the part of the peak at which single warps feed the matrix units."""
    columns = DeviceColumns.of([Catalog.default().get(name)], [Precision.BF16])
    return float(columns.score_flops[0] / columns.peak_flops[0])


def test_warps_feed_all_matrix_units_until_ampere() -> None:
    # An A100 adds up 108 cores x 1.41 GHz x 2,048 FLOP = 311.9 TFLOP/s, of a peak of 312.
    assert _score_share("A100-SXM4-80GB") == pytest.approx(1.0, rel=1e-3)
    assert _score_share("RTX-3090") == 1.0


def test_warps_feed_half_of_the_matrix_units_of_hopper() -> None:
    # 132 cores x 1.98 GHz x 2,048 FLOP = 535 TFLOP/s of 989.
    assert _score_share("H100-SXM5-80GB") == pytest.approx(0.54, abs=0.005)


def test_devices_without_warps_reach_their_peak() -> None:
    assert _score_share("TPU-v4") == 1.0

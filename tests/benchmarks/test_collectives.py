from dataclasses import replace

import numpy as np
import pytest
from placement_accuracy.collectives import judged, nearest_answer, ring_answer

from perfmodel.importers.published import Origin, PublishedCollective
from perfmodel.training.placement_rows.collective_rows import CollectiveCells, cells_of


def cells(devices: tuple[str, ...], ranks: tuple[int, ...] = (2, 4)) -> CollectiveCells:
    """Return all-gathers of a ring: 2 us a step, three quarters of the link's rate."""
    records = [
        PublishedCollective(
            collective="all_gather",
            accelerator=device,
            ranks=count,
            hosts=1,
            size_bytes=float(size),
            time_s=1.0,
            topology="nvswitch8",
            origin=Origin(source="made up", licence="none"),
            backend="nccl",
            dtype="half",
        )
        for device in devices
        for count in ranks
        for size in np.exp2(np.arange(10, 31, 4))
    ]
    made = cells_of(records)
    steps, rate = made.groups.ranks - 1, made.groups.intra_bytes_per_s
    wire_s = steps / made.groups.ranks * made.size_bytes / (0.75 * rate)
    return replace(made, time_s=2e-6 * steps + wire_s)


def test_the_ring_is_found_again() -> None:
    seen, asked = cells(("A100-SXM4-80GB",)), cells(("H100-SXM5-80GB",))
    assert ring_answer(seen, asked) == pytest.approx(asked.time_s, rel=1e-3)


def test_the_nearest_table_is_that_of_the_nearest_rate() -> None:
    seen, asked = cells(("A100-SXM4-80GB", "B200-SXM")), cells(("H100-SXM5-80GB",), (2, 8))
    answer = nearest_answer(seen, asked)
    two = asked.groups.ranks == 2
    # 450 is nearer to 300 (a factor of 1.5) than to 900 (2); eight ranks have no table.
    table = seen.take((seen.accelerators == "A100-SXM4-80GB") & (seen.groups.ranks == 2))
    assert answer[two] == pytest.approx(table.time_s)
    assert np.isnan(answer[~two]).all()


def test_what_is_judged_was_not_fitted() -> None:
    whole = cells(("A100-SXM4-80GB", "H100-SXM5-80GB"))
    asked = whole.accelerators == "A100-SXM4-80GB"
    odd = replace(whole, time_s=np.where(asked, 50 * whole.time_s, whole.time_s))
    # The fast judgement leaves out the first word only.
    usual, other = (
        judged(one, one.accelerators, name="x", title="x", target=0.1, fast=True)
        for one in (whole, odd)
    )
    # Rows of the device that is asked about do not change its answer.
    assert np.array_equal(usual.predicted, other.predicted)
    assert set(usual.groups) == {"A100-SXM4-80GB"}
    assert usual.errors().mean() < 0.3

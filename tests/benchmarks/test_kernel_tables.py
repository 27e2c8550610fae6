"""What further tables of kernels are worth: judged on made-up ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from held_out.frozen_folds import is_locked
from kernel_tables import Judged, judge, page
from made_up_kernels import made_up_records


def test_each_device_is_left_out_of_both_tables() -> None:
    learned = made_up_records(40)
    added = [replace(one, time_s=1.1 * one.time_s) for one in learned[::4]]
    found = list(judge(learned, added, ["product", "prefill"], seed=0))
    devices = {one.accelerator for one in learned}
    assert {one.device for one in found} == devices
    assert {one.table for one in found} == {"learned", "added"}
    # No row of prefill, and none that was learned and added both.
    assert {one.question for one in found} == {"product"}
    assert sum(one.rows for one in found) == sum(k.op == "gemm" for k in [*learned, *added])
    assert all(0 < one.without < 1 and 0 < one.beside < 1 for one in found)


def test_the_page_sets_locked_devices_apart() -> None:
    names = ("T4", "A100-PCIe-40GB", "A100-PCIe-80GB", "V100-PCIe-32GB", "P4", "MI100")
    judged = [
        Judged(
            seed=seed, question="product", table="learned", device=name, rows=10,
            without=0.2 + 0.01 * seed, beside=0.1,
        )
        for name in names
        for seed in (0, 1)
    ]  # fmt: skip
    lines = page(judged).splitlines()[2:]
    count = sum(is_locked(name) for name in names)
    # The means of the seeds are 20 and 21 %.
    assert sorted(lines) == [
        f"| product | learned, {lock} | {number} | 20.5 % | 10.0 % | 1.0 % |"
        for lock, number in (("locked", count), ("open", len(names) - count))
    ]
    assert 0 < count < len(names)


def test_a_line_says_what_the_table_changed() -> None:
    one = Judged(
        seed=1, question="moe", table="added", device="T4", rows=7, without=0.25, beside=0.125
    )
    assert str(one) == "1 moe added T4 (7): 25.0 -> 12.5 %"
    assert pytest.approx(one.without) == 2 * one.beside

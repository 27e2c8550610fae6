from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from placement_accuracy.colocation import _factors, evaluate

from perfmodel.placement.sharing.job_load import Loads
from perfmodel.training.placement_fits.fit_colocation import pair_folds
from perfmodel.training.placement_rows.pair_rows import Pairs


def _pairs(kinds: list[str], cells: list[tuple[str, str]], slow: list[float]) -> Pairs:
    loads = Loads(
        step_time_s=np.ones(len(cells)),
        device_share=np.ones(len(cells)),
        log2_batch=np.zeros(len(cells)),
        families=np.full(len(cells), "x"),
    )
    return Pairs(
        kinds=np.array(kinds),
        subjects=np.array([cell[0] for cell in cells]),
        partners=np.array([cell[1] for cell in cells]),
        subject_loads=loads,
        partner_loads=loads,
        step_time_s=np.array(slow),
    )


def test_a_pair_is_left_out_in_both_directions_and_on_both_kinds() -> None:
    jobs = [f"job {i}" for i in range(6)]
    cells = [(a, b) for a in jobs for b in jobs]
    pairs = _pairs(["one"] * 36 + ["two"] * 36, cells * 2, [1.0] * 72)
    folds = dict(zip(zip(pairs.kinds, pairs.subjects, pairs.partners, strict=True),
                     pair_folds(pairs, 3).tolist(), strict=True))  # fmt: skip
    for (_, a, b), fold in folds.items():
        assert {folds[kind, *pair] for kind in ("one", "two") for pair in ((a, b), (b, a))} == {
            fold
        }
    assert set(folds.values()) == {0, 1, 2}


def test_factors_of_a_product_are_found() -> None:
    # Slowdown 2 * 3 of row a and column d is missing; rows differ by 2, columns by 3.
    known = _pairs(["k"] * 3, [("b", "c"), ("b", "d"), ("a", "c")], [1.0, 3.0, 2.0])
    question = _pairs(["k"], [("a", "d")], [6.0])
    assert _factors(known, question)[0] == pytest.approx(6.0, rel=1e-3)


@pytest.mark.skipif("PERFMODEL_DATA" not in os.environ, reason="PERFMODEL_DATA is not set")
def test_unseen_pairs_of_the_public_table() -> None:
    lines = {line.name: line for line in evaluate(Path(os.environ["PERFMODEL_DATA"]), fast=True)}
    unseen = lines["gavel-pairs"]
    assert unseen.errors().mean() < 0.10
    assert all(unseen.errors().mean() < 0.5 * unseen.errors(b).mean() for b in unseen.baselines)
    for name, line in lines.items():
        if name.startswith("gavel-kind") and not name.endswith("-pairs"):
            assert all(line.errors().mean() < line.errors(b).mean() for b in line.baselines)

"""Distance to what was learned from: near points are near, far ones are outside."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.features.steps.whole_step import SHAPE_COLUMNS, WHOLE_COLUMNS
from perfmodel.predictors.joint.novelty import Novelty

_FAMILIES, _GRAPHS = 20, 5


def _world() -> tuple[np.ndarray, list[str], np.ndarray, np.ndarray]:
    """Families around a common middle; every graph is measured twice."""
    rng = np.random.default_rng(0)
    rows, labels, families, graphs = [], [], [], []
    for family in range(_FAMILIES):
        middle = rng.standard_normal(len(WHOLE_COLUMNS))
        for graph in range(_GRAPHS):
            row = middle * (1 + family / 4) + 0.1 * rng.standard_normal(len(WHOLE_COLUMNS))
            for _ in range(2):
                rows.append(row)
                labels.append(f"f{family}-{graph}")
                families.append(f"f{family}")
                graphs.append(family * _GRAPHS + graph)
    found = np.array(rows, dtype=np.float32)
    return found, labels, np.array(families), np.array(graphs, dtype=np.int64)


ROWS, LABELS, FAMILIES, GRAPHS = _world()
NOVELTY = Novelty().fit(ROWS, LABELS, FAMILIES, GRAPHS, LABELS)


def test_a_known_graph_is_its_own_nearest() -> None:
    distance, nearest = NOVELTY.measure(ROWS)
    assert distance == pytest.approx(np.zeros(len(ROWS)), abs=1e-4)
    assert nearest == LABELS
    assert len(NOVELTY.points_) == _FAMILIES * _GRAPHS, "one point a graph"


def test_a_far_point_is_outside() -> None:
    far = ROWS[:1] + np.float32(50.0)
    distance, _ = NOVELTY.measure(far)
    assert distance[0] > NOVELTY.outside_ > 0


def test_columns_of_device_and_settings_do_not_count() -> None:
    others = [i for i in range(len(WHOLE_COLUMNS)) if i not in SHAPE_COLUMNS]
    moved = ROWS[:3].copy()
    moved[:, others] += 1000.0
    assert NOVELTY.measure(moved)[0] == pytest.approx(np.zeros(3), abs=1e-4)


def test_few_graphs_learned_from_lie_outside() -> None:
    # Measured as in learning: from the graphs of other families.
    distance = NOVELTY._to_other_families(FAMILIES[::2])
    assert np.mean(distance > NOVELTY.outside_) <= 0.05


def test_one_family_alone_is_no_error() -> None:
    alone = np.full(len(ROWS), "same")
    found = Novelty().fit(ROWS, LABELS, alone, GRAPHS, LABELS)
    assert np.isfinite(found.outside_)


def test_arrays_hold_everything() -> None:
    back = Novelty.of(NOVELTY.arrays(), NOVELTY.labels_, NOVELTY.jobs_)
    asked = np.concatenate([ROWS[:5], ROWS[:5] + np.float32(1.0)])
    for ours, theirs in zip(NOVELTY.measure(asked), back.measure(asked), strict=True):
        assert np.array_equal(ours, theirs)
    assert back.outside_ == NOVELTY.outside_

"""Boosted trees on whole-graph columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.roofline import node_roofline
from perfmodel.features.tabular import COLUMNS, SCHEMA_VERSION, workload_rows
from perfmodel.graph.workload import Workload
from perfmodel.predictors.boosting import Booster, BoosterSettings
from perfmodel.predictors.predictor import Predictor, Sample
from perfmodel.predictors.predictor_checks import (
    check_samples,
    finite,
    not_below_bound,
    read_json,
    unfitted,
    write_json,
)

DEFAULT_SETTINGS = BoosterSettings(
    rounds=400, depth=4, learning_rate=0.05, column_share=0.3, row_share=0.7
)
#: Fixed part of the base of every node, about one dispatch.
NODE_OVERHEAD_S = 5e-6


@final
class TabularPredictor(Predictor):
    """Learns the factor between a step and its roofline from whole-graph columns.

    ``T = (sum_i roofline_i + overhead * nodes) * exp(trees(x))``. The base carries the size of
    the step, so the trees only need to know how far from it this kind of network stays.
    """

    name: ClassVar[str] = "gbdt"

    def __init__(self, settings: BoosterSettings = DEFAULT_SETTINGS, seed: int = 0) -> None:
        self.settings = replace(settings, seed=seed)
        self.booster_: Booster | None = None
        self.log_limits_: tuple[float, float] = (-20.0, 20.0)

    def fit(self, samples: Sequence[Sample]) -> Self:
        """Grow the trees on the logarithm of time over base."""
        check_samples(samples, least=2)
        workloads = [sample.workload for sample in samples]
        times = np.array([sample.step_time_s for sample in samples])
        target = np.log(times / _base(workloads))
        self.log_limits_ = (float(target.min()) - 1.0, float(target.max()) + 1.0)
        self.booster_ = Booster.train(
            workload_rows(workloads).astype(np.float32),
            target,
            np.array([sample.weight for sample in samples]),
            COLUMNS,
            self.settings,
        )
        return self

    def predict(self, workloads: Sequence[Workload]) -> FloatArray:
        """Return base times learned factor of each workload; one call for all of them."""
        if self.booster_ is None:
            raise unfitted(self.name)
        if not workloads:
            return np.zeros(0)
        factors = self.booster_.predict(workload_rows(workloads).astype(np.float32))
        times = _base(workloads) * np.exp(np.clip(factors, *self.log_limits_))
        return not_below_bound(times, workloads)

    def save(self, folder: Path) -> Mapping[str, Any]:
        """Write the booster and its limits."""
        if self.booster_ is None:
            raise unfitted(self.name)
        self.booster_.save(folder, "gbdt")
        write_json(folder / "gbdt.state.json", {"log_limits": list(self.log_limits_)})
        return {
            "columns": list(COLUMNS),
            "schema_version": SCHEMA_VERSION,
            "trees": self.settings.rounds,
        }

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what :meth:`save` wrote and check the golden rows."""
        path = folder / "gbdt.state.json"
        limits = read_json(path).get("log_limits")
        low, high = limits if isinstance(limits, list) and len(limits) == 2 else (None, None)
        predictor = cls()
        predictor.log_limits_ = (finite(low, path), finite(high, path))
        predictor.booster_ = Booster.load(folder, "gbdt", COLUMNS)
        return predictor


def _base(workloads: Sequence[Workload]) -> FloatArray:
    return np.array(
        [
            node_roofline(w).roofline_s.sum() + NODE_OVERHEAD_S * len(w.graph.nodes)
            for w in workloads
        ]
    )

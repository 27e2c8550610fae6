"""The constant-rate baseline: every step runs at the typical FLOP rate of the training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.nodes import node_table
from perfmodel.graph.workload import Workload
from perfmodel.predictors.predictor import Predictor, Sample
from perfmodel.predictors.predictor_checks import (
    check_samples,
    finite,
    not_below_bound,
    read_json,
    unfitted,
    write_json,
)


@final
class ConstantRatePredictor(Predictor):
    """Divides the work of a step by one rate per mode.

    ``T = F / rate[mode]``, with ``rate`` the geometric mean of ``F / T`` over the training
    samples of that mode (over all of them for a mode that was not seen). It is the baseline
    that any learned predictor has to beat.
    """

    name: ClassVar[str] = "constant"

    def __init__(self) -> None:
        self.rate_: dict[str, float] | None = None

    def fit(self, samples: Sequence[Sample]) -> Self:
        """Average the rates of each mode."""
        check_samples(samples, least=1)
        logs = np.log([_work(s.workload) / s.step_time_s for s in samples])
        weights = np.array([s.weight for s in samples])
        modes = np.array([s.workload.mode.value for s in samples])
        self.rate_ = {"": float(np.exp(np.average(logs, weights=weights)))}
        for mode in sorted(set(modes.tolist())):
            chosen = modes == mode
            mean = np.average(logs[chosen], weights=weights[chosen])
            self.rate_[mode] = float(np.exp(mean))
        return self

    def predict(self, workloads: Sequence[Workload]) -> FloatArray:
        """Return work over rate of each workload."""
        if self.rate_ is None:
            raise unfitted(self.name)
        rates = [self.rate_.get(w.mode.value, self.rate_[""]) for w in workloads]
        times = np.array([_work(w) for w in workloads], dtype=np.float64) / np.array(rates)
        return not_below_bound(times, workloads)

    def save(self, folder: Path) -> Mapping[str, Any]:
        """Write the rates."""
        if self.rate_ is None:
            raise unfitted(self.name)
        write_json(folder / "constant.json", {"flops_per_s": self.rate_})
        return {"flops_per_s": self.rate_}

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the rates."""
        path = folder / "constant.json"
        rates = read_json(path).get("flops_per_s")
        predictor = cls()
        if not isinstance(rates, dict) or "" not in rates:
            from perfmodel.errors import DamagedArtifactError

            raise DamagedArtifactError(f"{path} holds no rates.")
        predictor.rate_ = {mode: finite(rate, path, low=1e-9) for mode, rate in rates.items()}
        return predictor


def _work(workload: Workload) -> float:
    """FLOPs of a step; at least one, so that graphs without arithmetic have a rate."""
    return max(1.0, float(np.asarray(node_table(workload.graph).cost.flops).sum()))

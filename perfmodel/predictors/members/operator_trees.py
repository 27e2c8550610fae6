"""Boosted trees per operator: efficiency of each node, added up and calibrated to the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np
import numpy.typing as npt

from perfmodel.errors import DamagedArtifactError, TrainingError
from perfmodel.features.arrays import FloatArray
from perfmodel.features.node_rows import NodeRows, node_rows
from perfmodel.features.nodes import OP_CLASSES
from perfmodel.features.roofline import NODE_COLUMNS
from perfmodel.graph.workload import Workload
from perfmodel.predictors.boosting import Booster, BoosterSettings
from perfmodel.predictors.members.node_times import class_times
from perfmodel.predictors.members.step_calibration import StepCalibration
from perfmodel.predictors.predictor import Predictor, Sample
from perfmodel.predictors.predictor_checks import (
    check_samples,
    finite,
    not_below_bound,
    read_json,
    scaled_to,
    unfitted,
    write_json,
)

COLUMNS = (*NODE_COLUMNS, "op_typical")

#: Fixed part of a node's time to which the learned factor applies as well, so that nodes
#: without work (views) have a base; about one dispatch.
BASE_OVERHEAD_S = 5e-6
#: Rows of one operator that weigh as much as the mean of its class.
_OPERATOR_PRIOR_ROWS = 20.0
#: Share of the weight of a step that is spread evenly over its operators.
_EVEN_SHARE = 0.2
_SHORTEST_NODE_S = 1e-7

DEFAULT_SETTINGS = BoosterSettings(
    rounds=150, depth=8, learning_rate=0.1, row_share=0.7, column_share=0.4
)


@dataclass(frozen=True)
class _Rows:
    """Training rows of all samples."""

    features: npt.NDArray[np.float32]
    target: FloatArray
    weight: FloatArray
    ops: npt.NDArray[np.str_]
    classes: npt.NDArray[np.int64]


@final
class OperatorPredictor(Predictor):
    """Learns the factor between measured node times and their roofline.

    ``t_i = (roofline_i + overhead) * exp(trees(x_i))`` with node features ``x_i``, trained on
    operator records, weighted by their share of the step; then
    ``step = scale * sum_i t_i + per_node * nodes + per_step`` (:class:`StepCalibration`).
    """

    name: ClassVar[str] = "operators"

    def __init__(self, settings: BoosterSettings = DEFAULT_SETTINGS, seed: int = 0) -> None:
        self.settings = replace(settings, seed=seed)
        self.booster_: Booster | None = None
        self.typical_: dict[str, float] = {}
        self.calibration_ = StepCalibration()

    def fit(self, samples: Sequence[Sample]) -> Self:
        """Learn node factors from operator times and the calibration from step times."""
        check_samples(samples, least=2)
        measured = [sample for sample in samples if sample.node_times_s]
        if not measured:
            raise TrainingError(
                "No sample has operator times; profile with operators, or train 'gbdt' alone."
            )
        rows = _training_rows(measured)
        self.typical_ = _typical(rows)
        self.booster_ = Booster.train(
            _with_typical(rows.features, rows.ops, rows.classes, self.typical_),
            rows.target,
            rows.weight,
            COLUMNS,
            self.settings,
        )
        workloads = [sample.workload for sample in samples]
        self.calibration_ = StepCalibration().fit(
            workloads,
            np.array([times.sum() for times in self._raw_node_times(workloads)]),
            np.array([sample.step_time_s for sample in samples]),
            np.array([sample.weight for sample in samples]),
        )
        return self

    def predict(self, workloads: Sequence[Workload]) -> FloatArray:
        """Return the calibrated sum of node times of each workload."""
        if not workloads:
            return np.zeros(0)
        sums = np.array([times.sum() for times in self._raw_node_times(workloads)])
        return not_below_bound(self.calibration_.step_times(workloads, sums), workloads)

    def predict_nodes(self, workload: Workload) -> FloatArray:
        """Return the time of each node, scaled to add up to the step."""
        times = self._raw_node_times([workload])[0]
        return scaled_to(times, float(self.predict([workload])[0]))

    def _raw_node_times(self, workloads: Sequence[Workload]) -> list[FloatArray]:
        """Node times before the calibration; one call of the trees for all workloads."""
        if self.booster_ is None:
            raise unfitted(self.name)
        rows = [node_rows(workload) for workload in workloads]
        features = np.concatenate([r.features for r in rows])
        ops = np.array([op for r in rows for op in r.ops], dtype=np.str_)
        factors = np.exp(
            self.booster_.predict(_with_typical(features, ops, _classes(features), self.typical_))
        )
        ends = np.cumsum([len(r.features) for r in rows])
        return [
            np.maximum(_base(r) * factor[r.quotient.class_of_node], _SHORTEST_NODE_S)
            for r, factor in zip(rows, np.split(factors, ends[:-1]), strict=True)
        ]

    def save(self, folder: Path) -> Mapping[str, Any]:
        """Write the booster, the operator encoding and the calibration."""
        if self.booster_ is None:
            raise unfitted(self.name)
        self.booster_.save(folder, "operators")
        write_json(
            folder / "operators.state.json",
            {"typical": self.typical_, "calibration": self.calibration_.to_dict()},
        )
        return {"columns": list(COLUMNS), "trees": self.settings.rounds}

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what :meth:`save` wrote and check the golden rows."""
        path = folder / "operators.state.json"
        state = read_json(path)
        predictor = cls()
        predictor.calibration_ = StepCalibration.from_dict(state.get("calibration"), path)
        typical = state.get("typical")
        if not isinstance(typical, dict) or "" not in typical:
            raise DamagedArtifactError(f"{path} holds no operator encoding.")
        predictor.typical_ = {op: finite(value, path) for op, value in typical.items()}
        predictor.booster_ = Booster.load(folder, "operators", COLUMNS)
        return predictor


_CLASS_COLUMNS = [NODE_COLUMNS.index(f"class_{op_class.value}") for op_class in OP_CLASSES]


def _classes(features: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    return np.asarray(features[:, _CLASS_COLUMNS].argmax(axis=1), dtype=np.int64)


def _base(rows: NodeRows) -> FloatArray:
    return rows.roofline.roofline_s + BASE_OVERHEAD_S


def _training_rows(samples: Sequence[Sample]) -> _Rows:
    features, targets, weights = [], [], []
    ops: list[str] = []
    for sample in samples:
        rows = node_rows(sample.workload)
        times = class_times(sample, rows)
        kept = np.flatnonzero(times.measured > 0)
        mean = np.maximum(times.mean_s[kept], _SHORTEST_NODE_S)
        target = np.log(mean / _base(rows)[rows.quotient.representative[kept]])
        total = mean * times.measured[kept]
        even = _EVEN_SHARE * times.measured[kept] / times.measured.sum()
        features.append(rows.features[kept])
        targets.append(target)
        weights.append(sample.weight * (total / total.sum() + even))
        names = rows.ops
        ops.extend(names[row] for row in kept)
    stacked = np.concatenate(features)
    return _Rows(
        features=stacked,
        target=np.concatenate(targets),
        weight=np.concatenate(weights),
        ops=np.array(ops, dtype=np.str_),
        classes=_classes(stacked),
    )


def _typical(rows: _Rows) -> dict[str, float]:
    """Mean target of each operator, drawn to that of its class; ``class/...`` for unseen ones."""
    overall = float(rows.target.mean())
    typical = {"": overall}
    for code, op_class in enumerate(OP_CLASSES):
        chosen = rows.target[rows.classes == code]
        total = chosen.sum() + _OPERATOR_PRIOR_ROWS * overall
        typical[f"class/{op_class.value}"] = float(total / (len(chosen) + _OPERATOR_PRIOR_ROWS))
    for op in sorted(set(rows.ops.tolist())):
        chosen = rows.ops == op
        prior = typical[f"class/{OP_CLASSES[int(rows.classes[chosen][0])].value}"]
        total = rows.target[chosen].sum() + _OPERATOR_PRIOR_ROWS * prior
        typical[op] = float(total / (chosen.sum() + _OPERATOR_PRIOR_ROWS))
    return typical


def _with_typical(
    features: npt.NDArray[np.float32],
    ops: npt.NDArray[np.str_],
    classes: npt.NDArray[np.int64],
    typical: Mapping[str, float],
) -> npt.NDArray[np.float32]:
    of_class = [typical.get(f"class/{c.value}", typical[""]) for c in OP_CLASSES]
    column = [
        typical.get(op, of_class[code])
        for op, code in zip(ops.tolist(), classes.tolist(), strict=True)
    ]
    return np.column_stack([features, np.array(column, dtype=np.float32)]).astype(np.float32)

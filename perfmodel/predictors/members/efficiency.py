"""The roofline with a typical efficiency per operator class: the answer for unseen devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, final

import numpy as np
import numpy.typing as npt

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray
from perfmodel.features.nodes import OP_CLASSES, PHASES, NodeTable, node_table
from perfmodel.features.roofline import (
    PROGRAM_CALL_S,
    PROGRAM_EFFICIENCY,
    is_program,
    node_roofline,
)
from perfmodel.graph.workload import Workload
from perfmodel.predictors.members.step_calibration import non_negative_least_squares
from perfmodel.predictors.predictor import Predictor, Sample
from perfmodel.predictors.predictor_checks import (
    check_samples,
    finite,
    not_below_bound,
    read_json,
    unfitted,
    write_json,
)
from perfmodel.types import Compiler, Phase

#: Assumed shares of the stated peak for kinds of device without any training data. They are
#: an assumption, not a measurement: large products reach 50 to 70 % of a data-sheet peak and
#: streaming operators 70 to 85 % of the data-sheet bandwidth.
ASSUMED_EFFICIENCY: Mapping[str, float] = MappingProxyType(
    {
        "matmul": 0.55, "convolution": 0.45, "attention": 0.40, "recurrent": 0.20,
        "normalization": 0.50, "softmax": 0.60, "pooling": 0.50, "elementwise": 0.75,
        "reduction": 0.60, "movement": 0.65, "indexing": 0.30, "resampling": 0.30,
        "creation": 0.75, "optimizer": 0.70, "view": 1.0, "other": 0.40,
    }
)  # fmt: skip
#: Assumed time between two launches of an eager framework on a device without training data.
ASSUMED_LAUNCH_S = 6e-6

#: What an efficiency belongs to: an operator class in the forward pass, or in the rest of a step,
#: where the same class runs other kernels.
_BACKWARD = "/backward"
SLOTS: tuple[str, ...] = tuple(
    op_class.value + part for part in ("", _BACKWARD) for op_class in OP_CLASSES
)

_EFFICIENCY_LIMITS = (0.005, 1.0)
_PRIOR_SHARE = 0.05


@dataclass(frozen=True, kw_only=True)
class TypicalEfficiency:
    """What one kind of device reaches.

    Parameters
    ----------
    by_class : mapping of str to float
        Share of the roofline rate that operators of each of :data:`SLOTS` reach, in (0, 1].
    launch_s : float
        Overhead of one node, in seconds.
    """

    by_class: Mapping[str, float]
    launch_s: float


ASSUMED = TypicalEfficiency(
    by_class={slot: ASSUMED_EFFICIENCY[slot.removesuffix(_BACKWARD)] for slot in SLOTS},
    launch_s=ASSUMED_LAUNCH_S,
)


@final
class EfficiencyPredictor(Predictor):
    """Divides the roofline of each class of operators by its typical efficiency.

    ``T = sum_c roofline_c / efficiency_c + launch_s * nodes``, with one constant per operator
    class and pass, fitted to whole steps by weighted non-negative least squares. Each kind of
    device has its own constants, and so has each compiler on it that was measured: a compiler
    fuses what the graph lists apart. A kind of device that was never measured gets
    :data:`ASSUMED_EFFICIENCY`; there a launch runs beside the device, and a node takes the
    longer of the two. What runs as one program has one efficiency, and is called once.
    """

    name: ClassVar[str] = "efficiency"

    def __init__(self) -> None:
        self.by_kind_: dict[str, TypicalEfficiency] | None = None

    def fit(self, samples: Sequence[Sample]) -> Self:
        """Fit the constants of every kind of device and compiler in the samples."""
        check_samples(samples, least=1)
        groups: dict[str, list[Sample]] = {}
        for sample in samples:
            groups.setdefault(_group(sample.workload), []).append(sample)
        self.by_kind_ = {group: _fit(groups[group]) for group in sorted(groups)}
        return self

    def knows(self, kind: str) -> bool:
        """Tell whether constants of a kind of device were learned."""
        return any(group.partition("/")[0] == kind for group in self.by_kind_ or ())

    def predict(self, workloads: Sequence[Workload]) -> FloatArray:
        """Return the sum of node times of each workload."""
        times = np.array([self.predict_nodes(w).sum() for w in workloads], dtype=np.float64)
        return not_below_bound(times, workloads)

    def predict_nodes(self, workload: Workload) -> FloatArray:
        """Return roofline over efficiency plus launch of each node."""
        work_s, launch_s = self.node_parts(workload)
        return work_s + launch_s

    def node_parts(self, workload: Workload) -> tuple[FloatArray, FloatArray]:
        """Return work and launch of each node; of what runs side by side only the longer."""
        if self.by_kind_ is None:
            raise unfitted(self.name)
        typical = self._typical(workload)
        table = node_table(workload.graph)
        if typical is ASSUMED and is_program(workload):
            work = node_roofline(workload).roofline_s / PROGRAM_EFFICIENCY
            call = np.zeros(len(work))
            call[:1] = PROGRAM_CALL_S
            return work, call
        shares = np.array([typical.by_class[slot] for slot in SLOTS])
        work = node_roofline(workload).roofline_s / shares[_slots(table)]
        if typical is not ASSUMED:
            return work, np.full(len(work), typical.launch_s)
        works = ~table.is_view & (work >= typical.launch_s)
        launches = np.where(table.is_view | works, 0.0, typical.launch_s)
        return np.where(works, work, 0.0), launches

    def _typical(self, workload: Workload) -> TypicalEfficiency:
        """Take the constants of device and compiler, else of the device, else the assumed ones."""
        learned = self.by_kind_ or {}
        kind = workload.accelerator.kind
        return learned.get(_group(workload)) or learned.get(kind) or ASSUMED

    def save(self, folder: Path) -> Mapping[str, Any]:
        """Write the constants."""
        if self.by_kind_ is None:
            raise unfitted(self.name)
        stored = {
            kind: {"by_class": dict(t.by_class), "launch_s": t.launch_s}
            for kind, t in self.by_kind_.items()
        }
        write_json(folder / "efficiency.json", stored)
        return {"kinds": sorted(stored)}

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the constants."""
        path = folder / "efficiency.json"
        predictor = cls()
        predictor.by_kind_ = {kind: _read(value, path) for kind, value in read_json(path).items()}
        return predictor


def _group(workload: Workload) -> str:
    kind = workload.accelerator.kind
    eager = workload.compiler is Compiler.EAGER
    return kind if eager else f"{kind}/{workload.compiler.value}"


def _slots(table: NodeTable) -> npt.NDArray[np.int64]:
    """Position in :data:`SLOTS` of each node."""
    is_forward = np.asarray(table.cost.phase) == PHASES.index(Phase.FORWARD)
    classes = np.asarray(table.cost.op_class, dtype=np.int64)
    return np.where(is_forward, classes, classes + len(OP_CLASSES))


def _read(value: Any, path: Path) -> TypicalEfficiency:
    by_class = value.get("by_class") if isinstance(value, dict) else None
    if not isinstance(by_class, dict) or set(by_class) != set(SLOTS):
        raise DamagedArtifactError(f"{path} does not hold one efficiency per operator class.")
    low, high = _EFFICIENCY_LIMITS
    return TypicalEfficiency(
        by_class={name: finite(e, path, low=low, high=high) for name, e in by_class.items()},
        launch_s=finite(value.get("launch_s"), path, low=0.0),
    )


def _fit(samples: Sequence[Sample]) -> TypicalEfficiency:
    """Fit ``1 / efficiency`` per class to relative errors, drawn weakly to the assumed values."""
    times = np.array([sample.step_time_s for sample in samples])
    weights = np.array([sample.weight for sample in samples])
    design = np.stack([_class_seconds(sample.workload) for sample in samples]) / times[:, None]
    prior = np.array([1.0 / ASSUMED.by_class[slot] for slot in SLOTS] + [ASSUMED_LAUNCH_S])
    # One row per unknown that says "as assumed", with the weight of a few samples.
    rows = np.concatenate([design, np.diag(1.0 / prior)])
    target = np.ones(len(rows))
    pull = np.full(len(prior), _PRIOR_SHARE * weights.mean())
    trust = weights
    solution = prior
    for _ in range(6):
        solution = non_negative_least_squares(rows, target, np.concatenate([trust, pull]))
        trust = weights / np.maximum(np.abs(design @ solution - 1.0), 0.1)
        trust = trust * weights.sum() / trust.sum()
    low, high = _EFFICIENCY_LIMITS
    shares = np.clip(1.0 / np.maximum(solution[:-1], 1e-9), low, high)
    by_class = dict(zip(SLOTS, shares.tolist(), strict=True))
    return TypicalEfficiency(by_class=by_class, launch_s=float(solution[-1]))


def _class_seconds(workload: Workload) -> FloatArray:
    """Roofline seconds of each of :data:`SLOTS`, and the number of nodes."""
    table = node_table(workload.graph)
    seconds = np.bincount(
        _slots(table), weights=node_roofline(workload).roofline_s, minlength=len(SLOTS)
    )
    return np.append(seconds, float(table.node_count))

"""Products in 8 bits: steps of which no model has learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator import Estimator
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.graph.job import Job
from perfmodel.graph.workload import Workload
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Mode, Phase, Precision, Role

#: A product of 4096 x 4096 x 4096 on an L4: 1.14 ms at 121 TFLOP/s in bf16, half in fp8.
_SIDE = 4096


class _OneProduct:
    def __init__(self, rows: int = _SIDE) -> None:
        self.rows = rows

    def step(self, job: Job) -> CapturedStep:
        roles = (Role.INPUT, Role.PARAMETER, Role.ACTIVATION)
        tensors = tuple(
            Tensor(shape=(rows, _SIDE), dtype="bfloat16", role=role, storage=i)
            for i, (role, rows) in enumerate(zip(roles, (self.rows, _SIDE, self.rows), strict=True))
        )
        node = Node(op="mm", phase=Phase.FORWARD, inputs=(0, 1), outputs=(2,))
        return CapturedStep(
            graph=Graph(nodes=(node,), tensors=tensors), micro_batches=job.accumulation_steps
        )


class _SurprisedByTypes:
    """As a model that has learned of 16 bits and answers nonsense in fewer."""

    version = "surprised/1"

    def __init__(self, time_s: float) -> None:
        self.time_s = time_s

    def predict(self, workloads: Sequence[Workload]) -> list[Prediction]:
        found = AnalyticalModel().predict(workloads)
        nonsense = (Precision.FP8, Precision.INT8)
        times = [self.time_s * (9.0 if w.precision in nonsense else 1.0) for w in workloads]
        return [
            replace(one, time_s=t, low_s=t / 2, high_s=2 * t)
            for one, t in zip(found, times, strict=True)
        ]


def _step_s(
    precision: Precision,
    accelerator: str,
    time_s: float = 1e-3,
    *,
    micro_batches: int = 1,
    rows: int = _SIDE,
    mode: Mode = Mode.INFERENCE,
) -> float:
    # Alone: no card of the same chip that saves more is pooled with it.
    alone = Catalog({accelerator: Catalog.default().get(accelerator)}, {})
    model, graphs = _SurprisedByTypes(time_s), _OneProduct(rows)
    estimator = Estimator(accelerators=alone, model=model, graphs=graphs)
    job = Job(model="zoo/one", precision=precision, mode=mode, accumulation_steps=micro_batches)
    return estimator.estimate(job, parse_placement(accelerator)).step_time_s


def test_a_step_saves_what_the_peak_of_its_products_saves() -> None:
    saved_s = 2 * _SIDE**3 * (1 / 121e12 - 1 / 242e12)
    assert _step_s(Precision.BF16, "L4", 3e-3) == 3e-3
    assert _step_s(Precision.FP8, "L4", 3e-3) == pytest.approx(3e-3 - saved_s)


def test_weights_are_read_in_as_many_bytes_as_they_are_held() -> None:
    # One row: 4096 x 4096 weights and a row of 2 bytes, half of which are read at 300 GB/s.
    saved_s = (_SIDE**2 + _SIDE) / 300e9
    assert _step_s(Precision.FP8, "L4", rows=1) == pytest.approx(1e-3 - saved_s)
    # Training keeps and reads them in 16 bits.
    assert _step_s(Precision.FP8, "L4", rows=1, mode=Mode.TRAINING) == 1e-3


@pytest.mark.parametrize("accelerator", ["T4", "L4", "B200-SXM", "MI300X", "A100-SXM4-80GB"])
@pytest.mark.parametrize("precision", [Precision.FP8, Precision.INT8])
def test_no_step_is_slower_for_a_higher_peak(precision: Precision, accelerator: str) -> None:
    in_16_bits = _step_s(Precision.FP16, accelerator)
    assert _step_s(precision, accelerator) <= in_16_bits


def test_every_micro_batch_saves_it() -> None:
    once_s = _step_s(Precision.FP8, "L4", 3e-3)
    assert _step_s(Precision.FP8, "L4", 3e-3, micro_batches=4) == pytest.approx(4 * once_s)


def test_no_step_shrinks_by_more_than_its_products() -> None:
    # A model that answers below the peak in 16 bits: half of that is left, not less.
    assert _step_s(Precision.FP8, "L4", 2e-4) == pytest.approx(1e-4)


def test_a_lower_peak_makes_products_longer() -> None:
    # 150 TOP/s in int8 and 2.25 PFLOP/s in 16 bits.
    longer_s = 2 * _SIDE**3 * (1 / 1.5e14 - 1 / 2.25e15)
    assert _step_s(Precision.INT8, "B300-SXM") == pytest.approx(1e-3 + longer_s, rel=1e-3)

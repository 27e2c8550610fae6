"""A small network as a graph by hand, and stand-ins that keep the contracts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from synthetic_workloads import mlp

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import UnknownModelError
from perfmodel.estimator import CapturedStep, Estimator
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.graph.job import Job
from perfmodel.graph.workload import Workload
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Basis, Mode, Phase, Role

KNOWN = ("zoo/one", "zoo/two", "zoo/megatron-gpt", "zoo/gpt2")


def product_graph(rows: int) -> Graph:
    """One matrix product: rows x 64 times 64 x 32; 2 * rows * 64 * 32 FLOP."""
    shapes = ((rows, 64), (64, 32), (rows, 32))
    roles = (Role.INPUT, Role.PARAMETER, Role.ACTIVATION)
    tensors = tuple(
        Tensor(shape=shape, dtype="float32", role=role, storage=i)
        for i, (shape, role) in enumerate(zip(shapes, roles, strict=True))
    )
    node = Node(op="mm", phase=Phase.FORWARD, inputs=(0, 1), outputs=(2,))
    return Graph(nodes=(node,), tensors=tensors)


@dataclass
class HandGraphs:
    """A graph source that knows a few models and counts how often it is asked."""

    asked: list[str] = field(default_factory=list)

    def step(self, job: Job) -> CapturedStep:
        """Return the product with a row for each sample."""
        if job.model not in KNOWN:
            raise UnknownModelError(job.model or "", known=KNOWN, pointer="/job/model")
        self.asked.append(job.model)
        if job.model == "zoo/two" and job.mode is Mode.TRAINING:
            # 64 layers of 512 x 512: 4 bytes for each of 17 million gradients.
            return CapturedStep(graph=mlp(job.batch_size, [512] * 65, "relu", training=True))
        return CapturedStep(graph=product_graph(job.batch_size), tokens_per_sample=10)


@dataclass
class CountingModel:
    """Predicts 1 us a sample on any accelerator, half of it on a Hopper; fails on a T4 if told."""

    version: str = "counting/1"
    fails_on: str = ""
    calls: list[int] = field(default_factory=list)

    def predict(self, workloads: Sequence[Workload]) -> list[Prediction]:
        """Return one prediction for each workload."""
        self.calls.append(len(workloads))
        return [self._one(workload) for workload in workloads]

    def _one(self, workload: Workload) -> Prediction:
        name = workload.accelerator.name
        time_s = (
            1e-6
            * workload.batch_size
            * (0.5 if workload.accelerator.architecture.startswith("Hopper") else 1.0)
        )
        if name == self.fails_on:
            time_s = float("nan")
        return Prediction(
            time_s=time_s,
            low_s=time_s * 0.8,
            high_s=time_s * 1.25,
            coverage=0.9,
            basis=Basis.INTERPOLATED,
            out_of_distribution=name.startswith("MI"),
            nearest=("zoo/one on A10",),
            model_version=self.version,
            warnings=("told",) if name.startswith("MI") else (),
        )


@pytest.fixture
def graphs() -> HandGraphs:
    return HandGraphs()


@pytest.fixture
def model() -> CountingModel:
    return CountingModel()


@pytest.fixture
def estimator(graphs: HandGraphs, model: CountingModel) -> Estimator:
    return Estimator(accelerators=Catalog.default(), model=model, graphs=graphs)


@pytest.fixture
def product() -> Callable[[int], Graph]:
    return product_graph

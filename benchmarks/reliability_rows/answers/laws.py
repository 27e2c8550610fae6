"""Laws that answers keep whatever was learned, on the version that serves and all GPUs it knows.

Exact: the order and the names of operators change nothing; more memory turns no step that fits into
one that does not. Monotone: more accelerators of one host are not slower once they communicate, and
none of any number beats as many times one. No step is faster than its arithmetic.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from reliability_rows.row import Found

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator import Estimator
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.tables.table import Table
from perfmodel.features.roofline import step_bound_s
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.graph.workload import Workload
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.predictors.serving.serving import ServingModel
from perfmodel.retraining.judging.laws import reversed_graph
from perfmodel.store.artifacts import latest
from perfmodel.types import Mode

MODELS = ("timm/resnet50", "timm/vit_tiny_patch16_224", "timm/mobilenetv3_small_100",
          "timm/convnext_tiny", "timm/densenet121", "zoo/gpt2-decode")  # fmt: skip
#: Of one host, and of hosts; each more than the one before.
_ONE_HOST, _HOSTS = (1, 2, 4, 8), (2, 4, 16)
#: What rounding may add.
_SLACK = 1e-9


@dataclass
class Broken:
    """How often each law was asked after and broken."""

    asked: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)

    def add(self, law: str, kept: np.ndarray) -> None:
        """Count answers that keep a law or do not."""
        self.asked[law] += kept.size
        self.broken[law] += int(kept.size - np.count_nonzero(kept))


def measure(count: int) -> Found:
    """Ask about so many pairs of a job and a GPU."""
    graphs = GraphLibrary(capture=_captured())
    estimator = Estimator.from_folder(Path("models"), graphs=graphs)
    gpus = [one for one in estimator.accelerators if one.kind == "gpu"]
    jobs = list(itertools.islice(_jobs(), max(1, -(-count // len(gpus)))))
    broken = Broken()
    alone(broken, estimator, jobs, gpus)
    placed(broken, estimator, jobs, gpus)
    larger(broken, estimator, jobs, gpus)
    said = "; ".join(
        f"{law}: {broken.broken[law]} of {asked:,} broken" for law, asked in broken.asked.items()
    )
    return Found(measured=said, held=not broken.broken.total())


def _captured():
    from perfmodel.estimator.jobs.capture import capture_in_process

    return capture_in_process


def _jobs() -> Iterator[Job]:
    for size, model, mode in itertools.product((8, 1, 32, 3, 64, 17), MODELS, Mode):
        if not (model.endswith("decode") and mode is Mode.TRAINING):
            yield Job(model=model, mode=mode, batch_size=size)


def alone(
    broken: Broken, estimator: Estimator, jobs: Sequence[Job], gpus: Sequence[AcceleratorSpec]
) -> None:
    """Ask the model itself about steps on one GPU, in three orders and spellings of each."""
    folder = latest(Path("models"), "default").folder
    # One for each: equal graphs have equal hashes, by which answers are remembered.
    models = [ServingModel.load(folder) for _ in range(3)]
    for job in jobs:
        graph = estimator.core.prepare(job).step.graph
        forms = (graph, reversed_graph(graph), _renamed(graph))
        times, steps = [], _steps(job, graph, gpus)
        for model, form in zip(models, forms, strict=True):
            asked = [replace(one, graph=form) for one in steps]
            times.append(np.array([each.time_s for each in model.predict(asked)]))
        bounds = np.array([step_bound_s(one) for one in steps])
        broken.add("under the roofline", times[0] >= bounds * (1 - _SLACK))
        broken.add("order of operators", np.abs(times[1] / times[0] - 1) < _SLACK)
        broken.add("names of operators", times[2] == times[0])


def _steps(job: Job, graph: Graph, gpus: Sequence[AcceleratorSpec]) -> list[Workload]:
    return [
        Workload(graph=graph, accelerator=gpu, mode=job.mode, batch_size=job.batch_size)
        for gpu in gpus
    ]


def _renamed(graph: Graph) -> Graph:
    nodes = tuple(replace(node, name=f"other {n}") for n, node in enumerate(graph.nodes))
    tensors = tuple(replace(one, storage=7 * one.storage + 3) for one in graph.tensors)
    return Graph(nodes=nodes, tensors=tensors, source=graph.source)


def placed(
    broken: Broken, estimator: Estimator, jobs: Sequence[Job], gpus: Sequence[AcceleratorSpec]
) -> None:
    """Ask about growing numbers of each GPU."""
    for gpu in gpus:
        host = _table(estimator, jobs, [f"{count}x{gpu.name}" for count in _ONE_HOST])
        rates = host.samples_per_second
        # The second one brings gradients to exchange, which a step of one sample over PCIe takes
        # longer for than it saves: training is compared from two on.
        alone = np.array([job.mode is Mode.INFERENCE for job in jobs])
        rising = rates[:, 1:] >= rates[:, :-1] * (1 - _SLACK)
        broken.add("more GPUs of a host", np.append(rising[alone, 0], rising[:, 1:]))
        hosts = _table(estimator, jobs, [f"{n}x(8x{gpu.name})@ib-200g" for n in _HOSTS])
        many = np.concatenate([rates, hosts.samples_per_second], axis=1)
        counts = np.array([*_ONE_HOST, *(8 * n for n in _HOSTS)])
        broken.add("as many times one", many <= many[:, :1] * counts * (1 + 1e-6))


def larger(
    broken: Broken, estimator: Estimator, jobs: Sequence[Job], gpus: Sequence[AcceleratorSpec]
) -> None:
    """Ask about the same GPUs with half of the memory, all of it and twice as much."""
    names = [gpu.name for gpu in gpus]
    fits = []
    for times in (0.5, 1.0, 2.0):
        changed = [replace(gpu, memory_bytes=int(times * gpu.memory_bytes)) for gpu in gpus]
        other = estimator.with_accelerators(_catalog(estimator, changed))
        fits.append(_table(other, jobs, names).fits)
    broken.add("more memory", np.array(fits[1:]) >= np.array(fits[:-1]))


def _catalog(estimator: Estimator, changed: Sequence[AcceleratorSpec]) -> Catalog:
    devices = {one.name: one for one in (*estimator.accelerators, *changed)}
    return Catalog(devices, {})


def _table(estimator: Estimator, jobs: Sequence[Job], places: Sequence[str]) -> Table:
    table = estimator.matrix(jobs, [parse_placement(place) for place in places])
    assert table.answered.all(), "every pair is answered"
    return table

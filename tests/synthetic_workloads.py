"""Made-up networks on a made-up device, timed by a law that the predictors do not know.

Graphs are built from real operators, so that costs and features are those of real ones; only the
times are invented: ``t = roofline / efficiency(class, size) + overhead``, with an efficiency
that grows with the size of the operator and noise of a few percent.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.nodes import OP_CLASSES, node_table
from perfmodel.features.roofline import node_roofline
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.graph.workload import Workload
from perfmodel.predictors.predictor import Sample
from perfmodel.types import Mode, Phase, Role

DEVICE = AcceleratorSpec(
    name="made-up-cpu", kind="cpu", vendor="none", architecture="none", form_factor="none",
    year=None, peak_flops={"fp32": 2e11}, memory_bytes=16e9, bandwidth_bytes_per_s=2e10,
    cache_bytes=3.2e7, core_count=2, clock_hz=3e9,
)  # fmt: skip

#: Hidden typical efficiency by class; others get 0.5.
_TYPICAL = {"matmul": 0.7, "convolution": 0.5, "normalization": 0.35, "elementwise": 0.6}
_OVERHEAD_S = 4e-6


class GraphBuilder:
    """Writes down a graph, forward and (by mirrored nodes) backward."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.nodes: list[Node] = []
        self._storage = 0

    def tensor(self, shape: tuple[int, ...], role: Role, storage: int | None = None) -> int:
        if storage is None:
            storage, self._storage = self._storage, self._storage + 1
        self.tensors.append(Tensor(shape=shape, dtype="float32", role=role, storage=storage))
        return len(self.tensors) - 1

    def node(
        self, op: str, inputs: tuple[int, ...], shapes: list[tuple[int, ...]],
        phase: Phase = Phase.FORWARD, **attrs: object,
    ) -> tuple[int, ...]:  # fmt: skip
        role = Role.ACTIVATION if phase is Phase.FORWARD else Role.GRADIENT
        outputs = tuple(self.tensor(shape, role) for shape in shapes)
        self.nodes.append(
            Node(op=op, phase=phase, inputs=inputs, outputs=outputs, attrs=attrs)  # type: ignore[arg-type]
        )
        return outputs

    def build(self) -> Graph:
        return Graph(nodes=tuple(self.nodes), tensors=tuple(self.tensors))


def mlp(batch: int, widths: list[int], activation: str, *, training: bool) -> Graph:
    """Fully connected layers with an activation after each."""
    make = GraphBuilder()
    value = make.tensor((batch, widths[0]), Role.INPUT)
    saved = []
    for narrow, wide in zip(widths, widths[1:], strict=False):
        weight = make.tensor((narrow, wide), Role.PARAMETER)
        bias = make.tensor((wide,), Role.PARAMETER)
        (hidden,) = make.node("addmm", (bias, value, weight), [(batch, wide)])
        saved.append((value, weight, hidden))
        (value,) = make.node(activation, (hidden,), [(batch, wide)])
    if training:
        gradient = value
        for source, weight, hidden in reversed(saved):
            shape = make.tensors[hidden].shape
            (gradient,) = make.node(
                "threshold_backward", (gradient, hidden), [shape], Phase.BACKWARD, threshold=0
            )
            narrow, wide = make.tensors[weight].shape
            (turned,) = make.node("t", (source,), [(narrow, batch)], Phase.BACKWARD)
            make.node("mm", (turned, gradient), [(narrow, wide)], Phase.BACKWARD)
            (back,) = make.node("t", (weight,), [(wide, narrow)], Phase.BACKWARD)
            (gradient,) = make.node("mm", (gradient, back), [(batch, narrow)], Phase.BACKWARD)
    return make.build()


def convnet(
    batch: int, width: int, depth: int, kernel: int, *, training: bool, size: int = 28
) -> Graph:
    """Convolutions of one width, each with an activation."""
    make = GraphBuilder()
    value = make.tensor((batch, width, size, size), Role.INPUT)
    shape, saved = (batch, width, size, size), []
    settings = {
        "stride": (1, 1), "padding": (kernel // 2, kernel // 2), "dilation": (1, 1),
        "transposed": False, "output_padding": (0, 0), "groups": 1,
    }  # fmt: skip
    for _ in range(depth):
        weight = make.tensor((width, width, kernel, kernel), Role.PARAMETER)
        (hidden,) = make.node("convolution", (value, weight), [shape], **settings)
        saved.append((value, weight, hidden))
        (value,) = make.node("relu", (hidden,), [shape])
    if training:
        gradient = value
        for source, weight, hidden in reversed(saved):
            (gradient,) = make.node(
                "threshold_backward", (gradient, hidden), [shape], Phase.BACKWARD, threshold=0
            )
            gradient, _ = make.node(
                "convolution_backward", (gradient, source, weight),
                [shape, make.tensors[weight].shape], Phase.BACKWARD,
                output_mask=(True, True, False), **settings,
            )  # fmt: skip
    return make.build()


def workload(
    graph: Graph, batch: int, *, training: bool, device: AcceleratorSpec = DEVICE
) -> Workload:
    return Workload(
        graph=graph,
        accelerator=device,
        mode=Mode.TRAINING if training else Mode.INFERENCE,
        batch_size=batch,
    )


def hidden_node_times(one: Workload) -> np.ndarray:
    """Times of all nodes by the hidden law, without noise."""
    table, roofline = node_table(one.graph), node_roofline(one)
    typical = np.array([_TYPICAL.get(c.value, 0.5) for c in OP_CLASSES])
    typical = typical[np.asarray(table.cost.op_class)]
    size = np.clip(np.asarray(table.column("log_moved_bytes"), dtype=float) / 24.0, 0.2, 1.0)
    return roofline.roofline_s / (typical * size) + _OVERHEAD_S


def sample(one: Workload, family: str, model: str, rng: np.random.Generator) -> Sample:
    """Time a workload by the hidden law with noise of 2 % per step and 5 % per node."""
    times = hidden_node_times(one)
    noisy = times * np.exp(0.05 * rng.standard_normal(len(times)))
    step_s = 1.1 * times.sum() * np.exp(0.02 * rng.standard_normal())
    return Sample(
        workload=one,
        step_time_s=float(step_s),
        family=family,
        node_times_s=dict(enumerate(noisy.tolist())),
        model=model,
        spread=0.03,
    )


def samples(
    families: int = 12, batches: tuple[int, ...] = (4, 16), *, seed: int = 0,
    device: AcceleratorSpec = DEVICE,
) -> list[Sample]:  # fmt: skip
    """Samples of several families: both modes, a few batch sizes."""
    rng = np.random.default_rng(seed)
    return [
        sample(workload(graph, batch, training=training, device=device), family, family, rng)
        for family, batch, training, graph in _graphs(families, batches, rng)
    ]


def _graphs(
    families: int, batches: tuple[int, ...], rng: np.random.Generator
) -> Iterator[tuple[str, int, bool, Graph]]:
    for number in range(families):
        width, depth = int(rng.choice([64, 96, 128, 192, 256])), int(rng.integers(2, 6))
        kernel = int(rng.choice([1, 3, 5]))
        for batch in batches:
            for training in (False, True):
                if number % 2:
                    graph = convnet(batch, width // 4, depth, kernel, training=training)
                else:
                    widths = [width * 4] * (depth + 1)
                    graph = mlp(batch * 16, widths, "relu", training=training)
                yield f"family{number}", batch, training, graph

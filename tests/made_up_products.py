"""Captures by hand: matrix products, which need no torch."""

from __future__ import annotations

from perfmodel.estimator import CapturedStep
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.graph.job import Job
from perfmodel.types import Phase, Role

_ROLES = (Role.INPUT, Role.PARAMETER, Role.ACTIVATION)


def product_step(rows: int, width: int, outputs: int, *more: Node) -> CapturedStep:
    """Return one product of rows x width times width x outputs; further nodes may follow it."""
    shapes = ((rows, width), (width, outputs), (rows, outputs))
    tensors = tuple(
        Tensor(shape=shape, dtype="float32", role=role, storage=position)
        for position, (shape, role) in enumerate(zip(shapes, _ROLES, strict=True))
    )
    node = Node(op="mm", phase=Phase.FORWARD, inputs=(0, 1), outputs=(2,))
    return CapturedStep(graph=Graph(nodes=(node, *more), tensors=tensors))


def large_product(job: Job) -> CapturedStep:
    """Capture every model as a product that takes about as long as models that people train."""
    return product_step(job.batch_size, 16384, 16384)

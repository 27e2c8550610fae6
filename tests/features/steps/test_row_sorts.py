"""Rows are sorted by the kernels that a library would pick from."""

from __future__ import annotations

import numpy as np
from synthetic_workloads import convnet, mlp

from perfmodel.features.steps.row_sorts import ROW_SORTS, row_sorts
from perfmodel.features.steps.sketch import step_sketch
from perfmodel.graph.job import Job
from perfmodel.types import Mode
from perfmodel.zoo.resolve import capture_job


def _sorts(sketch: object) -> dict[str, int]:
    sorts = row_sorts(sketch)  # type: ignore[arg-type]
    return {name: int(np.sum(sorts == i)) for i, name in enumerate(ROW_SORTS)}


def test_every_row_has_one_sort() -> None:
    sketch = step_sketch(convnet(4, 16, 2, 3, training=True))
    assert sum(_sorts(sketch).values()) == len(sketch.count)


def test_passes_are_told_apart() -> None:
    forward = _sorts(step_sketch(mlp(8, [32, 64], "relu", training=False)))
    training = _sorts(step_sketch(mlp(8, [32, 64], "relu", training=True)))
    assert forward["matmul"] > 0 == forward["matmul_backward"]
    assert training["matmul_backward"] > 0


def test_convolutions_are_told_apart_by_their_groups() -> None:
    # ResNeXt has 32 groups of 4 and dense 1x1 convolutions; MobileNet has one filter a channel.
    def of(model: str) -> dict[str, int]:
        return _sorts(step_sketch(capture_job(Job(model=model, mode=Mode.INFERENCE))))

    resnext, mobile = of("timm/resnext50_32x4d"), of("timm/mobilenetv3_small_050")
    assert resnext["dense_convolution"] > 0 < resnext["grouped_convolution"]
    assert resnext["depthwise_convolution"] == 0 == mobile["grouped_convolution"]
    assert mobile["depthwise_convolution"] > 0

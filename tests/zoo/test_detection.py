from __future__ import annotations

import pytest
import torch

from perfmodel.capture.program import make_program
from perfmodel.graph.cost.table import totals
from perfmodel.graph.job import Job
from perfmodel.types import Mode, Precision
from perfmodel.zoo import capture_job
from perfmodel.zoo.reference import build_reference
from perfmodel.zoo.ssd import ANCHORS, MultiBoxLoss


def _convolution(inputs: int, outputs: int, size: int) -> int:
    """Weights of a convolution without bias, and scale and shift of its norm."""
    return inputs * outputs * size**2 + 2 * outputs


def _bottlenecks(inputs: int, width: int, depth: int) -> int:
    block = _convolution(width, width, 3) + _convolution(width, 4 * width, 1)
    first = _convolution(inputs, width, 1) + _convolution(inputs, 4 * width, 1) + block
    return first + (depth - 1) * (_convolution(4 * width, width, 1) + block)


def _ssd300(classes: int) -> int:
    backbone = _convolution(3, 64, 7) + _bottlenecks(64, 64, 3)
    backbone += _bottlenecks(256, 128, 4) + _bottlenecks(512, 256, 6)
    channels, boxes = (1024, 512, 512, 256, 256, 256), (4, 6, 6, 6, 4, 4)
    further = sum(
        _convolution(channels[k], squeezed, 1) + _convolution(squeezed, channels[k + 1], 3)
        for k, squeezed in enumerate((256, 256, 128, 128, 128))
    )
    heads = sum((9 * c + 1) * b * (classes + 4) for c, b in zip(channels, boxes, strict=True))
    return backbone + further + heads


def test_ssd_parameters() -> None:
    assert build_reference("ssd300-resnet50", batch_size=1).parameter_count == _ssd300(81)


def test_ssd_has_the_published_anchors() -> None:
    bundle = build_reference("ssd300-resnet50", batch_size=2)
    offsets, scores = bundle.module(*bundle.args)
    assert ANCHORS == 8732
    assert offsets.shape == (2, 4, 8732) and scores.shape == (2, 81, 8732)


def test_multibox_loss_counts_the_hardest_background() -> None:
    # Five anchors, one matched: its loss and the three hardest of the four others count.
    scores = torch.tensor([[[0.0, 1.0, 2.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]]])
    labels = torch.tensor([[1, 0, 0, 0, 0]])
    box = torch.full((1, 4, 5), 0.5)
    loss = MultiBoxLoss(boxes=box, labels=labels, anchors=box)(((torch.zeros(1, 4, 5)), scores))

    def surprise(margin: float) -> float:
        return float(torch.log1p(torch.exp(torch.tensor(-margin))))

    expected = surprise(0.0) + surprise(0.0) + surprise(1.0) + surprise(2.0)
    assert float(loss) == pytest.approx(expected, rel=1e-6)


def test_multibox_loss_of_an_image_without_boxes_is_zero() -> None:
    box = torch.full((1, 4, 3), 0.5)
    labels = torch.zeros(1, 3, dtype=torch.int64)
    loss = MultiBoxLoss(boxes=box, labels=labels, anchors=box)
    assert float(loss((torch.zeros(1, 4, 3), torch.zeros(1, 2, 3)))) == 0.0


@pytest.mark.parametrize("name", ["ssd300-resnet50"])
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.AMP_FP16])
@pytest.mark.parametrize("mode", [Mode.INFERENCE, Mode.TRAINING])
def test_every_operator_has_a_price(name: str, mode: Mode, precision: Precision) -> None:
    job = Job(model=f"zoo/{name}", mode=mode, batch_size=2, precision=precision)
    assert not totals(capture_job(job)).unpriced


@pytest.mark.parametrize("name", ["ssd300-resnet50"])
def test_a_step_lowers_the_loss(name: str) -> None:
    bundle = build_reference(name, batch_size=2, device="cpu")
    program = make_program(bundle.module, bundle.args, mode=Mode.TRAINING, loss=bundle.loss)
    torch.manual_seed(0)
    losses = [float(program.step()) for _ in range(3)]
    assert losses[-1] < losses[0]

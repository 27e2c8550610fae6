from __future__ import annotations

import pytest
import torch
from graph_totals import totals

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.types import Mode, Precision
from perfmodel.zoo import capture_job
from perfmodel.zoo.references.reference import build_reference
from perfmodel.zoo.references.vision.ssd import ANCHORS, MultiBoxLoss
from perfmodel.zoo.references.vision.yolo import YoloLoss

NAMES = ("ssd300-resnet50", "yolov3")


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


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.AMP_FP16])
@pytest.mark.parametrize("mode", [Mode.INFERENCE, Mode.TRAINING])
def test_every_operator_has_a_price(name: str, mode: Mode, precision: Precision) -> None:
    job = Job(model=f"zoo/{name}", mode=mode, batch_size=2, precision=precision)
    assert not totals(capture_job(job)).unpriced


@pytest.mark.parametrize("name", NAMES)
def test_every_weight_gets_a_gradient(name: str) -> None:
    bundle = build_reference(name, batch_size=2)
    bundle.loss(bundle.module(*bundle.args)).backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is not None for weight in bundle.module.parameters())


def test_yolov3_parameters() -> None:
    def unit(inputs: int, outputs: int, size: int) -> int:
        return inputs * outputs * size**2 + 2 * outputs

    total = unit(3, 32, 3)
    for stage, depth in enumerate((1, 2, 8, 8, 4)):
        width = 64 * 2**stage
        block = unit(width, width // 2, 1) + unit(width // 2, width, 3)
        total += unit(width // 2, width, 3) + depth * block
    for inputs, width in ((1024, 512), (768, 256), (384, 128)):
        total += unit(inputs, width, 1) + 2 * unit(2 * width, width, 1)
        total += 3 * unit(width, 2 * width, 3) + (2 * width + 1) * 3 * 85
    total += unit(512, 256, 1) + unit(256, 128, 1)
    assert build_reference("yolov3", batch_size=1).parameter_count == total == 61_949_149


def test_yolov3_costs_what_its_paper_says() -> None:
    # 65.86 billion operations for 416x416 pixels; norms and activations are counted here too.
    graph = capture_job(Job(model="zoo/yolov3", batch_size=2))
    assert totals(graph).flops / 2 == pytest.approx(65.86e9, rel=0.01)


def test_yolov3_has_three_maps() -> None:
    bundle = build_reference("yolov3", {"img_size": 96}, batch_size=2)
    shapes = [tuple(found.shape) for found in bundle.module(*bundle.args)]
    assert shapes == [(2, 3, 3, 3, 85), (2, 3, 6, 6, 85), (2, 3, 12, 12, 85)]


def test_yolov3_loss_of_a_sure_and_right_answer_is_small() -> None:
    true = torch.zeros(1, 3, 2, 2, 6)
    true[..., 4:] = 1.0
    found = torch.where(true > 0.5, 20.0, -20.0)
    found[..., 2:4] = 0.0
    assert float(YoloLoss([true])([found])) < 1e-6
    assert float(YoloLoss([true])([-found])) > 1.0


def test_yolov3_wants_whole_cells() -> None:
    with pytest.raises(InvalidInputError, match="multiple of 32"):
        build_reference("yolov3", {"img_size": 100}, batch_size=1)

"""Two-stage detectors and RetinaNet, against torchvision's where its parameters are the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from graph_totals import totals

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.types import Mode, Precision
from perfmodel.zoo import capture_job
from perfmodel.zoo.references.reference import build_reference
from perfmodel.zoo.references.vision.frozen_residual import FrozenBatchNorm2d
from perfmodel.zoo.references.vision.rcnn import anchor_cells, cut, decoded

NAMES = ("faster-rcnn", "mask-rcnn", "keypoint-rcnn", "retinanet")
SMALL = {"height": 64, "width": 64}
#: Scale and shift of the norms of ResNet-50: parameters there, buffers here.
_NORMS = 53_120
#: A box of the background, which the head here does not have: four numbers from 1024.
_BACKGROUND_BOX = 4 * 1025


def _count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _own(name: str, **kwargs: Any) -> int:
    return build_reference(name, kwargs, batch_size=1).parameter_count


def _theirs(name: str, classes: int) -> int:
    detection = pytest.importorskip("torchvision.models.detection")
    with torch.device("meta"):
        made = getattr(detection, f"{name}_resnet50_fpn")(
            weights=None, weights_backbone=None, num_classes=classes
        )
    return _count(made)


def test_faster_rcnn_parameters() -> None:
    assert _own("faster-rcnn") == 41_699_936
    assert _own("faster-rcnn") == _theirs("fasterrcnn", 81) - _NORMS - _BACKGROUND_BOX


def test_mask_rcnn_parameters() -> None:
    # The mask of the background is a row of 256 weights and a shift.
    assert _own("mask-rcnn") == 44_343_216
    assert _own("mask-rcnn") == _theirs("maskrcnn", 81) - _NORMS - _BACKGROUND_BOX - 257


def test_keypoint_rcnn_parameters() -> None:
    assert _own("keypoint-rcnn") == 59_133_158
    assert _own("keypoint-rcnn") == _theirs("keypointrcnn", 2) - _NORMS - _BACKGROUND_BOX


def test_retinanet_parameters() -> None:
    # Its sixth map is made of the last stage (2048 channels) here, of the fifth map (256) there.
    sixth = (2048 - 256) * 256 * 9
    assert _own("retinanet") == 37_915_572
    assert _own("retinanet") == _theirs("retinanet", 80) - _NORMS + sixth


@pytest.mark.parametrize(("trunk", "name"), [("r101", "resnet101"), ("x101", "resnext101_32x8d")])
def test_parameters_of_the_other_trunks(trunk: str, name: str) -> None:
    models = pytest.importorskip("torchvision.models")
    with torch.device("meta"):
        whole, small = getattr(models, name)(), models.resnet50()
    norms = [
        sum(p.numel() for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d)
            for p in m.parameters())
        for net in (whole, small)
    ]  # fmt: skip
    more = _count(whole) - norms[0] - (_count(small) - norms[1])
    assert _own("faster-rcnn", trunk=trunk) - _own("faster-rcnn") == more


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.AMP_FP16])
@pytest.mark.parametrize("mode", [Mode.INFERENCE, Mode.TRAINING])
def test_every_operator_has_a_price(name: str, mode: Mode, precision: Precision) -> None:
    job = Job(model=f"zoo/{name}", mode=mode, batch_size=2, precision=precision)
    assert not totals(capture_job(job)).unpriced


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_frozen_gets_a_gradient(name: str) -> None:
    bundle = build_reference(name, SMALL, batch_size=1)
    bundle.loss(bundle.module(*bundle.args)).backward()  # type: ignore[no-untyped-call]
    weights = list(bundle.module.named_parameters())
    assert all((weight.grad is not None) == weight.requires_grad for _, weight in weights)
    frozen = {name for name, weight in weights if not weight.requires_grad}
    assert {name.split(".trunk.")[1].split(".")[0] for name in frozen} == {"stem", "stages"}
    assert all(".stem." in name or ".stages.0." in name for name in frozen)


def test_a_frozen_norm_is_the_same_with_and_without_a_gradient() -> None:
    norm, x = FrozenBatchNorm2d(3), torch.randn(2, 3, 4, 4)
    norm.mean.fill_(0.5)
    norm.var.fill_(4.0)
    plain = norm(x)
    assert torch.allclose(norm(x.requires_grad_(True)), plain, atol=1e-6)
    assert torch.allclose(plain, (x - 0.5) / (4.0 + 1e-5) ** 0.5, atol=1e-6)


def test_cells_of_an_image_of_the_paper() -> None:
    # 800 / 64 and 1088 / 64 rounded up are 13 and 17.
    assert anchor_cells(800, 1088) == [200 * 272, 100 * 136, 50 * 68, 25 * 34, 13 * 17]


def test_a_box_that_is_moved_and_doubled() -> None:
    box = torch.tensor([[10.0, 20.0, 4.0, 8.0]])
    shift = torch.tensor([[0.5, 0.25, 0.0, torch.log(torch.tensor(2.0)).item()]])
    assert decoded(box, shift).tolist() == [[12.0, 22.0, 4.0, pytest.approx(16.0)]]


def test_a_box_is_cut_from_its_map() -> None:
    # The left half of the map is 1, the right half 3; one box a map lies in either half.
    ramp = torch.ones(1, 2, 8, 8)
    ramp[..., 4:] = 3.0
    boxes = torch.tensor([[[-0.6, 0.0, 0.1, 0.1], [0.6, 0.0, 0.1, 0.1]]])
    found = cut([ramp, ramp], boxes, 7)
    assert found.shape == (2, 2, 7, 7)
    assert found[0].unique().tolist() == [1.0] and found[1].unique().tolist() == [3.0]


def test_heads_read_all_proposals_in_inference_and_half_in_training() -> None:
    bundle = build_reference("mask-rcnn", SMALL, batch_size=1)
    trained = bundle.module(*bundle.args)
    asked = bundle.module.eval()(*bundle.args)
    assert trained.classes.shape == (512, 81) and asked.classes.shape == (1000, 81)
    assert trained.maps.shape == (128, 80, 28, 28) and asked.maps.shape == (100, 80, 28, 28)


@pytest.mark.parametrize("changed", [{"trunk": "r18"}, {"height": 100}])
@pytest.mark.parametrize("name", ["faster-rcnn", "retinanet"])
def test_arguments_are_checked(name: str, changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=r"trunk|multiples of 32"):
        build_reference(name, changed, batch_size=1)

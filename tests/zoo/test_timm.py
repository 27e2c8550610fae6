from __future__ import annotations

from typing import Any

import pytest
import torch

from perfmodel.errors import InvalidInputError, UnknownModelError
from perfmodel.zoo.losses import ClassificationLoss, FeatureLoss
from perfmodel.zoo.timm import build_timm, timm_family, timm_names


def test_every_name_has_a_family() -> None:
    names = timm_names()
    assert len(names) > 1000 and names == sorted(names)
    assert len({timm_family(name) for name in names}) > 60


def test_resnet50_is_the_published_one() -> None:
    bundle = build_timm("resnet50", batch_size=4)
    # torchvision and the paper's v1.5: 25,557,032 parameters
    assert bundle.parameter_count == 25_557_032
    assert bundle.args[0].shape == (4, 3, 224, 224) and bundle.args[0].is_meta
    assert (bundle.name, bundle.family, bundle.samples) == ("timm/resnet50", "resnet", 4)
    assert bundle.tokens_per_sample is None


def test_image_size_of_a_convolutional_network_is_the_input_alone() -> None:
    small = build_timm("resnet18", {"img_size": 160}, batch_size=1)
    wide = build_timm("resnet18", {"img_size": [96, 128]}, batch_size=1)
    assert small.args[0].shape == (1, 3, 160, 160)
    assert wide.args[0].shape == (1, 3, 96, 128)
    assert small.parameter_count == build_timm("resnet18", batch_size=1).parameter_count


def test_image_size_of_a_vision_transformer_changes_its_positions() -> None:
    # patches of 16: (224 / 16)^2 = 196 positions against (160 / 16)^2 = 100, each 768 wide
    usual = build_timm("vit_base_patch16_224", batch_size=1)
    small = build_timm("vit_base_patch16_224", {"img_size": 160}, batch_size=1)
    assert usual.parameter_count - small.parameter_count == (196 - 100) * 768


def test_classes_and_channels() -> None:
    bundle = build_timm("resnet18", {"num_classes": 10, "in_chans": 1}, batch_size=2)
    # 11,689,512 less two of three input channels of 64 7x7 filters, less 990 classes of 512 + 1
    assert bundle.parameter_count == 11_689_512 - 2 * 64 * 49 - 990 * 513
    assert bundle.args[0].shape == (2, 1, 224, 224)
    assert bundle.module(*bundle.args).shape == (2, 10)


def test_a_tag_gives_the_input_size_of_its_weights_but_not_the_weights() -> None:
    plain = build_timm("convnext_base", batch_size=1)
    tagged = build_timm("convnext_base.clip_laion2b_augreg_ft_in12k_in1k_384", batch_size=1)
    assert plain.args[0].shape[2:] == (224, 224)
    assert tagged.args[0].shape[2:] == (384, 384)
    assert tagged.parameter_count == plain.parameter_count


def test_a_model_without_classes_trains_on_its_features() -> None:
    assert isinstance(build_timm("resnet18", batch_size=1).loss, ClassificationLoss)
    assert isinstance(build_timm("resnet18", {"num_classes": 0}, batch_size=1).loss, FeatureLoss)


def test_cpu_bundle_has_the_same_numbers_every_time() -> None:
    losses = []
    for _ in range(2):
        bundle = build_timm("test_resnet", batch_size=2, device="cpu")
        bundle.module.eval()
        losses.append(bundle.loss(bundle.module(*bundle.args)).item())
    assert losses[0] == losses[1] and torch.isfinite(torch.tensor(losses[0]))


def test_unknown_name_brings_the_nearest() -> None:
    with pytest.raises(UnknownModelError) as caught:
        build_timm("resnt50", batch_size=1)
    assert caught.value.pointer == "/job/model"
    assert "timm/resnet50" in caught.value.did_you_mean


@pytest.mark.parametrize(
    ("kwargs", "pointer"),
    [
        ({"pretrained": True}, "/job/model_kwargs/pretrained"),
        ({"pretrained_cfg": {"url": "http://example.org"}}, "/job/model_kwargs/pretrained_cfg"),
        ({"checkpoint_path": "/etc/passwd"}, "/job/model_kwargs/checkpoint_path"),
        ({"img_size": 0}, "/job/model_kwargs/img_size"),
        ({"img_size": [1, 2, 3]}, "/job/model_kwargs/img_size"),
        ({"img_size": "big"}, "/job/model_kwargs/img_size"),
        ({"in_chans": -3}, "/job/model_kwargs/in_chans"),
        ({"num_classes": 2.5}, "/job/model_kwargs/num_classes"),
        ({"no_such_argument": 1}, "/job/model_kwargs"),
    ],
)
def test_bad_arguments(kwargs: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        build_timm("resnet18", kwargs, batch_size=1)
    assert caught.value.pointer == pointer


def test_a_deprecated_name_belongs_to_the_family_it_stands_for() -> None:
    assert timm_family("swsl_resnext101_32x16d") == timm_family("resnext101_32x16d")
    assert timm_family("tf_efficientnet_b0_ns") == "efficientnet"


@pytest.mark.parametrize(
    ("name", "millions"),
    [("32x8d", 88.79), ("32x16d", 194.03), ("32x32d", 468.53), ("32x48d", 828.41)],
)
def test_a_deprecated_name_is_the_model_it_meant(name: str, millions: float) -> None:
    # All four once stood for networks of one depth and different widths.
    wide = build_timm(f"ig_resnext101_{name}", {}, batch_size=1)
    assert wide.parameter_count == pytest.approx(millions * 1e6, rel=1e-3)
    assert timm_family(f"ig_resnext101_{name}") == "resnet"


def test_branches_of_training_are_merged_on_demand() -> None:
    plain = build_timm("repvgg_a0", {}, batch_size=2)
    merged = build_timm("repvgg_a0", {"reparameterize": True}, batch_size=2)
    # A block of 3x3, 1x1 and identity, each with a norm, becomes one 3x3 with a bias.
    assert merged.parameter_count < plain.parameter_count
    assert not [m for m in merged.module.modules() if type(m).__name__ == "BatchNorm2d"]
    with pytest.raises(InvalidInputError, match="must be true or false"):
        build_timm("repvgg_a0", {"reparameterize": "yes"}, batch_size=2)

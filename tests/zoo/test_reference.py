from __future__ import annotations

from typing import Any

import pytest
import torch

from perfmodel.errors import InvalidInputError, UnknownModelError
from perfmodel.types import Mode
from perfmodel.zoo.references.reference import build_reference, reference_names


def _attention(width: int) -> int:
    return 4 * (width**2 + width)


def _feed_forward(width: int, inner: int) -> int:
    return width * inner + inner + inner * width + width


def _norm(width: int) -> int:
    return 2 * width


def _bert(layers: int, width: int) -> int:
    embeddings = (30528 + 512 + 2) * width + _norm(width)
    layer = _attention(width) + _feed_forward(width, 4 * width) + 2 * _norm(width)
    pooler, span = width**2 + width, 2 * width + 2
    return embeddings + layers * layer + pooler + span


def _translation(layers: int, width: int, inner: int, vocabulary: int) -> int:
    encoder = _attention(width) + _feed_forward(width, inner) + 2 * _norm(width)
    decoder = 2 * _attention(width) + _feed_forward(width, inner) + 3 * _norm(width)
    return vocabulary * width + layers * (encoder + decoder)


def _lstm(vocabulary: int, width: int, layers: int) -> int:
    # four gates, each with an input matrix, a recurrent matrix and two biases
    layer = 4 * (width * width + width * width + 2 * width)
    return vocabulary * width + layers * layer + width * vocabulary + vocabulary


def _resnet18_cifar() -> int:
    def convolution(inputs: int, outputs: int, size: int) -> int:
        return inputs * outputs * size**2 + 2 * outputs

    total = convolution(3, 64, 3) + 4 * convolution(64, 64, 3)
    for width in (128, 256, 512):
        total += convolution(width // 2, width, 3) + 3 * convolution(width, width, 3)
        total += convolution(width // 2, width, 1)
    return total + 512 * 10 + 10


def _vgg16() -> int:
    widths = (3, 64, 64, 128, 128, 256, 256, 256, *[512] * 6)
    convolutions = sum(9 * i * o + o for i, o in zip(widths, widths[1:], strict=False))
    dense = (512 * 7 * 7, 4096, 4096, 1000)
    return convolutions + sum(i * o + o for i, o in zip(dense, dense[1:], strict=False))


def _neumf() -> int:
    vectors = (138493 + 26744) * (64 + 128)
    deep = (256 * 256 + 256) + (256 * 128 + 128) + (128 * 64 + 64)
    return vectors + deep + (64 + 64 + 1)


#: Workload: the number by hand, and the published one where there is one.
PARAMETERS = {
    "bert-base-squad": (_bert(12, 768), 109_488_386),
    "bert-large-squad": (_bert(24, 1024), 335_150_082),
    "resnet18-cifar": (_resnet18_cifar(), 11_173_962),
    "resnet50-v1.5": (25_557_032, 25_557_032),
    "vgg": (_vgg16(), 138_357_544),
    "lstm-lm": (_lstm(33278, 650, 2), None),
    "megatron-gpt": (
        12 * 24 * 1024**2 + 13 * 24 * 1024 + (51200 + 1024) * 1024 + 2 * 1024,
        None,
    ),
    "transformer-translation": (_translation(6, 512, 2048, 37000), None),
    "ncf": (_neumf(), None),
    "mlp": (784 * 1024 + 1024 + 1024**2 + 1024 + 1024 * 10 + 10, None),
}


def test_every_workload_is_derived_by_hand() -> None:
    assert set(PARAMETERS) <= set(reference_names())


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name: str) -> None:
    by_hand, published = PARAMETERS[name]
    bundle = build_reference(name, batch_size=2)
    assert bundle.parameter_count == by_hand
    assert published is None or by_hand == published


SMALL: dict[str, dict[str, Any]] = {
    "resnet18-cifar": {"img_size": 16},
    "vgg": {"depth": 11, "img_size": 32, "num_classes": 10},
    "lstm-lm": {"vocab_size": 50, "hidden_size": 16},
    "megatron-gpt": {
        "num_layers": 2, "hidden_size": 32, "num_heads": 4, "vocab_size": 64, "max_positions": 16,
    },
    "transformer-translation": {
        "num_layers": 1, "hidden_size": 32, "num_heads": 4, "ffn_size": 64, "vocab_size": 64,
    },
    "ncf": {"num_users": 30, "num_items": 20, "num_factors": 4},
    "mlp": {"in_features": 6, "hidden_size": 8, "num_layers": 2, "num_classes": 3},
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_a_step_lowers_the_loss(name: str) -> None:
    from perfmodel.capture.program import make_program

    bundle = build_reference(name, SMALL[name], batch_size=4, device="cpu")
    program = make_program(
        bundle.module, bundle.args, dict(bundle.kwargs), mode=Mode.TRAINING, loss=bundle.loss
    )
    torch.manual_seed(0)
    # A large model learns a batch by heart in a few steps.
    steps = 8 if name == "resnet18-cifar" else 30
    losses = [float(program.step()) for _ in range(steps)]
    assert sum(losses[-3:]) < sum(losses[:3])


@pytest.mark.parametrize(("pixels", "millions"), [(32, 32.2), (224, 132.9), (256, 164.3)])
def test_vgg_grows_with_the_image(pixels: int, millions: float) -> None:
    bundle = build_reference("vgg", {"depth": 11, "img_size": pixels}, batch_size=2)
    assert bundle.parameter_count / 1e6 == pytest.approx(millions, abs=0.05)


def test_sizes_are_arguments() -> None:
    kwargs = {"num_layers": 3, "hidden_size": 64, "num_heads": 4, "vocab_size": 100}
    bundle = build_reference("megatron-gpt", kwargs, batch_size=2, sequence_length=128)
    assert bundle.parameter_count == 12 * 3 * 64**2 + 13 * 3 * 64 + (100 + 1024) * 64 + 2 * 64
    assert bundle.args[0].shape == (2, 128) and bundle.tokens_per_sample == 128


@pytest.mark.parametrize(
    ("name", "kwargs", "length", "pointer"),
    [
        ("mlp", {"depth": 3}, None, "/job/model_kwargs/depth"),
        ("vgg", {"depth": 12}, None, "/job/model_kwargs"),
        ("vgg", {"img_size": 31}, None, "/job/model_kwargs"),
        ("mlp", {"hidden_size": 0}, None, "/job/model_kwargs/hidden_size"),
        ("mlp", {"num_layers": 10**6}, None, "/job/model_kwargs/num_layers"),
        ("mlp", {}, 7, "/job/sequence_length"),
        ("bert-base-squad", {}, 513, "/job/sequence_length"),
        ("megatron-gpt", {"hidden_size": 100, "num_heads": 16}, None, "/job/model_kwargs"),
    ],
)
def test_bad_arguments(name: str, kwargs: dict[str, Any], length: int | None, pointer: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        build_reference(name, kwargs, batch_size=2, sequence_length=length)
    assert caught.value.pointer == pointer


def test_unknown_workload_brings_the_nearest() -> None:
    with pytest.raises(UnknownModelError) as caught:
        build_reference("bert-base-squat", batch_size=1)
    assert "zoo/bert-base-squad" in caught.value.did_you_mean

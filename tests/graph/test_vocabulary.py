"""Names from a dispatcher or a profiler meet in one vocabulary."""

from __future__ import annotations

import pytest

from perfmodel.graph.vocabulary import SYNONYMS, canonical_op


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::addmm", "addmm"),
        ("aten::add_.Tensor", "add_"),
        ("convolution", "convolution"),
        ("aten::cudnn_convolution", "convolution"),
        ("aten::_scaled_dot_product_efficient_attention", "scaled_dot_product_attention"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu_backward",
         "scaled_dot_product_attention_backward"),
        ("torchvision::nms", "torchvision::nms"),
    ],
)  # fmt: skip
def test_canonical_names(name: str, expected: str) -> None:
    assert canonical_op(name) == expected


def test_translation_is_stable() -> None:
    for name in SYNONYMS.values():
        assert canonical_op(name) == name

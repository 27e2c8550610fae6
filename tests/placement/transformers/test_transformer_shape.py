from __future__ import annotations

import pytest
from made_up_plans import shape

from perfmodel.errors import InvalidInputError


def test_parameters_are_those_of_gpt() -> None:
    # 8 layers of 12 h^2 weights and 13 h biases and norms, a table of V + s, a last norm.
    found = shape(position_count=256)
    assert found.parameter_count == 8 * (12 * 512**2 + 13 * 512) + (1000 + 256) * 512 + 2 * 512


def test_shared_keys_and_gates_change_the_products() -> None:
    # Queries and output 512 x 512, keys and values 512 x 128 each; three matrices of 512 x 640.
    found = shape(
        kv_heads=2,
        ffn_size=640,
        is_gated=True,
        norm_vectors=1,
        is_tied=False,
        has_attention_biases=False,
        has_output_bias=False,
        has_ffn_biases=False,
    )
    assert found.attention_weights == 2 * 512 * 512 + 2 * 512 * 128
    layer = found.attention_weights + 3 * 512 * 640 + 2 * 512
    assert found.parameter_count == 8 * layer + 2 * 1000 * 512 + 512


def test_a_token_passes_only_its_experts() -> None:
    dense, mixture = shape(), shape(experts=8, experts_per_token=2)
    assert mixture.layer_parameters - dense.layer_parameters == (
        7 * dense.expert_parameters + 8 * 512
    )
    more = mixture.token_weights - dense.token_weights
    assert more == dense.expert_weights + 8 * 512


def test_flops_are_three_passes_of_two_for_each_weight() -> None:
    # 24 l h^2 + 4 l s h + 2 h V for a forward pass.
    forward = 8 * (24 * 512**2 + 4 * 256 * 512) + 2 * 512 * 1000
    assert shape().token_flops == 3 * forward
    assert shape().sample_flops == 256 * 3 * forward


def test_activations_are_34_h_and_5_a_s() -> None:
    found = shape(has_dropout=True)
    assert found.shared_activation_bytes + found.split_activation_bytes == 34 * 512
    assert found.score_activation_bytes == 5 * 8 * 256


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layers": 0}, "layers"),
        ({"kv_heads": 3}, "share"),
        ({"experts": 2, "experts_per_token": 3}, "3 of 2"),
    ],
)
def test_nonsense_is_refused(changes: dict[str, int], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        shape(**changes)

"""One more token of a language model, and operators alone."""

from __future__ import annotations

import pytest
import torch
from graph_totals import totals
from torch import nn

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.types import Mode
from perfmodel.zoo.references.language.language_models import LanguageModel, Shape
from perfmodel.zoo.references.reference import build_reference, reference_names
from perfmodel.zoo.resolve import capture_job


def test_a_decoding_step_scores_what_the_whole_model_scores_last() -> None:
    """The same weights: cached keys and values of nine tokens, then the tenth alone."""
    decoder = build_reference(
        "gpt2-decode", {"num_layers": 2}, batch_size=3, sequence_length=9, device="cpu"
    ).module
    shape = Shape(layers=2, width=768, heads=12, vocabulary=50257, positions=1024)
    whole = LanguageModel(shape)
    whole.load_state_dict(decoder.state_dict())
    token_ids = torch.randint(50257, (3, 10))
    cache: list[torch.Tensor] = []

    def keep(attention: nn.Module, args: tuple[torch.Tensor], _: object) -> None:
        assert isinstance(attention.joined, nn.Linear)
        _, key, value = attention.joined(args[0]).chunk(3, dim=2)
        cache.extend(part[:, :9].view(3, 9, 12, 64).transpose(1, 2) for part in (key, value))

    for layer in whole.layers:
        assert isinstance(layer.attention, nn.Module)
        layer.attention.register_forward_hook(keep)
    with torch.no_grad():
        expected = whole(token_ids)[:, -1]
        scores, *longer = decoder(token_ids[:, -1:], *cache)
    torch.testing.assert_close(scores[:, 0], expected, atol=1e-4, rtol=1e-4)
    assert {tuple(part.shape) for part in longer} == {(3, 12, 10, 64)}


def test_a_decoding_step_reads_its_cache_and_writes_one_token() -> None:
    bundle = build_reference("gpt2-decode", batch_size=4)
    assert bundle.parameter_count == 124_439_808
    assert bundle.tokens_per_sample == 1
    assert len(bundle.args) == 1 + 2 * 12
    short, long = (
        totals(capture_job(Job(model="zoo/gpt2-decode", batch_size=4, sequence_length=length)))
        for length in (100, 900)
    )
    assert not short.unpriced
    attended = 12 * 2 * 2 * 4 * 768 * 800
    assert sum(long.flops_by_class.values()) - sum(short.flops_by_class.values()) == pytest.approx(
        attended, rel=0.02
    )
    with pytest.raises(InvalidInputError, match="1023 positions"):
        build_reference("gpt2-decode", batch_size=1, sequence_length=1024)
    with pytest.raises(InvalidInputError, match="small, medium"):
        build_reference("gpt2-decode", {"size": "huge"}, batch_size=1)


@pytest.mark.parametrize(
    ("name", "op", "flops"),
    [
        ("operator-attention", "scaled_dot_product_attention", 4 * 2 * 12 * 512 * 512 * 64),
        ("operator-batch-norm", "batch_norm", None),
        ("operator-convolution", "convolution", 2 * 2 * 56 * 56 * 64 * 64 * 9),
        ("operator-embedding", "embedding", None),
        ("operator-layer-norm", "layer_norm", None),
        ("operator-linear", "addmm", 2 * 2 * 1024 * 1024),
        ("operator-max-pool", "max_pool2d", None),
        ("operator-pointwise", "gelu", None),
    ],
)
def test_an_operator_alone_is_one_node(name: str, op: str, flops: float | None) -> None:
    graph = capture_job(Job(model=f"zoo/{name}", batch_size=2, mode=Mode.INFERENCE))
    found = totals(graph)
    (call,) = (node.op for node in graph.nodes if node.op not in ("view", "t"))
    assert op in call
    assert not found.unpriced
    if flops is not None:
        assert sum(found.flops_by_class.values()) == pytest.approx(flops, rel=0.1)


def test_a_choice_of_two_is_stated_as_true_or_false() -> None:
    causal = {"is_causal": True}
    job = Job(model="zoo/operator-attention", model_kwargs=causal, mode=Mode.INFERENCE)
    (call,) = (node for node in capture_job(job).nodes if "attention" in node.op)
    assert call.attrs["is_causal"] is True
    with pytest.raises(InvalidInputError, match="is_causal .* true or false, got 1"):
        build_reference("operator-attention", {"is_causal": 1}, batch_size=1)


def test_every_operator_is_among_them() -> None:
    assert len([name for name in reference_names() if name.startswith("operator-")]) == 8


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match="add, gelu, relu"):
        build_reference("operator-pointwise", {"kind": "swish"}, batch_size=1)

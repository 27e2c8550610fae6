"""GNMT, Transformer-XL, Switch and the causal language models: parameters, FLOPs, steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from graph_totals import totals

from perfmodel.errors import InvalidInputError
from perfmodel.graph.cost.base import OpClass
from perfmodel.graph.job import Job
from perfmodel.types import Mode, Precision
from perfmodel.zoo.references.reference import build_reference
from perfmodel.zoo.resolve import capture_job


def _flops(name: str, batch: int, *, training: bool = False, **fields: Any) -> dict[OpClass, float]:
    mode = Mode.TRAINING if training else Mode.INFERENCE
    graph = capture_job(Job(model=f"zoo/{name}", batch_size=batch, mode=mode, **fields))
    found = totals(graph)
    assert not found.unpriced
    return {op_class: flops / batch for op_class, flops in found.flops_by_class.items()}


#: Workload, arguments, published parameters in millions, tolerance.
PUBLISHED: list[tuple[str, dict[str, Any], float, float]] = [
    ("gnmt", {}, 159.6, 0.001),
    ("transformer-xl-base", {}, 191.9, 0.001),
    ("transformer-xl-large", {}, 520.0, 0.001),
    ("switch", {}, 619.0, 0.01),
    # The medium LSTM of word-level modelling with the 10,000 words of Penn Treebank.
    ("lstm-lm", {"vocab_size": 10000}, 20.0, 0.02),
    ("transformer-translation", {}, 65.0, 0.03),
    # GPT-2 medium: its own vocabulary instead of the rounded one.
    ("megatron-gpt", {"vocab_size": 50257}, 354.823168, 1e-9),
    ("mpt", {"size": "7b"}, 6700.0, 0.01),
    ("mpt", {"size": "30b"}, 29950.0, 0.01),
    ("gpt2", {"size": "small"}, 124.439808, 1e-9),
    ("gpt2", {"size": "medium"}, 354.823168, 1e-9),
    ("gpt2", {"size": "large"}, 774.03008, 1e-9),
    ("gpt2", {"size": "xl"}, 1557.6112, 1e-9),
    # The paper rounds to the next 0.1 billion.
    ("gpt3", {"size": "xl"}, 1300.0, 0.02),
    ("gpt3", {"size": "2.7b"}, 2700.0, 0.02),
    ("gpt3", {"size": "6.7b"}, 6700.0, 0.01),
    ("gpt3", {"size": "175b"}, 175000.0, 0.01),
    ("opt", {"size": "125m"}, 125.239296, 1e-9),
    ("opt", {"size": "1.3b"}, 1315.75808, 1e-9),
    ("opt", {"size": "6.7b"}, 6658.473984, 1e-9),
    ("opt", {"size": "13b"}, 12853.47328, 1e-9),
]


@pytest.mark.parametrize(("name", "kwargs", "millions", "tolerance"), PUBLISHED)
def test_published_parameters(
    name: str, kwargs: dict[str, Any], millions: float, tolerance: float
) -> None:
    bundle = build_reference(name, kwargs, batch_size=1)
    assert bundle.parameter_count == pytest.approx(millions * 1e6, rel=tolerance)


@pytest.mark.parametrize(
    ("size", "layers", "width"),
    [("125m", 12, 768), ("1b", 24, 2048), ("13b", 40, 5120), ("70b", 80, 8192)],
)
def test_mpt_has_the_parameters_of_its_formula(size: str, layers: int, width: int) -> None:
    bundle = build_reference("mpt", {"size": size}, batch_size=1, sequence_length=4096)
    tables = (50368 + 4096) * width
    assert bundle.parameter_count == layers * (12 * width**2 + 13 * width) + tables + 2 * width


def test_gnmt_flops() -> None:
    # 24 words of source, 25 of target. Weights that each word meets: W x 4H and H x 4H a layer.
    lstm = 4 * 1024 * (1024 + 1024)
    wide = 4 * 1024 * (2048 + 1024)
    encoder, decoder = 2 * lstm + wide + 2 * lstm, lstm + 3 * wide
    recurrent = 2 * (24 * encoder + 25 * decoder)
    forward = _flops("gnmt", 2)
    assert forward[OpClass.RECURRENT] == recurrent
    # Queries, keys, a score and a sum for each of 25 x 24 pairs, and the output layer.
    attention = 2 * (25 * 1024**2 + 24 * 1024**2 + 2 * 25 * 24 * 1024)
    assert forward[OpClass.MATMUL] == attention + 2 * 25 * 1024 * 31794
    assert _flops("gnmt", 2, training=True)[OpClass.RECURRENT] == 3 * recurrent


def test_gnmt_has_one_recurrent_operator_for_each_layer() -> None:
    graph = capture_job(Job(model="zoo/gnmt", batch_size=2, precision=Precision.AMP_FP16))
    assert sum(node.op == "lstm" for node in graph.nodes) == 8


def test_transformer_xl_flops() -> None:
    # 192 words with a memory as long: 384 keys. The distances are encoded once for a batch of 2.
    width, length, keys = 512, 192, 384
    projections = 3 * keys * width**2 + length * width**2 + keys * width**2 / 2
    products = 3 * length * keys * width
    feed_forward = 2 * length * width * 2048
    head = length * width * 267735
    by_hand = 2 * (16 * (projections + products + feed_forward) + head)
    # The table of sines, 384 x 256 products, is shared by the batch too.
    forward = _flops("transformer-xl-base", 2)[OpClass.MATMUL]
    assert forward == pytest.approx(by_hand, rel=1e-6)
    training = _flops("transformer-xl-base", 2, training=True)[OpClass.MATMUL]
    # Sines need no gradient: of the 16 projections of distances only the weights do.
    assert training == pytest.approx(3 * by_hand - 2 * 16 * keys * width**2 / 2, rel=1e-6)


def test_mpt_flops() -> None:
    # 12 h^2 products a token and layer, scores and sums of half a square, and the output layer.
    width, length = 768, 1024
    flops = _flops("mpt", 2, model_kwargs={"size": "125m"}, sequence_length=length)
    by_hand = 2 * length * (12 * 12 * width**2 + width * 50368)
    assert flops[OpClass.MATMUL] == by_hand
    square = 12 * 2 * 2 * length**2 * width
    assert flops[OpClass.ATTENTION] == pytest.approx(square / 2, rel=0.01)


def test_switch_tokens_meet_one_expert() -> None:
    kwargs = {"num_layers": 2, "vocab_size": 64}
    few, many = (
        _flops("switch", 2, model_kwargs={**kwargs, "num_experts": count}, sequence_length=64)
        for count in (2, 16)
    )
    # More experts leave the work of each token as it is, but for the router and the places.
    assert many[OpClass.MATMUL] == pytest.approx(few[OpClass.MATMUL], rel=0.01)


def test_switch_drops_tokens_beyond_the_capacity() -> None:
    from perfmodel.zoo.references.language.switch import Experts, Sizes

    sizes = Sizes(layers=2, width=4, heads=1, inner=8, experts=2, vocabulary=9, dropout=0.0)
    experts = Experts(sizes)
    # Six tokens, all sent to expert 0, whose capacity is ceil(1.25 * 6 / 2) = 4.
    taken = torch.tensor([[[1.0, 0.0]] * 6])
    places = experts._places(taken)
    assert places.shape == (1, 6, 2, 4)
    assert places[0, :4, 0].equal(torch.eye(4)) and places.sum() == 4


def test_transformer_xl_scores_by_distance() -> None:
    from perfmodel.zoo.references.language.transformer_xl import _shifted

    # 2 queries, 3 keys; a column is a distance: 2, 1, 0. Key j lies 1 + i - j before query i.
    by_distance = torch.tensor([[[[12.0, 11.0, 10.0], [22.0, 21.0, 20.0]]]])
    by_key = _shifted(by_distance)
    assert by_key[0, 0, 0, :2].tolist() == [11.0, 10.0]
    assert by_key[0, 0, 1].tolist() == [22.0, 21.0, 20.0]


SMALL: list[tuple[str, dict[str, Any], int | None]] = [
    ("gnmt", {"vocab_size": 40, "hidden_size": 16}, 6),
    ("transformer-xl-base", {"vocab_size": 40, "num_layers": 1}, 8),
    ("transformer-xl-large", {"vocab_size": 40, "num_layers": 1, "memory_length": 4}, 8),
    ("mpt", {"vocab_size": 40, "num_layers": 1}, 8),
    ("gpt2", {"vocab_size": 40, "num_layers": 1}, 8),
    ("gpt3", {"vocab_size": 40, "num_layers": 1, "size": "small"}, 8),
    ("opt", {"vocab_size": 40, "num_layers": 1}, 8),
    (
        "switch",
        {"vocab_size": 40, "num_layers": 2, "hidden_size": 16, "num_heads": 2, "ffn_size": 32},
        8,
    ),
]


#: The others are made of the same code.
LEARNING = [row for row in SMALL if row[0] not in ("transformer-xl-large", "gpt2", "gpt3")]


@pytest.mark.parametrize(("name", "kwargs", "length"), LEARNING)
def test_small_models_learn(name: str, kwargs: dict[str, Any], length: int | None) -> None:
    from perfmodel.capture.program import make_program

    bundle = build_reference(name, kwargs, batch_size=3, sequence_length=length, device="cpu")
    program = make_program(
        bundle.module,
        bundle.args,
        dict(bundle.kwargs),
        mode=Mode.TRAINING,
        loss=bundle.loss,
        optimizer="adam",
    )
    torch.manual_seed(0)
    losses = [float(program.step()) for _ in range(12)]
    assert sum(losses[-4:]) < sum(losses[:4])


@pytest.mark.parametrize(("name", "kwargs", "length"), SMALL)
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.AMP_FP16])
def test_every_operator_has_a_price(
    name: str, kwargs: dict[str, Any], length: int | None, mode: Mode, precision: Precision
) -> None:
    job = Job(
        model=f"zoo/{name}",
        model_kwargs=kwargs,
        batch_size=2,
        sequence_length=length,
        mode=mode,
        precision=precision,
        optimizer="lamb" if name.startswith("transformer-xl") else "adam",
    )
    assert not totals(capture_job(job)).unpriced


@pytest.mark.parametrize(
    ("name", "kwargs", "length", "pointer"),
    [
        ("mpt", {"size": "8b"}, None, "/job/model_kwargs/size"),
        ("opt", {"num_layers": 13}, None, "/job/model_kwargs/num_layers"),
        ("gpt2", {}, 1025, "/job/sequence_length"),
        ("gnmt", {"num_layers": 1}, None, "/job/model_kwargs"),
        ("switch", {"num_layers": 1}, None, "/job/model_kwargs"),
    ],
)
def test_bad_arguments(name: str, kwargs: dict[str, Any], length: int | None, pointer: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        build_reference(name, kwargs, batch_size=2, sequence_length=length)
    assert caught.value.pointer == pointer

"""Tacotron 2, WaveGlow and Deep Speech 2: parameters, FLOPs, steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from graph_totals import totals

from perfmodel.capture.program import Program, make_program
from perfmodel.errors import InvalidInputError
from perfmodel.graph.cost.base import OpClass
from perfmodel.graph.ir import Graph
from perfmodel.graph.job import Job
from perfmodel.types import Mode, Precision
from perfmodel.zoo.references.reference import build_reference
from perfmodel.zoo.resolve import capture_job


def _forward(name: str, batch: int, **kwargs: Any) -> Graph:
    return capture_job(Job(model=f"zoo/{name}", batch_size=batch, model_kwargs=kwargs))


def _gated_network(audio: int, width: int) -> int:
    # A convolution with weight norm: weight, a length and a bias for each output.
    start = audio * width + 2 * width
    gates = 8 * (3 * width * 2 * width + 2 * 2 * width)
    conditions = 8 * (640 * 2 * width + 2 * 2 * width)
    mixes = 7 * (width * 2 * width + 2 * 2 * width) + width * width + 2 * width
    return start + gates + conditions + mixes + width * 2 * audio + 2 * audio


def _waveglow(width: int) -> int:
    # Eight channels in the first four flows, then six, then four; half of them are audio.
    flows = sum(4 * (c * c + _gated_network(c // 2, width)) for c in (8, 6, 4))
    return 80 * 80 * 1024 + 80 + flows


def _deepspeech2(width: int, gates: int) -> int:
    convolutions = 32 * 41 * 11 + 32 + 32 * 32 * 21 * 11 + 32 + 2 * 64
    heard = 32 * 41
    first = 2 * gates * width * (heard + width + 2)
    later = 4 * (2 * gates * width * (2 * width + 2) + 2 * width)
    return convolutions + first + later + 2 * width + 29 * width


@pytest.mark.parametrize(
    ("name", "kwargs", "by_hand"),
    [
        ("waveglow", {}, _waveglow(512)),
        ("waveglow", {"num_channels": 256}, _waveglow(256)),
        ("deepspeech2", {}, _deepspeech2(800, 3)),
        ("deepspeech2", {"cell": "lstm", "hidden_size": 1024}, _deepspeech2(1024, 4)),
    ],
)
def test_parameters_by_hand(name: str, kwargs: dict[str, Any], by_hand: int) -> None:
    assert build_reference(name, kwargs, batch_size=1).parameter_count == by_hand


def test_published_parameters() -> None:
    small = build_reference("waveglow", {"num_channels": 256}, batch_size=1)
    assert small.parameter_count == pytest.approx(87.9e6, rel=0.001)
    clips = build_reference("tacotron2", batch_size=1)
    assert clips.parameter_count == pytest.approx(28.2e6, rel=0.001)


def test_waveglow_flops() -> None:
    # 1000 groups of 8 samples: every weight of the networks meets each group once.
    found = totals(_forward("waveglow", 2)).flops_by_class[OpClass.CONVOLUTION] / 2
    inner = 8 * (3 * 512 * 1024 + 640 * 1024) + 7 * 512 * 1024 + 512 * 512
    ends = sum(4 * (512 * c // 2 + 512 * c + c * c) for c in (8, 6, 4))
    # 32 frames stretch to 8960 samples, each of them from four frames of 80 channels.
    stretched = 80 * 80 * 1024 * 32
    assert found == pytest.approx(2 * (1000 * (12 * inner + ends) + stretched), rel=1e-3)


def test_deepspeech2_flops() -> None:
    # 400 frames are 200 after the first convolution. One operator for each of five layers.
    graph = _forward("deepspeech2", 2)
    weights = 2 * 3 * 800 * (1312 + 800) + 4 * 2 * 3 * 800 * (800 + 800)
    found = totals(graph).flops_by_class[OpClass.RECURRENT] / 2
    assert found == 2 * 200 * weights
    assert sum(node.op == "gru" for node in graph.nodes) == 5


def test_tacotron2_repeats_its_step_for_every_frame() -> None:
    few, more = (_forward("tacotron2", 2, num_frames=count) for count in (6, 16))
    step = (len(more.nodes) - len(few.nodes)) / 10
    assert step == 42
    cells = [sum(n.op == "_thnn_fused_lstm_cell" for n in g.nodes) for g in (few, more)]
    assert cells == [12, 32]
    # Two cells; query, place of 100 characters and score; frame and stop.
    cell = 4 * 1024 * (256 + 512 + 1024) + 4 * 1024 * (1024 + 512 + 1024)
    attention = 1024 * 128 + 100 * (32 * 128 + 128 + 512)
    frame = (1024 + 512) * 81
    prenet = 80 * 256 + 256 * 256
    matmul = [totals(g).flops_by_class[OpClass.MATMUL] / 2 for g in (few, more)]
    assert matmul[1] - matmul[0] == 10 * 2 * (cell + attention + frame + prenet)


SMALL: list[tuple[str, dict[str, Any]]] = [
    ("deepspeech2", {"hidden_size": 16, "num_layers": 2, "num_frames": 60, "num_letters": 5}),
    (
        "tacotron2",
        {"embedding_size": 16, "hidden_size": 16, "num_frames": 6, "num_characters": 7},
    ),
    (
        "waveglow",
        {"num_channels": 8, "num_layers": 2, "num_flows": 6, "segment_length": 800},
    ),
]


def _program(name: str, kwargs: dict[str, Any]) -> Program:
    bundle = build_reference(name, kwargs, batch_size=3, device="cpu")
    return make_program(
        bundle.module,
        bundle.args,
        dict(bundle.kwargs),
        mode=Mode.TRAINING,
        loss=bundle.loss,
        optimizer="adam",
    )


@pytest.mark.parametrize(("name", "kwargs"), [SMALL[0], SMALL[2]])
def test_small_models_learn(name: str, kwargs: dict[str, Any]) -> None:
    program = _program(name, kwargs)
    torch.manual_seed(0)
    losses = [float(program.step()) for _ in range(3)]
    assert losses[-1] < losses[0]
    _assert_every_parameter_is_trained(program)


def test_every_parameter_of_tacotron2_is_trained() -> None:
    program = _program(*SMALL[1])
    program.step()
    _assert_every_parameter_is_trained(program)


def _assert_every_parameter_is_trained(program: Program) -> None:
    assert not [key for key, p in program.module.named_parameters() if p.grad is None]


@pytest.mark.parametrize(("name", "kwargs"), SMALL)
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.AMP_FP16])
def test_every_operator_has_a_price(
    name: str, kwargs: dict[str, Any], mode: Mode, precision: Precision
) -> None:
    job = Job(
        model=f"zoo/{name}",
        model_kwargs=kwargs,
        batch_size=2,
        mode=mode,
        precision=precision,
        optimizer="adam",
    )
    assert not totals(capture_job(job)).unpriced


@pytest.mark.parametrize(
    ("name", "kwargs", "length", "pointer"),
    [
        ("deepspeech2", {"cell": "qrnn"}, None, "/job/model_kwargs"),
        ("waveglow", {"segment_length": 8001}, None, "/job/model_kwargs"),
        ("waveglow", {"num_flows": 17}, None, "/job/model_kwargs"),
        ("tacotron2", {}, 100, "/job/sequence_length"),
    ],
)
def test_bad_arguments(name: str, kwargs: dict[str, Any], length: int | None, pointer: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        build_reference(name, kwargs, batch_size=2, sequence_length=length)
    assert caught.value.pointer == pointer

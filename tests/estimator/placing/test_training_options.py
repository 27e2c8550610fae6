"""Groups of shards, stated precisions and what lies on the host: time, memory, communication."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfmodel.errors import InvalidPlacementError
from perfmodel.estimator import Estimator
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.graph.job import Job
from perfmodel.graph.training_options.mixed_precision import MixedPrecision
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.parse import format_placement, parse_placement
from perfmodel.requests import parse_job
from perfmodel.types import Basis, Mode, Precision

#: 67 MB of parameters and as much of gradients, in fp32.
JOB = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=2000)
LANGUAGE = Job(
    model="zoo/megatron-gpt", mode=Mode.TRAINING, batch_size=2, precision=Precision.BF16,
    sequence_length=128, accumulation_steps=2, optimizer="adam",
    model_kwargs={"num_layers": 4, "hidden_size": 1024, "num_heads": 16},
)  # fmt: skip
MODELS = Path(__file__).resolve().parents[3] / "models"
LLAMA = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1376, "vocab_size": 8192,
    "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
}  # fmt: skip


def _on(estimator: Estimator, placement: str, job: Job = JOB) -> Estimate:
    return estimator.estimate(job, parse_placement(placement))


def _mixed(**words: str) -> MixedPrecision:
    return MixedPrecision.read(words, "")


def _peak(estimate: Estimate) -> float:
    peak = estimate.memory.peak_bytes
    assert peak is not None
    return peak


@pytest.mark.parametrize(
    "text",
    [
        "2x(8xA10)@eth-10g zero=3 replicate=2",
        "8xA10 zero=3 offload=optimizer+parameters",
        "A10 offload=activations",
    ],
)
def test_they_are_read_and_written_back(text: str) -> None:
    assert format_placement(parse_placement(text)) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("8xA10 replicate=2", "zero_stage 0"),
        ("8xA10 zero=3 replicate=3", "1, 2, 4"),
        ("8xA10 zero=3 replicate=8", "1, 2, 4"),
        ("8xA10 zero=1 offload=parameters", "zero_stage 3"),
        ("8xA10 offload=gradients", "optimizer, parameters, activations"),
        ("8xA10 offload=optimizer+optimizer", "each word once"),
        ("8xA10 zero=3 replicate=2 ep=2", "Leave one of them out"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidPlacementError, match=words):
        parse_placement(text)


def test_groups_of_shards_gather_inside_of_hosts(estimator: Estimator) -> None:
    # What was gathered twice and scattered once over 10 Gbit/s is reduced over it alone.
    slow = "4x(8xA100-SXM4-40GB)@eth-10g zero=3"
    whole, groups = (_on(estimator, t, LANGUAGE) for t in (slow, f"{slow} replicate=4"))
    assert groups.step_time_s < whole.step_time_s


def test_groups_of_shards_reduce_what_they_scattered(estimator: Estimator) -> None:
    inside, over = (
        _on(estimator, t) for t in ("8xA10 zero=2", "4x(8xA10)@eth-10g zero=2 replicate=4")
    )
    assert over.breakdown.exposed_communication_s > inside.breakdown.exposed_communication_s


def test_one_group_of_shards_is_the_usual_plan(estimator: Estimator) -> None:
    plain, stated = (_on(estimator, f"8xA10 zero=3{t}") for t in ("", " replicate=1"))
    assert plain == stated


def test_reduction_follows_its_type(estimator: Estimator) -> None:
    def of(reduce: str) -> Estimate:
        job = replace(JOB, mixed_precision=_mixed(parameter="fp32", reduce=reduce))
        return _on(estimator, "8xA10 zero=2", job)

    full, half = of("fp32"), of("bf16")
    # A gathering of parameters is the same in both, and bits on the way are halved in the other.
    assert half.breakdown.exposed_communication_s < full.breakdown.exposed_communication_s
    assert full.step_time_s == pytest.approx(_on(estimator, "8xA10 zero=2").step_time_s)


def test_kept_weights_take_what_their_type_takes(estimator: Estimator) -> None:
    own = replace(LANGUAGE, precision=Precision.FP32)
    job = replace(own, mixed_precision=_mixed(parameter="bf16", reduce="fp32"))
    alone = _on(estimator, "A100-SXM4-80GB", job), _on(estimator, "A100-SXM4-80GB", LANGUAGE)
    # Of the few parameters of the stand-in those that are kept stand beside those computed with.
    assert _peak(alone[0]) >= _peak(alone[1])
    # Computing is that of bf16.
    assert alone[0].step_time_s == pytest.approx(alone[1].step_time_s)


def test_an_offloaded_optimizer_frees_memory_and_takes_time(estimator: Estimator) -> None:
    there, here = (_on(estimator, f"8xA10 zero=2{t}") for t in (" offload=optimizer", ""))
    assert _peak(there) < _peak(here)
    assert there.step_time_s > here.step_time_s
    # 17 million parameters at 4e9 a second.
    assert there.breakdown.overhead_s - here.breakdown.overhead_s == pytest.approx(
        16.8e6 / 4e9, rel=0.01
    )
    assert there.basis is Basis.ANALYTICAL
    assert any("memory of the host" in text for text in there.warnings)
    assert not any("memory of the host" in text for text in here.warnings)


def test_offloaded_parameters_leave_all_but_what_is_gathered(estimator: Estimator) -> None:
    there, here = (_on(estimator, f"A10 zero=3{t}") for t in (" offload=optimizer+parameters", ""))
    # All parameters but for two matrices of 512 x 512.
    assert _peak(here) - _peak(there) > 64 * 4 * 512 * 512 - 2 * 4 * 512 * 512
    assert there.breakdown.exposed_communication_s > 0


def test_what_cannot_be_offloaded_is_refused(estimator: Estimator) -> None:
    with pytest.raises(InvalidPlacementError, match="layers of this model are not known"):
        _on(estimator, "A10 offload=activations")
    with pytest.raises(InvalidPlacementError, match="training alone"):
        _on(estimator, "A10 offload=optimizer", replace(JOB, mode=Mode.INFERENCE))
    with pytest.raises(InvalidPlacementError, match="Nothing is known of the link"):
        _on(estimator, "EPYC-9654 offload=optimizer")


def test_columns_and_single_cells_agree(estimator: Estimator) -> None:
    """What has training options is answered alike alone and in a table with others."""
    job: Any = replace(JOB, mixed_precision=_mixed(parameter="fp32", reduce="bf16"))
    texts = ("8xA10 zero=2", "8xA10 zero=3 replicate=2", "8xA10", "A10")
    placements = [parse_placement(text) for text in texts]
    table = estimator.matrix([job, JOB], placements)
    for column, placement in enumerate(placements):
        for row, one in enumerate((job, JOB)):
            alone = estimator.estimate(one, placement)
            assert table.samples_per_second[row, column] == pytest.approx(
                alone.throughput.samples_per_second
            )


def test_one_token_in_inference_is_said_to_have_none_before_it(estimator: Estimator) -> None:
    def said(length: int) -> bool:
        job = replace(LANGUAGE, mode=Mode.INFERENCE, sequence_length=length, accumulation_steps=1)
        return any("no keys and values" in text for text in _on(estimator, "A10", job).warnings)

    assert said(1)
    assert not said(2)


@pytest.mark.parametrize("placement", ["A100-SXM4-80GB", "4xA100-SXM4-80GB zero=3", "TPU-v5p"])
def test_training_less_of_a_language_model_takes_no_longer(placement: str) -> None:
    library = GraphLibrary(capture=capture_in_process)
    shipped = Estimator.from_folder(MODELS, graphs=library)
    adapter = {"peft_type": "LORA", "r": 8, "target_modules": ["q_proj", "v_proj"]}
    first = [f"model.layers.{n}.*" for n in range(2)]
    asked = [{}, {"frozen": first[:1]}, {"frozen": first}, {"adapter": adapter}]
    answers = [
        shipped.estimate(
            parse_job(
                {
                    "hf_config": LLAMA, "mode": "training", "precision": "bf16",
                    "optimizer": "adamw", "batch_size": 4, "sequence_length": 256, **trained,
                }
            ),
            parse_placement(placement),
        )
        for trained in asked
    ]  # fmt: skip
    times = [answer.step_time_s for answer in answers]
    assert times == sorted(times, reverse=True)
    peaks = [_peak(answer) for answer in answers]
    assert peaks == sorted(peaks, reverse=True)

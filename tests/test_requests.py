"""Requests: what is read, and what each refusal says."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest

from perfmodel.errors import InvalidInputError, UnknownWordError
from perfmodel.graph.job import Job, stated_fields
from perfmodel.requests import (
    job_to_dict,
    parse_job,
    parse_matrix_observations,
    parse_observations,
    parse_query,
    parse_request,
    read_by_job,
)
from perfmodel.types import SPELLINGS, Compiler, Framework, MemoryFormat, Mode, Precision

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}


def test_defaults_are_filled_in() -> None:
    job, placement = parse_request({"job": JOB, "placement": "8xA100-SXM4-80GB"})
    assert (job.mode, job.precision, job.optimizer) == (Mode.TRAINING, Precision.FP32, "sgd")
    assert placement.accelerator_count == 8


def test_null_means_the_default() -> None:
    assert parse_job({**JOB, "sequence_length": None, "precision": None}) == parse_job(JOB)


@pytest.mark.parametrize("reference", [{"hf_config": {"model_type": "bert"}}, {"graph": "ab12"}])
def test_a_reference_may_stand_inside_model_or_beside_it(reference: dict[str, Any]) -> None:
    rest = {"mode": "inference", "batch_size": 1}
    assert parse_job({"model": reference, **rest}) == parse_job({**reference, **rest})


@pytest.mark.parametrize(
    "job",
    [
        JOB,
        {**JOB, "precision": "amp_bf16", "model_kwargs": {"img_size": 192, "layers": [1, 2]}},
        {"graph": "ab", "mode": "inference", "batch_size": 1, "software": {"torch": "2.9.1"}},
    ],
)
def test_a_job_written_down_for_a_record_reads_back_equal(job: dict[str, Any]) -> None:
    assert parse_job(job_to_dict(parse_job(job))) == parse_job(job)
    assert parse_job(stated_fields(parse_job(job))) == parse_job(job)  # as records keep it


@pytest.mark.parametrize(("spelling", "word"), SPELLINGS.items())
def test_words_are_taken_as_the_field_spells_them(spelling: str, word: str) -> None:
    def parsed(text: str) -> Job:
        for name, words in (("compiler", Compiler), ("memory_format", MemoryFormat)):
            if word in tuple(words):
                return parse_job({**JOB, "mode": "inference", name: text})
        if word in tuple(Framework):
            return parse_job({**JOB, "software": {"framework": text}})
        return parse_job({**JOB, "precision": text})

    assert parsed(spelling) == parsed(spelling.upper()) == parsed(word)


@pytest.mark.parametrize("word", ["fp4", "NF4", "int4", "awq"])
def test_four_bits_are_refused_with_what_answers_them(word: str) -> None:
    with pytest.raises(InvalidInputError, match="four bits.*perfmodel kernel gemm") as refused:
        parse_job({**JOB, "precision": word})
    assert refused.value.pointer == "/job/precision"
    assert "fp8" in refused.value.allowed


def test_a_spelling_belongs_to_the_field_whose_word_it_is() -> None:
    with pytest.raises(UnknownWordError, match="Unknown precision 'torch'.*Use fp32, tf32"):
        parse_job({**JOB, "precision": "torch"})
    with pytest.raises(UnknownWordError, match="'amp'. Did you mean 'amp_bf16' or 'amp_fp16'"):
        parse_job({**JOB, "precision": "amp"})
    mixed = {"parameter": "bfloat16", "reduce": "float32"}
    job = parse_job({**JOB, "mode": "training", "mixed_precision": mixed})
    assert job.mixed_precision is not None
    assert (job.mixed_precision.parameter, job.mixed_precision.reduce) == ("bf16", "fp32")


def test_a_field_of_the_job_that_stands_beside_it_is_told_where_it_belongs() -> None:
    with pytest.raises(InvalidInputError, match="a field of a job") as refused:
        parse_query({"model": "timm/resnet50", "placement": "T4"}, besides=["pin_model"])
    assert refused.value.pointer == "/model"
    assert [other.pointer for other in refused.value.others] == ["/job"]


@pytest.mark.parametrize(
    ("change", "pointer", "words"),
    [
        ({"batch_size": 0}, "/job/batch_size", "got 0"),
        ({"batch_size": True}, "/job/batch_size", "whole number"),
        ({"batch_size": 2.0}, "/job/batch_size", "whole number"),
        ({"batch_size": float("nan")}, "/job/batch_size", "got nan"),
        ({"batch_size": None}, "/job/batch_size", "needs the field 'batch_size'"),
        ({"mode": "train"}, "/job/mode", "Did you mean 'training'?"),
        ({"precision": "fp61"}, "/job/precision", "Unknown precision 'fp61'"),
        ({"batchsize": 4}, "/job/batchsize", "Did you mean 'batch_size'?"),
        ({"model": ""}, "/job/model", "not empty"),
        (
            {"model": None},
            "/job/model",
            "exactly one of model, hf_config, graph, job_type",
        ),
        ({"graph": "ab"}, "/job", "got model and graph"),
        ({"model": {"hf": {}}}, "/job/model/hf", "Unknown field 'hf'"),
        ({"model": {}}, "/job/model", "exactly one"),
        ({"model_kwargs": {"a": [0, float("inf")]}}, "/job/model_kwargs/a/1", "finite"),
        ({"model_kwargs": {"a": object()}}, "/job/model_kwargs/a", "Not a JSON value"),
        ({"activation_checkpointing": 1}, "/job/activation_checkpointing", "true or false"),
        ({"mode": "inference", "accumulation_steps": 2}, "/job/accumulation_steps", "no gradients"),
        ({"software": {"torch": 2.9}}, "/job/software/torch", "text"),
        ({"software": {"torch": "banana"}}, "/job/software/torch", "a version such as"),
        ({"software": {"framework": "tensorflw"}}, "/job/software/framework", "tensorflow"),
    ],
)
def test_refusals_point_and_explain(change: dict[str, Any], pointer: str, words: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_request({"job": {**JOB, **change}, "placement": "V100"})
    assert caught.value.pointer == pointer
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("request_", "pointer"),
    [
        ([], ""),
        ({"job": JOB}, "/placement"),
        ({"placement": "V100"}, "/job"),
        ({"job": JOB, "placement": "V100", "placment": 1}, "/placment"),
        ({"job": 7, "placement": "V100"}, "/job"),
    ],
)
def test_refusals_of_the_whole_request(request_: Any, pointer: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_request(request_)
    assert caught.value.pointer == pointer


def test_endless_nesting_is_refused() -> None:
    nested: dict[str, Any] = {}
    for _ in range(100):
        nested = {"a": nested}
    with pytest.raises(InvalidInputError, match="Nested deeper"):
        parse_job({**JOB, "model_kwargs": nested})


def test_words_for_checkpointing() -> None:
    def job(word: object) -> Job:
        return parse_job(
            {
                "model": "timm/resnet18", "mode": "training", "batch_size": 2,
                "activation_checkpointing": word,
            }
        )  # fmt: skip

    assert job("full") == job(True)
    assert job("none") == job(False)
    assert job("selective").selective_checkpointing
    assert not job("selective").activation_checkpointing
    with pytest.raises(InvalidInputError, match="none, selective, full"):
        job("half")


def test_observations_of_the_job_come_with_the_question() -> None:
    request = {
        "job": {"job_type": "ResNet-50", "mode": "training", "batch_size": 64},
        "placement": "8xT4",
        "observations": [{"placement": "2xT4", "batch_size": 32, "step_time_s": 0.5}],
    }
    query = parse_query(request)
    assert query.job.label == "ResNet-50"
    (seen,) = query.observations
    assert (seen.placement.accelerator_count, seen.batch_size, seen.step_time_s) == (2, 32, 0.5)
    assert (seen.sync_time_s, seen.accumulation_steps) == (None, 1)
    with pytest.raises(InvalidInputError, match="parse_query"):
        parse_request(request)


@pytest.mark.parametrize(
    ("change", "pointer", "said"),
    [
        ({"step_time_s": 0}, "/observations/0/step_time_s", "above 0"),
        ({"step_time_s": float("nan")}, "/observations/0/step_time_s", "finite"),
        ({"step_time_s": 10**400}, "/observations/0/step_time_s", "finite"),
        ({"step_time_s": None}, "/observations/0/step_time_s", "needs the field"),
        ({"sync_time_s": 0.6}, "/observations/0/sync_time_s", "part of step_time_s"),
        ({"batch_size": 0}, "/observations/0/batch_size", "whole number"),
        ({"throughput": 3}, "/observations/0/throughput", "throughput"),
        ({"reporter": "somebody"}, "/observations/0/reporter", "Unknown field 'reporter'"),
        ({"placement": "0xT4"}, "/observations/0/placement", "count"),
        ({"out_of_memory": True}, "/observations/0/out_of_memory", "has no time"),
        ({"step_time_s": None, "out_of_memory": False}, "/observations/0/step_time_s", "in its"),
        (
            {"step_time_s": None, "sync_time_s": 0.1, "out_of_memory": True},
            "/observations/0/out_of_memory", "has no time",
        ),
        ({"out_of_memory": "yes"}, "/observations/0/out_of_memory", "true or false"),
    ],
)  # fmt: skip
def test_a_bad_observation_is_refused(change: dict[str, object], pointer: str, said: str) -> None:
    seen = {"placement": "2xT4", "batch_size": 32, "step_time_s": 0.5, **change}
    with pytest.raises(InvalidInputError, match=said) as caught:
        parse_observations([seen])
    assert str(caught.value.pointer).startswith(pointer)


@pytest.mark.parametrize("field", ["stored_bytes", "cpu_s", "files"])
def test_a_sample_that_costs_more_than_any_is_refused(field: str) -> None:
    assert parse_job({**JOB, "input": {field: 1e12}}).input == {field: 1e12}
    with pytest.raises(InvalidInputError, match=f"{field} is what one sample costs") as caught:
        parse_job({**JOB, "input": {field: 1e308}})
    assert caught.value.pointer == f"/job/input/{field}"


def test_what_an_observation_leaves_out_is_that_of_its_job() -> None:
    job = {"job_type": "ResNet-50", "mode": "training", "batch_size": 64, "accumulation_steps": 4}
    other = {"job_type": "LM", "mode": "training", "batch_size": 5, "accumulation_steps": 2}
    seen = {"placement": "2xT4", "step_time_s": 0.5}
    query = parse_query(
        {
            "job": job,
            "placement": "8xT4",
            "observations": [
                seen,
                {**seen, "batch_size": 32, "accumulation_steps": None},
                {**seen, "accumulation_steps": 1},
                {**seen, "job": other},
                {**seen, "job": other, "batch_size": 10},
            ],
        }
    )
    found = [(one.batch_size, one.accumulation_steps) for one in query.observations]
    assert found == [(64, 4), (32, 4), (64, 1), (5, 2), (10, 2)]
    by_job = parse_matrix_observations([{**seen, "job": 1}], 2)
    wrong = InvalidInputError("no job")
    assert read_by_job(by_job, [wrong, query.job])[1] == query.observations[:1]
    assert read_by_job(by_job, [query.job, wrong]) == {}
    with pytest.raises(InvalidInputError, match="needs the field 'batch_size'"):
        parse_observations([seen])


def _seconds_to_sort(count: int) -> float:
    seen = [{"job": 0, "placement": "T4", "step_time_s": 0.5}] * count
    # What other tests left behind is not collected meanwhile.
    gc.disable()
    begun = time.thread_time()
    (found,) = parse_matrix_observations(seen, 1).values()
    taken_s = time.thread_time() - begun
    gc.enable()
    assert [one.pointer for one in (found[0], found[-1])] == [
        "/observations/0", f"/observations/{count - 1}",
    ]  # fmt: skip
    return taken_s


def test_observations_are_sorted_by_job_in_a_time_that_grows_as_their_number() -> None:
    # Some 8 times as long for 8 times as many; above 64 times where each is added to a copy.
    few, many = (min(_seconds_to_sort(count) for _ in range(3)) for count in (5_000, 40_000))
    assert many < 30 * few


def test_an_observation_may_say_that_it_ran_out_of_memory() -> None:
    cell = {"placement": "2xT4", "batch_size": 32}
    ran_out, ran = parse_observations(
        [{**cell, "out_of_memory": True}, {**cell, "step_time_s": 0.5, "out_of_memory": False}]
    )
    assert (ran_out.ran_out, ran_out.sync_time_s, ran.ran_out) == (True, None, False)
    assert ran_out.cell == ran.cell


def test_tensorrt_trains_nothing() -> None:
    job = {"model": "timm/resnet18", "mode": "training", "batch_size": 8, "compiler": "tensorrt"}
    with pytest.raises(InvalidInputError, match="inference only") as refused:
        parse_job(job)
    assert refused.value.pointer == "/job/compiler"
    assert parse_job({**job, "mode": "inference"}).compiler is Compiler.TENSORRT


def test_a_script_is_said_of_jobs_that_have_a_predicted_step() -> None:
    assert [parse_job({**JOB, "script": said}).script for said in (True, False, None)] == [
        True, False, None,
    ]  # fmt: skip
    assert "script" not in job_to_dict(parse_job(JOB))
    of_type = {"job_type": "mystery", "mode": "training", "batch_size": 8}
    for job, words in (
        ({**of_type, "script": False}, "of a job type nothing but its observations"),
        ({**JOB, "mode": "inference", "script": True}, "known of training alone"),
        ({**JOB, "script": "yes"}, "script must be true or false"),
    ):
        with pytest.raises(InvalidInputError, match=words) as refused:
            parse_job(job)
        assert refused.value.pointer == "/job/script"
    assert parse_job({**JOB, "mode": "inference", "script": False}).script is False


def test_all_that_is_wrong_is_said_at_once() -> None:
    job = {"model": "timm/resnet50", "batch_size": "many", "precision": "fp12", "batchsize": 3}
    with pytest.raises(InvalidInputError) as caught:
        parse_query({"job": job, "placement": "2x(8xA100", "placment": 1})
    said = {one.pointer: one.message for one in (caught.value, *caught.value.others)}
    assert set(said) == {
        "/placment", "/job/batchsize", "/job/mode", "/job/batch_size", "/job/precision",
        "/placement",
    }  # fmt: skip
    assert "'many'" in said["/job/batch_size"] and "fp12" in said["/job/precision"]


def test_a_model_that_nobody_knows_is_among_it() -> None:
    job = {"model": "resnet5O", "mode": "training", "batch_size": -3}
    with pytest.raises(InvalidInputError) as caught:
        parse_query({"job": job, "placement": "8xA100 tpp=3"})
    said = {one.pointer: one.message for one in (caught.value, *caught.value.others)}
    assert set(said) == {"/job/batch_size", "/job/model", "/placement"}
    assert "'timm/resnet50'" in said["/job/model"]


@pytest.mark.parametrize(
    "request_",
    [
        [],
        {"job": {"mode": "training", "batch_size": 1}, "placement": "T4"},
        {"job": {"model": "timm/a", "mode": "training", "batch_size": 0}, "placement": "T4"},
        {
            "job": {"model": "zoo/a", "mode": "training", "batch_size": 1, "b": {}},
            "placement": "T4",
        },
    ],
)
def test_what_stands_in_for_a_mistake_is_none(request_: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_query(request_)
    assert caught.value.others == ()

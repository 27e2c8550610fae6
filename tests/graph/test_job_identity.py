from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from perfmodel.graph.job import Job
from perfmodel.graph.job_form import parse_job
from perfmodel.types import Mode, Precision

JOB = Job(model="timm/resnet50", mode=Mode.TRAINING, batch_size=64)
JOBS = (
    JOB,
    replace(JOB, mode=Mode.INFERENCE, batch_size=1),
    replace(JOB, model_kwargs={"img_size": 192}, precision=Precision.AMP_FP16),
    replace(JOB, model=None, hf_config={"model_type": "bert", "hidden_size": 96}),
    replace(JOB, model=None, graph="ab"),
    replace(JOB, model=None, job_type="click-rates"),
    replace(JOB, selective_checkpointing=True, accumulation_steps=4, software={"torch": "2.13"}),
    replace(JOB, input={"stored_bytes": 1e5}),
)


@pytest.mark.parametrize("job", JOBS)
def test_what_is_written_is_read_back(job: Job) -> None:
    assert parse_job(orjson.loads(job.content)) == job


def test_each_job_has_a_reference_of_its_own() -> None:
    assert len({job.reference for job in JOBS}) == len(JOBS)


def test_a_reference_stays_what_it_is() -> None:
    # It stands in annotations of pods; a change would orphan them.
    assert JOB.content == b'{"batch_size":64,"mode":"training","model":"timm/resnet50"}'
    assert JOB.reference == "9217be2aaef243c6c8bbeb121aecddf5"


def test_a_family_is_a_job_with_any_batch() -> None:
    family = JOB.family
    assert replace(JOB, batch_size=8, accumulation_steps=2).family == family
    assert replace(JOB, mode=Mode.INFERENCE).family != family
    assert replace(JOB, precision=Precision.AMP_FP16).family != family
    assert family not in {job.reference for job in JOBS}


def test_a_registered_graph_is_of_one_batch() -> None:
    graph = replace(JOB, model=None, graph="ab")
    assert graph.family != replace(graph, batch_size=8).family


def test_what_progress_depends_on_changes_no_step() -> None:
    adaptation = {
        "gradient_noise_scale": 900.0, "initial_batch_size": 64, "batch_size_bounds": (64, 1024),
    }  # fmt: skip
    adapted = replace(JOB, adaptation=adaptation)
    assert adapted.family == JOB.family
    assert adapted.reference != JOB.reference
    assert parse_job(orjson.loads(adapted.content)) == adapted


def test_what_a_job_is_said_to_be_is_no_other_job() -> None:
    script, bare = (replace(JOB, script=said) for said in (True, False))
    assert script.family == bare.family == JOB.family
    assert script.step == bare.step == JOB
    # Its answer is another one.
    assert len({job.reference for job in (script, bare, JOB)}) == 3
    for job in (script, bare):
        assert parse_job(orjson.loads(job.content)) == job

"""A published number of parameters says which model a table measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.graph.job import Job
from perfmodel.importers.published import Origin, PublishedStep
from perfmodel.training.samples.corpus import ANOTHER_MODEL, build_corpus, merged
from perfmodel.types import Mode, Precision
from perfmodel.zoo.timm import build_timm

NAME = "mobileone_s0"


def _step(name: str = NAME, *, file: str, millions: float | None) -> PublishedStep:
    return PublishedStep(
        job=Job(model=f"timm/{name}", batch_size=2, precision=Precision.FP32),
        accelerator="L4",
        samples_per_second=100.0,
        origin=Origin(source="made up", licence="none", file=file),
        parameter_count=None if millions is None else 1e6 * millions,
    )


def _millions(name: str, **kwargs: bool) -> float:
    return build_timm(name, kwargs, batch_size=1).parameter_count / 1e6


pytestmark = pytest.mark.usefixtures("captured_here")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sketches")


def test_a_table_of_merged_models_is_captured_merged(cache: Path) -> None:
    plain, short = (
        round(_millions(NAME), 2),
        round(_millions(NAME, reparameterize=True), 2),
    )
    # Branches of 1x1 and identity go into the 3x3 convolution beside them.
    assert short < 0.6 * plain
    corpus = build_corpus(
        [
            _step(file="as-trained.csv", millions=plain),
            _step(file="deployed.csv", millions=short),
            # The same family in the same table: measured in the same way, whatever it says.
            _step(file="deployed.csv", millions=None),
        ],
        cache=cache,
        engine=LocalEngine(),
    )
    trained, deployed, silent = (s.step.sketch.content_hash for s in corpus.samples)
    assert trained != deployed == silent
    assert [dict(job.model_kwargs).get("reparameterize") for job in corpus.jobs] == [
        None, True, True,
    ]  # fmt: skip
    assert not corpus.dropped


def test_another_model_of_that_name_is_dropped_with_the_reason(cache: Path) -> None:
    corpus = build_corpus(
        [_step(file="old.csv", millions=15.41)], cache=cache, engine=LocalEngine()
    )
    assert corpus.samples == ()
    assert corpus.dropped == {ANOTHER_MODEL: 1}


def test_only_inference_with_timm_may_be_merged() -> None:
    job = Job(model="timm/repvgg_a0", batch_size=2)
    assert merged(replace(job, mode=Mode.TRAINING)) is None
    assert merged(replace(job, model="zoo/gnmt", mode=Mode.INFERENCE)) is None
    inference = merged(replace(job, mode=Mode.INFERENCE))
    assert inference is not None
    assert inference.model_kwargs == {"reparameterize": True}

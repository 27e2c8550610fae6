"""Laws that the real tables must keep; skipped where they are absent."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.importers.published import Imported
from perfmodel.importers.record_tables import KINDS, accelerator_of, records_of
from perfmodel.importers.registry import import_format
from perfmodel.types import Precision
from perfmodel.zoo.references.reference import reference_names

FOLDER = os.environ.get("PERFMODEL_DATA")
WHOLE_STEPS = (
    "timm", "lambda", "deep-learning-examples", "cnn-steps", "dlperf", "stable-diffusion",
    "lambda-tensorflow", "fastertransformer", "timm-releases", "mlperf", "detectron2", "aws-neuron",
)  # fmt: skip

pytestmark = pytest.mark.skipif(not FOLDER, reason="PERFMODEL_DATA names no folder of tables")


@pytest.fixture(scope="module", params=WHOLE_STEPS)
def imported(request: pytest.FixtureRequest) -> Imported:
    chosen = import_format(request.param)
    return chosen.read(chosen.usual_path(Path(str(FOLDER))))


def test_every_accelerator_is_in_the_catalogue_under_that_name(imported: Imported) -> None:
    catalog = Catalog.default()
    names = {accelerator_of(r) for kind in KINDS for r in records_of(imported, kind)}
    assert names
    assert {catalog.get(name).name for name in names} == names


def test_no_point_is_there_twice(imported: Imported) -> None:
    steps = Counter((s.accelerator, repr(s.job)) for s in imported.steps)
    assert not [point for point, number in steps.items() if number > 1]


def test_every_reference_workload_that_is_named_exists(imported: Imported) -> None:
    named = {s.job.model or "" for s in imported.steps}
    named |= {p.job.model or "" for p in imported.placements if p.job is not None}
    known = {f"zoo/{name}" for name in reference_names()}
    assert {name for name in named if name.startswith("zoo/")} <= known


def test_a_newer_generation_trains_every_task_faster() -> None:
    steps = import_format("lambda").read(Path(str(FOLDER))).steps
    best: dict[tuple[str | None, str], float] = {}
    for step in steps:
        if step.job.precision is not Precision.FP16:
            key = step.job.model, step.accelerator
            best[key] = max(best.get(key, 0.0), step.samples_per_second)
    models = {model for model, _ in best}
    assert len(models) == 11
    generations = ("V100-SXM2-16GB", "A100-SXM4-80GB", "H100-SXM5-80GB")
    for model in models:
        # The suite that has H100 has no Mask R-CNN.
        known = generations[: 2 if model == "zoo/mask-rcnn" else 3]
        rates = [best[model, name] for name in known]
        assert rates == sorted(set(rates)), model

"""A full fit from measured records and a captured table to a version that answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from migrated import migrated_sqlite
from retraining_world import RetrainingWorld
from small_tables import write_timm_table

from perfmodel.estimator.facade import Estimator
from perfmodel.graph.job import Job
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.predictors.members.ensemble import DEFAULT_MEMBERS
from perfmodel.retraining.data.sources import DataSources
from perfmodel.retraining.run_folder import PHASES
from perfmodel.store.artifacts import read_artifact
from perfmodel.store.profiles import ProfileStore
from perfmodel.store.retraining.retraining_records import RetrainingState

#: A processor that the project has measured.
DEVICE = "cpu-amd-epyc-2c"
#: Measured on the processor that the project's records name; of some one mode is kept back.
MEASURED = (
    "timm/convnext_nano", "timm/mobilenetv3_small_100", "timm/repvgg_a0", "timm/resnet18",
    "timm/mambaout_femto", "timm/inception_next_atto", "timm/hgnetv2_b0",
)  # fmt: skip
SETTINGS = {
    "folds": 2,
    "joint": {"epochs": 1, "rounds": 20, "folds": 2},
    # A machine that is busy loads and answers slowly, and one pass learns little.
    "margins": {"load_times": 1e3, "load_time_s": 1e3, "answers_share": 1e-3, "error": 0.5},
}


def _few_records(folder: Path) -> int:
    """Copy the project's own records of some models; return how many."""
    found, copied = ProfileStore(Path(__file__).parents[2] / "profiles"), ProfileStore(folder)
    count = 0
    for measurement in found.iter_measurements():
        step = measurement.step
        if step.accelerator == DEVICE and step.model in MEASURED:
            copied.append(measurement, found.graph(step.graph_hash))
            count += 1
    copied.compact()
    return count


def test_everything_is_fitted_judged_and_answers(tmp_path: Path) -> None:
    world = RetrainingWorld(url=migrated_sqlite(tmp_path), folder=tmp_path)
    assert _few_records(world.profiles) > 20
    write_timm_table(tmp_path / "tables" / "timm")
    place = replace(
        world.place,
        sources=DataSources(profiles=(world.profiles,), data=tmp_path / "tables"),
        cache=None,
    )
    ending = world.retrain(place=place, members=list(DEFAULT_MEMBERS), **SETTINGS)
    assert ending.state is RetrainingState.DONE and ending.verdict is not None, ending.reason
    finished = [line for line in world.said if line.endswith("is finished")]
    assert finished == [f"{phase.value}: is finished" for phase in PHASES]
    version = world.models / "default" / str(ending.version)
    manifest = read_artifact(version).manifest
    assert set(manifest["members"]) == set(DEFAULT_MEMBERS)
    assert manifest["snapshot"]["timm"]["samples"] > 15
    assert manifest["snapshot"]["workloads"]["samples"] > 12
    assert {"RTX-3090", "RTX-4090", DEVICE} <= set(manifest["joint"]["devices"])
    judged = {group["judging_set"] for group in ending.verdict.groups}
    assert judged == {"frozen"}
    # It serves: a device that members know, and one that the joint predictor alone does.
    estimator = Estimator.from_folder(world.models)
    job = Job(model="timm/test_resnet", batch_size=32)
    for device in (DEVICE, "RTX-4090"):
        answer = estimator.estimate(job, parse_placement(device))
        assert answer.model_version == f"default/{ending.version}"
        assert answer.throughput.low < answer.throughput.samples_per_second < answer.throughput.high
    world.close()

from __future__ import annotations

from perfmodel.graph.job import Job
from perfmodel.importers.published import Imported, Origin, PublishedPlacement, PublishedStep
from perfmodel.placement.topology.topology import Node, Placement
from perfmodel.training.placement_rows.data_parallel_rows import paired
from perfmodel.types import Mode, Precision

ORIGIN = Origin(source="made up", licence="none")


def _job(*, batch_size: int = 16, torch: str = "2.3.0") -> Job:
    return Job(
        model="zoo/resnet18-cifar",
        mode=Mode.TRAINING,
        batch_size=batch_size,
        precision=Precision.FP32,
        optimizer="momentum",
        software={"torch": torch},
    )


def _step(job: Job, accelerator: str = "A10") -> PublishedStep:
    return PublishedStep(job=job, accelerator=accelerator, samples_per_second=160.0, origin=ORIGIN)


def _placement(
    job: Job | None, count: int, *, name: str = "made-up", step_time_s: float = 0.12
) -> PublishedPlacement:
    return PublishedPlacement(
        job=job,
        job_type=name,
        batch_size=16,
        placement=Placement(nodes=(Node(accelerator="A10", count=count),)),
        step_time_s=step_time_s,
        origin=ORIGIN,
        settings={"precision": "fp32", "torch": "2.3.0"},
    )


def test_a_step_is_paired_with_the_same_job_on_one() -> None:
    imported = Imported(steps=(_step(_job()),), placements=(_placement(_job(), 4),))
    ((record, alone_s),) = paired(imported)
    # 16 samples at 160 samples/s.
    assert alone_s == 0.1
    assert record.placement.accelerator_count == 4


def test_another_batch_software_or_accelerator_is_another_job() -> None:
    steps = (
        _step(_job(batch_size=8)),
        _step(_job(torch="1.13.0")),
        _step(_job(), accelerator="A40"),
    )
    assert paired(Imported(steps=steps, placements=(_placement(_job(), 4),))) == []


def test_jobs_known_by_name_are_paired_among_placements() -> None:
    placements = (_placement(None, 1, step_time_s=0.1), _placement(None, 2))
    ((record, alone_s),) = paired(Imported(placements=placements))
    assert (record.placement.accelerator_count, alone_s) == (2, 0.1)


def test_inference_is_left_out() -> None:
    placements = (
        _placement(None, 1, name="made-up-inference", step_time_s=0.1),
        _placement(None, 2, name="made-up-inference"),
    )
    assert paired(Imported(placements=placements)) == []

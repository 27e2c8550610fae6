"""Measurements in the order in which a cluster would see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from held_out.frozen_folds import torch_version

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.engines.task_engine import TaskEngine
from perfmodel.features.steps.step import StepSample
from perfmodel.graph.job import Job
from perfmodel.importers.published import PublishedStep
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.topology.topology import Node, Placement
from perfmodel.predictors.folds import unit_hash
from perfmodel.training.samples.corpus import build_corpus
from perfmodel.training.validation.held_out_folds import identity


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrival:
    """A measured step, as a model learns from it and as a service hears of it."""

    job: Job
    sample: StepSample

    @cached_property
    def placement(self) -> Placement:
        """One accelerator by itself."""
        return Placement(nodes=(Node(accelerator=self.device, count=1),))

    @property
    def device(self) -> str:
        """The accelerator that it ran on."""
        return self.sample.step.accelerator.name

    @property
    def measured_s(self) -> float:
        """Of the step, seconds."""
        return self.sample.step_time_s

    @cached_property
    def family(self) -> str:
        """Of the job, whatever its batch."""
        return self.job.family

    def observation(self, *, by_others: bool) -> Observation:
        """Return it as a report: about another job by somebody, or about the job itself."""
        return Observation(
            placement=self.placement,
            batch_size=self.job.batch_size,
            accumulation_steps=self.job.accumulation_steps,
            step_time_s=self.measured_s,
            job=self.job if by_others else None,
            reporter="cluster" if by_others else "",
        )


def arrivals_of(steps: Sequence[PublishedStep], engine: TaskEngine | None = None) -> list[Arrival]:
    """Return the steps that can be captured, by release of PyTorch, then device by device.

    Within a device and a release their order follows from hashes.
    """
    found = []
    for step in steps:
        built = build_corpus([step], engine=engine or LocalEngine())
        pairs = zip(built.jobs, built.samples, strict=True)
        found += [Arrival(job=job, sample=sample) for job, sample in pairs]
    return sorted(found, key=_turn)


def _turn(arrival: Arrival) -> tuple[tuple[int, int], str, float]:
    sample = arrival.sample
    return torch_version(sample), arrival.device, unit_hash(f"turn:{identity(sample)}")

"""Stand-ins that never take time: what is not in memory is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from perfmodel.errors import NotInTimeError
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.graph.job import Job
from perfmodel.graph.workload import Workload
from perfmodel.predictors.prediction import Prediction


@dataclass(frozen=True)
class NoModel:
    """A model that never predicts.

    Parameters
    ----------
    version : str
        Of the model in whose place it stands.
    """

    version: str

    def predict(self, workloads: Sequence[Workload]) -> Sequence[Prediction]:
        """Refuse.

        Raises
        ------
        NotInTimeError
            There is a workload.
        """
        if workloads:
            raise NotInTimeError(
                f"The model {self.version} has not predicted this job on this accelerator yet. "
                "Ask again: it is at work on it."
            )
        return []


class NoCaptures:
    """A source of graphs that captures none."""

    def step(self, job: Job) -> CapturedStep:
        """Refuse."""
        return _not_captured(job)


NO_CAPTURES = NoCaptures()


def _not_captured(job: Job) -> NoReturn:
    raise NotInTimeError(
        f"The step of {job.label} is not captured yet, so that not even its arithmetic is known. "
        "It is being captured: ask again. Register jobs with POST /v1/jobs before they are asked "
        "about in a hurry."
    )

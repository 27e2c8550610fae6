"""Published steps on one accelerator as samples: all of the small tables, a part of the large."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfmodel.engines.task_engine import TaskEngine
from perfmodel.features.steps.step import StepSample
from perfmodel.importers.published import PublishedStep
from perfmodel.predictors.folds import Progress
from perfmodel.store.profiles import ProfileStore
from perfmodel.training.captures.capture_child import CaptureFailure
from perfmodel.training.samples.corpus import build_corpus
from perfmodel.training.samples.measured_kernels import operator_steps
from perfmodel.training.samples.profile_corpus import profile_corpus
from perfmodel.training.samples.public_data import OPERATOR_FORMATS, read_formats

#: Networks of timm are taken by turns: those at one position of so many.
TURNS = 25
#: Turns that are taken unless others are named.
USUAL_TURNS = (0, 6, 12, 18)
_SMALL = ("lambda", "deep-learning-examples")


class CapturesNothing:
    """Leaves out every job that was never captured on this machine."""

    def run(
        self, function: Callable[..., Any], shared: Any, tasks: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        """Fail at every capture."""
        for position, jobs in enumerate(tasks):
            yield (
                position,
                [
                    CaptureFailure(label=label, reason="was not captured before", message="")
                    for label, _ in jobs
                ],
            )


@dataclass(frozen=True, kw_only=True)
class PublishedSamples:
    """What is replayed, and operators measured alone, which are there from the start."""

    samples: tuple[StepSample, ...]
    operators: tuple[StepSample, ...]


def read_samples(
    data: Path,
    *,
    profiles: Path | None = None,
    turns: Sequence[int] = USUAL_TURNS,
    engine: TaskEngine | None = None,
    progress: Progress | None = None,
) -> PublishedSamples:
    """Read the tables; captures what no kept sketch stands for.

    Parameters
    ----------
    profiles : Path or None
        Own profiles that are read as well.
    turns : sequence of int
        Which networks of timm, each in ``range(TURNS)``.
    """
    found = read_formats(data, (*_SMALL, "timm"))
    steps = [step for name in _SMALL if name in found for step in found[name].steps]
    steps += some_networks(found["timm"].steps if "timm" in found else (), turns)
    samples = build_corpus(steps, engine=engine, progress=progress).samples
    if profiles is not None:
        samples += profile_corpus(ProfileStore(profiles)).samples
    kernels = read_formats(data, OPERATOR_FORMATS).values()
    return PublishedSamples(
        samples=samples,
        operators=operator_steps([one for table in kernels for one in table.kernels]),
    )


def some_networks(steps: Sequence[PublishedStep], turns: Sequence[int]) -> list[PublishedStep]:
    """Return the steps of every 25th network, for each of some turns."""
    names = sorted({step.job.label for step in steps})
    chosen = {name for turn in turns for name in names[turn::TURNS]}
    return [step for step in steps if step.job.label in chosen]

"""Capture many jobs, as many at a time as an engine has room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perfmodel.engines.task_engine import TaskEngine
from perfmodel.graph.job import Job, job_to_dict
from perfmodel.predictors.folds import Progress
from perfmodel.store.sketches import SketchFiles
from perfmodel.training.captures.capture_child import CaptureChild, CaptureFailure

#: Jobs of one model that a process takes at a time.
_MOST_AT_ONCE = 8
#: Captures after which it is said how far they are.
_TOLD_EVERY = 200


class CapturePool:
    """Captures jobs and keeps their sketches here, wherever they were captured.

    Jobs of one model go to one process, a few at a time: it imports the model once, and a model
    whose captures take long does not keep one process busy after all others have finished.

    Parameters
    ----------
    folder : Path
        Where the sketches go, see :class:`~perfmodel.store.sketches.SketchFiles`.
    """

    def __init__(
        self, folder: Path, *, engine: TaskEngine, progress: Progress | None = None
    ) -> None:
        self._files = SketchFiles(folder)
        self._engine = engine
        self._progress = progress

    def run(self, jobs: Mapping[str, Job]) -> dict[str, CaptureFailure]:
        """Capture jobs.

        Parameters
        ----------
        jobs : mapping of str to Job
            By the key to keep the sketch under.

        Returns
        -------
        dict of str to CaptureFailure
            By key, of those that could not be captured.

        Raises
        ------
        StoreError
            A sketch cannot be kept.
        """
        groups = _groups(jobs)
        failures: dict[str, CaptureFailure] = {}
        done = 0
        asked = [[(jobs[key].label, job_to_dict(jobs[key])) for key in keys] for keys in groups]
        try:
            for position, outcomes in self._engine.run(_captured, None, asked):
                for key, outcome in zip(groups[position], outcomes, strict=True):
                    if isinstance(outcome, CaptureFailure):
                        failures[key] = outcome
                    else:
                        self._files.keep(key, outcome)
                before, done = done, done + len(outcomes)
                if self._progress is not None and done // _TOLD_EVERY > before // _TOLD_EVERY:
                    self._progress(f"captured {done} of {len(jobs)} steps")
        finally:
            _CHILD.close()
        return failures


def _groups(jobs: Mapping[str, Job]) -> list[list[str]]:
    by_model: dict[str, list[str]] = {}
    for key, job in jobs.items():
        by_model.setdefault(job.label, []).append(key)
    return [
        keys[start : start + _MOST_AT_ONCE]
        for keys in by_model.values()
        for start in range(0, len(keys), _MOST_AT_ONCE)
    ]


#: Captures for this process, whichever of an engine's it is; lives as long as its tasks come.
_CHILD = CaptureChild()


def _captured(
    shared: None, jobs: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[bytes | CaptureFailure]:
    """Capture jobs that were sent as their labels and plain forms."""
    return [_CHILD.capture(label, job) for label, job in jobs]

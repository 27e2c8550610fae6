"""The records of a worker: what it holds already, and what is ready to be kept for good."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import StoreError
from perfmodel.graph.job import Job, stated_fields
from perfmodel.profilers.wire import key_of, workload_key
from perfmodel.profilers.worker import Failure, Success
from perfmodel.records import StepRecord
from perfmodel.store.durable import records_in
from perfmodel.store.profiles import ProfileStore


class RecordFolder:
    """A profile store as one worker uses it; several workers may share the folder.

    Raises
    ------
    StoreError
        In every method that writes: the disk is full or cannot be written. What was written
        before stays.
    """

    def __init__(self, profiles: ProfileStore, spec: AcceleratorSpec) -> None:
        self._profiles = profiles
        self._spec = spec
        self._held: dict[str, StepRecord] | None = None

    @property
    def path(self) -> str:
        """Where it lies."""
        return str(self._profiles.folder)

    def find(self, job: Job, *, threads: int, look_again: bool) -> StepRecord | None:
        """Return the record of a job that was measured before, or None.

        Parameters
        ----------
        look_again : bool
            Others may have written since the folder was read.
        """
        if self._held is None or look_again:
            steps = self._profiles.steps(self._spec.name, on_damaged=_pass_over)
            self._held = {key_of(step): step for step in steps}
        return self._held.get(self._key(job, threads))

    def add(self, job: Job, outcome: Success | Failure, *, threads: int) -> None:
        """Write what came of a job; when this returns, no crash can lose it."""
        with records_in(self.path):
            if isinstance(outcome, Success):
                self._profiles.append(outcome.measurement, outcome.graph_json)
                if self._held is not None:
                    self._held[self._key(job, threads)] = outcome.measurement.step
                return
            key, failure = self._key(job, threads), outcome.record(job)
            self._profiles.append_failure(key, accelerator=self._spec.name, failure=failure)

    def settle(self, doubts: Mapping[str, str | None]) -> None:
        """Turn records into immutable Parquet, those that are doubted marked as noisy.

        What was settled before is passed over.

        Parameters
        ----------
        doubts : mapping of str to str or None
            By job key: why the record is noisy, or None where nothing speaks against it.
        """
        if not doubts or not self._profiles.has_journal(self._spec.name):
            return
        with records_in(self.path), self._alone():
            for key, reason in doubts.items():
                if reason is not None:
                    self._profiles.doubt(self._spec.name, {key}, reason)
            self._profiles.compact(set(doubts))

    def _key(self, job: Job, threads: int) -> str:
        return workload_key(stated_fields(job), accelerator=self._spec.name, threads=threads)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other workers of the same folder from rewriting it meanwhile."""
        with (self._profiles.folder / ".lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def outcome_of(step: StepRecord, *, folder: str) -> Mapping[str, Any]:
    """Return what the database keeps of a record, as plain JSON types."""
    return {
        "accelerator": step.accelerator,
        "key": key_of(step),
        "workload_hash": step.workload_hash,
        "step_time_s": step.step_time_s,
        "low_s": step.low_s,
        "high_s": step.high_s,
        "samples_per_second": step.samples_per_second,
        "peak_memory_bytes": step.peak_memory_bytes,
        "noisy": step.noisy,
        "measured_at": step.provenance.measured_at,
        "folder": folder,
    }


def _pass_over(error: StoreError) -> None:
    """Leave a damaged file out: what it held is measured again."""

"""The job behind a name of a public table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from perfmodel.graph.job import Job
from perfmodel.types import Mode, Precision


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """What is trained under a name.

    Parameters
    ----------
    model : str
        Reference workload.
    amp : bool
        Trained with fp16 casts (apex O1).
    """

    model: str
    optimizer: str
    amp: bool = False
    model_kwargs: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    sequence_length: int | None = None

    def job(self, batch_size: int, precision: Precision) -> Job:
        """Return the job on one accelerator."""
        return Job(
            model=self.model,
            model_kwargs=dict(self.model_kwargs),
            mode=Mode.TRAINING,
            batch_size=batch_size,
            precision=precision,
            optimizer=self.optimizer,
            sequence_length=self.sequence_length,
        )

"""Residuals as values: an observation beside what was answered before it counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perfmodel.store.state.observation_records import StoredObservation


@dataclass(frozen=True, kw_only=True, slots=True)
class Uncompared:
    """An accepted observation that has no residual yet.

    Parameters
    ----------
    number, revision : int
        Its row, and the transaction that brought it.
    seen : StoredObservation
        With the content of its job.
    """

    number: int
    revision: int
    seen: StoredObservation


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredResidual:
    """An observation beside what was answered just before it counted.

    Parameters
    ----------
    observation : int
        Its row.
    accelerator : str
        Name of the catalogue; ``mixed`` where several kinds work together.
    software : mapping of str to str
        Versions that the job or the observation stated.
    operators : str
        What its step does most, of products, convolutions, attention and point-wise.
    label : str
        The job, for people.
    model_version : str
        Which served when it was compared.
    predicted_s, low_s, high_s : float or None
        The answer, what was observed until then included; None where there was none.
    model_s, now_s : float or None
        By the version that served then, and by ``now_version``, without observations; None for a
        job that no model knows.
    reason : str or None
        Why there is no answer.
    family, reporter, received_at, measured_s, job, batch_size
        Of the observation; filled in when it is read.
    """

    observation: int
    accelerator: str
    mode: str
    operators: str
    label: str
    model_version: str
    software: Mapping[str, str] = field(default_factory=dict)
    predicted_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    model_s: float | None = None
    now_version: str = ""
    now_s: float | None = None
    reason: str | None = None
    family: str = ""
    reporter: str = ""
    received_at: str = ""
    measured_s: float = 0.0
    job: str = ""
    batch_size: int = 1

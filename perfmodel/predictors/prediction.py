"""The Prediction: the time of one step on one accelerator, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass

from perfmodel.types import Basis


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What a trained model says about one workload.

    Parameters
    ----------
    time_s, low_s, high_s : float
        Step time and its interval, ``0 < low_s <= time_s <= high_s``.
    coverage : float
        Share of measured times that such intervals contain, in (0, 1).
    out_of_distribution : bool
        The workload lies outside of what the model has learned from.
    nearest : tuple of str
        Most similar measured workloads, best first.
    model_version : str
        ``"<name>/<version>"``.
    """

    time_s: float
    low_s: float
    high_s: float
    coverage: float
    basis: Basis
    out_of_distribution: bool
    nearest: tuple[str, ...]
    model_version: str
    warnings: tuple[str, ...] = ()

"""A job over growing numbers of one accelerator, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidInputError
from perfmodel.placement.topology.topology import Network
from perfmodel.types import Basis

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Most accelerators of a curve, and most points.
MOST_ACCELERATORS, MOST_POINTS = 100_000, 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class CurveQuestion:
    """Which counts of which accelerator.

    Parameters
    ----------
    accelerator : str
        Name or alias.
    counts : tuple of int
        Each >= 1.
    per_host : int
        Accelerators of a full host; hosts are filled one by one.
    network : Network or None
        Between hosts; None means what such hosts usually have.
    link : str or None
        Inside a host; None means the accelerator's own.
    zero_stage : int
        What replicas share out.
    """

    accelerator: str
    counts: tuple[int, ...]
    per_host: int = 8
    network: Network | None = None
    link: str | None = None
    zero_stage: int = 0

    def __post_init__(self) -> None:
        if not 1 <= len(self.counts) <= MOST_POINTS:
            raise InvalidInputError(
                f"A curve has 1 to {MOST_POINTS} counts; got {len(self.counts)}.",
                pointer="/counts",
            )
        for position, count in enumerate(self.counts):
            if not 1 <= count <= MOST_ACCELERATORS:
                raise InvalidInputError(
                    f"A count lies between 1 and {MOST_ACCELERATORS}; got {count}.",
                    pointer=f"/counts/{position}",
                )
        if self.per_host < 1:
            raise InvalidInputError(
                f"accelerators_per_host must be at least 1; got {self.per_host}.",
                pointer="/accelerators_per_host",
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """Throughput over the count, arrays of shape (counts,).

    Parameters
    ----------
    accelerator : str
        Canonical name.
    compute_time_s, sync_time_s : ndarray
        The parts of the step that compute and that synchronise; they may overlap.
    efficiency : ndarray
        Throughput over that many times the throughput of one; at most 1.
    peak_bytes : ndarray
        Of one accelerator.
    """

    accelerator: str
    counts: IntArray
    samples_per_second: FloatArray
    low: FloatArray
    high: FloatArray
    step_time_s: FloatArray
    compute_time_s: FloatArray
    sync_time_s: FloatArray
    exposed_communication_s: FloatArray
    efficiency: FloatArray
    peak_bytes: FloatArray
    fits: npt.NDArray[np.bool_]
    basis: tuple[Basis, ...]
    coverage: float
    out_of_distribution: bool
    model_version: str
    warnings: tuple[str, ...] = ()


def doubling_counts(most: int) -> Sequence[int]:
    """Return 1, 2, 4, ... and ``most`` itself.

    Examples
    --------
    >>> list(doubling_counts(12))
    [1, 2, 4, 8, 12]
    """
    powers = [2**k for k in range(most.bit_length()) if 2**k < most]
    return [*powers, most]

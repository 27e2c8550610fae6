"""From the step of one accelerator to the step of a placement.

Ideal data parallelism, no communication: every accelerator works on its own micro-batches, and a
training step ends when the slowest of them has ended,

    step_time        = max over accelerators of t_a
    samples / second = count * samples_per_replica / step_time          (training)
                     = sum over accelerators of samples_per_replica / t_a   (inference),

because replicas that only answer do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidPlacementError
from perfmodel.placement.topology import Placement
from perfmodel.types import Mode

FloatArray = npt.NDArray[np.float64]

#: Said in every answer for more than one accelerator.
NO_COMMUNICATION_WARNING = (
    "Several accelerators are combined by ideal data parallelism; communication between them is "
    "not modelled yet, so real throughput will be lower."
)

_NOT_YET = "is not modelled yet; leave it out, or ask about one accelerator of its share."


@dataclass(frozen=True, kw_only=True, slots=True)
class Replicas:
    """Equal accelerators that each hold a whole replica.

    Parameters
    ----------
    accelerator : str
        Name as written in the placement.
    count : int
    pointer : str
        JSON pointer to the name, below the placement.
    """

    accelerator: str
    count: int
    pointer: str


def replicas_of(placement: Placement, *, pointer: str = "/placement") -> tuple[Replicas, ...]:
    """Return the accelerators of a placement that is purely data parallel.

    Parameters
    ----------
    placement : Placement
    pointer : str
        JSON pointer to the placement in the request.

    Returns
    -------
    tuple of Replicas
        One entry for each node entry.

    Raises
    ------
    InvalidPlacementError
        A plan, a share or a power limit that would change the step time and has no model yet, or
        a degree of data parallelism that is not the number of accelerators.
    """
    _refuse_what_has_no_model(placement, pointer)
    count = placement.accelerator_count
    if placement.plan.data not in (None, count):
        raise InvalidPlacementError(
            f"The plan's degrees multiply to {placement.plan.data}, but the placement has {count} "
            f"accelerators. Set data to {count} or leave it out.",
            pointer=f"{pointer}/plan/data",
            allowed=(str(count),),
        )
    return tuple(
        Replicas(
            accelerator=node.accelerator,
            count=node.count * node.repeat,
            pointer=f"{pointer}/nodes/{position}/accelerator",
        )
        for position, node in enumerate(placement.nodes)
    )


def _refuse_what_has_no_model(placement: Placement, pointer: str) -> None:
    plan = placement.plan
    for word in ("tensor", "pipeline", "expert", "context"):
        if getattr(plan, word) > 1:
            raise InvalidPlacementError(
                f"{word} parallelism of degree {getattr(plan, word)} {_NOT_YET}",
                pointer=f"{pointer}/plan/{word}",
                allowed=("1",),
            )
    stated = {
        "plan/zero_stage": plan.zero_stage > 0,
        "shared_with": bool(placement.shared_with),
        "power_limit_w": placement.power_limit_w is not None,
        "fraction": placement.fraction not in (None, 1.0),
    }
    for word, present in stated.items():
        if present:
            raise InvalidPlacementError(
                f"{word.rpartition('/')[2]} {_NOT_YET}", pointer=f"{pointer}/{word}"
            )


def placement_warnings(placement: Placement) -> tuple[str, ...]:
    """Return what the answer for a placement leaves out."""
    warnings = []
    if placement.accelerator_count > 1:
        warnings.append(NO_COMMUNICATION_WARNING)
    if placement.cpu_cores is not None or placement.storage_bytes_per_s is not None:
        warnings.append(
            "cpu_cores and storage_bytes_per_s have no effect: input stalls are not modelled yet."
        )
    return tuple(warnings)


def combine(
    times_s: Sequence[FloatArray],
    counts: Sequence[FloatArray],
    *,
    mode: Mode,
    samples: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return step time and throughput of replicas on one or several kinds of accelerator.

    All arrays broadcast against each other: jobs along the first axis, placements along the last.

    Parameters
    ----------
    times_s : sequence of ndarray
        Step time of one replica on each kind, seconds.
    counts : sequence of ndarray
        Replicas on each kind, >= 1.
    mode : Mode
        Of all the jobs.
    samples : ndarray
        Samples of one replica and step.

    Returns
    -------
    tuple of ndarray
        Step time in seconds and samples per second.

    Examples
    --------
    Two accelerators that need 0.1 s and one that needs 0.2 s, for 8 samples each: a training step
    takes 0.2 s for 24 samples; serving gives 2 * 80 + 40 samples/s.

    >>> times, counts = [np.array([0.1]), np.array([0.2])], [np.array([2.0]), np.array([1.0])]
    >>> eight = np.array([8.0])
    >>> [a.tolist() for a in combine(times, counts, mode=Mode.TRAINING, samples=eight)]
    [[0.2], [120.0]]
    >>> [a.tolist() for a in combine(times, counts, mode=Mode.INFERENCE, samples=eight)]
    [[0.2], [200.0]]
    """
    step_time_s = np.asarray(np.maximum.reduce(list(times_s)))
    if mode is Mode.TRAINING:
        replicas = np.asarray(np.add.reduce(list(counts)))
        return step_time_s, np.asarray(replicas * samples / step_time_s)
    rates = [count * samples / time for count, time in zip(counts, times_s, strict=True)]
    return step_time_s, np.asarray(np.add.reduce(rates))


def combine_one(
    times_s: Sequence[float], counts: Sequence[int], *, mode: Mode, samples: int
) -> tuple[float, float]:
    """Return step time and throughput for one job; to the bit as :func:`combine`, but faster.

    Parameters
    ----------
    times_s, counts : sequence
        Step time of one replica on each kind of accelerator, seconds, and replicas on it.
    mode : Mode
    samples : int
        Samples of one replica and step.

    Returns
    -------
    tuple of float
        Step time in seconds and samples per second.

    Examples
    --------
    >>> combine_one([0.1, 0.2], [2, 1], mode=Mode.TRAINING, samples=8)
    (0.2, 120.0)
    """
    step_time_s = max(times_s)
    if mode is Mode.TRAINING:
        return step_time_s, sum(counts) * samples / step_time_s
    return step_time_s, sum(c * samples / time for c, time in zip(counts, times_s, strict=True))

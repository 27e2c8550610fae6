"""A ``speedup_fn`` for PolluxPolicy straight from predictions, without Pollux's form between.

PolluxPolicy calls ``speedup_fn(num_nodes[], num_replicas[])`` some hundred thousand times a round.
All placements that it can choose are predicted in one call, the best batch is searched for each,
and what is left is a table.

Left out: accumulation of gradients; AdaptDL searches it by its own goodput function, which hints
feed (:mod:`perfmodel.adapters.adaptdl`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.adapters.ask import Answers, Cell, JobForm, NoAnswerError, written_out
from perfmodel.adapters.measured.numbers import stated_count, stated_number
from perfmodel.adapters.spread import balanced
from perfmodel.errors import InvalidInputError
from perfmodel.placement.feeding.goodput import statistical_efficiency

LOG = logging.getLogger(__name__)

FloatArray = npt.NDArray[np.float64]
#: From nodes and replicas to the speedup over one replica; scalars or arrays.
SpeedupFunction = Callable[[npt.ArrayLike, npt.ArrayLike], "float | FloatArray"]

#: Global batches that are tried for each placement.
_CANDIDATES = 50
#: Batch sizes of a replica that are asked for besides the first; steps between are interpolated.
_ASKED = 6


@dataclass(frozen=True, kw_only=True)
class BatchRange:
    """What a job allows its batch to be.

    Parameters
    ----------
    init_batch_size, max_batch_size : int
        Global batch that the job begins with, and the largest.
    local_bsz_bounds : (int, int)
        Samples of one replica.
    gradient_noise_scale : float or None
        Samples; None takes a larger batch to be as good as a small one, as AdaptDL does before
        the first report.

    Raises
    ------
    InvalidInputError
        Numbers that are none, or in the wrong order.
    """

    init_batch_size: int
    max_batch_size: int
    local_bsz_bounds: tuple[int, int]
    gradient_noise_scale: float | None = None

    def __post_init__(self) -> None:
        low, high = self.local_bsz_bounds
        for value, what in (
            (self.init_batch_size, "init_batch_size"),
            (self.max_batch_size, "max_batch_size"),
            (low, "The lower local batch size"),
            (high, "The upper local batch size"),
        ):
            stated_count(value, what)
        if self.init_batch_size > self.max_batch_size or low > high:
            raise InvalidInputError(
                "AdaptDL needs init_batch_size <= max_batch_size and the lower local batch size "
                f"first; got {self.init_batch_size}, {self.max_batch_size} and {low} to {high}."
            )
        noise = self.gradient_noise_scale
        if noise is not None and noise != 0:
            stated_number(noise, "gradient_noise_scale")


@dataclass(frozen=True, kw_only=True)
class TableSpeedup:
    """A speedup function that looks up a table.

    Parameters
    ----------
    speedups : ndarray, shape (nodes + 1, replicas + 1)
        Beyond the table its last row and column go on.
    """

    speedups: FloatArray

    def __call__(self, num_nodes: npt.ArrayLike, num_replicas: npt.ArrayLike) -> float | FloatArray:
        """Return the goodput over that of one replica; 0 for none."""
        nodes, replicas = self.speedups.shape
        rows = np.minimum(num_nodes, nodes - 1)
        found = np.asarray(self.speedups[rows, np.minimum(num_replicas, replicas - 1)])
        return float(found) if found.ndim == 0 else found


def linear_speedup(num_nodes: npt.ArrayLike, num_replicas: npt.ArrayLike) -> float | FloatArray:
    """Return the number of replicas: what AdaptDL takes for a job of which it knows nothing."""
    found = np.asarray(num_replicas, dtype=np.float64)
    return float(found) if found.ndim == 0 else found


def speedup_fn(
    answers: Answers,
    job: JobForm,
    accelerator: str,
    batches: BatchRange,
    *,
    max_nodes: int,
    per_host: int = 8,
    network: str | None = None,
) -> SpeedupFunction:
    """Return the speedup function of a job; :func:`linear_speedup` where nothing is answered.

    Parameters
    ----------
    max_nodes, per_host : int
        What PolluxPolicy may choose from.

    Returns
    -------
    callable
        ``f(1, 1) == 1`` and ``f(0, 0) == 0``.

    Raises
    ------
    InvalidInputError
        ``max_nodes`` or ``per_host`` that are no counts.
    """
    max_nodes = stated_count(max_nodes, "max_nodes")
    per_host = stated_count(per_host, "per_host")
    try:
        return _predicted(answers, job, accelerator, batches, max_nodes, per_host, network)
    except NoAnswerError as error:
        LOG.warning("Pollux goes on without predictions of this job: %s", error)
        return linear_speedup


def _predicted(
    answers: Answers,
    job: JobForm,
    accelerator: str,
    batches: BatchRange,
    max_nodes: int,
    per_host: int,
    network: str | None,
) -> TableSpeedup:
    spreads = [
        (nodes, count)
        for nodes in range(1, max_nodes + 1)
        for count in range(nodes, nodes * per_host + 1)
    ]
    low, high = batches.local_bsz_bounds
    first = min(max(batches.init_batch_size, low), high)
    spaced = np.rint(np.geomspace(low, high, _ASKED)).astype(int)
    sizes = np.unique([*spaced, first]).tolist()
    cells = answers.cells(
        [written_out(job, batch_size=size) for size in sizes],
        [balanced(accelerator, count, nodes, network=network) for nodes, count in spreads],
    )
    goodputs = np.zeros((max_nodes + 1, max_nodes * per_host + 1))
    for position, (nodes, count) in enumerate(spreads):
        column = [row[position] for row in cells]
        goodputs[nodes, count] = _goodput(column, sizes, count, batches)
    if not goodputs[1, 1] > 0:
        raise NoAnswerError(
            f"the initial batch of {batches.init_batch_size} is not allowed or does not fit on one "
            "replica"
        )
    for nodes in range(1, max_nodes + 1):
        # Pollux asks for no more replicas than the nodes hold; more bring nothing.
        goodputs[nodes, nodes * per_host + 1 :] = goodputs[nodes, nodes * per_host]
    return TableSpeedup(speedups=goodputs / goodputs[1, 1])


def _goodput(
    column: Sequence[Cell | None], sizes: Sequence[int], replicas: int, batches: BatchRange
) -> float:
    """Return the best goodput of one placement; 0 where the bounds allow no batch."""
    if any(cell is None for cell in column):
        raise NoAnswerError("some placements have no answer")
    known = [
        (size, cell.step_time_s)
        for size, cell in zip(sizes, column, strict=True)
        if cell is not None and cell.fits is not False
    ]
    if not known:
        return 0.0
    least = max(batches.init_batch_size, sizes[0] * replicas)
    if replicas == 1:
        # Without accumulation one replica gives too few gradients to adapt a larger batch.
        totals = np.array([float(least)])
    elif least <= batches.max_batch_size:
        totals = np.geomspace(least, batches.max_batch_size, _CANDIDATES)
    else:
        return 0.0
    local = np.ceil(totals / replicas - 1e-8)
    fitting = local <= known[-1][0]
    if not fitting.any():
        return 0.0
    local = local[fitting]
    times = np.interp(local, [size for size, _ in known], [time_s for _, time_s in known])
    rate = local * replicas / times
    noise = batches.gradient_noise_scale
    if noise is not None:
        rate *= statistical_efficiency(local * replicas, noise, batches.init_batch_size)
    return float(rate.max())

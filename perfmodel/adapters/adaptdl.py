"""AdaptDL / Pollux: the hints that its supervisor takes, before the job has run a step.

Steps are predicted on a small grid of hosts, replicas and batch sizes, Pollux's seven parameters
are fitted to them (:mod:`.pollux`), and the hints say that the whole grid was
seen (``maxProfiledReplicas``), so that no job has to be doubled replica by replica to be known.

A replica's computing (``accum_step_time``) is the step of one accelerator alone; a step with its
synchronisation (``optim_step_time``) is that of the whole placement.

Reference: petuum/adaptdl, ``adaptdl/adaptdl/goodput.py`` and ``sched_hints.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from perfmodel.adapters.ask import Answers, Cell, JobForm, NoAnswerError, written_out
from perfmodel.adapters.measured.numbers import stated_count
from perfmodel.adapters.spread import balanced
from perfmodel.client import Call, Client, fail_open
from perfmodel.errors import InvalidInputError
from perfmodel.placement.calibration.pollux import PolluxParameters, fit_pollux

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Least value of a parameter in AdaptDL's own fit.
_LEAST = 1e-8


@dataclass(frozen=True, kw_only=True)
class StepGrid:
    """Predicted steps of a job, as the arguments of AdaptDL's ``fit_perf_params``.

    Parameters
    ----------
    num_nodes, num_replicas, atomic_bsz : ndarray of int, shape (steps,)
    accum_step_time, optim_step_time : ndarray, shape (steps,)
        Seconds without and with the synchronisation of gradients.
    """

    num_nodes: IntArray
    num_replicas: IntArray
    atomic_bsz: IntArray
    accum_step_time: FloatArray
    optim_step_time: FloatArray


def step_grid(
    answers: Answers,
    job: JobForm,
    accelerator: str,
    *,
    batch_sizes: Sequence[int],
    max_replicas: int,
    per_host: int = 8,
    network: str | None = None,
) -> StepGrid:
    """Predict the steps that Pollux's parameters are fitted to, in one call.

    Parameters
    ----------
    batch_sizes : sequence of int
        Samples of one replica; those that do not fit its memory are left out.
    max_replicas, per_host : int
        Powers of two up to the first are taken, packed and one host wider.

    Raises
    ------
    NoAnswerError
        No answer, or no batch size that fits.
    InvalidInputError
        ``max_replicas`` or ``per_host`` that are no counts.
    """
    max_replicas = stated_count(max_replicas, "max_replicas")
    per_host = stated_count(per_host, "per_host")
    spreads = _spreads(max_replicas, per_host)
    forms = [balanced(accelerator, count, hosts, network=network) for hosts, count in spreads]
    cells = answers.cells([written_out(job, batch_size=size) for size in batch_sizes], forms)
    rows = [
        (hosts, count, size, row[0].step_time_s, max(cell.step_time_s, row[0].step_time_s))
        for size, row in zip(batch_sizes, cells, strict=True)
        for (hosts, count), cell in zip(spreads, row, strict=True)
        if _runs(row[0]) and _runs(cell) and row[0] is not None and cell is not None
    ]
    if not rows:
        raise NoAnswerError(
            f"No batch size of {list(batch_sizes)} has an answer on {accelerator}, or none fits."
        )
    names = [one.name for one in fields(StepGrid)]
    columns = map(np.array, zip(*rows, strict=True))
    return StepGrid(**dict(zip(names, columns, strict=True)))


def perf_params(grid: StepGrid) -> PolluxParameters:
    """Fit Pollux's seven parameters to predicted steps."""
    return fit_pollux(
        grid.num_nodes,
        grid.num_replicas,
        grid.atomic_bsz,
        grid.optim_step_time,
        grid.accum_step_time,
    )


def sched_hints(
    grid: StepGrid,
    *,
    init_batch_size: int,
    max_batch_size: int,
    local_bsz_bounds: tuple[int, int],
    gradient_accumulation: bool = False,
    grad_params: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """Return the body of ``PUT /hints/{namespace}/{name}``.

    Parameters
    ----------
    init_batch_size, max_batch_size : int
        Global batch that the job begins with, and the largest.
    local_bsz_bounds : (int, int)
        Samples of one replica; the upper one is lowered to what is known to fit its memory.
    grad_params : (float, float) or None
        Squared norm and variance of gradients; None before the first report, and then AdaptDL
        takes a larger batch to be as good as a small one.

    Raises
    ------
    InvalidInputError
        Batch sizes in the wrong order.
    """
    low, high = local_bsz_bounds
    most = min(high, int(grid.atomic_bsz.max()))
    if not (1 <= init_batch_size <= max_batch_size and 1 <= low <= most):
        raise InvalidInputError(
            "AdaptDL needs init_batch_size <= max_batch_size and a local batch size that fits; got "
            f"{init_batch_size}, {max_batch_size} and {low} to {most}."
        )
    hints = {
        "initBatchSize": init_batch_size,
        "localBszBounds": [low, most],
        "globalBatchSize": init_batch_size,
        "maxBatchSize": max_batch_size,
        "maxProfiledReplicas": int(grid.num_replicas.max()),
        "gradientAccumulation": gradient_accumulation,
        "perfParams": _bounded(perf_params(grid)),
    }
    if grad_params is not None:
        hints["gradParams"] = {"norm": grad_params[0], "var": grad_params[1]}
    return hints


def put_hints(
    supervisor_url: str,
    namespace: str,
    name: str,
    hints: Mapping[str, Any],
    *,
    timeout_s: float = 2.0,
) -> bool:
    """Send hints to AdaptDL's supervisor.

    Parameters
    ----------
    hints : mapping
        As :func:`sched_hints` returns them.

    Returns
    -------
    bool
        Whether it took them; the job starts without them all the same.
    """
    path = f"/hints/{quote(namespace, safe='')}/{quote(name, safe='')}"
    taken = Call[bool](method="PUT", path=path, kind=bool, body=dict(hints), meaning={200: True})
    with Client(supervisor_url, timeout_s=timeout_s, retries=0) as supervisor:
        return fail_open(lambda: supervisor.ask(taken), False)


def _spreads(max_replicas: int, per_host: int) -> list[tuple[int, int]]:
    """Return hosts and replicas: powers of two, packed, and on twice as many hosts as needed."""
    counts = [2**k for k in range(max_replicas.bit_length()) if 2**k <= max_replicas]
    if counts[-1] != max_replicas:
        counts.append(max_replicas)
    packed = {(-(-count // per_host), count) for count in counts}
    wider = {(2 * hosts, count) for hosts, count in packed if 2 * hosts <= count}
    return sorted(packed | wider)


def _runs(cell: Cell | None) -> bool:
    return cell is not None and cell.fits is not False


def _bounded(fitted: PolluxParameters) -> dict[str, float]:
    """Return the parameters within the bounds of AdaptDL's own fit."""
    return {name: max(value, _LEAST) for name, value in asdict(fitted).items()}

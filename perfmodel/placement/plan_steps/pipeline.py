r"""Time of a pipeline: when every forward and backward pass of every stage can run.

Stage i of p takes :math:`f_i` for the forward and :math:`b_i` for the backward pass of a
micro-batch, n micro-batches pass, and a boundary between stages delays by c. Stages may differ:
the first has the embedding, the last the output, and layers need not divide evenly.

GPipe runs all forward passes, then all backward passes; equal jobs in a line of stages end after

.. math:: \sum_i f_i + (p - 1) c + (n - 1) \max_i f_i,

and backward passes likewise. 1F1B lets stage i run p - i forward passes ahead and then alternates.
Its passes fall into waves: wave k holds forward pass k - i of each stage i and backward pass
m = k - p + 1 of all, in the order of the stage,

.. math::
   F_i(j) &= f_i + \max(F_{i-1}(j) + c,\; \text{what stage i ran before}), \\
   B_i(m) &= b_i + \max(B_{i+1}(m) + c,\; \text{what stage i ran before}),

so each wave needs one shift and one running maximum. An interleaved pipeline holds v chunks of
layers on each stage; its order is that of Megatron, walked through in the steps of a schedule
with equal times. Long runs settle into a period: beyond ``WHOLE`` micro-batches (``_ROUNDS``
rounds of an interleaved pipeline) the last period is repeated.

Reference: Huang et al., GPipe, 2019; Narayanan et al., PipeDream, 2019 (1F1B); Narayanan et al.,
Efficient Large-Scale Language Model Training on GPU Clusters, 2021 (interleaving).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.placement.topology.topology import Schedule

#: Micro-batches that are simulated one by one, and rounds of an interleaved pipeline. Where stages
#: are many a round is long: they settle in four of them within 1.2 %.
WHOLE = 256
_ROUNDS = 8
_LONG_ROUNDS = 4
_MANY_STAGES = 16


def pipeline_time_s(
    forward_s: FloatArray,
    backward_s: FloatArray,
    send_s: FloatArray,
    micro_batches: FloatArray,
    schedule: Schedule,
    *,
    virtual_stages: int = 1,
) -> FloatArray:
    """Return the time until the last backward pass has ended.

    Parameters
    ----------
    forward_s, backward_s : ndarray, shape (cells, stages)
        Of one micro-batch, all chunks of a stage together.
    send_s : ndarray, shape (cells,)
        Delay between a pass of one stage and that of the next.
    micro_batches : ndarray, shape (cells,)
        Whole numbers, >= 1. The last round of an interleaved pipeline need not be full, as in
        Megatron since its groups of micro-batches may be; a first one counts as full.
    virtual_stages : int
        Chunks of a stage; more than one only where the schedule is interleaved.

    Examples
    --------
    Two stages of 1 s forward and 2 s backward, four micro-batches: five slots of 3 s.

    >>> one, two = np.ones((1, 2)), np.full((1, 2), 2.0)
    >>> float(pipeline_time_s(one, two, np.zeros(1), np.array([4.0]), Schedule.ONE_F_ONE_B)[0])
    15.0
    """
    stages = forward_s.shape[1]
    if schedule is Schedule.GPIPE or stages == 1:
        return _flow(forward_s, send_s, micro_batches) + _flow(backward_s, send_s, micro_batches)
    if schedule is Schedule.INTERLEAVED and virtual_stages > 1:
        order = _Interleaved(forward_s, backward_s, send_s, virtual_stages)
        rounds = np.ceil(micro_batches / stages)
        whole = _ROUNDS if stages < _MANY_STAGES else _LONG_ROUNDS
        full = _with_period(order.time_s, rounds, whole, 1)
        before = np.maximum(rounds - 1, 1.0)
        part = micro_batches / stages - before
        less = _with_period(order.time_s, np.where(part < 1, before, 0.0), whole, 1)
        # Of a last round that is not full, as much counts as it has micro-batches.
        return np.where(part < 1, less + np.maximum(part, 0.0) * (full - less), full)

    def run(count: IntArray) -> FloatArray:
        return _one_f_one_b(forward_s, backward_s, send_s, count)

    return _with_period(run, micro_batches, max(WHOLE, 2 * stages), stages)


def _flow(pass_s: FloatArray, send_s: FloatArray, micro_batches: FloatArray) -> FloatArray:
    delays = (pass_s.shape[1] - 1) * send_s
    slots = (micro_batches - 1) * pass_s.max(axis=1)
    return np.asarray(pass_s.sum(axis=1) + delays + slots)


def _with_period(
    run: Callable[[IntArray], FloatArray], count: FloatArray, whole: int, period: int
) -> FloatArray:
    """Return the time of ``count`` turns; those beyond ``whole`` take as long as the last ones.

    Of no turns it is 0, and nothing is walked through.
    """
    short = np.minimum(count, whole).astype(np.int64)
    time_s = run(short)
    beyond = count - short
    if not beyond.any():
        return time_s
    before = run(np.where(beyond > 0, np.maximum(short - period, 1), 0))
    return np.asarray(time_s + beyond * (time_s - before) / period)


def _one_f_one_b(
    forward_s: FloatArray, backward_s: FloatArray, send_s: FloatArray, micro_batches: IntArray
) -> FloatArray:
    """Walk through the waves of 1F1B; cells whose micro-batches have ended stand still."""
    cells, stages = forward_s.shape
    position = np.arange(stages)
    # Times are kept by stage; ``busy`` is when a stage ended what it ran before.
    busy, arrives = np.zeros((cells, stages)), np.zeros((cells, stages))
    delay = send_s[:, None]
    # A backward pass that enters at stage j leaves stage i after through[j] - above[i].
    above = np.cumsum(backward_s + delay, axis=1) - backward_s - delay
    through = above + backward_s
    for wave in range(int(micro_batches.max()) + stages - 1):
        micro = wave - position
        runs = (micro >= 0) & (micro < micro_batches[:, None])
        ended = np.maximum(busy, arrives) + forward_s
        busy = np.where(runs, ended, busy)
        arrives[:, 1:] = busy[:, :-1] + delay
        back = wave - stages + 1
        if back >= 0:
            ready = np.maximum.accumulate((busy + through)[:, ::-1], axis=1)[:, ::-1]
            busy = np.where((back < micro_batches)[:, None], ready - above, busy)
    return np.asarray(busy.max(axis=1))


class _Interleaved:
    """Pipelines of several chunks a stage, in Megatron's order; as :func:`pipeline_time_s`."""

    def __init__(
        self, forward_s: FloatArray, backward_s: FloatArray, send_s: FloatArray, chunks: int
    ) -> None:
        self._stages = forward_s.shape[1]
        # Cells stand side by side: what is looked up are passes.
        self._pass_s = np.concatenate((forward_s.T, backward_s.T)) / chunks
        self._send_s = send_s
        self._chunks = chunks

    def time_s(self, rounds: IntArray) -> FloatArray:
        """Return the time of so many rounds of micro-batches, as many as stages each."""
        time_s = np.zeros(len(rounds))
        for count in np.unique(rounds[rounds > 0]).tolist():
            cells = rounds == count
            steps = _interleaved_steps(self._stages, self._chunks, count)
            passes = 2 * self._stages * self._stages * self._chunks * count
            time_s[cells] = self._walk(steps, passes, cells)
        return time_s

    def _walk(
        self, steps: Sequence[_Slot], passes: int, cells: npt.NDArray[np.bool_]
    ) -> FloatArray:
        pass_s, send_s = self._pass_s[:, cells], self._send_s[cells]
        # One row more, at zero, stands for what waits for nothing.
        ended = np.zeros((passes + 1, len(send_s)))
        begin = 0
        for before, needed, sent, of_stage in steps:
            own = ended[begin : begin + len(before)]
            begin += len(before)
            arrived = ended.take(needed, axis=0, mode="wrap")
            arrived += sent * send_s
            np.maximum(ended.take(before, axis=0, mode="wrap"), arrived, out=own)
            own += pass_s.take(of_stage, axis=0)
        return np.asarray(ended.max(axis=0))


class _Slot(NamedTuple):
    """Passes that run at the same time in a schedule with equal times.

    Passes are numbered in the order in which they run; -1 is nothing.

    Parameters
    ----------
    before, needed : ndarray of int64, shape (passes,)
        What the stage of each ran before, and what it needs from elsewhere.
    sent : ndarray, shape (passes, 1)
        1 where a send lies between, 0 elsewhere.
    of_stage : ndarray of int64, shape (passes,)
        Its stage; of a backward pass, as many further as there are stages.
    """

    before: IntArray
    needed: IntArray
    sent: FloatArray
    of_stage: IntArray


@lru_cache(maxsize=64)
def _interleaved_steps(stages: int, chunks: int, rounds: int) -> tuple[_Slot, ...]:
    """Return the passes in the order of a schedule with equal times."""
    orders = [_order(stage, stages, chunks, rounds) for stage in range(stages)]
    each = rounds * stages * chunks
    slot = np.full(2 * stages * each + 1, -1, dtype=np.int64)
    rows: list[tuple[int, int, int, int, int]] = []
    turn = [0] * stages
    waiting = True
    while waiting:
        waiting = False
        for stage, order in enumerate(orders):
            while turn[stage] < len(order):
                kind, index = order[turn[stage]]
                needed, sent = _needs(kind, index, stage, stages, chunks, each)
                if needed >= 0 and slot[needed] < 0:
                    break
                own = (kind * stages + stage) * each + index
                before = -1
                if turn[stage]:
                    k, i = order[turn[stage] - 1]
                    before = (k * stages + stage) * each + i
                slot[own] = 1 + max(slot[before] if before >= 0 else -1, slot[needed])
                rows.append((own, before, needed, sent, kind * stages + stage))
                turn[stage] += 1
                waiting = True
    return _in_slots(np.array(rows, dtype=np.int64), slot)


def _in_slots(rows: IntArray, slot: IntArray) -> tuple[_Slot, ...]:
    """Return passes numbered anew, in the order of their slots."""
    order = np.argsort(slot[rows[:, 0]], kind="stable")
    own, before, needed, sent, of_stage = rows[order].T
    number = np.full(len(slot), -1, dtype=np.int64)
    number[own] = np.arange(len(own))
    ends = np.flatnonzero(np.diff(slot[own])) + 1
    columns = (number[before], number[needed], sent[:, None].astype(np.float64), of_stage)
    parts = [np.split(column, ends) for column in columns]
    return tuple(_Slot(*some) for some in zip(*parts, strict=True))


def _order(stage: int, stages: int, chunks: int, rounds: int) -> list[tuple[int, int]]:
    """Return what a stage runs: (0, index) forward and (1, index) backward passes."""
    each = rounds * stages * chunks
    ahead = min(each, 2 * (stages - 1 - stage) + (chunks - 1) * stages)
    order = [(0, index) for index in range(ahead)]
    for index in range(each - ahead):
        order += [(0, ahead + index), (1, index)]
    return order + [(1, index) for index in range(each - ahead, each)]


def _needs(
    kind: int, index: int, stage: int, stages: int, chunks: int, each: int
) -> tuple[int, int]:
    """Return the pass of another stage that a pass waits for, or -1, and whether it is sent.

    Passes run by rounds of as many micro-batches as stages: all first chunks of a round, then
    all second ones. What goes into the first stage's next chunk comes from the last stage,
    ``stages`` passes earlier; the last forward chunk turns around on its own stage.
    """
    chunk = index % (stages * chunks) // stages
    own = kind * stages * each
    if kind == 0:
        if stage:
            return own + (stage - 1) * each + index, 1
        return (own + (stages - 1) * each + index - stages, 1) if chunk else (-1, 0)
    if stage < stages - 1:
        return own + (stage + 1) * each + index, 1
    if chunk:
        return own + index - stages, 1
    return (stages - 1) * each + index + (chunks - 1) * stages, 0

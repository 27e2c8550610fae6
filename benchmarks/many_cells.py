"""What a calibration costs, and loses, where a job was observed in very many cells.

    python benchmarks/many_cells.py

A made-up job runs on seven placements at ever more batch sizes. Its cells are off what the job is
like by Student's distribution of three degrees. Times are ratios to that of a few; beside those
that come of weighing some cells together stand what all of them together give, while there are few.
"""

from __future__ import annotations

import os

# Before numpy is loaded, as where answers are made.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time

import numpy as np

from perfmodel.placement.calibration.calibration import MOST_TOGETHER, Calibration, calibrate
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.estimate import StepParts

#: Ranks, hosts, accelerators of the fullest host.
_PLACEMENTS = ((1, 1, 1), (2, 1, 2), (4, 1, 4), (8, 1, 8), (2, 2, 1), (8, 2, 4), (16, 2, 8))
_FIRST_BATCH = 16
_BATCHES = (4, 30, 60, 100, 300, 1500)
_OFF = 0.05
#: Of more cells all together take half a minute and more.
_MOST_IN_ALL = 700


def main() -> None:
    """Print a line for each number of cells."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.parse_args()
    print(f"At most {MOST_TOGETHER} cells weighed together.")
    heads = ("cells", "time", "of the first", "all together", "echo", "of all together", "unseen")
    print(" ".join(f"{head:>15}" for head in heads))
    first = None
    for count in _BATCHES:
        batches = _FIRST_BATCH + np.arange(count)
        seen = _observed(_cells(batches))
        some, some_s = _timed(seen, None)
        first = first or some_s
        unseen = _cells(batches[: count // 2 : max(count // 10, 1)] + 0.5)
        echo = _off(some, seen.cells, np.log(seen.step_time_s))
        words = [f"{len(seen.cells)}", f"{some_s:.2f} s", f"{some_s / first:.1f}"]
        if len(seen.cells) <= _MOST_IN_ALL:
            every, every_s = _timed(seen, len(seen.cells))
            others = [_off(some, at, _log_s(every, at)) for at in (seen.cells, unseen)]
            words += [f"{every_s:.2f} s", _percent(echo), *map(_percent, others)]
        else:
            words += ["-", _percent(echo), "-", "-"]
        print(" ".join(f"{word:>15}" for word in words))


def _cells(batches: np.ndarray) -> StepCells:
    rows = [(*place, batch) for place in _PLACEMENTS for batch in batches.tolist()]
    ranks, hosts, share, batch = np.array(rows, dtype=np.float64).T
    compute = 0.004 + 0.002 * batch
    sent = np.where(ranks > 1, 0.01 * (1 - 1 / ranks) + 0.06 * (1 - 1 / hosts), 0.0)
    exposed = np.maximum(sent - 0.6 * compute, 0.1 * sent)
    parts = StepParts.of(compute, exposed_communication_s=exposed, communication_s=sent)
    return StepCells.of_job(
        parts, batch_size=batch, ranks=ranks, hosts=hosts, largest_share=share, host_s=0.01,
        job="job", machine="machine", fabric="fabric",
    )  # fmt: skip


def _observed(cells: StepCells) -> ObservedSteps:
    off = _OFF * np.random.default_rng(0).standard_t(3, len(cells))
    step_s = cells.parts.step_time_s * np.exp(0.3 + off)
    return ObservedSteps(cells=cells, step_time_s=step_s, sync_time_s=np.full(len(cells), np.nan))


def _timed(seen: ObservedSteps, most: int | None) -> tuple[Calibration, float]:
    begin = time.perf_counter()
    return calibrate(seen, most=most), time.perf_counter() - begin


def _log_s(calibration: Calibration, cells: StepCells) -> np.ndarray:
    return np.log(calibration.apply(cells).parts.step_time_s)


def _off(calibration: Calibration, cells: StepCells, log_s: np.ndarray) -> float:
    """Return how far the worst answer lies from what it should be."""
    return float(np.expm1(np.abs(_log_s(calibration, cells) - log_s).max()))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    main()

"""How near answers can come to the measured placements of Sia and the pairs of Gavel.

Figures none of which is an answer of the package. Of Sia's placements:

    repeats   each step that was measured several times, answered by the mean of its own repeats
    oracle    each placement, answered from all other placements of the job on that cluster by a
              smooth curve through them; its lengths and its noise are those that turn out best
    levels    one number for each job on each cluster, answered by one of the job plus one of the
              cluster, both chosen after looking at all of them; all else is taken as known

An answer from three placements can hardly be nearer than the first two, and one of a job that
never ran on the cluster hardly than the third.

Of Gavel's pairs of jobs on one accelerator, by kind: trees that know the jobs' times and shares,
what the same pair does on the other kind, and all pairs of *this* kind but those of a family of
jobs that is left out, as the one that is asked about or as either of both. An answer without any
pair of the kind has less to go by. Run::

    python benchmarks/placement_floor.py --data FOLDER
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perfmodel.placement.sharing.job_load import job_type_parts
from perfmodel.training.placement_rows.pair_rows import Pairs, read_pairs
from perfmodel.training.placement_rows.script_rows import Group, Measured, script_groups

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

#: Lengths over batches and over placements, and scales of the curves, in logs.
CURVES = tuple(itertools.product((0.5, 1.5), (0.7, 1.5), (0.3, 1.0)))
_NOISE, _OWN = 0.02, 0.02
_ROUNDS = 4
_STARTS, _SMALLEST_STEP = 30, 1e-3


def main() -> None:
    """Print the figures of every job on every cluster, and of all rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("PERFMODEL_DATA"))
    parser.add_argument("--models", type=Path, default=Path("models"))
    options = parser.parse_args()
    if options.data is None:
        print("nothing to look at: name the folder of public tables, --data or PERFMODEL_DATA")
        return
    pairs, _ = read_pairs(options.data)
    report_pairs(pairs)
    report(script_groups(options.data, options.models, tables=("sia",)))


def report(groups: Mapping[Group, Measured]) -> None:
    """Print the figures of steps that were read."""
    repeats, oracle = [], []
    for group, measured in groups.items():
        repeats.append(repeat_errors(measured))
        oracle.append(oracle_errors(measured))
        said = _percent(repeats[-1])
        print(f"{group.job}@{group.cluster}: repeats {said}, oracle {_percent(oracle[-1])}")
    print(f"all: repeats {_percent(np.concatenate(repeats))}", end=", ")
    print(f"oracle {_percent(np.concatenate(oracle))}", end=", ")
    print(f"levels {100 * level_error(groups):.1f} %")


def _percent(errors: FloatArray) -> str:
    return f"{100 * errors.mean():.1f} %" if len(errors) else "-"


def repeat_errors(measured: Measured) -> FloatArray:
    """Return relative errors of the mean of a step's other repeats."""
    steps = measured.steps
    rows: dict[tuple[str, float], list[int]] = defaultdict(list)
    cells = zip(measured.placements.tolist(), steps.cells.batch_size.tolist(), strict=True)
    for row, cell in enumerate(cells):
        rows[cell].append(row)
    errors = []
    for same in rows.values():
        times = steps.step_time_s[same]
        for one in range(len(times) if len(times) > 1 else 0):
            errors.append(abs(np.delete(times, one).mean() / times[one] - 1))
    return np.array(errors)


def oracle_errors(measured: Measured) -> FloatArray:
    """Return relative errors at placements left out in turn, of the curve with the least mean."""
    places = [np.flatnonzero(measured.placements == p) for p in np.unique(measured.placements)]
    y, facts = np.log(measured.steps.step_time_s), _facts(measured)
    tried = [np.abs(np.expm1(_left_out(y - y.mean(), facts, places, *c))) for c in CURVES]
    return min(tried, key=lambda errors: float(errors.mean()))


def _facts(measured: Measured) -> FloatArray:
    """Return columns: batch, then what a placement is made of."""
    cells = measured.steps.cells
    least = np.array([float(digits[0]) for digits in measured.placements])
    batch = np.log(cells.batch_size)
    return np.stack(
        [batch - batch.mean(), np.log(cells.ranks), 2 / cells.hosts, np.log(cells.largest_share),
         np.log(least), cells.ranks == 1, cells.hosts == 1],
        axis=1,
    )  # fmt: skip


def _left_out(
    y: FloatArray,
    facts: FloatArray,
    places: list[IntArray],
    batch: float,
    place: float,
    scale: float,
) -> FloatArray:
    """Return logarithms of answered over measured, each place answered from the others.

    Rasmussen and Williams, 2006, section 5.4.2, for a block of rows at once.
    """
    curve = _covariance(facts, batch, place, scale)
    trust = np.ones(len(y))
    off = np.zeros(len(y))
    for _ in range(_ROUNDS):
        inverse = np.linalg.inv(curve + np.diag(_NOISE**2 / trust))
        weights = inverse @ y
        for rows in places:
            off[rows] = -np.linalg.solve(inverse[np.ix_(rows, rows)], weights[rows])
        trust = np.minimum(1.0, 5.0 / (4.0 + (off / (3 * _NOISE)) ** 2))
    return off


def _covariance(facts: FloatArray, batch: float, place: float, scale: float) -> FloatArray:
    apart = facts[:, None, :] - facts[None, :, :]
    batches = np.exp(-0.5 * (apart[..., 0] / batch) ** 2)
    shape = np.exp(-0.5 * np.sum(apart[..., 1:5] ** 2, axis=-1) / place**2)
    shape *= np.exp(-0.5 * np.sum(apart[..., 5:] ** 2, axis=-1))
    same = np.all(np.abs(apart[..., 1:]) < 1e-9, axis=-1)
    line = 4.0 + facts[:, None, 0] * facts[None, :, 0]
    curves = scale * 0.25 * (batches + shape + shape * batches)
    return np.asarray(line + curves + _OWN**2 * same * (1 + batches))


def level_error(groups: Mapping[Group, Measured]) -> float:
    """Return the least mean error of levels that are one of the job plus one of the cluster.

    A level is the median of the logarithms of measured over predicted; groups count by their rows.
    """
    jobs = sorted({group.job for group in groups})
    clusters = sorted({group.cluster for group in groups})
    level = np.zeros((len(jobs), len(clusters)))
    rows = np.zeros(level.shape)
    for group, measured in groups.items():
        at = jobs.index(group.job), clusters.index(group.cluster)
        steps = measured.steps
        level[at] = np.median(np.log(steps.step_time_s / steps.cells.parts.step_time_s))
        rows[at] = len(steps.step_time_s)

    def error(x: FloatArray) -> float:
        off = np.expm1(x[: len(jobs), None] + x[len(jobs) :] - level)
        return float(np.sum(rows * np.abs(off)) / rows.sum())

    rng = np.random.default_rng(0)
    starts = rng.normal(0.0, 1.0, (_STARTS, len(jobs) + len(clusters)))
    return min(_lowered(error, start) for start in starts)


def _lowered(error: Callable[[FloatArray], float], x: FloatArray) -> float:
    """Return a local minimum, one coordinate after the other by ever smaller steps."""
    least, step = error(x), 1.0
    while step > _SMALLEST_STEP:
        before = least
        for one, sign in itertools.product(range(len(x)), (1.0, -1.0)):
            moved = x.copy()
            moved[one] += sign * step
            if error(moved) < least:
                x, least = moved, error(moved)
        step = step if least < before - 1e-9 else step / 2
    return least


def report_pairs(pairs: Pairs) -> None:
    """Print what trees on pairs of the same kind of accelerator miss."""
    for kind in np.unique(pairs.kinds).tolist():
        here = pairs.kinds == kind
        families = np.array(
            [
                [job_type_parts(name)[0] for name in pair]
                for pair in zip(pairs.subjects[here], pairs.partners[here], strict=True)
            ]
        )
        facts, slower = _pair_facts(pairs, kind), pairs.log_slowdown[here]
        one: list[tuple[BoolArray, BoolArray]] = [
            (families[:, 0] == f, families[:, 0] != f) for f in np.unique(families)
        ]
        both: list[tuple[BoolArray, BoolArray]] = [
            ((families == pair).all(axis=1), np.asarray(~np.isin(families, pair).any(axis=1)))
            for pair in np.unique(families, axis=0)
        ]
        print(f"pairs on {kind}: subjects left out {_tree_error(facts, slower, one)}", end=", ")
        print(f"subjects and partners left out {_tree_error(facts, slower, both)}")


def _pair_facts(pairs: Pairs, kind: str) -> FloatArray:
    """Return columns: both jobs alone, here and there, and the pair on the other kind."""
    here = pairs.kinds == kind
    names = list(zip(pairs.subjects.tolist(), pairs.partners.tolist(), strict=True))
    there = {n: v for n, v, at in zip(names, pairs.log_slowdown, here, strict=True) if not at}
    mine = pairs.take(here)
    asked = [name for name, at in zip(names, here, strict=True) if at]
    own, other = (np.log(loads.step_time_s) for loads in (mine.subject_loads, mine.partner_loads))
    u, v = mine.subject_loads.device_share, mine.partner_loads.device_share
    measured = [[there.get(n, np.nan), there.get(n[::-1], np.nan)] for n in asked]
    batches = mine.subject_loads.log2_batch, mine.partner_loads.log2_batch
    return np.column_stack([own, other, other - own, u, v, u * v, *batches, np.array(measured)])


def _tree_error(
    facts: FloatArray, slower: FloatArray, folds: list[tuple[BoolArray, BoolArray]]
) -> str:
    """Return the mean error of trees that learn from the second part of each fold."""
    from xgboost import XGBRegressor

    off = np.zeros(len(slower))
    for asked, known in folds:
        trees = XGBRegressor(
            n_estimators=200, max_depth=4, learning_rate=0.05, objective="reg:absoluteerror",
            subsample=0.8, n_jobs=1, random_state=0,
        )  # fmt: skip
        trees.fit(facts[known], slower[known])
        off[asked] = trees.predict(facts[asked]) - slower[asked]
    return _percent(np.abs(np.expm1(off)))


if __name__ == "__main__":
    main()

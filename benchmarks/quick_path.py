"""Judge the quick path: records of devices that a model never saw, taken in without a fit.

    python benchmarks/quick_path.py --data FOLDER --leave-out RTX-4090 V100-SXM2-16GB

Every run leaves out the named devices together. One model is fitted without them, one with
``--records`` records of each (half of them where there are fewer than twice as many); the quick
path takes the same records into the first one. Asked are the other records of these devices, and
a share of the rows of all other devices, which no fit has seen. Networks of timm are thinned out
(``--turns``), and fits are those of the short form of ``make bench-accuracy`` unless ``--passes``
and ``--folds`` say otherwise. Times are processor seconds: they mean the same on a busy machine.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from loop_replay.published_steps import (
    USUAL_TURNS,
    CapturesNothing,
    PublishedSamples,
    read_samples,
)

from perfmodel.features.arrays import BoolArray, FloatArray
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.folds import unit_hash
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.training.validation.held_out_folds import identity

#: Share of the rows of other devices that no fit sees.
_KEPT_BACK = 0.15
OTHERS = "all other devices"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Errors on one device, or on all that were not left out: MAPE of each model.

    Parameters
    ----------
    inside : float
        Share of the measurements inside the interval of the quick path.
    """

    device: str
    records: int
    asked: int
    before: float
    quick: float
    full: float
    inside: float


@dataclass(frozen=True, kw_only=True)
class QuickRun:
    """One run: errors, processor seconds, and the worst that befell another device."""

    rows: tuple[Judged, ...]
    quick_s: float
    full_s: float
    worst_other: float


def judge(
    data: PublishedSamples,
    devices: Sequence[str],
    *,
    records: int = 50,
    draw: int = 0,
    folds: int = 3,
    passes: int = 4,
) -> QuickRun:
    """Leave devices out, take some records of them in, and ask."""
    samples = data.samples
    device = np.array([sample.step.accelerator.name for sample in samples])
    out = np.isin(device, devices)
    taken = _drawn(samples, device, devices, records, draw)
    words = [unit_hash(f"kept back:{identity(sample)}") for sample in samples]
    kept_back = (np.array(words) < _KEPT_BACK) & ~out
    learned = [samples[i] for i in np.flatnonzero(~out & ~kept_back)]
    new = [samples[i] for i in taken]
    asked = [samples[i] for i in np.flatnonzero(kept_back | (out & ~_among(taken, len(out))))]
    chips = {sample.step.accelerator.chip for sample in new}
    operators = [one for one in data.operators if one.step.accelerator.chip not in chips]

    def fitted(known: Sequence[StepSample]) -> JointPredictor:
        return JointPredictor(folds=folds, epochs=passes).fit(known, operators=operators)

    before = fitted(learned)
    clock = [time.process_time()]
    quick = before.adapt(new)
    clock.append(time.process_time())
    full = fitted([*learned, *new])
    clock.append(time.process_time())
    return _judged(asked, devices, new, (before, quick, full), np.diff(clock))


def _drawn(
    samples: Sequence[StepSample],
    device: np.ndarray,
    devices: Sequence[str],
    records: int,
    draw: int,
) -> list[int]:
    """Return the positions of the records that are taken in, by a hash of what they are."""
    found: list[int] = []
    for name in devices:
        own = np.flatnonzero(device == name).tolist()
        own.sort(key=lambda i: unit_hash(f"draw {draw}:{identity(samples[i])}"))
        found += own[: min(records, len(own) // 2)]
    return found


def _among(positions: Sequence[int], count: int) -> BoolArray:
    found = np.zeros(count, dtype=np.bool_)
    found[list(positions)] = True
    return found


def _judged(
    asked: Sequence[StepSample],
    devices: Sequence[str],
    new: Sequence[StepSample],
    models: tuple[JointPredictor, JointPredictor, JointPredictor],
    spent_s: FloatArray,
) -> QuickRun:
    measured = np.array([sample.step_time_s for sample in asked])
    device = np.array([sample.step.accelerator.name for sample in asked])
    answers = [model.predict([sample.step for sample in asked]) for model in models]
    off = np.abs(np.array([[a.time_s for a in one] for one in answers]) / measured - 1.0)
    low, high = (np.array([getattr(a, end) for a in answers[1]]) for end in ("low_s", "high_s"))
    inside = (low <= measured) & (measured <= high)
    counts = {name: sum(s.step.accelerator.name == name for s in new) for name in devices}
    groups = {name: device == name for name in devices} | {OTHERS: ~np.isin(device, devices)}
    rows = [
        Judged(
            device=name,
            records=counts.get(name, 0),
            asked=int(own.sum()),
            before=float(off[0, own].mean()),
            quick=float(off[1, own].mean()),
            full=float(off[2, own].mean()),
            inside=float(inside[own].mean()),
        )
        for name, own in groups.items()
    ]
    others = sorted(set(device[groups[OTHERS]].tolist()))
    worse = [off[1, device == name].mean() / off[0, device == name].mean() - 1 for name in others]
    return QuickRun(
        rows=tuple(rows),
        quick_s=float(spent_s[0]),
        full_s=float(spent_s[1]),
        worst_other=float(max(worse, default=0.0)),
    )


def main() -> None:
    """Print a table for every draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    stated = os.environ.get("PERFMODEL_DATA")
    parser.add_argument("--data", type=Path, default=Path(stated) if stated else None)
    parser.add_argument("--profiles", type=Path, default=Path("profiles"))
    parser.add_argument("--leave-out", nargs="+", required=True, metavar="DEVICE")
    parser.add_argument("--records", type=int, default=50)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--turns", type=int, nargs="+", default=USUAL_TURNS)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument(
        "--no-captures", dest="captures", action="store_false",
        help="leave out jobs that were never captured on this machine",
    )  # fmt: skip
    asked = parser.parse_args()
    if asked.data is None:
        raise SystemExit("No measured tables: name their folder with --data or PERFMODEL_DATA.")
    data = read_samples(
        asked.data, profiles=asked.profiles, turns=asked.turns,
        engine=None if asked.captures else CapturesNothing(),
    )  # fmt: skip
    print(f"{len(data.samples)} steps and {len(data.operators)} operators alone", flush=True)
    for draw in range(asked.draws):
        run = judge(
            data, asked.leave_out, records=asked.records, draw=draw, folds=asked.folds,
            passes=asked.passes,
        )  # fmt: skip
        _print(run)


def _print(run: QuickRun) -> None:
    print("| device | records | asked | before | quick | full fit | quick / full | inside |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for one in run.rows:
        print(
            f"| {one.device} | {one.records} | {one.asked} | {100 * one.before:.1f} % | "
            f"{100 * one.quick:.1f} % | {100 * one.full:.1f} % | {one.quick / one.full:.2f} | "
            f"{100 * one.inside:.0f} % |"
        )
    print(
        f"quick: {run.quick_s:.2f} processor s; a full fit: {run.full_s:.0f} s; the device beside "
        f"that fared worst: {100 * run.worst_other:+.2f} %\n",
        flush=True,
    )


if __name__ == "__main__":
    main()

"""How soon drift is seen in made-up clusters, by which detector, and whether its cause is named.

    python benchmarks/drift_detectors.py [--seeds 20] [--quick]

First each detector of river on clusters where nothing drifts (alarms of 1,000 observations) and on
some where one group does (observations until the alarm), then the one that is used on more, with a
table of what was named for what was the cause.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from drift_report.streams import CAUSES, Cluster
from river.drift import ADWIN, KSWIN, PageHinkley

from perfmodel.feedback.drift_fold import PROMISED, Detector, DriftFold, RaisedAlarm, new_detector

#: Observations before a drift begins, and within which it is to be seen.
_BEFORE, _WITHIN = 1_500, 1_000
#: Observations of clusters where nothing drifts.
_QUIET = 6_000

Make = Callable[[], Detector]


def _promised(detector: Detector) -> Detector:
    for _ in range(PROMISED):
        detector.update(0.0)
    return detector


def _page_hinkley(delta: float, threshold: float) -> Make:
    return lambda: _promised(
        PageHinkley(min_instances=PROMISED, delta=delta, threshold=threshold, alpha=1.0)
    )


def _adwin(delta: float) -> Make:
    return lambda: _promised(ADWIN(delta=delta, clock=1, grace_period=5))


def _kswin(alpha: float) -> Make:
    def made() -> Detector:
        # It compares distributions: a promise without spread would be one of its own.
        random, found = Random(0), KSWIN(alpha=alpha, window_size=60, stat_size=20, seed=1)
        for _ in range(60):
            found.update(random.gauss(0.0, 0.6))
        return found

    return made


DETECTORS: dict[str, Make] = {
    "PageHinkley, 0.25, 12": _page_hinkley(0.25, 12.0),
    "PageHinkley, 0.5, 12": _page_hinkley(0.5, 12.0),
    "PageHinkley, 0.25, 20": _page_hinkley(0.25, 20.0),
    "ADWIN, 0.002": _adwin(0.002),
    "KSWIN, 0.0001": _kswin(0.0001),
}


def false_alarms(make: Make, seeds: Sequence[int]) -> tuple[float, float]:
    """Return alarms of 1,000 observations where nothing drifts, and seconds of one of them."""
    begun_s = time.perf_counter()
    found = sum(len(DriftFold(make).add_all(Cluster(s).residuals(_QUIET))) for s in seeds)
    observations = len(seeds) * _QUIET
    return 1_000 * found / observations, (time.perf_counter() - begun_s) / observations


def first_alarm(make: Make, cause: str, shift: float, seed: int) -> RaisedAlarm | None:
    """Return the first alarm after a drift began, or None."""
    fold = DriftFold(make)
    cluster = Cluster(seed, cause=cause, shift=shift, begins=_BEFORE)
    for residual in cluster.residuals(_BEFORE + _WITHIN):
        raised = [one for one in fold.add(residual) if one.opened is residual]
        if raised and residual.number >= _BEFORE:
            return raised[0]
    return None


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="The detector that is used alone.")
    asked = parser.parse_args()
    if not asked.quick:
        _compare(range(4), range(100, 106))
    _confuse(range(asked.seeds), range(100, 100 + asked.seeds))


def _compare(quiet: Sequence[int], drifting: Sequence[int]) -> None:
    print(f"{'detector':24} false of 1,000   us   seen, after observations, by cause at 20 %")
    for name, make in DETECTORS.items():
        rate, each_s = false_alarms(make, quiet)
        told = []
        for cause in CAUSES:
            found = [first_alarm(make, cause, 0.2, seed) for seed in drifting]
            after = [one.opened.number - _BEFORE for one in found if one]
            middle = f"{statistics.median(after):.0f}" if after else "-"
            told.append(f"{cause} {len(after)}/{len(found)} {middle}")
        print(f"{name:24} {rate:14.2f} {1e6 * each_s:5.0f}   {', '.join(told)}", flush=True)


def _confuse(quiet: Sequence[int], drifting: Sequence[int]) -> None:
    rate, _ = false_alarms(new_detector, quiet)
    print(f"\nUsed: {rate:.3f} false alarms of 1,000 observations, over {len(quiet)} clusters")
    for shift in (0.1, 0.2, 0.4):
        print(f"\nsteps take {shift:+.0%}: cause, seen, median observations, what was named")
        for cause, meant in CAUSES.items():
            found = [first_alarm(new_detector, cause, shift, seed) for seed in drifting]
            seen = [one for one in found if one is not None]
            named = Counter(
                cause if one.group == meant else f"another {one.group.kind}" for one in seen
            )
            told = ", ".join(f"{count} {what}" for what, count in named.most_common())
            after = [one.opened.number - _BEFORE for one in seen]
            middle = f"{statistics.median(after):.0f}" if after else "-"
            print(f"{cause:12} {len(seen):3}/{len(found)} {middle:>5}   {told}", flush=True)


if __name__ == "__main__":
    main()

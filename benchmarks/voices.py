"""What one reporter more, or three liars of ten, do to what reporters of a machine agree on.

    python benchmarks/voices.py [--draws 150]

Reporters of a machine saw one to six jobs each, of eight whose steps take longer than predicted by
what is drawn for the machine and for each of them. Then one more says less, or more, than they do;
or three of ten of them say everything half or twice as long.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np

from perfmodel.estimator.evidence.strangers import Seen, agreed_level

#: Standard deviations, in logarithms: of machines, of jobs there, and of what two see of one.
_OF_MACHINES, _OF_JOBS, _OF_STEPS = 0.35, 0.2, 0.05
_JOBS = [f"job {number}" for number in range(8)]
_LIES = (-3.0, -0.7, 0.7, 3.0)


def main() -> None:
    """Print how far what is agreed moves, by how many report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=150)
    draws = parser.parse_args().draws
    rng = np.random.default_rng(0)
    print(
        f"{'reporters':>9} {'one more, at most':>18} {'3 of 10 lie: mean':>18} {'at most':>8}",
        end="",
    )
    print(f" {'level not believed':>19} {'of':>6}")
    for count in (1, 2, 3, 4, 6, 8, 10, 16, 32):
        drawn = [_moved(count, rng) for _ in range(draws)]
        more, liars, left, level = (np.concatenate(each) for each in zip(*drawn, strict=True))
        print(
            f"{count:>9} {_percent(more.max()):>18} {_percent(liars.mean()):>18} "
            f"{_percent(liars.max()):>8} {_percent(left.mean()):>19} {_percent(level.mean()):>6}"
        )


def _moved(count: int, rng: np.random.Generator) -> tuple[list[float], ...]:
    level = rng.normal(0.0, _OF_MACHINES)
    jobs = {job: level + rng.normal(0.0, _OF_JOBS) for job in _JOBS}
    honest = {f"reporter {number:02}": _seen(jobs, 0.0, rng) for number in range(count)}
    before = agreed_level("machine", honest)
    more = [
        abs(agreed_level("machine", {**honest, "stranger": _seen(jobs, lie, rng)}) - before)
        for lie in _LIES
    ]
    lying, liars = sorted(honest)[: int(0.3 * count)], [0.0]
    for lie in (-np.log(2), np.log(2)):
        told = {**honest, **{name: _longer(honest[name], lie) for name in lying}}
        liars.append(abs(agreed_level("machine", told) - before))
    return more, liars, [abs(level - before)], [abs(level)]


def _seen(jobs: Mapping[str, float], lie: float, rng: np.random.Generator) -> Seen:
    chosen = rng.choice(_JOBS, rng.integers(1, 7), replace=False).tolist()
    return {job: jobs[job] + lie + rng.normal(0.0, _OF_STEPS) for job in chosen}


def _longer(seen: Seen, lie: float) -> Seen:
    return {job: off + lie for job, off in seen.items()}


def _percent(log: float) -> str:
    return f"{100 * np.expm1(log):.1f} %"


if __name__ == "__main__":
    main()

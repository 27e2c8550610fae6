"""Time to fit each predictor on the committed profiles, beside boosted trees on whole graphs."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from perfmodel.predictors.registry import new_predictor
from perfmodel.store.profiles import ProfileStore
from perfmodel.training.samples.samples import load_samples

PREDICTORS = ("efficiency", "gbdt", "operators", "gnn")
PEER = "gbdt"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profiles", type=Path, default=Path("profiles"))
    arguments = parser.parse_args()
    started = time.perf_counter()
    samples = load_samples(ProfileStore(arguments.profiles)).samples
    print(f"read {len(samples)} samples in {time.perf_counter() - started:.1f} s")
    # The features of a graph are computed once, at the first fit: pay for that apart.
    started = time.perf_counter()
    new_predictor("operators", seed=0).fit(samples)
    new_predictor(PEER, seed=0).fit(samples)
    print(f"features and first fits: {time.perf_counter() - started:.1f} s")
    seconds = {name: _fit_s(name, samples) for name in PREDICTORS}
    for name, fit_s in seconds.items():
        print(f"{name:<11} {fit_s:7.2f} s  {fit_s / seconds[PEER]:6.2f} x {PEER}")


def _fit_s(name: str, samples: tuple[object, ...]) -> float:
    started = time.perf_counter()
    new_predictor(name, seed=0).fit(samples)  # type: ignore[arg-type]
    return time.perf_counter() - started


if __name__ == "__main__":
    main()

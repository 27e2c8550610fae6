"""How many measurements an adaptive campaign saves, replayed on public tables.

    python benchmarks/campaign.py --data FOLDER [--models 150] [--splits 6] [--seeds 10]

Each device of the timm tables is left out whole: the joint predictor learns from the others and is
then given measurements of the device, one after the other, in the order of a campaign. Half of the
models, by hash, are workloads of the campaign; the other half is what the operator cares about, and
what errors are of. That is done for several splits of the models. The adaptive order knows what is
cared for and nothing of any time on the device; nothing is chosen or tuned on the device that is
left out. Beside it stand random orders, ``--seeds`` for each split.

Prints, for each number of measurements, the mean relative error of both, how far single random
orders lie apart, and the fewest measurements after which the adaptive order has the mean error that
random ones have; then the mean ratio of the errors with its standard error over the splits. The
errors before any measurement and after all workloads say what there was to gain.
"""

from __future__ import annotations

import os

# Before numpy and torch are loaded: the machine may have other things to do.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.folds import unit_hash
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.joint.joint_members import Asked
from perfmodel.training.probes.campaign_order import measuring_order
from perfmodel.training.samples.corpus import build_corpus
from perfmodel.training.samples.public_data import read_formats

#: Measurements after which the error is looked at.
COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40)
#: Rows of a device below which it is not left out.
LEAST = 100


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Mean relative errors on a device that was left out, by split of the models.

    Parameters
    ----------
    before, whole : list, shape (splits,)
        Without any measurement of it, and with all workloads.
    adaptive : list, shape (splits, counts)
    at_random : list, shape (splits, seeds, counts)
    """

    before: list[float]
    whole: list[float]
    adaptive: list[list[float]]
    at_random: list[list[list[float]]]

    def needed(self) -> list[int | None]:
        """Return the fewest measurements for the error that random orders have, by count."""
        mean = np.mean(self.adaptive, axis=0)
        return [first_at(error, mean) for error in np.mean(self.at_random, axis=(0, 1)).tolist()]

    def ratios(self) -> FloatArray:
        """Return the error of the adaptive order over that of random ones, shape (splits,)."""
        beside = np.array(self.adaptive) / np.mean(self.at_random, axis=1)
        return np.asarray(beside.mean(axis=1))


def main() -> None:
    """Replay and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("PERFMODEL_DATA"))
    parser.add_argument("--models", type=int, default=150, help="Of the tables, by hash.")
    parser.add_argument("--splits", type=int, default=6, help="Of the models in two halves.")
    parser.add_argument("--seeds", type=int, default=10, help="Random orders of each split.")
    parser.add_argument("--workers", type=int, default=1, help="Processes that capture.")
    parser.add_argument("--json", type=Path, help="File of the figures.")
    arguments = parser.parse_args()
    samples = _samples(arguments.data, arguments.models, arguments.workers)
    found = {}
    for device in _devices(samples):
        found[device] = replay(samples, device, splits=arguments.splits, seeds=arguments.seeds)
        _print(device, found[device])
    if arguments.json:
        figures = {device: asdict(one) for device, one in found.items()}
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


def _samples(data: Path, models: int, workers: int) -> list[StepSample]:
    steps = read_formats(data, ("timm",))["timm"].steps
    named = sorted(
        {step.job.label for step in steps}, key=lambda name: unit_hash(f"campaign:{name}")
    )
    taken = set(named[:models])
    corpus = build_corpus(
        [step for step in steps if step.job.label in taken],
        engine=LocalEngine(workers=workers),
        progress=lambda line: print(line, flush=True),
    )
    print(f"{len(corpus.samples)} rows of {len(taken)} models; left out: {dict(corpus.dropped)}")
    return list(corpus.samples)


def _devices(samples: Sequence[StepSample]) -> list[str]:
    names = [sample.step.accelerator.name for sample in samples]
    return sorted(name for name in set(names) if names.count(name) >= LEAST)


def replay(samples: Sequence[StepSample], device: str, *, splits: int, seeds: int) -> Replay:
    """Leave a device out and measure it in both ways."""
    known = [one for one in samples if one.step.accelerator.name != device]
    new = [one for one in samples if one.step.accelerator.name == device]
    learner = JointPredictor(seed=0, folds=3, epochs=4).fit(known)
    found = Replay(before=[], whole=[], adaptive=[], at_random=[])
    for split in range(splits):
        word = f"campaign-half-{split}"
        workloads = [one for one in new if unit_hash(f"{word}:{one.model}") < 0.5]
        asked = [one for one in new if unit_hash(f"{word}:{one.model}") >= 0.5]
        ready = learner.ask([one.step for one in asked])
        truth_s = np.array([one.step_time_s for one in asked])
        error = partial(_error, learner, workloads, ready, truth_s)
        everything = range(len(workloads))
        shuffles = [
            random.Random(f"{split} {seed}").sample(everything, len(workloads))
            for seed in range(seeds)
        ]
        order = measuring_order(
            learner, [one.step for one in workloads], cared=[one.step for one in asked]
        )
        found.before.append(error([]))
        found.whole.append(error(everything))
        found.adaptive.append([error(order[:count]) for count in COUNTS])
        found.at_random.append([[error(one[:count]) for count in COUNTS] for one in shuffles])
    return found


def _error(
    learner: JointPredictor,
    workloads: Sequence[StepSample],
    ready: Asked,
    truth_s: FloatArray,
    order: Sequence[int],
) -> float:
    """Return the mean relative error of what is asked after some workloads were measured."""
    adapted = learner.adapt([workloads[i] for i in order])
    times_s = np.array([answer.time_s for answer in adapted.answer(ready)])
    return float(np.mean(np.abs(times_s / truth_s - 1.0)))


def _print(device: str, found: Replay) -> None:
    before, whole, ratios = np.mean(found.before), np.mean(found.whole), found.ratios()
    print(f"\n{device}: {before:.1%} before, {whole:.1%} with all workloads measured")
    print("   k   random  apart  adaptive  needs")
    at_random, adaptive = np.array(found.at_random), np.mean(found.adaptive, axis=0)
    for position, (count, needed) in enumerate(zip(COUNTS, found.needed(), strict=True)):
        here = at_random[:, :, position]
        print(
            f"{count:4d}  {here.mean():7.1%} {here.std(axis=1).mean():6.1%} "
            f"{adaptive[position]:9.1%} {needed or '-':>6}"
        )
    error = ratios.std(ddof=1) / len(ratios) ** 0.5 if len(ratios) > 1 else float("nan")
    print(f"adaptive over random: {ratios.mean():.3f}, standard error {error:.3f}", flush=True)


def first_at(error: float, errors: Sequence[float]) -> int | None:
    """Return the fewest measurements after which an order has an error or less."""
    return next((count for count, one in zip(COUNTS, errors, strict=True) if one <= error), None)


if __name__ == "__main__":
    main()

"""How many measurements an adaptive campaign saves, replayed on public tables.

    python benchmarks/campaign.py --data FOLDER [--models 150] [--seeds 20]

Each device of the timm tables is left out whole: the joint predictor learns from the others and is
then given measurements of the device, one after the other, in the order of a campaign. Half of the
models, by hash, are workloads of the campaign; the other half is what the operator cares about, and
what errors are of. The adaptive order knows which those are and nothing of any time on the device.
Nothing is chosen or tuned on the device that is left out. An order that is random is the mean of
many.

Prints, for each number of measurements, the mean relative error of each order, and how many
measurements an adaptive one needs to stay at the error that the random one has. Four rules of the
adaptive order are replayed; at the end, each device is judged by the rule that saves most on the
other devices, with the fewest measurements at which it reaches the error of the random order.
"""

from __future__ import annotations

import os

# Before numpy and torch are loaded: the machine may have other things to do.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.folds import unit_hash
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.training.probes.campaign_order import measuring_order
from perfmodel.training.samples.corpus import build_corpus
from perfmodel.training.samples.public_data import read_formats

#: Measurements after which the error is looked at.
COUNTS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40)
#: Rows of a device below which it is not left out.
LEAST = 100


def main() -> None:
    """Replay and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("PERFMODEL_DATA"))
    parser.add_argument("--models", type=int, default=150, help="Of the tables, by hash.")
    parser.add_argument("--seeds", type=int, default=20, help="Random orders.")
    parser.add_argument("--workers", type=int, default=1, help="Processes that capture.")
    parser.add_argument("--json", type=Path, help="File of the figures.")
    arguments = parser.parse_args()
    samples = _samples(arguments.data, arguments.models, arguments.workers)
    figures = {}
    for device in _devices(samples):
        figures[device] = _replay(samples, device, arguments.seeds)
        _print(device, figures[device])
    for line in nested(figures):
        print(line)
    if arguments.json:
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


def _replay(samples: Sequence[StepSample], device: str, seeds: int) -> dict[str, list[float]]:
    known = [one for one in samples if one.step.accelerator.name != device]
    new = [one for one in samples if one.step.accelerator.name == device]
    workloads = [one for one in new if unit_hash(f"campaign-half:{one.model}") < 0.5]
    asked = [one for one in new if unit_hash(f"campaign-half:{one.model}") >= 0.5]
    learner = JointPredictor(seed=0, folds=3, epochs=4).fit(known)
    ready = learner.ask([one.step for one in asked])
    truth = np.array([one.step_time_s for one in asked])

    def errors(order: Sequence[int]) -> list[float]:
        found = []
        for count in COUNTS:
            if count > len(order):
                break
            taken = [workloads[i] for i in order[:count]]
            adapted = learner.adapt(taken) if taken else learner
            times = np.array([answer.time_s for answer in adapted.answer(ready)])
            found.append(float(np.mean(np.abs(times / truth - 1.0))))
        return found

    most = min(max(COUNTS), len(workloads))
    rules = {
        f"{'own noise' if own else 'one noise'}, {'models in turn' if turns else 'any model'}": (
            own,
            turns,
        )
        for own in (True, False)
        for turns in (True, False)
    }
    orders_by_rule = {
        rule: measuring_order(
            learner if own else OneNoise(learner),
            [one.step for one in workloads],
            cared=[one.step for one in asked],
            models=[one.model for one in workloads] if turns else (),
            most=most,
        )
        for rule, (own, turns) in rules.items()
    }
    orders = [_shuffled(len(workloads), seed) for seed in range(seeds)]
    return {
        "workloads": [float(len(workloads))],
        "asked": [float(len(asked))],
        **{rule: errors(order) for rule, order in orders_by_rule.items()},
        "random": np.mean([errors(order) for order in orders], axis=0).tolist(),
    }


class OneNoise:
    """A learner that says of all records alike how far they may be off."""

    def __init__(self, learner: JointPredictor) -> None:
        self.device_features = learner.device_features
        self.device_prior_ = learner.device_prior_
        self.device_covariance = learner.device_covariance
        self.noise_ = learner.noise_


def _shuffled(count: int, seed: int) -> list[int]:
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return order


def _print(device: str, figures: dict[str, list[float]]) -> None:
    print(f"\n{device}: {figures['workloads'][0]:.0f} workloads, {figures['asked'][0]:.0f} asked")
    rules = [name for name in figures if "noise" in name]
    for number, rule in enumerate(rules):
        print(f"  ({number}) {rule}")
    print(
        "   k   random  " + "".join(f"{f'({number})  needs':>15}" for number in range(len(rules)))
    )
    for position, count in enumerate(COUNTS[: len(figures["random"])]):
        at_random = figures["random"][position]
        cells = [
            f"{figures[rule][position]:8.1%} {needed_for(at_random, figures[rule]) or '-':>6}"
            for rule in rules
        ]
        print(f"{count:4d}  {at_random:6.1%}  {''.join(cells)}", flush=True)


def nested(figures: Mapping[str, Mapping[str, Sequence[float]]]) -> list[str]:
    """Return what each device saves by the rule that is best on the other devices."""
    lines = ["", "chosen on the other devices; measurements for the error of k in random order"]
    rules = [name for name in next(iter(figures.values()), {}) if "noise" in name]
    for device, found in figures.items():
        others = [one for name, one in figures.items() if name != device]
        if not others:
            continue
        rule = min(rules, key=lambda name: float(np.mean([_share(one, name) for one in others])))
        reached = [
            f"{count}: {first_at(found['random'][COUNTS.index(count)], found[rule]) or '-'}"
            for count in (3, 5, 10, 20, 40)
            if COUNTS.index(count) < len(found["random"])
        ]
        lines.append(
            f"{device:<22} {rule:<28} {_share(found, rule) - 1:+.1%}  {', '.join(reached)}"
        )
    return lines


def _share(found: Mapping[str, Sequence[float]], rule: str) -> float:
    """Return the mean error of a rule as a share of that of the random order."""
    return float(np.mean(np.array(found[rule][1:]) / np.array(found["random"][1:])))


def first_at(error: float, errors: Sequence[float]) -> int | None:
    """Return the fewest measurements after which an order has an error or less."""
    return next((count for count, one in zip(COUNTS, errors, strict=False) if one <= error), None)


def needed_for(error: float, errors: Sequence[float]) -> int | None:
    """Return the fewest measurements after which an order stays at an error or below."""
    for position, count in enumerate(COUNTS[: len(errors)]):
        if max(errors[position:]) <= error:
            return count
    return None


if __name__ == "__main__":
    main()

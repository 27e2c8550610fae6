"""How often the gate refuses equal candidates, and real worsenings, on made-up judging sets.

Two trainings of the same data differ by a part for each family, model, model on a device and step;
``--times`` of what two trainings of the shipped version differed by (ADR 68). Beside the gate as it
is stands one for which every step is a witness of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from perfmodel.features.arrays import BoolArray, FloatArray
from perfmodel.training.gate.evidence import Answers, Evidence, JudgingSet
from perfmodel.training.gate.gate import decide

#: Standard deviation of ln(answer / other answer) of two trainings by what moves together.
CHANCE = {"family": 0.0106, "model": 0.0073, "model on device": 0.0112, "step": 0.0125}
#: Error that both have in common, ln.
_COMMON = 0.1
_DEVICES = ("RTX", "PRO", "V100", "T4", "A100", "H100", "K80", "MI300")
_STEPS = 1_200
#: Nothing but answers is judged here.
_SAME_COST = 1.0

Where = Callable[[JudgingSet], BoolArray]


def judging_set(seed: int) -> JudgingSet:
    """Return steps of 40 families of one to forty models on eight devices, few of them common."""
    rng = np.random.default_rng(seed)
    sizes = np.minimum(rng.geometric(0.12, 40), 40)
    family = rng.choice(len(sizes), _STEPS, p=np.sqrt(sizes) / np.sqrt(sizes).sum())
    model = (rng.random(_STEPS) * sizes[family]).astype(int)
    share = 0.6 ** np.arange(len(_DEVICES))
    return JudgingSet(
        name="made up",
        keys=tuple(map(str, range(_STEPS))),
        measured_s=np.exp(rng.normal(-3, 1.5, _STEPS)),
        labels={
            "device": tuple(rng.choice(_DEVICES, _STEPS, p=share / share.sum())),
            "mode": tuple(rng.choice(["inference", "training"], _STEPS, p=[0.8, 0.2])),
            "family": tuple(map(str, family)),
            "placement": ("one accelerator",) * _STEPS,
            "model": tuple(f"{one}-{k}" for one, k in zip(family, model, strict=True)),
        },
    )


def training_chance(judged: JudgingSet, rng: np.random.Generator, times: float) -> FloatArray:
    """Draw by how far one training is off, ln; two of them differ by :data:`CHANCE`."""
    labels = judged.labels
    on_device = [f"{m} {d}" for m, d in zip(labels["model"], labels["device"], strict=True)]
    found = np.zeros(len(judged.keys))
    for level, names in (
        ("family", labels["family"]), ("model", labels["model"]),
        ("model on device", on_device), ("step", judged.keys),
    ):  # fmt: skip
        numbers = np.unique(names, return_inverse=True)[1]
        # Few families move far, most hardly: Student's distribution of three degrees, as measured.
        drawn = rng.standard_t(3, numbers.max() + 1) / np.sqrt(3)
        found += (CHANCE[level] * times / np.sqrt(2) * drawn)[numbers]
    return found


def version(name: str, judged: JudgingSet, off: FloatArray) -> Evidence:
    """Return a version whose answers are off by so much, ln."""
    time_s, width = judged.measured_s * np.exp(off), np.exp(1.645 * 1.2 * _COMMON)
    return Evidence(
        version=name,
        answers={judged.name: Answers(time_s=time_s, low_s=time_s / width, high_s=time_s * width)},
        schema_version=1,
        size_bytes=_SAME_COST,
        load_time_s=_SAME_COST,
        answers_per_s=_SAME_COST,
    )


def steps_alone(judged: JudgingSet) -> JudgingSet:
    """Return the same groups with every step a family and a model of its own."""
    alone = {"family": judged.keys, "model": judged.keys, "placement": judged.labels["family"]}
    return replace(judged, labels={**judged.labels, **alone})


def refusals(pairs: int, times: float, factor: float, where: Where) -> dict[str, int]:
    """Count the candidates of so many that are refused, by either gate."""
    found = {"steps": 0, "units": 0}
    for seed in range(pairs):
        rng, judged = np.random.default_rng([seed, 1]), judging_set(seed)
        common = rng.normal(0, _COMMON, _STEPS)
        serving, candidate = (common + training_chance(judged, rng, times) for _ in range(2))
        candidate = candidate + np.where(where(judged), np.log(factor), 0.0)
        for gate, asked in (("steps", steps_alone(judged)), ("units", judged)):
            both = (version("new", asked, candidate), version("old", asked, serving))
            found[gate] += not decide(*both, [asked]).accepted
    return found


def family_of(judged: JudgingSet, *, large: bool) -> BoolArray:
    """Return the steps of the family of the most models, or of a single model and most steps."""
    families, models = (np.array(judged.labels[label]) for label in ("family", "model"))
    counts = {one: len(set(models[families == one])) for one in set(families.tolist())}
    fit = [one for one in sorted(counts) if counts[one] == (max if large else min)(counts.values())]
    chosen: BoolArray = families == max(fit, key=lambda one: np.count_nonzero(families == one))
    return chosen


def on(label: str, group: str) -> Where:
    """Return what chooses a group."""
    return lambda judged: np.array(judged.labels[label]) == group


CASES: tuple[tuple[str, Where, tuple[float, ...]], ...] = (
    ("all steps", lambda judged: np.ones(_STEPS, bool), (1.05, 1.1)),
    ("training", on("mode", "training"), (1.05, 1.1)),
    ("the most common device", on("device", "RTX"), (1.05, 1.1)),
    ("a device of 60 steps", on("device", "A100"), (1.1, 1.15)),
    ("the largest family", lambda judged: family_of(judged, large=True), (1.1, 1.15)),
    ("a family of one model", lambda judged: family_of(judged, large=False), (1.15, 1.25)),
)


def main() -> None:
    arguments = _arguments()
    pairs = arguments.pairs
    print(f"Refused of {pairs} candidates: every step a witness, then families and models")
    for times in arguments.times:
        found = refusals(pairs, times, 1.0, CASES[0][1])
        print(f"equal, {times:g} times the chance of training: {found['steps']}, {found['units']}")
    for name, where, factors in CASES:
        for factor in factors:
            found = refusals(pairs, 1.0, factor, where)
            print(f"{name} {factor - 1:.0%} off: {found['steps']}, {found['units']}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100, help="candidates of each case")
    parser.add_argument("--times", type=float, nargs="*", default=[0.0, 1.0, 2.0, 4.0])
    return parser.parse_args()


if __name__ == "__main__":
    main()

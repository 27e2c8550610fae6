"""What the profiles of this project are worth to answers about CPUs.

    python benchmarks/own_profiles.py --data FOLDER [--since 2026-11-22] [--seeds 3]

The joint predictor learns, in the fast form of ``accuracy.py``, from public tables alone, from
these and the profiles of before ``--since``, and from these and all profiles. Asked are steps of
families that no fit has seen: our own profiles of before that day, those since, and the published
inference of single samples on a CPU; the last also where that CPU was left out whole, so that only
our own profiles teach what a CPU is. Folds are those of ``accuracy.py``, the lockbox aside, and the
same for all three. Prints mean relative errors, each the mean over ``--seeds`` fits, with the
standard deviation among those.
"""

from __future__ import annotations

import os

# Before numpy and torch are loaded: the machine may have other things to do.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from held_out.fold_schedule import FAST, schedule

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.store.profiles import ProfileStore
from perfmodel.training.samples.profile_corpus import profile_corpus, told_apart
from perfmodel.training.samples.public_data import load_data
from perfmodel.training.validation.held_out_folds import identity
from perfmodel.types import Mode

#: Of the published tables, the CPU of which single samples were measured.
CPU = "Core-i9-10940X"
#: What is learned from: of a source, and of all that stand before it.
SOURCES = ("public tables", "older profiles", "newer profiles")


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Steps and operators alone, by their source.

    Parameters
    ----------
    age : mapping of str to int
        Position of its source in :data:`SOURCES`, by the identity of a sample.
    """

    steps: Sequence[StepSample]
    operators: Sequence[StepSample]
    age: dict[str, int]

    def heard(self, samples: Sequence[StepSample], age: int) -> list[StepSample]:
        """Return those of some samples that come from a source or from one before it."""
        return [one for one in samples if self.age[identity(one)] <= age]


def main() -> None:
    """Fit, ask and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    stated = os.environ.get("PERFMODEL_DATA")
    parser.add_argument("--data", type=Path, default=Path(stated) if stated else None)
    parser.add_argument("--profiles", type=Path, default=Path("profiles"))
    parser.add_argument("--since", default="2026-11-22", help="day of the first newer profiles")
    parser.add_argument("--seeds", type=int, default=3, help="fits of each")
    parser.add_argument("--workers", type=int, default=1, help="processes that capture")
    arguments = parser.parse_args()
    corpus = read_corpus(arguments.data, arguments.profiles, arguments.since, arguments.workers)
    errors: dict[tuple[str, int], list[list[float]]] = defaultdict(list)
    for seed in range(arguments.seeds):
        for age in range(len(SOURCES)):
            for group, found in off(corpus, age, seed).items():
                errors[group, age].append(found)
        print(f"seed {seed}: done", flush=True)
    print("| asked | steps | " + " | ".join(("alone", *SOURCES[1:])) + " |")
    print("|---|---:|" + "---:|" * len(SOURCES))
    for group in sorted({group for group, _ in errors}):
        cells = [_cell(errors[group, age]) for age in range(len(SOURCES))]
        print(f"| {group} | {len(errors[group, 0][0])} | " + " | ".join(cells) + " |")


def _cell(errors: Sequence[Sequence[float]]) -> str:
    means = 100 * np.mean(errors, axis=1)
    return f"{means.mean():.1f} +- {means.std():.1f} %"


def read_corpus(data: Path | None, profiles: Path, since: str, workers: int) -> Corpus:
    """Read public tables and profiles; captures what no kept sketch stands for."""
    engine = LocalEngine(workers=workers)
    public = load_data(data, engine=engine)
    steps, operators = list(public.samples), list(public.operators)
    age = dict.fromkeys(map(identity, (*steps, *operators)), 0)
    store = ProfileStore(profiles)
    # Devices are described by all of their records, whichever of these are learned from.
    own = profile_corpus(store)
    older = profile_corpus(store, chosen=lambda one: one.provenance.measured_at < since)
    age |= dict.fromkeys(map(identity, own.samples), 2)
    age |= dict.fromkeys(map(identity, older.samples), 1)
    own_steps, own_operators = told_apart(own.samples)
    return Corpus(steps=[*steps, *own_steps], operators=[*operators, *own_operators], age=age)


def off(corpus: Corpus, age: int, seed: int) -> dict[str, list[float]]:
    """Return the relative errors of what is asked, by group, learned from sources up to one."""
    found: dict[str, list[float]] = defaultdict(list)
    for fold in schedule(corpus.steps, replace(FAST, most_asked=None), ("unseen-family",)):
        learned = corpus.heard([corpus.steps[i] for i in fold.train], age)
        operators = corpus.heard(corpus.operators, age)
        asked = [corpus.steps[i] for i in fold.test]
        single = [one for one in asked if _is_single(one)]
        own = [[one for one in asked if corpus.age[identity(one)] == which] for which in (1, 2)]
        learner = _fitted(learned, operators, seed)
        found["own profiles, older"] += _errors(learner, own[0])
        found["own profiles, newer"] += _errors(learner, own[1])
        found[f"{CPU}, single samples"] += _errors(learner, single)
        others = [one for one in learned if one.step.accelerator.name != CPU]
        learner = _fitted(others, operators, seed)
        found[f"{CPU}, single samples, left out whole"] += _errors(learner, single)
    return found


def _is_single(sample: StepSample) -> bool:
    step = sample.step
    return step.accelerator.name == CPU and step.mode is Mode.INFERENCE and step.batch_size == 1


def _fitted(
    learned: Sequence[StepSample], operators: Sequence[StepSample], seed: int
) -> JointPredictor:
    return JointPredictor(seed=seed, folds=3, epochs=4).fit(learned, operators=operators)


def _errors(learner: JointPredictor, asked: Sequence[StepSample]) -> list[float]:
    answers = learner.predict([one.step for one in asked])
    pairs = zip(answers, asked, strict=True)
    return [abs(answer.time_s / one.step_time_s - 1.0) for answer, one in pairs]


if __name__ == "__main__":
    main()

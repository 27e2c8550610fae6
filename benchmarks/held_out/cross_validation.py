"""Cross-validate: fit a learner and the baselines on every fold and keep what they answer.

The answers of a fold are a file of their own, so that a run that was stopped goes on where it
was, and the report can be written again without any fit.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import orjson
from held_out.baselines import BASELINES
from held_out.fold_schedule import (
    FAST,
    FULL,
    PROBES,
    Effort,
    fewer_operators,
    probe_sets,
    schedule,
)
from held_out.frozen_folds import LOCKBOX, SPLITS, Fold, is_locked
from held_out.held_out_answers import AnswerTable, answer_table, concatenate
from held_out.learners import (
    AnswersAgain,
    Baseline,
    BaselineFactory,
    Learner,
    LearnerFactory,
)

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.errors import StoreError, TrainingError
from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.predictors.folds import Progress
from perfmodel.predictors.prediction import Prediction
from perfmodel.store.durable import write_whole
from perfmodel.training.validation.held_out_folds import identity

#: What ``run.json`` holds of every run, and what of its effort.
_WRITTEN = (
    "learner", "seed", "fast", "effort", "folds_of_the_full_form", "samples", "models", "families",
    "devices", "sources", "operators", "folds", "duration_s",
)  # fmt: skip
_EFFORT = tuple(one.name for one in dataclasses.fields(Effort))


@dataclass(frozen=True, kw_only=True)
class CrossValidation:
    """What is run: samples, learner, effort, and where the answers go.

    Parameters
    ----------
    make_learner : callable
        Takes a seed, returns an unfitted learner.
    folder : Path
        Gets one file a fold, and ``run.json``.
    workers : int
        Folds that run at the same time, each in a process.
    operators : sequence of StepSample
        Operators measured alone, which a learner gets beside whole steps; those of a device that
        is left out, and of all cards with its chip, stay out with it.
    facts : mapping
        More for ``run.json``: what was left out, versions.
    """

    samples: Sequence[StepSample]
    make_learner: LearnerFactory
    folder: Path
    name: str = "learner"
    seed: int = 0
    effort: Effort = FULL
    splits: Sequence[str] = SPLITS
    baselines: Mapping[str, BaselineFactory] = field(default_factory=lambda: BASELINES)
    workers: int = 1
    operators: Sequence[StepSample] = ()
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def cross_validate(
    validation: CrossValidation, *, resume: bool = False, progress: Progress | None = None
) -> AnswerTable:
    """Run all folds and return their answers.

    Parameters
    ----------
    resume : bool
        Folds whose answers lie in the folder, from the same run, are not fitted again.

    Raises
    ------
    TrainingError
        Folds that failed, after all others have been run.
    """
    started = time.perf_counter()
    folds = _schedule(validation, validation.effort)
    if not folds:
        raise TrainingError("No split leaves samples on both sides; more samples are needed.")
    _prepare(validation, resume)
    todo = [fold for fold in folds if not answers_path(validation.folder, fold).exists()]
    failures = _run_all(validation, todo, progress)
    facts = _facts(validation) | {
        "folds": [
            _times(validation.folder, fold)
            for fold in folds
            if f"{fold.split}/{fold.name}" not in failures
        ],
        "duration_s": time.perf_counter() - started,
    }
    _write_facts(validation.folder, facts)
    if failures:
        listed = "; ".join(f"{name}: {reason}" for name, reason in failures.items())
        raise TrainingError(f"{len(failures)} of {len(folds)} folds failed: {listed}")
    return load_answers(validation.folder)


def load_answers(folder: Path) -> AnswerTable:
    """Return the answers of all folds in a folder.

    Raises
    ------
    TrainingError
        There are none.
    """
    files = [file for split in SPLITS for file in sorted((folder / split).glob("*.parquet"))]
    if not files:
        raise TrainingError(f"No answers in {folder}; run the benchmark first.")
    return concatenate([AnswerTable.load(file) for file in files])


def load_facts(folder: Path) -> dict[str, Any]:
    """Return ``run.json`` of a folder.

    Raises
    ------
    StoreError
        It lacks what runs write today.
    """
    path = Path(folder) / "run.json"
    facts: dict[str, Any] = orjson.loads(path.read_bytes())
    absent = [name for name in _WRITTEN if name not in facts]
    absent += [f"effort.{name}" for name in _EFFORT if name not in facts.get("effort", _EFFORT)]
    if absent:
        raise StoreError(
            f"{path} lacks {', '.join(absent)}: it is of an earlier form. Run the benchmark again."
        )
    return facts


def note_duration(folder: Path, duration_s: float, processor_s: float) -> None:
    """Keep how long a run took together with what came before and after its folds.

    Parameters
    ----------
    processor_s : float
        Of all processors: how long it takes beside other work says little of it.
    """
    spent = {"duration_s": duration_s, "processor_s": processor_s}
    _write_facts(folder, load_facts(folder) | spent)


def _write_facts(folder: Path, facts: Mapping[str, Any]) -> None:
    write_whole(folder / "run.json", orjson.dumps(facts, option=orjson.OPT_INDENT_2))


def answers_path(folder: Path, fold: Fold) -> Path:
    """Return the file that holds the answers of a fold."""
    return folder / fold.split / f"{fold.name}.parquet"


def run_fold(validation: CrossValidation, fold: Fold) -> None:
    """Fit on the training part of a fold, ask its test part, and write the answers."""
    known = [validation.samples[i] for i in fold.train]
    asked = [validation.samples[i] for i in fold.test]
    steps = [sample.step for sample in asked]
    clock = [time.perf_counter()]
    learner = _fitted(validation, fold, known)
    clock.append(time.perf_counter())
    answers = learner.predict(steps)
    clock.append(time.perf_counter())
    fitted = {name: make(validation.seed).fit(known) for name, make in validation.baselines.items()}
    clock.append(time.perf_counter())
    table = answer_table(
        asked,
        answers,
        split=fold.split,
        fold=fold.name,
        baselines=_baseline_times(fitted, steps),
    )
    probed = _probed(validation, fold, learner, fitted) if fold.split == "unseen-device" else []
    clock.append(time.perf_counter())
    spans = np.diff(clock).tolist()
    path = answers_path(validation.folder, fold)
    times = dict(zip(("fit_s", "predict_s", "baselines_s", "probes_s"), spans, strict=True))
    facts = {"split": fold.split, "fold": fold.name, "learned": len(known), "asked": len(asked)}
    write_whole(path.with_suffix(".json"), orjson.dumps(facts | times))
    concatenate([table, *probed]).save(path)


def _fitted(validation: CrossValidation, fold: Fold, known: Sequence[StepSample]) -> Learner:
    learner = validation.make_learner(validation.seed)
    if not validation.operators:
        return learner.fit(known)
    return learner.fit(known, operators=_heard(validation, fold))


def _heard(validation: CrossValidation, fold: Fold) -> list[StepSample]:
    """Return the operators that a fold may learn from: of no card with a chip left out.

    Those of devices of the lockbox take part in no choice either.
    """
    asked = {s.name: s for i in fold.test for s in [validation.samples[i].step.accelerator]}
    out = {
        spec.chip
        for name, spec in asked.items()
        if (is_locked(name) if fold.split == LOCKBOX else fold.device)
    }
    open_to_it = [
        one
        for one in validation.operators
        if one.step.accelerator.chip not in out and not is_locked(one.step.accelerator.name)
    ]
    return fewer_operators(open_to_it, validation.effort.most_operators)


def _probed(
    validation: CrossValidation, fold: Fold, learner: Learner, fitted: Mapping[str, Baseline]
) -> list[AnswerTable]:
    """Answers after a few records of the device; models of any probe are asked no more."""
    sets = probe_sets(validation.samples, fold, learner, validation.effort.random_probes)
    used = {validation.samples[i].model for positions in sets.values() for i in positions}
    asked = [validation.samples[i] for i in fold.test if validation.samples[i].model not in used]
    steps = [sample.step for sample in asked]
    answers = _answering(learner, steps)
    tables = []
    for choice, positions in sets.items():
        for count in PROBES:
            probes = [validation.samples[i] for i in positions[:count]]
            adapted = {name: baseline.adapt(probes) for name, baseline in fitted.items()}
            tables.append(
                answer_table(
                    asked,
                    answers(learner.adapt(probes)),
                    split=fold.split,
                    fold=fold.name,
                    baselines=_baseline_times(adapted, steps),
                    probes=count,
                    choice=choice,
                )
            )
    return tables


def _answering(
    learner: Learner, steps: Sequence[Step]
) -> Callable[[Learner], Sequence[Prediction]]:
    """Return what asks an adapted learner about steps, with as little as possible done again."""
    if not isinstance(learner, AnswersAgain):
        return lambda adapted: adapted.predict(steps)
    asked = learner.ask(steps)
    return lambda adapted: cast(AnswersAgain, adapted).answer(asked)


def _baseline_times(
    baselines: Mapping[str, Baseline], steps: Sequence[Step]
) -> dict[str, FloatArray]:
    return {name: baseline.predict(steps) for name, baseline in baselines.items()}


def _prepare(validation: CrossValidation, resume: bool) -> None:
    """Keep the answers of the same run when resuming; remove all others."""
    validation.folder.mkdir(parents=True, exist_ok=True)
    stamp = validation.folder / "run.key"
    key = _key(validation)
    if not (resume and stamp.exists() and stamp.read_text() == key):
        for split in SPLITS:
            for file in (validation.folder / split).glob("*.*"):
                file.unlink()
    stamp.write_text(key)


def _key(validation: CrossValidation) -> str:
    """Digest of what the answers depend on, the code of the learner aside."""
    digest = hashlib.sha256(repr((validation.name, validation.seed, validation.effort)).encode())
    everything = (*validation.samples, *validation.operators)
    for line in sorted(f"{identity(s)} {s.step_time_s!r}" for s in everything):
        digest.update(line.encode())
    return digest.hexdigest()


def _run_all(
    validation: CrossValidation, folds: Sequence[Fold], progress: Progress | None
) -> dict[str, str]:
    """Run folds, as many at a time as there are workers; return what went wrong, by fold."""
    failures: dict[str, str] = {}
    outcomes = LocalEngine(workers=validation.workers).run(_problem_of, validation, folds)
    for number, (position, problem) in enumerate(outcomes, start=1):
        fold = folds[position]
        if problem:
            failures[f"{fold.split}/{fold.name}"] = problem
        if progress is not None:
            took = problem.strip().splitlines()[-1] if problem else _spent(validation.folder, fold)
            progress(f"{number} of {len(folds)}: {fold.split}, {fold.name}: {took}")
    return failures


def _problem_of(validation: CrossValidation, fold: Fold) -> str:
    """Run one fold; return what went wrong, or nothing."""
    try:
        run_fold(validation, fold)
    # One fold that fails must not take hours of others with it; all are listed at the end.
    except Exception:
        return traceback.format_exc(limit=-4)
    return ""


def _times(folder: Path, fold: Fold) -> dict[str, Any]:
    path = answers_path(folder, fold).with_suffix(".json")
    times: dict[str, Any] = orjson.loads(path.read_bytes()) if path.exists() else {}
    return times


def _spent(folder: Path, fold: Fold) -> str:
    times = _times(folder, fold)
    return (
        f"{times['learned']} learned in {times['fit_s']:.1f} s, "
        f"{times['asked']} asked in {times['predict_s']:.1f} s"
    )


def _schedule(validation: CrossValidation, effort: Effort) -> list[Fold]:
    return schedule(validation.samples, effort, validation.splits)


def _facts(validation: CrossValidation) -> dict[str, Any]:
    samples = validation.samples
    sources: dict[str, int] = {}
    for sample in samples:
        sources[sample.source] = sources.get(sample.source, 0) + 1
    return {
        "learner": validation.name,
        "seed": validation.seed,
        "fast": validation.effort == FAST,
        "effort": dataclasses.asdict(validation.effort),
        "folds_of_the_full_form": len(_schedule(validation, FULL)),
        "samples": len(samples),
        "models": len({sample.model for sample in samples}),
        "families": len({sample.family for sample in samples}),
        "devices": len({sample.step.accelerator.name for sample in samples}),
        "sources": sources,
        "operators": len(validation.operators),
        **validation.facts,
    }

"""Run the arena: fit a learner and the baselines on every fold and keep what they answer.

The answers of a fold are a file of their own, so that a run that was stopped goes on where it
was, and the report can be written again without any fit.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import orjson

from perfmodel.errors import TrainingError
from perfmodel.estimator.model import StepPrediction
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.store.durable import write_whole
from perfmodel.training.arena.answers import AnswerTable, answer_table, concatenate
from perfmodel.training.arena.baselines import BASELINES
from perfmodel.training.arena.contract import (
    AnswersAgain,
    Baseline,
    BaselineFactory,
    FloatArray,
    Learner,
    LearnerFactory,
    Progress,
)
from perfmodel.training.arena.schedule import FAST, FULL, PROBES, Effort, probe_sets, schedule
from perfmodel.training.arena.splits import SPLITS, Fold, identity


@dataclass(frozen=True, kw_only=True)
class Arena:
    """What is run: samples, learner, effort, and where the answers go.

    Parameters
    ----------
    make_learner : callable
        Takes a seed, returns an unfitted learner.
    folder : Path
        Gets one file a fold, and ``run.json``.
    name : str
        Of the learner, for people.
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


def run_arena(
    samples: Sequence[StepSample],
    make_learner: LearnerFactory,
    *,
    folder: Path,
    name: str = "learner",
    seed: int = 0,
    fast: bool = False,
    resume: bool = False,
    progress: Progress | None = None,
    **more: Any,
) -> AnswerTable:
    """Run all folds and return their answers; see :class:`Arena` for the arguments.

    Parameters
    ----------
    samples, make_learner, folder, name, seed
        As in :class:`Arena`.
    fast : bool
        Fewer folds on fewer samples.
    resume : bool
        Folds whose answers lie in the folder, from the same run, are not fitted again.
    progress : callable or None
        Receives a line a fold.
    **more
        Further fields of :class:`Arena`.

    Raises
    ------
    TrainingError
        Folds that failed, after all others have been run.
    """
    more.setdefault("effort", FAST if fast else FULL)
    arena = Arena(
        samples=samples, make_learner=make_learner, folder=folder, name=name, seed=seed, **more
    )
    return run(arena, resume=resume, progress=progress)


def run(arena: Arena, *, resume: bool = False, progress: Progress | None = None) -> AnswerTable:
    """Run an arena; see :func:`run_arena`."""
    started = time.perf_counter()
    folds = schedule(arena.samples, arena.effort, arena.splits)
    if not folds:
        raise TrainingError("No split leaves samples on both sides; more samples are needed.")
    _prepare(arena, resume)
    todo = [fold for fold in folds if not answers_path(arena.folder, fold).exists()]
    failures = _run_all(arena, todo, progress)
    facts = _facts(arena) | {
        "folds": [
            _times(arena.folder, fold)
            for fold in folds
            if f"{fold.split}/{fold.name}" not in failures
        ],
        "duration_s": time.perf_counter() - started,
    }
    _write_facts(arena.folder, facts)
    if failures:
        listed = "; ".join(f"{name}: {reason}" for name, reason in failures.items())
        raise TrainingError(f"{len(failures)} of {len(folds)} folds failed: {listed}")
    return load_answers(arena.folder)


def load_answers(folder: Path) -> AnswerTable:
    """Return the answers of all folds in a folder.

    Raises
    ------
    TrainingError
        There are none.
    """
    files = [file for split in SPLITS for file in sorted((folder / split).glob("*.parquet"))]
    if not files:
        raise TrainingError(f"No answers in {folder}; run the arena first.")
    return concatenate([AnswerTable.load(file) for file in files])


def load_facts(folder: Path) -> dict[str, Any]:
    """Return ``run.json`` of a folder."""
    facts: dict[str, Any] = orjson.loads((Path(folder) / "run.json").read_bytes())
    return facts


def note_duration(folder: Path, duration_s: float) -> None:
    """Keep how long a run took together with what came before and after its folds."""
    _write_facts(folder, load_facts(folder) | {"duration_s": duration_s})


def _write_facts(folder: Path, facts: Mapping[str, Any]) -> None:
    write_whole(folder / "run.json", orjson.dumps(facts, option=orjson.OPT_INDENT_2))


def answers_path(folder: Path, fold: Fold) -> Path:
    """Return the file that holds the answers of a fold."""
    return folder / fold.split / f"{fold.name}.parquet"


def run_fold(arena: Arena, fold: Fold) -> None:
    """Fit on the training part of a fold, ask its test part, and write the answers."""
    known = [arena.samples[i] for i in fold.train]
    asked = [arena.samples[i] for i in fold.test]
    steps = [sample.step for sample in asked]
    clock = [time.perf_counter()]
    learner = _fitted(arena, fold, known)
    clock.append(time.perf_counter())
    answers = learner.predict(steps)
    clock.append(time.perf_counter())
    fitted = {name: make(arena.seed).fit(known) for name, make in arena.baselines.items()}
    clock.append(time.perf_counter())
    table = answer_table(
        asked,
        answers,
        split=fold.split,
        fold=fold.name,
        baselines=_baseline_times(fitted, steps),
    )
    probed = _probed(arena, fold, learner, fitted) if fold.split == "unseen-device" else []
    clock.append(time.perf_counter())
    spans = np.diff(clock).tolist()
    path = answers_path(arena.folder, fold)
    times = dict(zip(("fit_s", "predict_s", "baselines_s", "probes_s"), spans, strict=True))
    facts = {"split": fold.split, "fold": fold.name, "learned": len(known), "asked": len(asked)}
    write_whole(path.with_suffix(".json"), orjson.dumps(facts | times))
    concatenate([table, *probed]).save(path)


def _fitted(arena: Arena, fold: Fold, known: Sequence[StepSample]) -> Learner:
    learner = arena.make_learner(arena.seed)
    if not arena.operators:
        return learner.fit(known)
    return learner.fit(known, operators=_heard(arena, fold))


def _heard(arena: Arena, fold: Fold) -> list[StepSample]:
    """Return the operators that a fold may learn from: of no card with the chip left out."""
    out = {arena.samples[i].step.accelerator.chip for i in fold.test} if fold.device else set()
    return [one for one in arena.operators if one.step.accelerator.chip not in out]


def _probed(
    arena: Arena, fold: Fold, learner: Learner, fitted: Mapping[str, Baseline]
) -> list[AnswerTable]:
    """Answers after a few records of the device; models of any probe are asked no more."""
    sets = probe_sets(arena.samples, fold, learner, arena.effort.random_probes)
    used = {arena.samples[i].model for positions in sets.values() for i in positions}
    asked = [arena.samples[i] for i in fold.test if arena.samples[i].model not in used]
    steps = [sample.step for sample in asked]
    answers = _answering(learner, steps)
    tables = []
    for choice, positions in sets.items():
        for count in PROBES:
            probes = [arena.samples[i] for i in positions[:count]]
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
) -> Callable[[Learner], Sequence[StepPrediction]]:
    """Return what asks an adapted learner about steps, with as little as possible done again."""
    if not isinstance(learner, AnswersAgain):
        return lambda adapted: adapted.predict(steps)
    asked = learner.ask(steps)
    return lambda adapted: cast(AnswersAgain, adapted).answer(asked)


def _baseline_times(
    baselines: Mapping[str, Baseline], steps: Sequence[Step]
) -> dict[str, FloatArray]:
    return {name: baseline.predict(steps) for name, baseline in baselines.items()}


def _prepare(arena: Arena, resume: bool) -> None:
    """Keep the answers of the same run when resuming; remove all others."""
    arena.folder.mkdir(parents=True, exist_ok=True)
    stamp = arena.folder / "run.key"
    key = _key(arena)
    if not (resume and stamp.exists() and stamp.read_text() == key):
        for split in SPLITS:
            for file in (arena.folder / split).glob("*.*"):
                file.unlink()
    stamp.write_text(key)


def _key(arena: Arena) -> str:
    """Digest of what the answers depend on, the code of the learner aside."""
    digest = hashlib.sha256(repr((arena.name, arena.seed, arena.effort)).encode())
    everything = (*arena.samples, *arena.operators)
    for line in sorted(f"{identity(s)} {s.step_time_s!r}" for s in everything):
        digest.update(line.encode())
    return digest.hexdigest()


def _run_all(arena: Arena, folds: Sequence[Fold], progress: Progress | None) -> dict[str, str]:
    """Run folds, here or in forked processes, which share the samples of this one."""
    failures: dict[str, str] = {}
    if arena.workers <= 1:
        return _collect(arena, folds, map(_Task(arena), folds), failures, progress)
    fork = multiprocessing.get_context("fork")
    global _SHARED
    _SHARED = arena
    try:
        with ProcessPoolExecutor(arena.workers, mp_context=fork) as pool:
            return _collect(arena, folds, pool.map(_run_shared, folds), failures, progress)
    finally:
        _SHARED = None


#: The arena that forked processes find in their memory instead of receiving a copy.
_SHARED: Arena | None = None


def _run_shared(fold: Fold) -> str:
    assert _SHARED is not None
    return _Task(_SHARED)(fold)


@dataclass(frozen=True, slots=True)
class _Task:
    """Runs one fold; returns what went wrong, or nothing."""

    arena: Arena

    def __call__(self, fold: Fold) -> str:
        try:
            run_fold(self.arena, fold)
        # One fold that fails must not take hours of others with it; all are listed at the end.
        except Exception:
            return traceback.format_exc(limit=-4)
        return ""


def _collect(
    arena: Arena,
    folds: Sequence[Fold],
    outcomes: Iterable[str],
    failures: dict[str, str],
    progress: Progress | None,
) -> dict[str, str]:
    for number, (fold, problem) in enumerate(zip(folds, outcomes, strict=True), start=1):
        if problem:
            failures[f"{fold.split}/{fold.name}"] = problem
        if progress is not None:
            took = problem.strip().splitlines()[-1] if problem else _spent(arena.folder, fold)
            progress(f"{number} of {len(folds)}: {fold.split}, {fold.name}: {took}")
    return failures


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


def _facts(arena: Arena) -> dict[str, Any]:
    samples = arena.samples
    sources: dict[str, int] = {}
    for sample in samples:
        sources[sample.source] = sources.get(sample.source, 0) + 1
    return {
        "learner": arena.name,
        "seed": arena.seed,
        "fast": arena.effort == FAST,
        "samples": len(samples),
        "models": len({sample.model for sample in samples}),
        "families": len({sample.family for sample in samples}),
        "devices": len({sample.step.accelerator.name for sample in samples}),
        "sources": sources,
        "operators": len(arena.operators),
        **arena.facts,
    }

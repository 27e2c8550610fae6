"""Search the settings of all learners of a version, a trial of each side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.engines.task_engine import TaskEngine
from perfmodel.errors import MissingExtraError
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.folds import Progress
from perfmodel.predictors.members.ensemble import DEFAULT_MEMBERS
from perfmodel.predictors.predictor import Sample
from perfmodel.training.provenance import code_facts, library_versions, snapshot
from perfmodel.training.samples.member_samples import learned_by_members
from perfmodel.training.tuning.inner_folds import (
    INNER_FOLDS,
    MOST_STEPS,
    InnerFolds,
    Question,
    Settings,
)
from perfmodel.training.tuning.spaces import NETWORK, SPACES, TREES, Space

#: Stands for the error of answers that are no numbers.
_NO_NUMBER = 1e6

if TYPE_CHECKING:
    from perfmodel.store.retraining.tuning_journal import TuningJournalStore
    from perfmodel.training.tuning.study import Scored, Study


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """Settings that were found, as :func:`perfmodel.training.train.train` takes them.

    Parameters
    ----------
    facts : mapping
        For the manifest: of each learner the search, what was chosen, and every trial with its
        score.
    """

    joint: Settings = field(default_factory=lambda: MappingProxyType({}))
    members: Mapping[str, Settings] = field(default_factory=lambda: MappingProxyType({}))
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def tune(
    samples: Sequence[Sample],
    journals: TuningJournalStore,
    *,
    trials: int,
    seed: int = 0,
    members: Sequence[str] = DEFAULT_MEMBERS,
    corpus: Sequence[StepSample] = (),
    spaces: Mapping[str, Space] = SPACES,
    engine: TaskEngine | None = None,
    progress: Progress | None = None,
) -> Tuned:
    """Search the settings of learners on what a version is going to learn from.

    Each learner has a search of its own, which belongs to this very data, seed, code and
    libraries. One that was interrupted goes on; one that was finished is read. Trials follow one
    another, so that the same searches choose the same settings, however often they were
    interrupted; the folds of a trial are fitted side by side.

    Parameters
    ----------
    trials : int
        Of each learner, the first of which is what it does by itself.
    members : sequence of str
        Of the ensemble; those without a space keep what they do by themselves.
    corpus : sequence of StepSample
        What the joint predictor learns from; at most 3000 of them are judged on.

    Raises
    ------
    TrainingError
        Too few families to leave any out.
    MissingExtraError
        Optuna is not installed.
    """
    learners = [*members, *([NETWORK, TREES] if corpus else [])]
    common = {
        "snapshot": snapshot(samples, corpus), "seed": seed, "code": code_facts(),
        "libraries": library_versions(), "folds": INNER_FOLDS, "steps": MOST_STEPS,
    }  # fmt: skip
    studies = {
        learner: _study(journals, learner, spaces[learner], common)
        for learner in learners
        if learner in spaces
    }
    _search(
        studies,
        InnerFolds.of(learned_by_members(samples, jointly=bool(corpus)), corpus, seed=seed),
        trials,
        engine or LocalEngine(),
        progress or (lambda line: None),
    )
    found = {learner: study.scored()[:trials] for learner, study in studies.items()}
    best = {learner: min(tried, key=lambda one: one.score) for learner, tried in found.items()}
    joint = {
        name: value
        for learner in (NETWORK, TREES)
        if learner in best
        for name, value in best[learner].settings.items()
    }
    return Tuned(
        joint=joint,
        members={m: best[m].settings for m in members if m in best},
        facts={m: _facts(studies[m], tried, best[m]) for m, tried in found.items()},
    )


def _search(
    studies: Mapping[str, Study],
    folds: InnerFolds,
    trials: int,
    engine: TaskEngine,
    progress: Progress,
) -> None:
    """Do the trials that are left, one of each learner at a time."""
    while True:
        open_ones = {m: s for m, s in studies.items() if len(s.scored()) < trials}
        if not open_ones:
            return
        asked = {learner: study.ask() for learner, study in open_ones.items()}
        scores = _scores({learner: tried for learner, (_, tried) in asked.items()}, folds, engine)
        for learner, (number, _) in asked.items():
            studies[learner].tell(number, scores[learner])
            done = len(studies[learner].scored())
            progress(f"tried settings of {learner}, {done} of {trials}: {scores[learner]:.4f}")


def _scores(
    asked: Mapping[str, Settings], folds: InnerFolds, engine: TaskEngine
) -> dict[str, float]:
    """Return the mean error of each learner with some settings."""
    questions = [
        Question(learner=learner, settings=settings, fold=fold)
        for learner, settings in asked.items()
        for fold in range(INNER_FOLDS)
    ]
    found = dict(engine.run(InnerFolds.errors, folds, questions))
    scores = {}
    for learner in asked:
        own = [found[at] for at, one in enumerate(questions) if one.learner == learner]
        error = sum(one for one, _ in own) / sum(weight for _, weight in own)
        scores[learner] = error if math.isfinite(error) else _NO_NUMBER
    return scores


def _study(
    journals: TuningJournalStore, learner: str, space: Space, common: Mapping[str, Any]
) -> Study:
    try:
        from perfmodel.training.tuning.study import Study, study_name
    except ModuleNotFoundError as error:
        raise MissingExtraError("Searching settings", extra="retrain") from error
    ranges = {name: asdict(one) for name, one in space.items()}
    return Study(journals, study_name({**common, "learner": learner, "space": ranges}), space)


def _facts(study: Study, tried: Sequence[Scored], best: Scored) -> dict[str, Any]:
    return {
        "study": study.name,
        "chosen": dict(best.settings),
        "score": best.score,
        "usual_score": tried[0].score,
        "trials": [{"settings": dict(one.settings), "score": one.score} for one in tried],
    }

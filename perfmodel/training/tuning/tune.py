"""Search the settings of all learners of a version, a trial of each side by side.

The next settings follow from the name of the search and from all trials that were finished, and
from nothing else. So a search that was killed and goes on tries what it would have tried.

Needs optuna.

Reference: T. Akiba et al., "Optuna: A Next-generation Hyperparameter Optimization Framework", KDD
2019; J. Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NIPS 2011 (the sampler).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import optuna
import orjson
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend
from optuna.trial import FrozenTrial, TrialState

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.engines.task_engine import TaskEngine
from perfmodel.errors import MissingExtraError
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.folds import Progress
from perfmodel.predictors.members.ensemble import DEFAULT_MEMBERS
from perfmodel.predictors.predictor import Sample
from perfmodel.store.retraining.tuning_journal import TuningJournalStore
from perfmodel.training.provenance import code_facts, library_versions, snapshot
from perfmodel.training.tuning.inner_folds import (
    INNER_FOLDS,
    MOST_STEPS,
    InnerFolds,
    Question,
    Settings,
)
from perfmodel.training.tuning.spaces import NETWORK, SPACES, TREES, Range, Space, Whole

#: Trials that are drawn at random before others are learned from; the first is what is usual.
_RANDOM_TRIALS = 6
#: Under which a trial keeps how many were finished before it.
_POSITION = "position"


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """Settings that were tried, and their mean error."""

    settings: Settings
    score: float


class Study:
    """A search that any number of processes may go on with.

    Parameters
    ----------
    name : str
        Stands for all that its scores depend on.
    """

    def __init__(self, journals: TuningJournalStore, name: str, space: Space) -> None:
        self.name = name
        self._space = space
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(
            storage=JournalStorage(_Journal(journals, name)),
            study_name=name,
            load_if_exists=True,
        )

    def scored(self) -> list[Scored]:
        """Return what was tried, in its order."""
        return [Scored(settings=one.params, score=_value(one)) for one in self._finished()]

    def ask(self) -> tuple[int, Settings]:
        """Return what is tried next, by a number that :meth:`tell` takes."""
        position = len(self._finished())
        self._study.sampler = optuna.samplers.TPESampler(
            seed=_seed(self.name, position), n_startup_trials=_RANDOM_TRIALS
        )
        if position == 0 and not self._study.get_trials(states=(TrialState.WAITING,)):
            self._study.enqueue_trial({name: one.usual for name, one in self._space.items()})
        trial = self._study.ask({name: _drawn(one) for name, one in self._space.items()})
        trial.set_user_attr(_POSITION, position)
        return trial.number, trial.params

    def tell(self, number: int, score: float) -> None:
        """Keep what came of a trial; nothing if another process was first with the same one."""
        trial = self._study.trials[number]
        known = {one.user_attrs[_POSITION] for one in self._finished()}
        if trial.user_attrs[_POSITION] in known:
            self._study.tell(number, state=TrialState.FAIL, skip_if_finished=True)
        else:
            self._study.tell(number, score, skip_if_finished=True)

    def _finished(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


class _Journal(BaseJournalBackend):
    """The journal of one search in the database."""

    def __init__(self, journals: TuningJournalStore, study: str) -> None:
        self._journals = journals
        self._study = study

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        return map(orjson.loads, self._journals.entries(self._study, first=log_number_from))

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        self._journals.append(self._study, [orjson.dumps(one).decode() for one in logs])


def study_name(facts: Mapping[str, Any]) -> str:
    """Return the name of the search whose scores depend on some facts, 64 hexadecimal digits."""
    return hashlib.sha256(orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _drawn(one: Range) -> BaseDistribution:
    if isinstance(one, Whole):
        return IntDistribution(one.low, one.high)
    return FloatDistribution(one.low, one.high, log=True)


def _seed(name: str, position: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{name}:{position}".encode()).digest()[:4], "big")


def _value(trial: FrozenTrial) -> float:
    assert trial.value is not None, "a finished trial has a value"
    return trial.value


#: Stands for the error of answers that are no numbers.
_NO_NUMBER = 1e6

if TYPE_CHECKING:
    from perfmodel.training.tuning.tune import Scored, Study


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
        InnerFolds.of(samples, corpus, seed=seed),
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
        from perfmodel.training.tuning.tune import Study, study_name
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

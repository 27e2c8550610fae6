"""One search: which settings of a learner are tried next, what came of each, which are best.

The next settings follow from the name of the search and from all trials that were finished, and
from nothing else. So a search that was killed and goes on tries what it would have tried.

Needs optuna.

Reference: T. Akiba et al., "Optuna: A Next-generation Hyperparameter Optimization Framework", KDD
2019; J. Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NIPS 2011 (the sampler).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import optuna
import orjson
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend
from optuna.trial import FrozenTrial, TrialState

from perfmodel.store.retraining.tuning_journal import TuningJournalStore
from perfmodel.training.tuning.inner_folds import Settings
from perfmodel.training.tuning.spaces import Range, Space, Whole

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

"""The members of the joint predictor, fitted without a part of the families each; their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from perfmodel.engines.task_engine import TaskEngine
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.steps.step import Step
from perfmodel.features.steps.step_table import StepTable
from perfmodel.features.steps.whole_step import UNTOLD_COLUMNS
from perfmodel.predictors.joint.joint_regimes import fit_mix
from perfmodel.predictors.step_models.mode_nets import ModeNets, is_training
from perfmodel.predictors.step_models.node_settings import NodeNetSettings
from perfmodel.predictors.step_models.whole_boost import WholeBoost

Report = Callable[[str], None]

#: Position of the member that has seen all families: it answers for jobs never measured.
ALL = -1


@dataclass(frozen=True, kw_only=True)
class Member:
    """One pair of predictors, fitted without one fold of families."""

    net: ModeNets
    boost: WholeBoost


@dataclass(frozen=True, kw_only=True)
class JointSettings:
    """Settings of the joint predictor.

    Parameters
    ----------
    folds : int
        Parts of the families that are left out in turn.
    rounds, depth : int
        Trees of the whole-step predictor, and the depth of each.
    epochs, learning_rate, shrinkage : int, float, float
        Of the networks, see
        :class:`~perfmodel.predictors.step_models.node_net.NodeNetSettings`.
    """

    seed: int = 0
    folds: int = 4
    epochs: int = 12
    rounds: int = 500
    learning_rate: float = 2e-3
    shrinkage: float = 0.003
    depth: int = 6
    coverage: float = 0.9


@dataclass(frozen=True, kw_only=True)
class FitTask:
    """Everything that the members learn from.

    Tables, times and weights hold whole steps and, after them, operators alone, of which only
    networks learn; all else is of whole steps.
    """

    table: StepTable
    rows: npt.NDArray[np.float32]
    reference_s: FloatArray
    log_times: FloatArray
    weights: FloatArray
    fold: IntArray
    settings: JointSettings

    @property
    def whole(self) -> FitTask:
        """The same of whole steps alone."""
        steps = len(self.fold)
        return replace(
            self,
            table=self.table.first(steps),
            log_times=self.log_times[:steps],
            weights=self.weights[:steps],
        )

    def member(self, k: int) -> Member:
        """Fit the member that does not see fold k; ``ALL`` sees everything."""
        return Member(net=self.network(k), boost=self.trees(k))

    def network(self, k: int) -> ModeNets:
        """Fit the networks of a member."""
        settings = NodeNetSettings(
            seed=self._seed(k),
            epochs=self.settings.epochs,
            learning_rate=self.settings.learning_rate,
            shrinkage=self.settings.shrinkage,
        )
        steps = np.flatnonzero(self.fold != k)
        operators = np.arange(len(self.fold), len(self.log_times))
        heard = np.concatenate([steps, operators])
        return ModeNets.fit(settings, self.table, self.log_times, self.weights, heard)

    def trees(self, k: int) -> WholeBoost:
        """Grow the trees of a member."""
        steps = np.flatnonzero(self.fold != k)
        return WholeBoost(
            seed=self._seed(k), rounds=self.settings.rounds, depth=self.settings.depth
        ).fit(self.rows[steps], self.reference_s[steps], self.log_times[steps], self.weights[steps])

    def untold_trees(self) -> WholeBoost:
        """Grow trees on all steps that are told nothing of a device but what it should take."""
        return WholeBoost(
            seed=self._seed(ALL),
            rounds=self.settings.rounds,
            depth=self.settings.depth,
            columns=UNTOLD_COLUMNS,
        ).fit(self.rows, self.reference_s, self.whole.log_times, self.whole.weights)

    def _seed(self, k: int) -> int:
        return self.settings.seed * 101 + (k if k != ALL else 100)


@dataclass(frozen=True, kw_only=True)
class MemberAnswers:
    """What the members say of steps, without anything that was measured of a job or a device.

    Parameters
    ----------
    network, mixed : ndarray, shape (members, steps)
        Logarithm of seconds: of the networks alone, and of networks and trees.
    shares : ndarray, shape (steps, effects)
        Of the effects of a device in each step.
    scale : ndarray, shape (steps,)
        Standard deviation of what is usually left.
    least_s : ndarray, shape (steps,)
        What no step can beat.
    untold : ndarray, shape (steps,)
        Logarithm of seconds: of the trees that are told nothing of a device, where the fit has not
        seen it; NaN elsewhere.
    """

    network: FloatArray
    mixed: FloatArray
    shares: FloatArray
    scale: FloatArray
    least_s: FloatArray
    untold: FloatArray


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Steps, and all that is said of them whatever was observed on their devices.

    See :meth:`.joint.JointPredictor.ask`.
    """

    steps: Sequence[Step]
    members: MemberAnswers
    groups: Sequence[tuple[str, ...]]
    shapes: FloatArray
    distance: FloatArray
    factor: FloatArray
    nearest: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class LogStages:
    """Logarithm of the time of a step, after one thing more each.

    Parameters
    ----------
    network : float
        By the node networks alone, mixed as all members are.
    trees : float
        And by the trees on whole steps.
    memory : float
        And by what measured cells of the same job say.
    device : float
        And by what a few records of the device say.
    least : float
        And no less than what the arithmetic takes at the peaks.
    """

    network: float
    trees: float
    memory: float
    device: float
    least: float


def fit_members(task: FitTask, engine: TaskEngine, report: Report | None) -> list[Member]:
    """Fit a member without each fold, and last the one that sees all."""
    members: dict[int, Member] = {}
    folds = task.settings.folds
    for position, member in engine.run(FitTask.member, task, [*range(folds), ALL]):
        members[position] = member
        if report is not None:
            report(f"fitted member {len(members)} of {folds + 1}")
    return [members[position] for position in range(folds + 1)]


def weigh_training_networks(members: Sequence[Member], task: FitTask) -> None:
    """Mix the two networks that answer training steps as held-out families would have it."""
    table, logs, weights = task.table, task.log_times, task.weights
    own = np.flatnonzero(is_training(table))
    if not len(own):
        return
    both = np.zeros((2, len(own)))
    for k, member in enumerate(members[:ALL]):
        held = np.flatnonzero(task.fold[own] == k)
        both[:, held] = member.net.training_log_times(table, own[held])
    share = fit_mix([()] * len(own), both[1], both[0], logs[own], weights[own])[()]
    for member in members:
        member.net.training_share = share


def held_out(members: Sequence[Member], task: FitTask) -> tuple[FloatArray, FloatArray]:
    """Return what networks and trees say of each step that have not seen its family."""
    net, boost = np.zeros(len(task.fold)), np.zeros(len(task.fold))
    for k, member in enumerate(members[:ALL]):
        own = np.flatnonzero(task.fold == k)
        net[own], _ = member.net.log_times(task.table, own)
        boost[own] = member.boost.log_times(task.rows[own], task.reference_s[own])
    return net, boost

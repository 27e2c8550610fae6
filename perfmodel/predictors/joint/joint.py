r"""The joint predictor: all devices, all settings, one model.

It answers in four steps, each of which says how sure it is:

1. A node network (:mod:`.node_network`) and boosted trees on whole steps (:mod:`.whole_boost`)
   predict the time of a step from its graph, the facts of the device and the settings. Both are
   fitted ``folds`` times, each time without a part of the families, and once on all; their mix
   is weighted by what it got right on the families left out.
2. If cells of the same job were measured elsewhere, their residuals are recalled
   (:mod:`.job_memory`), relative to the members that had not seen its family. On a device
   without records, which the networks alone answer, they are residuals of the networks alone.
3. A device without records adds the spread of devices; records of it, however few, replace that
   by what they say (:mod:`.device_beliefs`).
4. The interval is the standard deviation of what is left, times a quantile that was measured on
   held-out families for this group of devices and settings (split conformal).
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import TrainingError
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.steps.sketch import architecture_key
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.features.steps.step_table import StepTable, step_bounds_s, step_table
from perfmodel.features.steps.whole_step import whole_rows
from perfmodel.intervals import DEVIATIONS
from perfmodel.predictors.joint.device_beliefs import DeviceBeliefs, features
from perfmodel.predictors.joint.job_memory import JobMemory, Recalled, cell_of
from perfmodel.predictors.joint.joint_intervals import GroupQuantiles, Rung, rung_scores
from perfmodel.predictors.joint.joint_members import (
    ALL,
    Asked,
    FitTask,
    LogStages,
    Member,
    MemberAnswers,
    fit_members,
)
from perfmodel.predictors.joint.joint_regimes import (
    balanced,
    even_folds,
    fit_mix,
    groups,
    of_regime,
    regimes,
    spreads,
)
from perfmodel.predictors.joint.novelty import Novelty
from perfmodel.predictors.prediction import Prediction
from perfmodel.predictors.predictor_checks import SHORTEST_STEP_S
from perfmodel.predictors.step_models.mode_nets import is_training
from perfmodel.predictors.step_models.node_net import RowParts
from perfmodel.types import Basis, Framework, Mode

Report = Callable[[str], None]

#: Its weight beside the mean of those that have not seen one part of the families each.
_TRUST_IN_ALL = 0.4
#: Cells of a job after which a training step is answered half by that member.
_CELLS_TO_TRUST = 8.0
#: Variance of a job on a device that was never trained on, beyond what all its jobs share there.
_JOB_ON_NEW_DEVICE_VARIANCE = 0.085**2
#: Variance of a device whose maker no training record is of: its libraries are unknown as well.
#: Assumed; devices of one maker say nothing about it.
_UNKNOWN_MAKER_VARIANCE = 0.25**2
#: Width of the intervals of a new job, answered by all members together, over that of the single
#: members on the families they had not seen.
_ALL_TOGETHER = 0.87
#: Variance of a framework that no record is of; assumed, as that of an unknown maker.
_UNKNOWN_FRAMEWORK_VARIANCE = 0.25**2
_STRANGE = (
    "No accelerator of this maker was ever measured: how well its libraries use it is not known, "
    "and the interval is wider for it."
)
_UNKNOWN_FRAMEWORK = (
    "No step under {framework} was learned from: the answer is that of PyTorch, and the interval "
    "is wider for it."
)
_POOLED = (
    "Too few measurements of this mode and compiler on this kind of device to calibrate an "
    "interval of their own; it is that of all together."
)


class JointPredictor:
    """Learns from measured steps of many devices; answers any step on any device.

    After :meth:`fit`, ``residuals_`` holds log(measured / predicted) of every sample by members
    that had not seen its family, and ``regimes_`` the regime of each.

    Parameters
    ----------
    folds : int
        Parts of the families that are left out in turn.
    rounds : int
        Trees of the whole-step predictor.
    workers : int
        Members that are fitted at the same time.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        folds: int = 4,
        epochs: int = 8,
        rounds: int = 500,
        coverage: float = 0.9,
        workers: int = 1,
        report: Report | None = None,
    ) -> None:
        self.seed = seed
        self.folds = folds
        self.epochs = epochs
        self.rounds = rounds
        self.coverage = coverage
        self.workers = workers
        self.report = report

    # -- learning -----------------------------------------------------------------------------

    def fit(self, samples: Sequence[StepSample], *, operators: Sequence[StepSample] = ()) -> Self:
        """Learn from measured steps, and from operators that were measured alone.

        Parameters
        ----------
        operators : sequence of StepSample
            Steps of one operator (``step.alone``): the networks learn efficiencies from them and
            what facts of devices say; they are no jobs, and no devices that are known.

        Raises
        ------
        TrainingError
            Too few samples or families to hold any out.
        """
        if len({sample.family for sample in samples}) < 2:
            raise TrainingError("The joint predictor needs samples of two families or more.")
        table = step_table([sample.step for sample in samples])
        logs = np.log([sample.step_time_s for sample in samples])
        weights = balanced(samples)
        fold = even_folds([sample.family for sample in samples], self.folds)
        rows, reference = whole_rows(table)
        task = FitTask(
            table=table, rows=rows, reference_s=reference, log_times=logs, weights=weights,
            fold=fold, seed=self.seed, epochs=self.epochs, rounds=self.rounds,
        )  # fmt: skip
        self.members_ = self._fit_members(task.beside(samples, operators))
        self._weigh_training_networks(table, logs, weights, fold)
        net, boost = self._held_out(table, rows, reference, fold)
        self.mix_ = fit_mix(regimes(table), net, boost, logs, weights)
        weight = of_regime(self.mix_, regimes(table))
        residuals = logs - (weight * net + (1.0 - weight) * boost)
        self.spread_ = spreads(regimes(table), residuals)
        scale = of_regime(self.spread_, regimes(table))
        jobs = [architecture_key(s.step.sketch, s.step.batch_size) for s in samples]
        cells = np.array([cell_of(sample.step) for sample in samples], dtype=np.int64)
        self.memory_ = JobMemory().fit(jobs, cells, residuals / scale)
        self.abroad_ = JobMemory().fit(jobs, cells, (logs - net) / scale)
        self.abroad_.listen_across_devices()
        self.fold_of_job_ = dict(zip(jobs, fold.tolist(), strict=True))
        self.novelty_ = Novelty().fit(
            rows,
            [sample.model for sample in samples],
            np.array([sample.family for sample in samples]),
            residuals / scale,
            table.sketch_of,
            jobs,
        )
        self.residuals_, self.regimes_ = residuals, regimes(table)
        self.makers_ = tuple(sorted({maker_of(s.step.accelerator) for s in samples}))
        self.frameworks_ = tuple(sorted({Framework.of(s.step.software) for s in samples}))
        self._learn_devices(table)
        _, factor, _ = self.novelty_.measure(rows)
        scores = rung_scores(residuals / scale, factor, jobs, self.memory_, self.abroad_)
        self.quantiles_ = GroupQuantiles.fit(scores, groups(table), self.coverage)
        return self

    def _fit_members(self, task: FitTask) -> list[Member]:
        members = []
        for member in fit_members(task, [*range(self.folds), ALL], self.workers):
            members.append(member)
            if self.report is not None:
                self.report(f"fitted member {len(members)} of {self.folds + 1}")
        return members

    def _weigh_training_networks(
        self, table: StepTable, logs: FloatArray, weights: FloatArray, fold: IntArray
    ) -> None:
        """Mix the two networks that answer training steps as held-out families would have it."""
        own = np.flatnonzero(is_training(table))
        if not len(own):
            return
        both = np.zeros((2, len(own)))
        for k, member in enumerate(self.members_[: self.folds]):
            held = np.flatnonzero(fold[own] == k)
            both[:, held] = member.net.training_log_times(table, own[held])
        share = fit_mix([()] * len(own), both[1], both[0], logs[own], weights[own])[()]
        for member in self.members_:
            member.net.training_share = share

    def _held_out(
        self,
        table: StepTable,
        rows: npt.NDArray[np.float32],
        reference: FloatArray,
        fold: IntArray,
    ) -> tuple[FloatArray, FloatArray]:
        net, boost = np.zeros(len(fold)), np.zeros(len(fold))
        for k, member in enumerate(self.members_[: self.folds]):
            own = np.flatnonzero(fold == k)
            net[own], _ = member.net.log_times(table, own)
            boost[own] = member.boost.log_times(rows[own], reference[own])
        return net, boost

    def _learn_devices(self, table: StepTable) -> None:
        """Take over how far devices lie from what their facts say."""
        self.devices_ = tuple(sorted(set(table.devices)))
        prior = np.mean([m.net.unknown_variance_ for m in self.members_], axis=0)
        self.beliefs_ = DeviceBeliefs(prior, Counter(groups(table)))

    # -- answering ----------------------------------------------------------------------------

    def predict(self, steps: Sequence[Step]) -> list[Prediction]:
        """Answer steps: time, interval, evidence."""
        return self.answer(self.ask(steps)) if steps else []

    def ask(self, steps: Sequence[Step]) -> Asked:
        """Ask all members about steps, once for every predictor that is adapted from this one."""
        table = step_table(steps)
        rows, reference = whole_rows(table)
        distance, factor, nearest = self.novelty_.measure(rows)
        return Asked(
            steps=steps,
            members=self._raw(table, rows, reference),
            groups=groups(table),
            distance=distance,
            factor=factor,
            nearest=nearest,
        )

    def answer(self, asked: Asked) -> list[Prediction]:
        """Answer steps that this predictor, or one that it was adapted from, was asked about."""
        return [self._one(step, i, asked) for i, step in enumerate(asked.steps)]

    def _raw(
        self,
        table: StepTable,
        rows: npt.NDArray[np.float32],
        reference: FloatArray,
        members: Sequence[Member] = (),
        networks: Sequence[tuple[FloatArray, FloatArray]] = (),
    ) -> MemberAnswers:
        """Ask all members, or some; their networks only where they have not answered yet."""
        members = members or self.members_
        networks = networks or [member.net.log_times(table) for member in members]
        weight = of_regime(self.mix_, regimes(table))
        # Trees know devices, not facts of devices: only the network answers for a new one.
        weight[[name not in self.devices_ for name in table.devices]] = 1.0
        mixed = [net for net, _ in networks]
        if np.any(weight < 1.0):
            boosts = [member.boost.log_times(rows, reference) for member in members]
            mixed = [weight * n + (1.0 - weight) * b for n, b in zip(mixed, boosts, strict=True)]
        return MemberAnswers(
            network=np.stack([net for net, _ in networks]),
            mixed=np.stack(mixed),
            shares=np.mean([share for _, share in networks], axis=0),
            scale=of_regime(self.spread_, regimes(table)),
            least_s=np.maximum(step_bounds_s(table), SHORTEST_STEP_S),
        )

    def _one(self, step: Step, i: int, asked: Asked) -> Prediction:
        raw, group = asked.members, asked.groups[i]
        factor, distance = float(asked.factor[i]), float(asked.distance[i])
        log_time, recalled = self._with_memory(step, raw.mixed[:, i], float(raw.scale[i]))
        variance = recalled.variance if recalled.cells else recalled.variance * factor**2
        known_device = step.accelerator.name in self.devices_
        probed = step.accelerator.name in self.beliefs_.effects
        rung = Rung.of(recalled.cells, recalled.on_device, known_device=known_device)
        quantile, pooled = self.quantiles_.at(rung, group)
        half = quantile * float(np.sqrt(variance)) * float(raw.scale[i])
        half *= 1.0 if recalled.cells else _ALL_TOGETHER
        shift, spread = self.beliefs_.shift(group, raw.shares[i])
        spread += 0.0 if known_device else _JOB_ON_NEW_DEVICE_VARIANCE
        strange = maker_of(step.accelerator) not in self.makers_ and not probed
        spread += _UNKNOWN_MAKER_VARIANCE if strange else 0.0
        framework = Framework.of(step.software)
        foreign = framework not in self.frameworks_
        spread += _UNKNOWN_FRAMEWORK_VARIANCE if foreign else 0.0
        half = float(np.hypot(half, DEVIATIONS * np.sqrt(spread)))
        time_s = max(float(np.exp(log_time + shift)), float(raw.least_s[i]))
        outside = distance > self.novelty_.outside_ and not recalled.cells
        return Prediction(
            time_s=time_s,
            low_s=time_s * float(np.exp(-half)),
            high_s=time_s * float(np.exp(half)),
            coverage=self.coverage,
            basis=_basis(recalled, known_device, outside, probed),
            out_of_distribution=bool(outside),
            nearest=(asked.nearest[i],),
            model_version="",
            warnings=(
                *self.beliefs_.warnings(step.accelerator.name),
                *((_STRANGE,) if strange else ()),
                *((_UNKNOWN_FRAMEWORK.format(framework=framework),) if foreign else ()),
                *((_POOLED,) if pooled else ()),
            ),
        )

    def _with_memory(self, step: Step, mixed: FloatArray, scale: float) -> tuple[float, Recalled]:
        """Answer from what the cells of a job say, or, for a job never measured, by all members.

        The member that has not seen the family of the job gives what the cells are residuals of.
        A training step also has the member that learned from them: cells of inference say little
        about it, and the more cells there are, the better that member knows the job.
        """
        job = architecture_key(step.sketch, step.batch_size)
        memory = self.memory_ if step.accelerator.name in self.devices_ else self.abroad_
        recalled = memory.recall(job, np.array(cell_of(step), dtype=np.int64))
        fold = self.fold_of_job_.get(job)
        if fold is None:
            of_all = _TRUST_IN_ALL * float(mixed[ALL])
            of_all += (1.0 - _TRUST_IN_ALL) * float(mixed[:ALL].mean())
            return of_all + recalled.mean * scale, recalled
        trust = 0.0
        if step.mode is Mode.TRAINING:
            trust = recalled.cells / (recalled.cells + _CELLS_TO_TRUST)
        by_cells = float(mixed[fold]) + recalled.mean * scale
        return trust * float(mixed[ALL]) + (1.0 - trust) * by_cells, recalled

    def log_stages(self, step: Step, table: StepTable, parts: Sequence[RowParts]) -> LogStages:
        """Return the logarithm of the time of a step after each thing that is taken into account.

        Parameters
        ----------
        table : StepTable
            Of it alone.
        parts : sequence of RowParts
            From :meth:`row_parts`.
        """
        networks = [(one.log_times, one.shares) for one in parts]
        raw = self._raw(table, *whole_rows(table), networks=networks)
        mixed, scale = raw.mixed[:, 0], float(raw.scale[0])
        memory, _ = self._with_memory(step, mixed, scale)
        shift, _ = self.beliefs_.shift(groups(table)[0], raw.shares[0])
        return LogStages(
            # Without a scale nothing is recalled.
            network=self._with_memory(step, raw.network[:, 0], 0.0)[0],
            trees=self._with_memory(step, mixed, 0.0)[0],
            memory=memory,
            device=memory + shift,
            least=max(memory + shift, float(np.log(raw.least_s[0]))),
        )

    def row_parts(self, table: StepTable) -> list[RowParts]:
        """Return what the network of each member says of the rows of a table's one step."""
        return [member.net.row_parts(table) for member in self.members_]

    def unseen_log_times(self, steps: Sequence[Step], fold: int) -> FloatArray:
        """Return what the member says that has not seen a part of the families, shape (steps,)."""
        table = step_table(steps)
        raw = self._raw(table, *whole_rows(table), members=self.members_[fold : fold + 1])
        return np.asarray(raw.mixed[0])

    # -- a few records of a device ------------------------------------------------------------

    def adapt(self, probes: Sequence[StepSample]) -> JointPredictor:
        """Return a predictor that has taken a few records of devices into account.

        Records add to those of earlier calls; :meth:`forget` comes first where they hold those
        again. ``beliefs_`` counts them by device.
        """
        adapted = copy.copy(self)
        by_device: dict[str, list[StepSample]] = {}
        for probe in probes:
            by_device.setdefault(probe.step.accelerator.name, []).append(probe)
        for device, records in by_device.items():
            adapted.beliefs_ = adapted.beliefs_.given(device, *self._residuals(records))
        return adapted

    def forget(self, devices: Collection[str]) -> JointPredictor:
        """Return a predictor that never was adapted to some devices."""
        plain = copy.copy(self)
        plain.beliefs_ = self.beliefs_.without(devices)
        return plain

    def record_noise(self, steps: Sequence[Step]) -> FloatArray:
        """Return how far records would be believed to be off beside their device, shape (steps,).

        Standard deviation of the log time; smaller for jobs that were measured on other devices.
        """
        table = step_table(steps)
        raw = self._raw(table, *whole_rows(table))
        return np.sqrt([self._expected(step, raw, i)[1] for i, step in enumerate(steps)])

    def _expected(self, step: Step, raw: MemberAnswers, i: int) -> tuple[float, float]:
        """Return the log time of a step without its device's records, and a record's variance."""
        log_time, recalled = self._with_memory(step, raw.mixed[:, i], float(raw.scale[i]))
        noise = recalled.variance * float(raw.scale[i]) ** 2
        if step.accelerator.name not in self.devices_:
            noise += _JOB_ON_NEW_DEVICE_VARIANCE
        return log_time, noise

    def _residuals(
        self, records: Sequence[StepSample]
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return features, log(measured / predicted) and its variance of records of a device."""
        table = step_table([record.step for record in records])
        raw = self._raw(table, *whole_rows(table))
        logs, noise = np.zeros(len(records)), np.zeros(len(records))
        for i, record in enumerate(records):
            log_time, variance = self._expected(record.step, raw, i)
            logs[i] = np.log(record.step_time_s) - log_time
            noise[i] = variance / record.weight
        return features(groups(table), raw.shares), logs, noise

    def device_features(self, steps: Sequence[Step]) -> FloatArray:
        """Return what the coefficients of a device act on, shape (steps, coefficients)."""
        table = step_table(steps)
        shares = np.mean([m.net.log_times(table)[1] for m in self.members_], axis=0)
        return features(groups(table), shares)

    @property
    def device_prior_(self) -> FloatArray:
        """Variance of the effects between devices with equal facts, shape (effects,)."""
        return self.beliefs_.prior

    def device_covariance(self, device: str) -> FloatArray:
        """Return the covariance of the coefficients of a device before it is measured further.

        Returns
        -------
        ndarray, shape (coefficients, coefficients)
        """
        return self.beliefs_.before_records(device).covariance

    @property
    def noise_(self) -> float:
        """Standard deviation of a log time that no coefficient of a device explains."""
        return float(np.sqrt(self.memory_.prior_variance_) * self.spread_[()])


def maker_of(spec: AcceleratorSpec) -> str:
    """Return the sort and the maker of a device, ``gpu/AMD``: they share drivers and libraries."""
    return f"{spec.kind}/{spec.vendor}"


def _basis(recalled: Recalled, known_device: bool, outside: bool, probed: bool) -> Basis:
    if outside or not (known_device or probed):
        return Basis.EXTRAPOLATED
    if recalled.alike:
        return Basis.CALIBRATED
    return Basis.TRANSFERRED if recalled.cells else Basis.INTERPOLATED

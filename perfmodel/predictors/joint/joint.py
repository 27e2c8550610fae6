r"""The joint predictor: all devices, all settings, one model.

It answers in four steps, each of which says how sure it is:

1. A node network (:mod:`.node_network`) and boosted trees on whole steps (:mod:`.whole_boost`)
   predict the time of a step from its graph, the facts of the device and the settings. Both are
   fitted ``folds`` times, each time without a part of the families, and once on all; their mix
   is weighted by what it got right on the families left out.
2. If cells of the same job were measured elsewhere, their residuals are recalled
   (:mod:`.job_memory`), relative to the members that had not seen its family. On a device
   without records, which the networks answer, they are residuals of the networks alone, and trees
   that are told nothing of a device are mixed in, the more devices the job was measured on.
3. A device without records adds the spread of devices; records of it, however few, replace that
   by what they say of it (:mod:`.device_beliefs`) and of their jobs (:mod:`.device_records`). From
   then on trees are heard about it, too, half as much as about those that they learned from.
4. The interval is the standard deviation of what is left, times how hard a step is to predict
   (:mod:`.error_scale`), times a quantile that was measured on held-out families for this group of
   devices and settings (split conformal).
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.engines.task_engine import TaskEngine
from perfmodel.errors import TrainingError
from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.features.steps.step_table import StepTable, step_bounds_s, step_table
from perfmodel.features.steps.whole_step import whole_rows
from perfmodel.intervals import DEVIATIONS
from perfmodel.predictors.joint.device_beliefs import BEFORE_RECORDS, DeviceBeliefs, features
from perfmodel.predictors.joint.device_records import AskedCell, DeviceRecords
from perfmodel.predictors.joint.job_memory import JobMemory, Recalled, cell_of, job_key
from perfmodel.predictors.joint.joint_intervals import GroupQuantiles, Rung, rung_scores
from perfmodel.predictors.joint.joint_members import (
    ALL,
    Asked,
    FitTask,
    JointSettings,
    LogStages,
    Member,
    MemberAnswers,
    Report,
    fit_members,
    held_out,
    weigh_training_networks,
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
from perfmodel.predictors.joint.known_devices import HEARD_BY_RECORDS, KnownDevices, maker_of
from perfmodel.predictors.joint.novelty import Novelty
from perfmodel.predictors.prediction import Prediction
from perfmodel.predictors.predictor_checks import SHORTEST_STEP_S
from perfmodel.predictors.step_models.asked_table import ANSWERED_AT_ONCE
from perfmodel.predictors.step_models.error_scale import ErrorScale, held_out_factors
from perfmodel.predictors.step_models.node_net import RowParts
from perfmodel.types import Basis, Framework, Mode, Precision

#: Digits to which records are kept: fewer than measurements repeat.
_DIGITS = 6
#: And what their networks are made of, in standard deviations: hundredths are no difference.
_SHAPE_DIGITS = 2

#: Its weight beside the mean of those that have not seen one part of the families each.
_TRUST_IN_ALL = 0.4
#: Cells of a job after which a training step is answered half by that member.
_CELLS_TO_TRUST = 8.0
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
    known_folds : mapping of str to int or None
        Folds that families have had in another version and keep, so that the two can be compared.
    engine : TaskEngine or None
        Where members are fitted; None: in this process, one after the other.
    **settings
        Fields of :class:`~.joint_members.JointSettings`.
    """

    def __init__(
        self,
        *,
        known_folds: Mapping[str, int] | None = None,
        engine: TaskEngine | None = None,
        report: Report | None = None,
        **settings: Any,
    ) -> None:
        self.settings = JointSettings(**settings)
        self.known_folds = dict(known_folds or {})
        self.engine = engine or LocalEngine()
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
        everything = self.task_of(samples, operators)
        self.members_ = fit_members(everything, self.engine, self.report)
        task = everything.whole
        table, rows, logs, weights = task.table, task.rows, task.log_times, task.weights
        weigh_training_networks(self.members_, task)
        self.untold_ = task.untold_trees()
        net, boost = held_out(self.members_, task)
        # Which member is trusted more does not hang on the framework.
        self.mix_ = fit_mix([one[:3] for one in regimes(table)], net, boost, logs, weights)
        weight = of_regime(self.mix_, regimes(table))
        residuals = logs - (weight * net + (1.0 - weight) * boost)
        self.spread_ = spreads(regimes(table), residuals)
        scale = of_regime(self.spread_, regimes(table))
        jobs = [job_key(sample.step) for sample in samples]
        cells = np.array([cell_of(sample.step) for sample in samples], dtype=np.int64)
        memory = JobMemory().fit(jobs, cells, residuals / scale)
        abroad = JobMemory().fit(jobs, cells, (logs - net) / scale)
        abroad.listen_across_devices()
        self.fold_of_job_ = dict(zip(jobs, task.fold.tolist(), strict=True))
        self.novelty_ = Novelty().fit(
            rows,
            [sample.model for sample in samples],
            np.array([sample.family for sample in samples]),
            table.sketch_of,
            jobs,
        )
        self.errors_ = ErrorScale().fit(rows, residuals / scale, weights)
        self.residuals_, self.regimes_ = residuals, regimes(table)
        self.known_ = self._devices_of(samples, table, memory, abroad)
        factor = held_out_factors(rows, residuals / scale, weights, task.fold)
        scores = rung_scores(residuals / scale, factor, jobs, memory, abroad)
        self.quantiles_ = GroupQuantiles.fit(scores, groups(table), self.settings.coverage)
        return self

    def _devices_of(
        self,
        samples: Sequence[StepSample],
        table: StepTable,
        memory: JobMemory,
        abroad: JobMemory,
    ) -> KnownDevices:
        """Return what is known of devices after learning, with no records beside those."""
        return KnownDevices(
            trained=tuple(sorted(set(table.devices))),
            makers=tuple(sorted({maker_of(s.step.accelerator) for s in samples})),
            frameworks=tuple(sorted({Framework.of(s.step.software) for s in samples})),
            beliefs=self._beliefs(table),
            records={},
            memory=memory,
            abroad=abroad,
            halfway=memory.between(abroad, HEARD_BY_RECORDS),
        )

    def task_of(
        self, samples: Sequence[StepSample], operators: Sequence[StepSample] = ()
    ) -> FitTask:
        """Return what members learn from some steps, and operators alone, and how."""
        everything = (*samples, *operators)
        table = step_table([sample.step for sample in everything])
        rows, reference = whole_rows(table.first(len(samples)))
        return FitTask(
            table=table,
            rows=rows,
            reference_s=reference,
            log_times=np.log([sample.step_time_s for sample in everything]),
            weights=np.concatenate([balanced(samples), balanced(operators)]),
            fold=even_folds([s.family for s in samples], self.settings.folds, self.known_folds),
            settings=self.settings,
        )

    def _beliefs(self, table: StepTable) -> DeviceBeliefs:
        """Return how far devices lie from what their facts say, before any record since."""
        prior = np.mean([m.net.unknown_variance_ for m in self.members_], axis=0)
        return DeviceBeliefs(prior, Counter(group[:4] for group in groups(table)))

    # -- answering ----------------------------------------------------------------------------

    def predict(self, steps: Sequence[Step]) -> list[Prediction]:
        """Answer steps: time, interval, evidence."""
        turns = [steps[i : i + ANSWERED_AT_ONCE] for i in range(0, len(steps), ANSWERED_AT_ONCE)]
        return [answer for some in turns for answer in self.answer(self._ask(some))]

    def ask(self, steps: Sequence[Step]) -> Asked:
        """Ask all members about steps, once for every predictor that is adapted from this one."""
        return self._ask(steps, everywhere=True)

    def _ask(self, steps: Sequence[Step], *, everywhere: bool = False) -> Asked:
        table = step_table(steps)
        rows, reference = whole_rows(table)
        return self._asked(
            steps, table, rows, self._raw(table, rows, reference, everywhere=everywhere)
        )

    def _asked(
        self,
        steps: Sequence[Step],
        table: StepTable,
        rows: npt.NDArray[np.float32],
        members: MemberAnswers,
    ) -> Asked:
        distance, nearest = self.novelty_.measure(rows)
        return Asked(
            steps=steps,
            members=members,
            groups=groups(table),
            shapes=self._shapes(rows),
            distance=distance,
            factor=self.errors_.factors(rows),
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
        *,
        everywhere: bool = False,
    ) -> MemberAnswers:
        """Ask all members, or some; their networks only where they have not answered yet.

        Trees are asked about devices that are known, or ``everywhere``.
        """
        members = members or self.members_
        networks = networks or [member.net.log_times(table) for member in members]
        weight = of_regime(self.mix_, regimes(table))
        new = np.array([name not in self.known_.trained for name in table.devices])
        weight[new] = 1.0 - HEARD_BY_RECORDS * (1.0 - weight[new])
        if not everywhere:
            weight[[not self.known_.hears_trees(name) for name in table.devices]] = 1.0
        mixed = [net for net, _ in networks]
        if np.any(weight < 1.0):
            boosts = [member.boost.log_times(rows, reference) for member in members]
            mixed = [weight * n + (1.0 - weight) * b for n, b in zip(mixed, boosts, strict=True)]
        untold = np.full(len(weight), np.nan)
        if new.any():
            untold[new] = self.untold_.log_times(rows[new], reference[new])
        return MemberAnswers(
            network=np.stack([net for net, _ in networks]),
            mixed=np.stack(mixed),
            shares=np.mean([share for _, share in networks], axis=0),
            scale=of_regime(self.spread_, regimes(table)),
            least_s=np.maximum(step_bounds_s(table), SHORTEST_STEP_S),
            untold=untold,
        )

    def _one(self, step: Step, i: int, asked: Asked) -> Prediction:
        raw, group = asked.members, asked.groups[i]
        factor, distance = float(asked.factor[i]), float(asked.distance[i])
        log_time, recalled = self._with_memory(step, asked, i)
        outside = distance > self.novelty_.outside_ and not recalled.cells
        if outside:
            # What trees have never seen the like of is not easy because they say so.
            factor = max(factor, 1.0)
        device, known = step.accelerator.name, self.known_
        heard = known.hears_trees(device)
        rung = Rung.of(recalled.cells, recalled.on_device, known_device=heard)
        quantile, pooled = self.quantiles_.at(rung, group)
        half = quantile * factor * float(np.sqrt(recalled.variance)) * float(raw.scale[i])
        shift, spread = known.beliefs.shift(group, raw.shares[i], full=_is_full(step))
        # What the facts of a device leave open is open for the networks' part alone.
        spread *= (1.0 - known.hears_untold(device, recalled.devices)) ** 2
        spread += 0.0 if recalled.on_device else known.job_variance(device)
        doubts = known.doubts(step)
        for doubt, _ in doubts:
            spread += doubt
        half = float(np.hypot(half, DEVIATIONS * np.sqrt(spread)))
        least_s = float(raw.least_s[i])
        time_s = max(float(np.exp(log_time + shift)), least_s)
        return Prediction(
            time_s=time_s,
            low_s=max(time_s * float(np.exp(-half)), least_s),
            high_s=time_s * float(np.exp(half)),
            coverage=self.settings.coverage,
            basis=_basis(
                recalled, outside, device in known.trained or device in known.beliefs.effects
            ),
            out_of_distribution=bool(outside),
            nearest=(asked.nearest[i],),
            model_version="",
            warnings=(
                *known.beliefs.warnings(device),
                *(warning for _, warning in doubts),
                *((_POOLED,) if pooled else ()),
            ),
        )

    def _said(self, step: Step, raw: MemberAnswers, i: int) -> FloatArray:
        """Return what each member says of a step of those that were asked, shape (members,)."""
        heard = raw.mixed if self.known_.hears_trees(step.accelerator.name) else raw.network
        return heard[:, i]

    def _shapes(self, rows: npt.NDArray[np.float32]) -> FloatArray:
        """Return what steps are made of, as records of devices are kept."""
        return np.round(self.novelty_.shapes(rows), _SHAPE_DIGITS)

    def _with_memory(self, step: Step, asked: Asked, i: int) -> tuple[float, Recalled]:
        """Answer from all that was measured of a job: cells of training, records of the device."""
        device, raw = step.accelerator.name, asked.members
        scale, known = float(raw.scale[i]), self.known_
        memory = known.memory_of(device)
        log_time, recalled = self._from_training(step, self._said(step, raw, i), scale, memory)
        if heard := known.hears_untold(device, recalled.devices):
            log_time += heard * (float(raw.untold[i]) - log_time)
        records = known.records.get(device)
        if records is None or not scale:
            return log_time, recalled
        cell = AskedCell(
            job=job_key(step),
            cell=np.array(cell_of(step), dtype=np.int64),
            scale=scale,
            features=features([asked.groups[i]], raw.shares[i : i + 1], [_is_full(step)]),
            shape=asked.shapes[i : i + 1],
        )
        further = records.recall(
            recalled, cell, memory, known.beliefs.effects[device], known.job_variance(device)
        )
        return log_time + further.mean * scale, further

    def _from_training(
        self, step: Step, said: FloatArray, scale: float, memory: JobMemory
    ) -> tuple[float, Recalled]:
        """Answer from what the cells of a job say, or, for a job never measured, by all members.

        The member that has not seen the family of the job gives what the cells are residuals of.
        A training step also has the member that learned from them: cells of inference say little
        about it, and the more cells there are, the better that member knows the job.
        """
        job = job_key(step)
        recalled = memory.recall(job, np.array(cell_of(step), dtype=np.int64))
        fold = self.fold_of_job_.get(job)
        if fold is None:
            of_all = _TRUST_IN_ALL * float(said[ALL])
            of_all += (1.0 - _TRUST_IN_ALL) * float(said[:ALL].mean())
            return of_all + recalled.mean * scale, recalled
        trust = 0.0
        if step.mode is Mode.TRAINING:
            trust = recalled.cells / (recalled.cells + _CELLS_TO_TRUST)
        by_cells = float(said[fold]) + recalled.mean * scale
        return trust * float(said[ALL]) + (1.0 - trust) * by_cells, recalled

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
        rows, reference = whole_rows(table)
        raw = self._raw(table, rows, reference, networks=networks)
        memory, _ = self._with_memory(step, self._asked([step], table, rows, raw), 0)
        shift, _ = self.known_.beliefs.shift(groups(table)[0], raw.shares[0], full=_is_full(step))
        return LogStages(
            # Without a scale nothing is recalled.
            network=self._from_training(step, raw.network[:, 0], 0.0, self.known_.memory)[0],
            trees=self._from_training(step, self._said(step, raw, 0), 0.0, self.known_.memory)[0],
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

    def as_if_unseen(self) -> JointPredictor:
        """Return a predictor that answers as if no family, and no record since, had been seen.

        Each step by the member that has not seen its family, with no cell of its job recalled; a
        job that none has seen by all members, as ever.
        """
        return self._knowing(self.known_.without_cells())

    def _knowing(self, known: KnownDevices) -> JointPredictor:
        """Return a predictor that knows something else of devices."""
        other = copy.copy(self)
        other.known_ = known
        return other

    # -- a few records of a device ------------------------------------------------------------

    def adapt(self, probes: Sequence[StepSample]) -> JointPredictor:
        """Return a predictor that has taken a few records of devices into account.

        Records add to those of earlier calls; :meth:`forget` comes first where they hold those
        again.
        """
        by_device: dict[str, list[StepSample]] = {}
        for probe in probes:
            by_device.setdefault(probe.step.accelerator.name, []).append(probe)
        known = self.known_
        for device, samples in by_device.items():
            known = known.given(device, self._as_records(samples))
        return self._knowing(known)

    def _as_records(self, samples: Sequence[StepSample]) -> DeviceRecords:
        """Return samples of one device as they are kept."""
        table = step_table([sample.step for sample in samples])
        rows, reference = whole_rows(table)
        raw = self._raw(table, rows, reference, everywhere=True)
        memory = self.known_.memory_of(samples[0].step.accelerator.name, recorded=True)
        answered = [
            self._from_training(s.step, raw.mixed[:, i], float(raw.scale[i]), memory)[0]
            for i, s in enumerate(samples)
        ]
        full = [_is_full(sample.step) for sample in samples]
        logs = np.log([sample.step_time_s for sample in samples])
        return DeviceRecords(
            jobs=tuple(job_key(sample.step) for sample in samples),
            cells=np.array([cell_of(sample.step) for sample in samples], dtype=np.int64),
            features=np.round(features(groups(table), raw.shares, full), _DIGITS),
            residuals=np.round(logs - answered, _DIGITS),
            scale=raw.scale,
            weight=np.array([sample.weight for sample in samples]),
            doubt=np.zeros(len(samples)),
            shapes=self._shapes(rows),
        )

    def forget(self, devices: Collection[str]) -> JointPredictor:
        """Return a predictor that never was adapted to some devices."""
        return self._knowing(self.known_.without(devices))

    def device_features(self, steps: Sequence[Step]) -> FloatArray:
        """Return what the coefficients of a device act on, shape (steps, coefficients)."""
        table = step_table(steps)
        shares = np.mean([m.net.log_times(table)[1] for m in self.members_], axis=0)
        return features(groups(table), shares, [_is_full(step) for step in steps])

    @property
    def device_prior_(self) -> FloatArray:
        """Variance of each effect of a device, as records are weighed against it."""
        return BEFORE_RECORDS * self.known_.beliefs.prior

    def device_covariance(self, device: str) -> FloatArray:
        """Return the covariance of the coefficients of a device before it is measured further.

        Returns
        -------
        ndarray, shape (coefficients, coefficients)
        """
        return self.known_.beliefs.before_records(device).covariance

    @property
    def noise_(self) -> float:
        """Standard deviation of a log time that no coefficient of a device explains."""
        return float(np.sqrt(self.known_.memory.prior_variance_) * self.spread_[()])


def _is_full(step: Step) -> bool:
    """Tell whether a step computes in fp32, beside the units for matrix products."""
    return step.precision is Precision.FP32


def _basis(recalled: Recalled, outside: bool, is_known: bool) -> Basis:
    if outside or not is_known:
        return Basis.EXTRAPOLATED
    if recalled.alike:
        return Basis.CALIBRATED
    return Basis.TRANSFERRED if recalled.cells else Basis.INTERPOLATED

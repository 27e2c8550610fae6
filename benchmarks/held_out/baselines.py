"""Baselines: what a simple rule answers from the same training part.

===============  ================================================================================
``mean-rate``    FLOPs over the mean FLOP rate of the training part (of the device where known)
``roofline``     roofline over one fitted efficiency per setting (and device where known)
``transfer``     the time of the same job on another device times one constant
``totals``       boosted trees on totals: FLOPs, bytes, parameters, batch, launches, device facts
===============  ================================================================================
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Self

import numpy as np
from held_out.learners import BaselineFactory
from held_out.step_totals import (
    job_of,
    setting_of,
    step_totals,
    total_columns,
)

from perfmodel.errors import TrainingError
from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.predictors.boosting import Booster, BoosterSettings

_Key = tuple[str, ...]


class _Constants:
    """Geometric means by key, from the most special key that is known to the most general.

    Every key of a sample takes part, so that a step of an unknown device falls back to its
    setting, and one of an unknown setting to its kind of device.
    """

    def __init__(self) -> None:
        self._sum: dict[_Key, float] = defaultdict(float)
        self._count: dict[_Key, int] = defaultdict(int)

    def add(self, keys: Iterable[_Key], log_value: float) -> None:
        for key in keys:
            self._sum[key] += log_value
            self._count[key] += 1

    def log_value(self, keys: Iterable[_Key]) -> float:
        for key in keys:
            if key in self._count:
                return self._sum[key] / self._count[key]
        raise TrainingError("Nothing was fitted; call fit with at least one sample.")


def _keys(step: Step) -> list[_Key]:
    """Keys from special to general: device and setting, device, setting, kind, all."""
    setting = setting_of(step)
    device = step.accelerator.name
    on_device = (device, step.mode.value, step.compiler.value)
    return [(device, *setting), on_device, setting, (setting[0], setting[1]), ()]


class _Scaled(ABC):
    """Some time per step over a fitted constant."""

    def __init__(self) -> None:
        self.constants_ = _Constants()

    @abstractmethod
    def _time_s(self, step: Step) -> float:
        """Return the time that is scaled, seconds."""

    def fit(self, samples: Sequence[StepSample]) -> Self:
        """Fit the constants: geometric means of measured over this time."""
        self.constants_ = _Constants()
        return self._learn(samples)

    def adapt(self, probes: Sequence[StepSample]) -> Self:
        """Fit the constants of the devices of a few more samples."""
        adapted = copy.deepcopy(self)
        return adapted._learn(probes)

    def predict(self, steps: Sequence[Step]) -> FloatArray:
        """Return the time of each step times the most special constant that is known."""
        logs = [self.constants_.log_value(_keys(step)) for step in steps]
        times = np.array([self._time_s(step) for step in steps])
        scaled: FloatArray = times * np.exp(np.array(logs))
        return scaled

    def _learn(self, samples: Sequence[StepSample]) -> Self:
        for sample in samples:
            log = float(np.log(sample.step_time_s / self._time_s(sample.step)))
            self.constants_.add(_keys(sample.step), log)
        return self


class MeanRate(_Scaled):
    """``T^ = FLOPs / rate``: the rate is a geometric mean over the training part."""

    def _time_s(self, step: Step) -> float:
        return max(step_totals(step).flops, 1.0)


class FittedRoofline(_Scaled):
    """``T^ = roofline / efficiency``: one efficiency per setting."""

    def _time_s(self, step: Step) -> float:
        return step_totals(step).roofline_s


class Transfer:
    """``T^ = time of the same job on another device x one constant``.

    Of the measurements of the job elsewhere it takes that with the most settings in common. The
    constant of a pair of devices is the geometric mean over jobs measured on both; for a device
    without measurements the ratio of the two peak rates. Jobs measured nowhere else get no
    answer.
    """

    def fit(self, samples: Sequence[StepSample]) -> Self:
        """Remember what each job takes where."""
        self.known_: dict[tuple[str, float, float], list[tuple[Step, float]]] = defaultdict(list)
        self.ratio_: dict[tuple[str, str], list[float]] = defaultdict(list)
        for sample in samples:
            self.known_[job_of(sample.step)].append(
                (sample.step, sample.step_time_s / sample.step.batch_size)
            )
        for members in self.known_.values():
            for step, per_sample_s in members:
                self._pair(step, per_sample_s)
        return self

    def adapt(self, probes: Sequence[StepSample]) -> Self:
        """Fit the constants to the devices of a few more samples."""
        adapted = copy.copy(self)
        adapted.ratio_ = defaultdict(list, {k: list(v) for k, v in self.ratio_.items()})
        for probe in probes:
            adapted._pair(probe.step, probe.step_time_s / probe.step.batch_size)
        return adapted

    def predict(self, steps: Sequence[Step]) -> FloatArray:
        """Return seconds; NaN for jobs that were measured nowhere else."""
        return np.array([self._answer_s(step) for step in steps])

    def _pair(self, step: Step, per_sample_s: float) -> None:
        found = self._elsewhere(step, fitted=False)
        if found is not None:
            other, other_s = found
            pair = (other.accelerator.name, step.accelerator.name)
            self.ratio_[pair].append(float(np.log(per_sample_s / other_s)))

    def _elsewhere(self, step: Step, *, fitted: bool) -> tuple[Step, float] | None:
        """Return the best measurement on another device, first of devices with a constant."""
        here = step.accelerator.name
        away = [
            (other, time_s)
            for other, time_s in self.known_.get(job_of(step), ())
            if other.accelerator.name != here
        ]
        if not away:
            return None
        known = [pair for pair in away if (pair[0].accelerator.name, here) in self.ratio_]
        return max(known if fitted and known else away, key=lambda pair: _likeness(pair[0], step))

    def _answer_s(self, step: Step) -> float:
        found = self._elsewhere(step, fitted=True)
        if found is None:
            return float("nan")
        other, per_sample_s = found
        logs = self.ratio_.get((other.accelerator.name, step.accelerator.name))
        if logs:
            constant = float(np.exp(np.mean(logs)))
        else:
            here, there = step.accelerator, other.accelerator
            constant = there.flops_per_s(other.precision) / here.flops_per_s(step.precision)
        return per_sample_s * constant * step.batch_size


def _likeness(other: Step, step: Step) -> tuple[float, ...]:
    """Order measurements of one job by what they share with a step; the last words break ties."""
    return (
        float(other.accelerator.kind == step.accelerator.kind),
        float(other.compiler is step.compiler),
        float(other.precision is step.precision),
        float(other.memory_format is step.memory_format),
        float(other.software.get("torch") == step.software.get("torch")),
        -abs(float(np.log2(other.batch_size / step.batch_size))),
    )


class Totals:
    """Boosted trees on totals; the target is the logarithm of the time."""

    def __init__(self, *, seed: int = 0, rounds: int = 400) -> None:
        self.seed = seed
        self.rounds = rounds

    def fit(self, samples: Sequence[StepSample]) -> Self:
        """Grow the trees."""
        columns = total_columns([sample.step for sample in samples])
        self.booster_ = Booster.train(
            columns,
            np.log([sample.step_time_s for sample in samples]),
            np.array([sample.weight for sample in samples]),
            [f"column_{number}" for number in range(columns.shape[1])],
            BoosterSettings(rounds=self.rounds, seed=self.seed),
        )
        return self

    def adapt(self, probes: Sequence[StepSample]) -> Self:
        """Return a copy that is scaled by the geometric mean of its errors on the probes."""
        adapted = copy.copy(self)
        times = self.predict([probe.step for probe in probes])
        measured = np.array([probe.step_time_s for probe in probes])
        adapted.scale_ = self.scale_ * float(np.exp(np.mean(np.log(measured / times))))
        return adapted

    def predict(self, steps: Sequence[Step]) -> FloatArray:
        """Return seconds."""
        times: FloatArray = self.scale_ * np.exp(self.booster_.predict(total_columns(steps)))
        return times

    scale_: float = 1.0


BASELINES: Mapping[str, BaselineFactory] = MappingProxyType(
    {
        "mean-rate": lambda seed: MeanRate(),
        "roofline": lambda seed: FittedRoofline(),
        "transfer": lambda seed: Transfer(),
        "totals": lambda seed: Totals(seed=seed),
    }
)

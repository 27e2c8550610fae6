"""What observations of other jobs, by anybody, say of a machine: as much as reporters agree on.

Nobody who asks about a job knows who reported the steps of others, nor whether they are true. So
each reporter has one voice for a machine, whatever number of jobs and steps it sent: by how much
what it saw there takes longer than predicted. What counts moves away from the prediction by
:data:`ONE_VOICE` for each voice that says at least as much, less those that say less: as far as
half of them go at most. So one reporter more or less moves no job of others by more than that, as
long as it does not change what the voices of others weigh (``benchmarks/voices.py``). A voice
weighs what the agreement of its reporter with the others on the machine makes of it
(:mod:`perfmodel.feedback.agreement`): who reports everything twice as long is hardly heard.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from operator import attrgetter
from typing import NamedTuple, TypeVar

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import PerfModelError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.evidence.guessed_rows import TypeTables
from perfmodel.estimator.evidence.observed_rows import weighed_alone
from perfmodel.feedback.agreement import Level, agreements
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.observed_steps import ObservedSteps, known_median
from perfmodel.placement.estimate import StepNumbers, StepParts
from perfmodel.placement.job_types.job_type_cells import has_accelerators

#: Most by which one reporter moves an answer about a job of others, in logarithms.
ONE_VOICE = float(np.log(1.05))
#: Variances, in logarithms, of how far jobs lie off on a machine, and machines off for all jobs: a
#: reporter that saw few jobs there says less. Residuals of Gavel's and Sia's jobs.
_OF_JOBS, _OF_MACHINES = 0.25, 0.12
#: Reporters, jobs of each and steps of each job that count on a machine. Which they are depends on
#: what was reported alone, not on when.
_MOST_REPORTERS, _MOST_JOBS, _MOST_STEPS = 32, 8, 4
#: Reporters that a job type of which nothing is known hears: each completes its cells.
_MOST_HEARD = 8


#: Steps that strangers move by more, in logarithms, are said to be.
SAID = float(np.log(1.1))


P = TypeVar("P", StepNumbers, StepParts)


class Shift(NamedTuple):
    """How much longer a machine takes than predicted, in logarithms, as its reporters agree."""

    compute: float = 0.0
    communication: float = 0.0
    reporters: int = 0

    def moved(self, parts: P) -> P:
        """Return the parts of steps, columns or plain numbers, as long as is agreed."""
        longer, slower = math.exp(self.compute), math.exp(self.communication)
        return type(parts)(
            compute_s=parts.compute_s * longer,
            exposed_communication_s=parts.exposed_communication_s * slower,
            input_stall_s=parts.input_stall_s,
            overhead_s=parts.overhead_s * longer,
            communication_s=parts.communication_s * slower,
        )

    def said(self, machine: str, factor: float) -> str:
        """Say what made a step on a machine longer by a factor."""
        return said_of_others(self.reporters, f"other jobs on {machine}", factor, "predicted")


def said_of_others(reporters: int, jobs: str, factor: float, than: str) -> str:
    """Say that what somebody saw of other jobs made a step longer by a factor than something.

    Examples
    --------
    >>> said_of_others(1, "other jobs on T4", 204.3, "predicted")
    'What one reporter saw of other jobs on T4 makes the step 200 times as long as predicted.'
    """
    who = "one reporter" if reporters == 1 else f"{reporters} reporters"
    times = f"{factor:.2f}" if 0.1 <= factor < 10 else f"{float(f'{factor:.2g}'):g}"
    return f"What {who} saw of {jobs} makes the step {times} times as long as {than}."


#: What a factor is rounded to, times a power of ten.
_TIMES = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)


def said_of_told(machine: str, factor: float) -> tuple[str, ...]:
    """Say that steps of other jobs, told with a question, made one longer by a factor.

    Returns
    -------
    tuple of str
        Empty where that is little.

    Examples
    --------
    >>> said_of_told("T4", 2.04)[0]
    'Observed steps of other jobs on T4 make the step about 2 times as long as predicted.'
    >>> said_of_told("T4", 1.04)
    ()
    """
    if abs(math.log(factor)) <= SAID:
        return ()
    # In few steps: of a table all cells that differ say so.
    tens = 10.0 ** math.floor(math.log10(factor))
    times = min(_TIMES, key=lambda one: abs(math.log(one * tens / factor))) * tens
    return (
        f"Observed steps of other jobs on {machine} make the step about {times:g} times as long "
        "as predicted.",
    )


class Strangers:
    """Observations of any jobs, by the machine they ran on and by who reported them.

    Parameters
    ----------
    observations : iterable of Observation
        At least one, each with its ``job``; their order does not matter. One that cannot be weighed
        is passed over.
    """

    def __init__(self, core: Core, observations: Iterable[Observation]) -> None:
        self._core = core
        self.observations = tuple(observations)
        self._shifts: dict[tuple[str, str], Shift] = {}

    def shift(self, machine: str, family: str) -> Shift:
        """Return what is agreed of a machine, but for what was seen of one family of jobs."""
        key = (machine, family if (machine, family) in self._observed_there else "")
        found = self._shifts.get(key)
        if found is None:
            found = self._shifts[key] = self._agreed(*key)
        return found

    def is_ready(self, machine: str, family: str) -> bool:
        """Return whether :meth:`shift` would answer from memory."""
        if "_by_machine" not in vars(self):
            return False
        key = (machine, family if (machine, family) in self._observed_there else "")
        return machine not in self._by_machine or key in self._shifts

    def type_voices(self, word: str) -> list[TypeTables]:
        """Return the cells of job types that each reporter saw, for completion.

        Parameters
        ----------
        word : str
            Of the job that is asked about: of many reporters each job hears a few others.
        """
        heard = sorted(self._by_reporter, key=lambda one: sha256(f"{word}|{one}".encode()).digest())
        return [self._by_reporter[one] for one in heard[:_MOST_HEARD]]

    @cached_property
    def _by_reporter(self) -> dict[str, TypeTables]:
        by: dict[str, list[Observation]] = {}
        for one in sorted(self._of_types, key=attrgetter("content")):
            by.setdefault(one.reporter, []).append(one)
        catalog: Catalog = self._core.accelerators
        return {reporter: TypeTables.of(None, seen, catalog) for reporter, seen in by.items()}

    @cached_property
    def _of_types(self) -> list[Observation]:
        return [
            one
            for one in self.observations
            if one.job is not None
            and one.job.job_type is not None
            and has_accelerators(self._core.accelerators, one.placement)
        ]

    @cached_property
    def _by_machine(self) -> dict[str, dict[str, dict[str, list[Observation]]]]:
        """Observations of jobs with a model, by machine, reporter and family of jobs."""
        found: dict[str, dict[str, dict[str, list[Observation]]]] = {}
        for one in self.observations:
            if one.job is None or one.job.job_type is not None:
                # A name says nothing of how long its steps should take.
                continue
            try:
                machine = self._core.resolve(one.placement).machine
            except PerfModelError:
                continue
            by = found.setdefault(machine, {}).setdefault(one.reporter, {})
            by.setdefault(one.job.family, []).append(one)
        return found

    @cached_property
    def _observed_there(self) -> frozenset[tuple[str, str]]:
        return frozenset(
            (machine, family)
            for machine, reporters in self._by_machine.items()
            for jobs in reporters.values()
            for family in jobs
        )

    def _agreed(self, machine: str, family: str) -> Shift:
        reporters = self._by_machine.get(machine, {})
        seen = {}
        for name in sorted(reporters)[:_MOST_REPORTERS]:
            jobs = sorted(one for one in reporters[name] if one != family)[:_MOST_JOBS]
            off = {job: self._residual(reporters[name][job]) for job in jobs}
            seen[name] = {job: one for job, one in off.items() if one is not None}
        compute, communication = (
            agreed_level(
                machine,
                {
                    name: {job: off[part] for job, off in jobs.items()}
                    for name, jobs in seen.items()
                },
            )
            for part in (0, 1)
        )
        return Shift(compute, communication, reporters=sum(map(bool, seen.values())))

    def _residual(self, seen: Sequence[Observation]) -> tuple[float, float] | None:
        """Return how much longer a job takes, in logarithms; NaN for what its steps do not tell."""
        chosen = sorted(seen, key=attrgetter("content"))[:_MOST_STEPS]
        known = [one for one in map(self._off, chosen) if one is not None]
        if not known:
            return None
        both = np.array(known)
        return tuple(known_median(both[:, part]) for part in (0, 1))  # type: ignore[return-value]

    def _off(self, seen: Observation) -> tuple[float, float] | None:
        """Return how much longer computing and communicating take in one step than predicted."""
        known = self._core.residuals.get(id(seen))
        if known is None:
            # With the observation, which so keeps its identity from being given to another.
            weighed = weighed_alone(self._core, seen)
            known = seen, None if weighed is None else _off(weighed)
            self._core.residuals.put(id(seen), known)
        return known[1]


#: By how much longer each job takes than predicted, in logarithms; NaN where nothing is known.
Seen = Mapping[str, float]


def agreed_level(machine: str, seen: Mapping[str, Seen]) -> float:
    """Return what reporters agree on of a machine, each weighed by its agreement with the others.

    Parameters
    ----------
    seen : mapping of str to mapping of str to float
        Of each reporter what it saw of jobs.
    """
    told = {
        name: {job: off for job, off in jobs.items() if not np.isnan(off)}
        for name, jobs in seen.items()
    }
    weights = agreements(
        Level(name, machine, job, off) for name, jobs in told.items() for job, off in jobs.items()
    )
    voices = {name: _voice(list(told[name].values())) for name in weights}
    return agreed(list(voices.values()), [weights[name].weight for name in voices])


def agreed(voices: Sequence[float], weights: Sequence[float] | None = None) -> float:
    r"""Return what voices agree on.

    The :math:`x = c \sum_r w_r\ sign(s_r - x)`, where :math:`c` is :data:`ONE_VOICE`: between half
    of the voices and the model, which says 0 and is left by :math:`c` for each voice that lies
    beyond :math:`x` and for which none lies on the other side of it.

    Parameters
    ----------
    voices : sequence of float
        One of each reporter, in logarithms; NaN says nothing.
    weights : sequence of float or None
        What each counts, 0 to 1. None: all count alike.

    Examples
    --------
    One voice is not believed far, and what many say as far as they go:

    >>> round(agreed([0.7]), 3), round(agreed([0.7, 0.6]), 3)
    (0.049, 0.098)
    >>> agreed([0.3, 0.31, 0.29, 0.3, 0.32, 0.28, 0.31, -2.0])
    0.28
    """
    counting = [1.0] * len(voices) if weights is None else weights
    heard = sorted(one for one in zip(voices, counting, strict=True) if not np.isnan(one[0]))
    # Less than all voices; at each of them what lies above less what lies below falls.
    low, beyond = -math.inf, math.fsum(weight for _, weight in heard)
    for voice, weight in heard:
        if ONE_VOICE * beyond <= voice:
            break
        low, beyond = voice, beyond - 2 * weight
    return max(low, ONE_VOICE * beyond)


def _voice(jobs: Sequence[float]) -> float:
    """Return what one reporter says of a machine: the median of its jobs, shrunk."""
    share = len(jobs) / (len(jobs) + _OF_JOBS / _OF_MACHINES)
    return share * known_median(np.array(jobs))


def _off(seen: ObservedSteps) -> tuple[float, float]:
    step, sync = float(seen.step_time_s[0]), float(seen.sync_time_s[0])
    parts = seen.cells.parts.at((0,))
    if seen.cells.ranks[0] == 1:
        return float(np.log(step / parts.step_time_s)), float("nan")
    exposed_s = parts.exposed_communication_s
    if np.isnan(sync) or sync <= 0 or exposed_s <= 0:
        return float("nan"), float("nan")
    alone_s = max(step - sync, 0.05 * step)
    predicted_s = parts.step_time_s - exposed_s
    return float(np.log(alone_s / predicted_s)), float(np.log(sync / exposed_s))

"""The loop: observations come in, drift is looked for, a job learns, the gate decides.

The quick path takes in what came of a device. What is known of all devices is learned anew, by a
fit, when enough records came since the last one, and where an alarm names something else than a
device (a release, a class of jobs, everything).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from loop_replay.arrivals import Arrival
from loop_replay.watch import Watch

from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import StepSample
from perfmodel.feedback.residuals import Group
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.joint.joint_members import Asked
from perfmodel.predictors.prediction import Prediction
from perfmodel.training.gate.evidence import Answers, Evidence, JudgingSet
from perfmodel.training.gate.finding import Decision
from perfmodel.training.gate.gate import decide
from perfmodel.training.validation.held_out_folds import identity

#: Records of a device after which it is learned from, and then each time they double.
FIRST_LEARNED = 4
#: Records since the last fit after which everything is learned anew.
FIT_AFTER = 50
#: One arrival of so many is judged on and never learned from.
KEPT_BACK_OF = 5
#: Newest observations that are judged on.
_NEWEST = 200
#: Size, loading and speed are not judged here: all versions have the same members.
_SAME_COST = 1.0

#: Fits a model to what was known at the start and some steps more.
Refit = Callable[[Sequence[StepSample]], JointPredictor]


@dataclass(frozen=True, kw_only=True)
class Retraining:
    """What became of one candidate.

    Parameters
    ----------
    device : str
        Whose records the quick path took in; empty for a fit.
    trigger : str
        ``records``, or what an alarm was raised about.
    """

    after: int
    device: str
    records: int
    trigger: str
    decision: Decision


@dataclass
class Loop:
    """A model that serves, and what it learns from as records arrive.

    Parameters
    ----------
    serving : JointPredictor
        Serves at the start.
    arrivals : sequence of Arrival
        In their order.
    frozen : sequence of StepSample
        Judged on; of no device that arrives, and never learned from.
    refit : callable
        Fits a version to the start and to records.
    """

    serving: JointPredictor
    arrivals: Sequence[Arrival]
    frozen: Sequence[StepSample]
    refit: Refit
    watch: Watch = field(default_factory=Watch)
    retrainings: list[Retraining] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._records: dict[str, list[StepSample]] = defaultdict(list)
        self._fitted: list[StepSample] = []
        self._since_fit = 0
        self._next = defaultdict(lambda: FIRST_LEARNED)
        self._serve(self.serving, self._asked_by(self.serving))

    def _asked_by(self, version: JointPredictor) -> tuple[Asked, Asked]:
        """Ask the members of a version; those that the quick path makes of it have the same."""
        return tuple(
            version.ask([one.step for one in samples])
            for samples in ([one.sample for one in self.arrivals], self.frozen)
        )  # type: ignore[return-value]

    def _serve(self, version: JointPredictor, asked: tuple[Asked, Asked]) -> None:
        self.serving, self._asked = version, asked
        self._answers = version.answer(asked[0])

    def answer_s(self, at: int) -> float:
        """Return what the version that serves says of an arrival, without evidence."""
        return self._answers[at].time_s

    def learn(self, at: int) -> bool:
        """Take an arrival in; return whether another version serves from now on."""
        arrival = self.arrivals[at]
        alarms = self.watch.look(at, arrival, self._answers[at])
        changed = False
        if at % KEPT_BACK_OF != KEPT_BACK_OF - 1:
            self._records[arrival.device].append(arrival.sample)
            self._since_fit += 1
            if self._since_fit >= FIT_AFTER:
                changed = self._fit(at, "records")
            elif len(self._records[arrival.device]) >= self._next[arrival.device]:
                changed = self._take_in(at, arrival.device, "records")
        for group in alarms:
            changed |= self._heed(at, group)
        return changed

    def _heed(self, at: int, group: Group) -> bool:
        """Do what an alarm advises."""
        trigger = f"{group.kind} {group.value}"
        if group.kind == "accelerator":
            return bool(self._records[group.value]) and self._take_in(at, group.value, trigger)
        return self._fit(at, trigger)

    def _take_in(self, at: int, device: str, trigger: str) -> bool:
        """Go the quick path with all records of a device since the last fit."""
        records = self._records[device]
        self._next[device] = 2 * len(records)
        candidate = self.serving.forget([device]).adapt(records)
        return self._judge(at, candidate, self._asked, (device, len(records), trigger))

    def _fit(self, at: int, trigger: str) -> bool:
        """Learn from everything anew."""
        self._since_fit = 0
        new = [one for records in self._records.values() for one in records]
        candidate = self.refit([*self._fitted, *new])
        accepted = self._judge(at, candidate, self._asked_by(candidate), ("", len(new), trigger))
        if accepted:
            self._fitted += new
            self._records.clear()
            self._next.clear()
        return accepted

    def _judge(
        self,
        at: int,
        candidate: JointPredictor,
        asked: tuple[Asked, Asked],
        named: tuple[str, int, str],
    ) -> bool:
        decision = self._decided(at, candidate, asked)
        device, records, trigger = named
        self.retrainings.append(
            Retraining(
                after=at + 1, device=device, records=records, trigger=trigger, decision=decision
            )
        )
        if decision.accepted:
            self._serve(candidate, asked)
        return decision.accepted

    def _decided(self, at: int, candidate: JointPredictor, asked: tuple[Asked, Asked]) -> Decision:
        newest = list(range(KEPT_BACK_OF - 1, at + 1, KEPT_BACK_OF))[-_NEWEST:]
        sets = [judging_set("frozen", self.frozen)]
        if newest:
            sets.append(judging_set("newest", [self.arrivals[i].sample for i in newest]))
        return decide(
            self._evidence("candidate", candidate, asked, newest),
            self._evidence("serving", self.serving, self._asked, newest),
            sets,
        )

    def _evidence(
        self,
        version: str,
        predictor: JointPredictor,
        asked: tuple[Asked, Asked],
        newest: Sequence[int],
    ) -> Evidence:
        answers, frozen = (predictor.answer(one) for one in asked)
        learned = [*self._fitted, *(one for known in self._records.values() for one in known)]
        return Evidence(
            version=version,
            answers={
                "frozen": as_answers(frozen),
                "newest": as_answers([answers[i] for i in newest]),
            },
            learned_keys=frozenset(identity(one) for one in learned),
            devices=frozenset((*predictor.known_.trained, *predictor.known_.records)),
            schema_version=1,
            size_bytes=_SAME_COST,
            load_time_s=_SAME_COST,
            answers_per_s=_SAME_COST,
        )


def as_answers(predictions: Sequence[Prediction]) -> Answers:
    """Return predictions as the gate reads them."""
    columns: dict[str, FloatArray] = {
        name: np.array([getattr(one, name) for one in predictions])
        for name in ("time_s", "low_s", "high_s")
    }
    return Answers(**columns)


def judging_set(name: str, samples: Sequence[StepSample]) -> JudgingSet:
    """Return samples as the gate judges on them."""
    return JudgingSet(
        name=name,
        keys=tuple(identity(one) for one in samples),
        measured_s=np.array([one.step_time_s for one in samples]),
        labels={
            "device": tuple(one.step.accelerator.name for one in samples),
            "mode": tuple(one.step.mode.value for one in samples),
            "family": tuple(one.family for one in samples),
            "placement": ("one accelerator",) * len(samples),
            "model": tuple(one.model for one in samples),
        },
    )

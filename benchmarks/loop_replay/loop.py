"""The loop: observations come in, the quick path learns, the gate decides, the version serves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from loop_replay.arrivals import Arrival

from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.joint.joint_members import Asked
from perfmodel.predictors.prediction import Prediction
from perfmodel.training.gate.evidence import Answers, Evidence, JudgingSet
from perfmodel.training.gate.finding import Decision
from perfmodel.training.gate.gate import decide
from perfmodel.training.validation.held_out_folds import identity

#: Records of a device after which it is learned from, and then each time they double.
FIRST_LEARNED = 4
#: One arrival of so many is judged on and never learned from.
KEPT_BACK_OF = 5
#: Newest observations that are judged on.
_NEWEST = 200
#: Size, loading and speed are not judged here: all versions have the same members.
_SAME_COST = 1.0


@dataclass(frozen=True, kw_only=True)
class Retraining:
    """What became of one candidate."""

    after: int
    device: str
    records: int
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
    """

    serving: JointPredictor
    arrivals: Sequence[Arrival]
    frozen: Sequence[StepSample]
    retrainings: list[Retraining] = field(default_factory=list)

    def __post_init__(self) -> None:
        # All versions have the same members: each step is asked once.
        self._asked = self.serving.ask([one.sample.step for one in self.arrivals])
        self._asked_frozen = self.serving.ask([one.step for one in self.frozen])
        self._records: dict[str, list[StepSample]] = defaultdict(list)
        self._next = defaultdict(lambda: FIRST_LEARNED)
        self._answers = self.serving.answer(self._asked)

    def answer_s(self, at: int) -> float:
        """Return what the version that serves says of an arrival, without evidence."""
        return self._answers[at].time_s

    def learn(self, at: int) -> bool:
        """Take an arrival in; return whether another version serves from now on."""
        arrival = self.arrivals[at]
        if at % KEPT_BACK_OF == KEPT_BACK_OF - 1:
            return False
        records = self._records[arrival.device]
        records.append(arrival.sample)
        if len(records) < self._next[arrival.device]:
            return False
        self._next[arrival.device] = 2 * len(records)
        return self._retrain(at, arrival.device, records)

    def _retrain(self, at: int, device: str, records: Sequence[StepSample]) -> bool:
        candidate = self.serving.forget([device]).adapt(records)
        answers = candidate.answer(self._asked)
        decision = self._decided(at, candidate, answers)
        self.retrainings.append(
            Retraining(after=at + 1, device=device, records=len(records), decision=decision)
        )
        if decision.accepted:
            self.serving, self._answers = candidate, answers
        return decision.accepted

    def _decided(
        self, at: int, candidate: JointPredictor, answers: Sequence[Prediction]
    ) -> Decision:
        newest = list(range(KEPT_BACK_OF - 1, at + 1, KEPT_BACK_OF))[-_NEWEST:]
        sets = [judging_set("frozen", self.frozen)]
        if newest:
            sets.append(judging_set("newest", [self.arrivals[i].sample for i in newest]))
        return decide(
            self._evidence("candidate", candidate, answers, newest),
            self._evidence("serving", self.serving, self._answers, newest),
            sets,
        )

    def _evidence(
        self,
        version: str,
        predictor: JointPredictor,
        answers: Sequence[Prediction],
        newest: Sequence[int],
    ) -> Evidence:
        frozen = _said(predictor, self._asked_frozen)
        return Evidence(
            version=version,
            answers={"frozen": frozen, "newest": as_answers([answers[i] for i in newest])},
            learned_keys=frozenset(
                identity(one) for records in self._records.values() for one in records
            ),
            devices=frozenset((*predictor.devices_, *predictor.records_)),
            schema_version=1,
            size_bytes=_SAME_COST,
            load_time_s=_SAME_COST,
            answers_per_s=_SAME_COST,
        )


def _said(predictor: JointPredictor, asked: Asked) -> Answers:
    return as_answers(predictor.answer(asked))


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
        },
    )

"""Judging set of steps that the joint predictors learned from, answered by who has not seen them.

Both versions learned from most published steps. Of each, every family was left out of the fit of
one member; those answer here, with nothing recalled that was measured of the job. What a version
never learned from it answers as ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.serving.serving_parts import JOINT
from perfmodel.retraining.judging.judging_sets import (
    MOST_STEPS,
    AskedSet,
    answers_of,
    labels_of,
    was_chosen_by,
)
from perfmodel.retraining.judging.version_at_hand import VersionAtHand
from perfmodel.training.gate.evidence import Answers, JudgingSet
from perfmodel.training.learned_steps import step_key

NAME = "left-out families, all devices"


def unseen_families(
    corpus: Sequence[StepSample], candidate: VersionAtHand, serving: VersionAtHand
) -> AskedSet | None:
    """Return published steps, asked as if their families were unknown.

    Returns
    -------
    AskedSet or None
        None where one of the versions has no joint predictor, or answers none of the steps by it;
        or where the candidate took over the members of the other, which answer as they did.
    """
    if any(_joint(version) is None for version in (candidate, serving)):
        return None
    if _members(candidate) == _members(serving):
        return None
    steps = [
        one
        for one in corpus
        if all(version.answers_jointly(one.step.accelerator) for version in (candidate, serving))
        and not any(was_chosen_by(version, one.family) for version in (candidate, serving))
    ]
    steps = sorted(steps, key=lambda one: step_key(one.model, one.step))[:MOST_STEPS]
    if not steps:
        return None
    judged = JudgingSet(
        name=NAME,
        # Not the keys of the steps: these both have seen, but not the members that answer here.
        keys=tuple(f"left out {step_key(one.model, one.step)}" for one in steps),
        measured_s=np.array([one.step_time_s for one in steps]),
        labels=labels_of([], steps),
    )

    def answer(version: VersionAtHand) -> Answers:
        joint = _joint(version)
        assert joint is not None
        return answers_of(joint.as_if_unseen().predict([one.step for one in steps]))

    return AskedSet(judged=judged, answer=answer)


def _members(version: VersionAtHand) -> Mapping[str, str]:
    """Return what the files of the members of the joint predictor hold, by their names."""
    start = f"{JOINT}/member-"
    files = version.manifest["files"].items()
    return {path: entry["sha256"] for path, entry in files if path.startswith(start)}


def _joint(version: VersionAtHand) -> JointPredictor | None:
    model = version.serving_model
    return None if model is None else model.joint

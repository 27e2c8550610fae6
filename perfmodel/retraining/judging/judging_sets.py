"""Judging sets of a retraining: measured steps that neither version has learned from.

``"frozen"``: what no retraining learns from. ``"left-out families"``: own records that both
learned from, each version answering as it did when the family was left out. ``"observations"``:
cells seen first most lately, and steps of several accelerators.

Both versions learned from most published steps. Of each, every family was left out of the fit of
one joint member; those answer here, with nothing recalled that was measured of the job. What a
version never learned from it answers as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.members.ensemble import mix
from perfmodel.predictors.prediction import Prediction
from perfmodel.predictors.predictor import Sample
from perfmodel.predictors.predictor_checks import read_json
from perfmodel.predictors.serving.intervals import HeldOut
from perfmodel.predictors.serving.serving_parts import JOINT, SERVING
from perfmodel.retraining.data.learning_data import LearningData
from perfmodel.retraining.data.sources import OBSERVATIONS
from perfmodel.retraining.judging.version_at_hand import VersionAtHand
from perfmodel.training.gate.evidence import Answers, JudgingSet
from perfmodel.training.learned_steps import step_key
from perfmodel.training.tuning.families import is_searched_on

#: Steps of one set; of more, those are taken whose keys come first.
MOST_STEPS = 4_000

Answer = Callable[[VersionAtHand], Answers]


@dataclass(frozen=True, kw_only=True)
class AskedSet:
    """A judging set, and how a version answers it."""

    judged: JudgingSet
    answer: Answer


def frozen_set(data: LearningData, serving: VersionAtHand) -> AskedSet | None:
    """Return what no retraining learns from, less what the version that serves has seen."""
    samples = [
        one
        for one in data.kept_back
        if not serving.has_learned(step_key(one.model, one.workload), one.workload.content_hash)
    ][:MOST_STEPS]
    steps = [one for one in data.kept_back_steps if _is_new_to(serving, one)]
    steps.sort(key=lambda one: step_key(one.model, one.step))
    return _asked("frozen", samples, steps[: MOST_STEPS - len(samples)])


def left_out_families(
    data: LearningData, candidate: VersionAtHand, serving: VersionAtHand
) -> AskedSet | None:
    """Return the own records that both learned from, answered as if their family were unknown."""
    # Not by their names: two versions of the same second and the same data have one.
    by_candidate, by_serving = _noted(candidate), _noted(serving)
    samples = [
        one
        for one in data.samples
        if _place_key(one) in by_candidate
        and _place_key(one) in by_serving
        and _repeats(candidate, one)
        and _repeats(serving, one)
        and not any(was_chosen_by(version, one.family) for version in (candidate, serving))
    ][:MOST_STEPS]
    if not samples:
        return None
    judged = JudgingSet(
        name="left-out families",
        # Not the keys of the steps: these both have seen, but not in the fits that answer here.
        keys=tuple(f"left out {_key(one)}" for one in samples),
        measured_s=np.array([one.step_time_s for one in samples]),
        labels=labels_of(samples, []),
    )

    def answer(version: VersionAtHand) -> Answers:
        noted = by_candidate if version is candidate else by_serving
        return _stacked([noted[_place_key(one)] for one in samples])

    return AskedSet(judged=judged, answer=answer)


def _is_new_to(serving: VersionAtHand, one: StepSample) -> bool:
    """Tell whether both versions answer a step, and the one that serves has not seen it."""
    if not serving.answers_jointly(one.step.accelerator):
        return False
    if serving.learned is None:
        # Made before versions noted it: by training on all but observations.
        return one.source == OBSERVATIONS
    return step_key(one.model, one.step) not in serving.learned


def _asked(name: str, samples: Sequence[Sample], steps: Sequence[StepSample]) -> AskedSet | None:
    if not samples and not steps:
        return None
    judged = JudgingSet(
        name=name,
        keys=(*map(_key, samples), *(step_key(one.model, one.step) for one in steps)),
        measured_s=np.array(
            [one.step_time_s for one in samples] + [one.step_time_s for one in steps]
        ),
        labels=labels_of(samples, steps),
    )

    def answer(version: VersionAtHand) -> Answers:
        found: list[Prediction | None] = []
        model = version.model
        if samples:
            found += (
                [None] * len(samples)
                if model is None
                else model.predict([one.workload for one in samples])
            )
        if steps:
            trained = version.serving_model
            joint = None if trained is None else trained.joint
            found += (
                [None] * len(steps) if joint is None else joint.predict([s.step for s in steps])
            )
        return answers_of(found)

    return AskedSet(judged=judged, answer=answer)


def answers_of(predictions: Sequence[Prediction | None]) -> Answers:
    """Return predictions as columns; NaN where there is none."""
    return _stacked(
        [
            (np.nan, np.nan, np.nan) if one is None else (one.time_s, one.low_s, one.high_s)
            for one in predictions
        ]
    )


def _stacked(rows: Sequence[tuple[float, float, float]]) -> Answers:
    columns = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return Answers(time_s=columns[:, 0], low_s=columns[:, 1], high_s=columns[:, 2])


def labels_of(
    samples: Sequence[Sample], steps: Sequence[StepSample]
) -> Mapping[str, tuple[str, ...]]:
    """Return what is known of some steps, see :class:`.JudgingSet`."""
    ran: list[Any] = [one.workload for one in samples]
    ran += [one.step for one in steps]
    named: list[Any] = [*samples, *steps]
    return {
        "device": tuple(one.accelerator.name for one in ran),
        "mode": tuple(one.mode.value for one in ran),
        "family": tuple(one.family for one in named),
        "placement": tuple("one accelerator" for _ in ran),
        "model": tuple(one.model for one in named),
    }


def _key(sample: Sample) -> str:
    return step_key(sample.model, sample.workload)


def _place_key(sample: Sample) -> tuple[str, float]:
    return sample.workload.accelerator.name, sample.step_time_s


def _repeats(version: VersionAtHand, sample: Sample) -> bool:
    """Tell whether a version learned from this very record, not from an older one."""
    known = version.measured.get(sample.workload.content_hash)
    return known is not None and known[0] == sample.step_time_s


def was_chosen_by(version: VersionAtHand, family: str) -> bool:
    """Tell whether settings of a version were chosen by steps of a family."""
    model = version.serving_model
    was_tuned = model is not None and bool(model.manifest.get("tuning"))
    return was_tuned and is_searched_on(family)


def _noted(version: VersionAtHand) -> dict[tuple[str, float], tuple[float, float, float]]:
    """Return what a version said of its records when their family was left out.

    It notes them by device and time; those that share both with another are passed over.
    """
    model = version.serving_model
    if model is None or version.folder is None:
        return {}
    path = version.folder / SERVING
    state = read_json(path)
    held_out = HeldOut.from_dict(state["held_out"], path)
    weights: Mapping[str, float] = state["weights"]
    stacked = np.stack([held_out.answers_s[member] for member in weights], axis=1)
    mixed = mix(stacked, np.array(list(weights.values())))
    intervals = held_out.intervals(weights)
    groups = list(zip(held_out.devices, held_out.asked, strict=True))
    widths = {group: intervals.half_width(*group).log_half for group in set(groups)}
    found: dict[tuple[str, float], tuple[float, float, float]] = {}
    twice: set[tuple[str, float]] = set()
    for group, time_s, answer in zip(
        groups, held_out.times_s.tolist(), mixed.tolist(), strict=True
    ):
        place = (group[0], time_s)
        if place in found:
            twice.add(place)
        width = float(np.exp(widths[group]))
        found[place] = (answer, answer / width, answer * width)
    return {place: rows for place, rows in found.items() if place not in twice}


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

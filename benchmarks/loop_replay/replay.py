"""Replay arrivals once: what every way of going about it would have answered before each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from loop_replay.arrivals import Arrival
from loop_replay.asking import Asking, Observations
from loop_replay.loop import Loop, Refit, Retraining

from perfmodel.features.steps.step import StepSample
from perfmodel.feedback.drift_fold import RaisedAlarm
from perfmodel.predictors.folds import Progress
from perfmodel.predictors.joint.joint import JointPredictor

#: What stands as it is; what observations correct; what is learned; both.
NOTHING, EVIDENCE, LEARNED, BOTH = "nothing", "evidence", "learned", "evidence and learned"
WAYS = (NOTHING, EVIDENCE, LEARNED, BOTH)


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """Answers to every arrival, each given before it was known.

    Parameters
    ----------
    devices, releases : tuple of str
        Of each arrival.
    before : tuple of int
        Arrivals on its device before it.
    known : tuple of bool
        The model had learned from its device before the replay began.
    measured_s : ndarray, shape (arrivals,)
    answered_s : mapping of str to ndarray
        By way; NaN where it has no answer.
    """

    title: str
    devices: tuple[str, ...]
    releases: tuple[str, ...]
    before: tuple[int, ...]
    known: tuple[bool, ...]
    measured_s: np.ndarray
    answered_s: dict[str, np.ndarray]
    retrainings: tuple[Retraining, ...]
    alarms: tuple[RaisedAlarm, ...] = ()


def replay(
    title: str,
    start: JointPredictor,
    arrivals: Sequence[Arrival],
    frozen: Sequence[StepSample],
    refit: Refit,
    *,
    evidence: bool = True,
    progress: Progress | None = None,
) -> Replayed:
    """Let arrivals come one after another.

    Parameters
    ----------
    start : JointPredictor
        Serves at the start, and all the time where nothing is learned.
    frozen : sequence of StepSample
        What candidates are judged on besides the newest arrivals.
    refit : callable
        Fits a version to what is known at the start and to records.
    evidence : bool
        Ask with observations as well; captures the graph of every job.
    """
    loop, seen, asking = Loop(start, arrivals, frozen, refit), Observations(), Asking()
    for name in (EVIDENCE, BOTH):
        asking.serve(name, start, "start")
    answered = {way: np.full(len(arrivals), np.nan) for way in WAYS}
    answered[NOTHING][:] = [loop.answer_s(at) for at in range(len(arrivals))]
    for at, arrival in enumerate(arrivals):
        answered[LEARNED][at] = loop.answer_s(at)
        if evidence:
            for name in (EVIDENCE, BOTH):
                answered[name][at] = asking.answer_s(name, arrival, seen)
        seen.add(arrival)
        if loop.learn(at):
            asking.serve(BOTH, loop.serving, f"after {at + 1}")
        if progress is not None and at % 50 == 49:
            progress(f"{title}: {at + 1} of {len(arrivals)}")
    devices = [one.device for one in arrivals]
    return Replayed(
        title=title,
        devices=tuple(devices),
        releases=tuple(one.sample.step.software.get("torch", "") for one in arrivals),
        before=tuple(devices[:at].count(name) for at, name in enumerate(devices)),
        known=tuple(name in start.known_.trained for name in devices),
        measured_s=np.array([one.measured_s for one in arrivals]),
        answered_s=answered,
        retrainings=tuple(loop.retrainings),
        alarms=tuple(loop.watch.alarms),
    )

"""What stands between a question to the joint predictor and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import Step


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
    """

    network: FloatArray
    mixed: FloatArray
    shares: FloatArray
    scale: FloatArray
    least_s: FloatArray


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Steps, and all that is said of them whatever was observed on their devices.

    See :meth:`JointPredictor.ask`.
    """

    steps: Sequence[Step]
    members: MemberAnswers
    groups: Sequence[tuple[str, ...]]
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

"""The Explanation: an answer, divided and traced back to the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from perfmodel.placement.estimate import Estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassShare:
    """All operators of one class.

    Parameters
    ----------
    count : int
        Calls in a step.
    flops, bytes : float
        Of all of them together.
    share : float
        Of the time of the step on one accelerator, in [0, 1].
    """

    name: str
    count: int
    flops: float
    bytes: float
    time_s: float
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorShare:
    """Equal operators of a step.

    Parameters
    ----------
    shape : tuple of int
        Of the largest tensor that each writes; empty for a scalar and where it writes none.
    count : int
        Calls in a step.
    flops, bytes : float
        Of all of them together.
    intensity : float or None
        FLOP a byte; None where nothing is moved.
    time_s : float
        Of all of them together.
    achieved_flops_per_s : float
        ``flops / time_s``.
    peak_flops_per_s : float or None
        Of the unit that does their arithmetic; None where they do none.
    bound : str
        ``"launch"`` where calling them takes longer than their work, else ``"compute"`` or
        ``"memory"``, whichever takes longer at the peaks.
    rests_on : str
        ``"kernels"`` where such kernels were measured alone on accelerators of the maker, else
        ``"model"``; all are then scaled to the step.
    """

    name: str
    operator_class: str
    phase: str
    shape: tuple[int, ...]
    count: int
    flops: float
    bytes: float
    intensity: float | None
    time_s: float
    achieved_flops_per_s: float
    peak_flops_per_s: float | None
    bound: str
    rests_on: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Roofline:
    """The peaks of the accelerator that an answer is explained on.

    Parameters
    ----------
    peak_flops_per_s : float
        Dense, of the matrix units at this precision.
    ridge_intensity : float
        FLOP a byte above which these units, not the memory, bound an operator.
    """

    accelerator: str
    precision: str
    peak_flops_per_s: float
    memory_bytes_per_s: float
    ridge_intensity: float


@dataclass(frozen=True, kw_only=True, slots=True)
class NearPoint:
    """A measured step near the one that was asked about.

    Parameters
    ----------
    measured_s, predicted_s : float or None
        None where the model does not keep them.
    measured_over_predicted : float or None
        Their ratio, which may be known where they are not.
    """

    workload: str
    accelerator: str | None
    distance: float | None
    measured_s: float | None
    predicted_s: float | None
    measured_over_predicted: float | None
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Contribution:
    """One thing that was taken into account.

    Parameters
    ----------
    factor : float
        By which it changed the time; that of the first is 1.
    step_time_s : float
        The time after it.
    """

    name: str
    factor: float
    step_time_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """An answer, divided over the operators and traced back to the roofline.

    Parameters
    ----------
    estimate : Estimate
        As it is answered without an explanation.
    compute_time_s : float
        The step of one replica on one accelerator, which the operators add up to.
    operator_classes : tuple of ClassShare
        Most time first; their times add up to ``compute_time_s``.
    operators : tuple of OperatorShare
        Most time first, as many as were asked for.
    contributions : tuple of Contribution
        The product of the factors times the first time is the last one, that of the estimate.
    """

    estimate: Estimate
    compute_time_s: float
    operator_classes: tuple[ClassShare, ...]
    operators: tuple[OperatorShare, ...]
    roofline: Roofline
    nearest: tuple[NearPoint, ...]
    contributions: tuple[Contribution, ...]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain JSON values."""
        return {
            "estimate": self.estimate.to_dict(),
            "compute_time_s": self.compute_time_s,
            "operator_classes": _plain(self.operator_classes),
            "operators": _plain(self.operators),
            "roofline": asdict(self.roofline),
            "nearest": _plain(self.nearest),
            "contributions": _plain(self.contributions),
            "model_version": self.estimate.model_version,
            "warnings": list(self.warnings),
        }


def _plain(items: Sequence[Any]) -> list[dict[str, Any]]:
    return [asdict(item) for item in items]

"""The Explanation: an answer, divided and traced back to the roofline.

What it is made of has the form that the client reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from perfmodel.client.answers import ClassShare, Contribution, NearPoint, OperatorShare, Roofline
from perfmodel.placement.estimate import Estimate


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

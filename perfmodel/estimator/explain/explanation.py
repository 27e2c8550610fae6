"""The Explanation: an answer, divided and traced back to the roofline."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from perfmodel.client import answers
from perfmodel.placement.estimate import Estimate


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation(answers.Explanation):
    """An answer, divided over the operators and traced back to the roofline.

    The form that the client reads. Classes and operators stand with most time first, operators as
    many as were asked for; the product of the factors times the first time is that of the estimate,
    which is as it is answered without an explanation.
    """

    estimate: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain JSON values."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in ("operator_classes", "operators", "nearest", "contributions"):
            plain[name] = [asdict(item) for item in plain[name]]
        return plain | {
            "estimate": self.estimate.to_dict(),
            "roofline": asdict(self.roofline),
            "warnings": list(self.warnings),
        }

"""What may be chosen of each learner: ranges around what it does by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

#: Learners of the joint predictor; the others are members of the ensemble.
NETWORK, TREES = "network", "trees"


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number between two others, both included."""

    low: int
    high: int
    usual: int


@dataclass(frozen=True, slots=True)
class Real:
    """A positive number between two others, drawn evenly in its logarithm."""

    low: float
    high: float
    usual: float


Range = Whole | Real
Space = Mapping[str, Range]

#: By learner, then by the name of the setting. ``usual`` is what the learner does by itself.
SPACES: Mapping[str, Space] = MappingProxyType(
    {
        "gbdt": {
            "rounds": Whole(200, 900, 400),
            "depth": Whole(3, 8, 4),
            "learning_rate": Real(0.02, 0.15, 0.05),
            "column_share": Real(0.15, 0.8, 0.3),
            "min_child_weight": Real(0.5, 8.0, 1.0),
        },
        "operators": {
            "rounds": Whole(80, 400, 150),
            "depth": Whole(5, 10, 8),
            "learning_rate": Real(0.04, 0.2, 0.1),
            "column_share": Real(0.2, 0.8, 0.4),
        },
        "gnn": {
            "epochs": Whole(20, 80, 40),
            "learning_rate": Real(1e-3, 1e-2, 4e-3),
            "weight_decay": Real(1e-4, 1e-2, 1e-3),
            "node_weight": Real(0.3, 3.0, 1.0),
        },
        NETWORK: {
            "epochs": Whole(4, 20, 12),
            "learning_rate": Real(8e-4, 5e-3, 2e-3),
            "shrinkage": Real(5e-4, 2e-2, 3e-3),
        },
        TREES: {
            "rounds": Whole(200, 1000, 500),
            "depth": Whole(4, 8, 6),
        },
    }
)

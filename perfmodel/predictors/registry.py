"""The register of predictors: one line each, imported when asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from perfmodel.errors import UnknownPredictorError
from perfmodel.predictors.predictor import Predictor

#: Where each predictor lives. A heavy library is imported only by the ones that need it.
PREDICTORS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "constant": ("perfmodel.predictors.members.constant", "ConstantRatePredictor"),
        "roofline": ("perfmodel.predictors.roofline", "RooflinePredictor"),
        "efficiency": ("perfmodel.predictors.members.efficiency", "EfficiencyPredictor"),
        "gbdt": ("perfmodel.predictors.members.graph_trees", "TabularPredictor"),
        "operators": ("perfmodel.predictors.members.operator_trees", "OperatorPredictor"),
        "gnn": ("perfmodel.predictors.members.gnn", "GraphPredictor"),
        "ensemble": ("perfmodel.predictors.members.ensemble", "EnsemblePredictor"),
    }
)

#: Those whose settings can be chosen.
LEARNERS = ("gbdt", "operators", "gnn")


def predictor_class(name: str) -> type[Predictor]:
    """Return the class of a predictor by its name.

    Raises
    ------
    UnknownPredictorError
        No predictor of that name; carries the nearest ones.
    MissingExtraError
        Its library is not installed.
    """
    if name not in PREDICTORS:
        raise UnknownPredictorError(name, known=PREDICTORS)
    module, attribute = PREDICTORS[name]
    found: type[Predictor] = getattr(importlib.import_module(module), attribute)
    return found


def new_predictor(
    name: str, *, seed: int = 0, settings: Mapping[str, Any] | None = None
) -> Predictor:
    """Return an unfitted predictor.

    Parameters
    ----------
    seed : int
        For the ones that draw random numbers; the others ignore it.
    settings : mapping or None
        Fields of the settings of a predictor that differ from its own; ``gbdt``, ``operators``
        and ``gnn`` have any.
    """
    made = predictor_class(name)
    if name in LEARNERS:
        learner = made(seed=seed)  # type: ignore[call-arg]
        learner.settings = replace(learner.settings, **(settings or {}))  # type: ignore[attr-defined]
        return learner
    return made(seed=seed) if name == "ensemble" else made()  # type: ignore[call-arg]


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberFactory:
    """Makes unfitted members by their names, on whatever host."""

    seed: int
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __call__(self, name: str) -> Predictor:
        """Return an unfitted member."""
        return new_predictor(name, seed=self.seed, settings=self.settings.get(name))

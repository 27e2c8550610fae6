"""The register of predictors: one line each, imported when asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType

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


def new_predictor(name: str, *, seed: int = 0) -> Predictor:
    """Return an unfitted predictor with its default settings.

    Parameters
    ----------
    seed : int
        For the ones that draw random numbers; the others ignore it.
    """
    made = predictor_class(name)
    if name in ("gbdt", "operators", "gnn", "ensemble"):
        return made(seed=seed)  # type: ignore[call-arg]
    return made()

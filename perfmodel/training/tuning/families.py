"""Which families settings are searched on, so that others are left to judge what was found."""

from __future__ import annotations

from perfmodel.predictors.folds import unit_hash

#: Part of the families.
_SHARE = 0.75


def is_searched_on(family: str) -> bool:
    """Tell whether settings may be chosen by steps of a family; its name alone decides.

    Examples
    --------
    >>> [is_searched_on(family) for family in ("resnet", "vit", "bert", "convnext")]
    [False, True, True, False]
    """
    return unit_hash(f"settings:{family}") < _SHARE

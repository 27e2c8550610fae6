"""What an admitted object is told of accelerators: node affinity, and Kueue's flavours.

Fast accelerators are preferred; those without the memory are left out.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfmodel.types import Basis
from service.adapters.kubernetes.device_labels import DeviceLabel
from service.adapters.kubernetes.rates import Cell
from service.adapters.kubernetes.scores import affinity_weight, ratios

#: Kueue's annotation of a Workload: names of flavours between commas; honoured where its feature
#: gate ConcurrentAdmission is on.
ALLOWED = "kueue.x-k8s.io/workload-allowed-resource-flavors"
#: Annotation that asks for more than memory: least throughput, as a share of the best flavour's.
LEAST_SHARE = "perfmodel/least-throughput-share"

_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

#: A label of nodes: key and value.
Label = tuple[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
    """Accelerators of a cluster in the view of one pod.

    Parameters
    ----------
    shares : mapping of Label to float
        Throughput over the best, of those on which the job fits.
    refused : mapping of Label to Cell
        Those on which it does not fit.
    cells : mapping of Label to Cell
        All that are predicted.
    """

    shares: Mapping[Label, float]
    refused: Mapping[Label, Cell]
    cells: Mapping[Label, Cell]

    @property
    def says(self) -> str:
        """One line for people: throughput of each accelerator, best first."""
        order = sorted(self.cells.items(), key=lambda item: (-self.shares.get(item[0], 0), item[0]))
        return "; ".join(f"{label[1]}: {self._said(label, cell)}" for label, cell in order)

    def _said(self, label: Label, cell: Cell) -> str:
        if label in self.refused:
            return cell.shortage
        if cell.basis == Basis.DEFAULT:
            # How fast nobody knows; jobs differ by two orders of magnitude.
            return f"{self.shares.get(label, 0.0):.0%} of the best, as jobs in general"
        return f"{cell.samples_per_second:.4g} samples/s"


def rank(
    labels: Sequence[DeviceLabel], cells: Sequence[Cell | None], *, may_exclude: bool = True
) -> Ranking:
    """Rank the labels of a cluster's accelerators by what is predicted for them.

    Parameters
    ----------
    cells : sequence of Cell or None
        One for each label.
    """
    best: dict[Label, Cell] = {}
    for label, cell in zip(labels, cells, strict=True):
        key = (label.key, label.value)
        # Cards of two sizes may go by one product name: the label stands for the better of them.
        if cell is not None and (key not in best or _order(cell) > _order(best[key])):
            best[key] = cell
    shares = ratios(list(best.values()), may_exclude=may_exclude)
    ranked = {label: share for label, share in zip(best, shares, strict=True) if share}
    refused = {k: cell for k, cell in best.items() if may_exclude and not cell.fits}
    return Ranking(shares=ranked, refused=refused, cells=best)


def _order(cell: Cell) -> tuple[bool, float]:
    return cell.fits, cell.samples_per_second


def preferences(ranking: Ranking) -> list[dict[str, Any]]:
    """Return preferred terms, heaviest first; none where there is nothing to choose."""
    by_weight: dict[tuple[int, str], list[str]] = {}
    for (key, value), share in sorted(ranking.shares.items()):
        by_weight.setdefault((affinity_weight(share), key), []).append(value)
    if len(ranking.shares) < 2:
        return []
    return [
        {"weight": weight, "preference": {"matchExpressions": [_expression(key, "In", values)]}}
        for (weight, key), values in sorted(by_weight.items(), key=lambda item: -item[0][0])
    ]


def exclusions(ranking: Ranking) -> list[dict[str, Any]]:
    """Return the expressions that leave out accelerators; none where all would be left out.

    A prediction that nothing fits may be wrong, and would keep a pod waiting for ever.
    """
    if not ranking.shares:
        return []
    by_key: dict[str, list[str]] = {}
    for key, value in sorted(ranking.refused):
        by_key.setdefault(key, []).append(value)
    return [_expression(key, "NotIn", values) for key, values in by_key.items()]


def _expression(key: str, operator: str, values: list[str]) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": values}


def merged(
    affinity: Mapping[str, Any] | None,
    preferred: Sequence[Mapping[str, Any]],
    excluded: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return an affinity with terms added to what its owner has set.

    Returns
    -------
    dict
        Preferred terms are added up by schedulers. Of required terms one has to hold, and all
        expressions of it: so what is excluded goes into each.
    """
    result: dict[str, Any] = copy.deepcopy(dict(affinity or {}))
    nodes = result["nodeAffinity"] = dict(result.get("nodeAffinity") or {})
    if preferred:
        nodes[_PREFERRED] = [*(nodes.get(_PREFERRED) or []), *preferred]
    if excluded:
        required = dict(nodes.get(_REQUIRED) or {})
        terms = required.get("nodeSelectorTerms") or [{}]
        required["nodeSelectorTerms"] = [
            {**term, "matchExpressions": [*(term.get("matchExpressions") or []), *excluded]}
            for term in terms
        ]
        nodes[_REQUIRED] = required
    return result


def least_share(annotations: Mapping[str, object]) -> float | None:
    """Return the least share of the best throughput that a flavour must reach; None: unreadable.

    Examples
    --------
    >>> least_share({"perfmodel/least-throughput-share": "0.25"}), least_share({})
    (0.25, 0.0)
    """
    try:
        share = float(str(annotations.get(LEAST_SHARE, 0.0)))
    except ValueError:
        return None
    return share if 0.0 <= share <= 1.0 else None


def allowed_flavors(
    flavors: Sequence[str], judged: Sequence[Sequence[Cell | None]], *, least: float
) -> list[str] | None:
    """Return the flavours that are worth trying, in their order.

    Parameters
    ----------
    judged : sequence of sequence
        For each set of pods what is predicted on each flavour.

    Returns
    -------
    list of str or None
        None where there is nothing to say: all are allowed, or none would be. A flavour of which
        nothing is predicted is allowed.
    """
    kept = set(range(len(flavors)))
    for cells in judged:
        for position, share in enumerate(ratios(cells)):
            if share is not None and (share == 0 or share < least):
                kept.discard(position)
    if len(kept) in (0, len(flavors)):
        return None
    return [flavor for position, flavor in enumerate(flavors) if position in kept]

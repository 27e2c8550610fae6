"""Which flavours of Kueue a Workload may be given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from service.adapters.kubernetes.cluster import ratios
from service.adapters.kubernetes.rates import Cell

#: Kueue's annotation of a Workload: names of flavours between commas; honoured where its feature
#: gate ConcurrentAdmission is on.
ALLOWED = "kueue.x-k8s.io/workload-allowed-resource-flavors"
#: Annotation that asks for more than memory: least throughput, as a share of the best flavour's.
LEAST_SHARE = "perfmodel/least-throughput-share"


def least_share(annotations: Mapping[str, object]) -> float:
    """Return the least share of the best throughput that a flavour must reach.

    Examples
    --------
    >>> least_share({"perfmodel/least-throughput-share": "0.25"}), least_share({})
    (0.25, 0.0)
    """
    try:
        share = float(str(annotations.get(LEAST_SHARE, 0.0)))
    except ValueError:
        return 0.0
    return share if 0.0 <= share <= 1.0 else 0.0


def allowed_flavors(
    flavors: Sequence[str], judged: Sequence[Sequence[Cell | None]], *, least: float
) -> list[str] | None:
    """Return the flavours that are worth trying, in their order.

    Parameters
    ----------
    judged : sequence of sequence
        For each set of pods what is predicted on each flavour.
    least : float
        From :func:`least_share`.

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

"""Placements that schedulers think in: a number of accelerators on a number of hosts."""

from __future__ import annotations

from typing import Any

from perfmodel.errors import InvalidInputError


def packed(
    accelerator: str, count: int, *, per_host: int = 8, network: str | None = None
) -> dict[str, Any]:
    """Return a placement that fills hosts one by one.

    Parameters
    ----------
    count, per_host : int
        >= 1.
    network : str or None
        Between hosts; None means what such hosts usually have.

    Examples
    --------
    >>> packed("T4", 10, per_host=4)["nodes"]
    [{'accelerator': 'T4', 'count': 4, 'repeat': 2}, {'accelerator': 'T4', 'count': 2, 'repeat': 1}]
    """
    full, rest = divmod(count, per_host)
    return _placement(accelerator, [(per_host, full), (rest, 1)], network)


def balanced(
    accelerator: str, count: int, hosts: int, *, network: str | None = None
) -> dict[str, Any]:
    """Return a placement that spreads accelerators over hosts as evenly as it goes.

    Parameters
    ----------
    count, hosts : int
        ``count >= hosts >= 1``.

    Raises
    ------
    InvalidInputError
        Fewer accelerators than hosts.

    Examples
    --------
    >>> balanced("T4", 5, 2)["nodes"]
    [{'accelerator': 'T4', 'count': 3, 'repeat': 1}, {'accelerator': 'T4', 'count': 2, 'repeat': 1}]
    """
    if not 1 <= hosts <= count:
        raise InvalidInputError(
            f"Each of {hosts} hosts needs one of {count} accelerators; take no more hosts than "
            "accelerators, and at least one."
        )
    least, more = divmod(count, hosts)
    return _placement(accelerator, [(least + 1, more), (least, hosts - more)], network)


def of_counts(accelerator: str, counts: list[int], *, network: str | None = None) -> dict[str, Any]:
    """Return a placement with a stated number of accelerators on each host."""
    sizes = sorted(set(counts), reverse=True)
    return _placement(accelerator, [(size, counts.count(size)) for size in sizes], network)


def _placement(
    accelerator: str, groups: list[tuple[int, int]], network: str | None
) -> dict[str, Any]:
    nodes = [
        {"accelerator": accelerator, "count": count, "repeat": repeat}
        for count, repeat in groups
        if count and repeat
    ]
    several = sum(group["repeat"] for group in nodes if isinstance(group["repeat"], int)) > 1
    stated = {"network": network} if network is not None and several else {}
    return {"nodes": nodes, **stated}

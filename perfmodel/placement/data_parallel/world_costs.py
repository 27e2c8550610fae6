"""Costs of the group of all ranks of a placement, remembered by what tells placements apart.

Whoever asks for eight accelerators soon asks for nine or for two such hosts. A whole block of
neighbours is therefore worked out at once, which takes hardly longer than one.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from perfmodel.placement.data_parallel.group_costs import CostTable, GroupCosts
from perfmodel.placement.topology.equal_hosts import HostKind, world_of_equal_hosts
from perfmodel.placement.topology.fabric import Fabric
from perfmodel.placement.topology.unlike_hosts import WorldLinks, links_of_world

#: Placements of one block: hosts of 1 to 32 accelerators, 1 to 32 equal hosts, and so on.
_BLOCK = 32


def costs_of_world(fabric: Fabric) -> GroupCosts:
    """Return the costs of all ranks of a placement as one group.

    Parameters
    ----------
    fabric : Fabric
    """
    equal = fabric.equal_hosts
    if equal is None:
        links = links_of_world(fabric.hosts, fabric.network)
        block, row = divmod(fabric.accelerator_count - 1, _BLOCK)
        return _unlike_hosts(links, block).costs(row)
    kind, count, repeat = equal
    if repeat == 1:
        block, row = divmod(count - 1, _BLOCK)
        return _one_host(kind, block).costs(row)
    block, row = divmod(repeat - 1, _BLOCK)
    return _several_hosts(kind, count, block).costs(row)


@lru_cache(maxsize=2_048)
def _one_host(kind: HostKind, block: int) -> CostTable:
    counts = _numbers(block)
    return CostTable(world_of_equal_hosts(kind, counts, np.ones(_BLOCK)))


@lru_cache(maxsize=4_096)
def _several_hosts(kind: HostKind, count: int, block: int) -> CostTable:
    return CostTable(world_of_equal_hosts(kind, np.full(_BLOCK, count), _numbers(block)))


@lru_cache(maxsize=4_096)
def _unlike_hosts(links: WorldLinks, block: int) -> CostTable:
    return CostTable(links.groups(_numbers(block).tolist()))


def _numbers(block: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(block * _BLOCK + 1, (block + 1) * _BLOCK + 1)

"""Published collectives as columns, with the links that their topologies mean.

Times of one cell (device, topology, operation, ranks, size) under several versions of a library are
one median: versions differ by less than devices do.

Kept are the library calls of PyTorch: NCCL, oneCCL on Intel, and gloo between ranks on CPUs. The
all-reduce kernels that serving frameworks bring along are left out, since no training step runs
them. Eight-bit integers are left out too: a switch does not reduce them, and no gradient has that
type. Ranks on CPUs share gradients of 32 bits, those on accelerators of 16.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import TrainingError
from perfmodel.features.arrays import BoolArray, Columns, FloatArray
from perfmodel.importers.own_profiles import SHARED_CORES, own_catalog, read_own_profiles
from perfmodel.importers.published import PublishedCollective
from perfmodel.importers.registry import FORMATS
from perfmodel.placement.collectives.collective_constants import Collective, CollectiveConstants
from perfmodel.placement.collectives.collectives import collective_time_s
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fabric.host_link import link_of
from perfmodel.placement.fabric.world_group import scaling_groups

_SOURCES = ("aiconfigurator", "vidur")
#: Libraries of PyTorch, and the element types that their ranks exchange.
_SIXTEEN_BITS = ("half", "float16", "bfloat16")
_LIBRARIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"nccl": _SIXTEEN_BITS, "oneccl": _SIXTEEN_BITS, "gloo": ("float32",)}
)

#: Hosts whose cards are bridged two by two hold the PCIe form of the accelerator.
_BRIDGED: Mapping[str, str] = MappingProxyType(
    {"A100-SXM4-80GB": "A100-PCIe-80GB", "H100-SXM5-80GB": "H100-NVL-94GB"}
)

#: Smallest message whose time in the tables of ``vidur`` is that of its all-reduce: below it the
#: host's launch shows, and neighbouring sizes differ by up to six times.
_LAUNCH_BYTES = 1 << 22
_LAUNCHED = ("_dgx", "_pairwise_nvlink")


@dataclass(frozen=True, kw_only=True)
class CollectiveCells(Columns):
    """Measured collectives as columns.

    Parameters
    ----------
    accelerators : ndarray of str
        Catalogue names as the source has them.
    links : ndarray of str
        Names of :data:`.links.LINKS`.
    groups : CommGroups
        With the latencies that the link table states.
    plain : ndarray of bool
        False where something else than the collective was measured: launches of the host, a path
        past the link, or ranks that took turns on a core.
    """

    collectives: npt.NDArray[np.str_]
    accelerators: npt.NDArray[np.str_]
    links: npt.NDArray[np.str_]
    groups: CommGroups
    size_bytes: FloatArray
    time_s: FloatArray
    plain: BoolArray

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def pairs(self) -> list[str]:
        """Device and operation of each row."""
        return [f"{a} {c}" for a, c in zip(self.accelerators, self.collectives, strict=True)]

    def by_collective(self) -> Iterator[tuple[Collective, BoolArray]]:
        """Yield each operation that occurs, with the mask of its rows."""
        for name in sorted(set(self.collectives.tolist())):
            yield Collective(name), self.collectives == name

    def predicted_s(self, constants: CollectiveConstants) -> FloatArray:
        """Return the times that constants give, latencies of links among them."""
        groups = with_latencies(self.groups, self.links, constants)
        time_s = np.empty(len(self))
        for collective, mask in self.by_collective():
            time_s[mask] = collective_time_s(
                collective, self.size_bytes[mask], groups.take(mask), constants
            )
        return time_s


def with_latencies(
    groups: CommGroups, links: npt.NDArray[np.str_], constants: CollectiveConstants
) -> CommGroups:
    """Return groups with the learned latencies of their links, where there are any."""
    latency = groups.intra_latency_s.copy()
    for link, learned in constants.link_latency_s.items():
        latency[links == link] = learned
    return replace(groups, intra_latency_s=latency)


def read_cells(data: Path, profiles: Path | None = None) -> CollectiveCells:
    """Read the collectives of the public tables, and own ones.

    Parameters
    ----------
    profiles : Path or None
        Folder of own measurements of several processes; None: public tables alone.

    Raises
    ------
    TrainingError
        The tables hold no collective of PyTorch's libraries.
    """
    records: list[PublishedCollective] = []
    for source in _SOURCES:
        shape = FORMATS[source]
        records += shape.read(shape.usual_path(data) / "collectives.parquet").collectives
    if profiles is None:
        return cells_of(records)
    records += read_own_profiles(profiles).collectives
    return cells_of(records, own_catalog(profiles))


def cells_of(
    records: Iterable[PublishedCollective], catalog: Catalog | None = None
) -> CollectiveCells:
    """Turn records into columns, one row a cell.

    Parameters
    ----------
    catalog : Catalog or None
        Knows their accelerators; None: the shipped one.

    Raises
    ------
    TrainingError
        Nothing is left of them.
    """
    times: dict[tuple[str, str, str, int, int, float], list[float]] = defaultdict(list)
    for one in records:
        if one.dtype in _LIBRARIES.get(one.backend.split(" ")[0], ()):
            where = (one.collective, one.accelerator, one.topology, one.ranks, one.hosts)
            times[(*where, one.size_bytes)].append(one.time_s)
    if not times:
        raise TrainingError(
            "The tables hold no collective of NCCL or oneCCL on 16-bit elements; is this the "
            "folder of public data?"
        )
    known = catalog or Catalog.default()
    cells = sorted(times)
    described = {cell[1:5]: _groups(*cell[1:5], known) for cell in cells}
    return CollectiveCells(
        collectives=np.array([cell[0] for cell in cells]),
        accelerators=np.array([cell[1] for cell in cells]),
        links=np.array([described[cell[1:5]][0] for cell in cells]),
        groups=CommGroups.join([described[cell[1:5]][1] for cell in cells]),
        size_bytes=np.array([cell[5] for cell in cells]),
        time_s=np.array([float(np.median(times[cell])) for cell in cells]),
        plain=np.array([_is_plain(cell[0], cell[1], cell[2], cell[5]) for cell in cells]),
    )


def _is_plain(collective: str, accelerator: str, topology: str, size_bytes: float) -> bool:
    if accelerator == "A40" and collective == "send_recv":
        # 4 GB/s where the bridge carries 56: those two cards are not the bridged ones.
        return False
    if topology == SHARED_CORES:
        return False
    launches = collective == "all_reduce" and topology.endswith(_LAUNCHED)
    return not (launches and size_bytes < _LAUNCH_BYTES)


def _groups(
    accelerator: str, topology: str, ranks: int, hosts: int, catalog: Catalog
) -> tuple[str, CommGroups]:
    """Return the name of the link and the group that a row describes."""
    bridged = "pairwise" in topology
    spec = catalog.get(_BRIDGED.get(accelerator, accelerator) if bridged else accelerator)
    link = spec.link if bridged else None
    per_host = -(-ranks // hosts)
    # As the catalogue states them: what was learned before must not reach a new fit.
    groups = scaling_groups(spec, [ranks], per_host, link=link, latencies={})
    return link_of(spec, link).name, groups
